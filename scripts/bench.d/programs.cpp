#include "programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "floor.skel.h"
#include "collect/gpu_source.h"
#include "collect/libbpf.h"
#include "collect/tracepoint_ids.h"
#include "gpu.skel.h"
#include "oomcast.skel.h"

namespace {

constexpr std::string_view traced_prefix = "tp_btf/";

unsigned memory_hierarchy() {
  std::ifstream file("/proc/cgroups");
  std::string line, name;
  unsigned hierarchy = 0;
  while (std::getline(file, line))
    if (std::istringstream(line) >> name >> hierarchy && name == "memory") return hierarchy;
  return 0;
}

const btf_type* tracepoint(const btf* kernel, std::string_view name) {
  const int typedef_id =
      btf__find_by_name_kind(kernel, ("btf_trace_" + std::string(name)).c_str(), BTF_KIND_TYPEDEF);
  if (typedef_id < 0) return nullptr;
  const btf_type* pointer =
      btf__type_by_id(kernel, btf__type_by_id(kernel, static_cast<__u32>(typedef_id))->type);
  return btf__type_by_id(kernel, pointer->type);
}

// Leaves out what this kernel cannot take: tracepoints it lacks, the other form of mark_victim, kprobes.
void choose(oomcast_bpf* skeleton, const btf* kernel) {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton->obj) {
    const std::string_view section = bpf_program__section_name(program);
    bool wanted = section == "perf_event";
    if (section.starts_with(traced_prefix)) wanted = tracepoint(kernel, section.substr(traced_prefix.size()));
    bpf_program__set_autoload(program, wanted);
  }
  const btf_type* mark = tracepoint(kernel, "mark_victim");
  const bool passes_task = mark && btf_vlen(mark) == 3;
  bpf_program__set_autoload(passes_task ? skeleton->progs.on_mark_victim_pid : skeleton->progs.on_mark_victim,
                            false);
}

int count_record(void* counter, void*, std::size_t) {
  static_cast<std::atomic<std::uint64_t>*>(counter)->fetch_add(1, std::memory_order_relaxed);
  return 0;
}

}  // namespace

bool Programs::load() {
  libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
  oomcast_ = oomcast_bpf__open();
  floor_ = floor_bpf__open_and_load();
  btf* kernel = btf__load_vmlinux_btf();
  if (!oomcast_ || !floor_ || !kernel) {
    std::fprintf(stderr, "bench_cost: opening the programs: %s\n", std::strerror(errno));
    btf__free(kernel);
    return false;
  }
  tracepoint_ids_ = oomcast::read_tracepoint_ids({}, oomcast::GpuSource::tracepoints());
  choose(oomcast_, kernel);
  btf__free(kernel);
  oomcast_->rodata->oc_memory_hierarchy_id = memory_hierarchy();
  oomcast_->rodata->oc_interval_ns = 1'000'000'000u;
  oomcast_->rodata->oc_host_pages = static_cast<unsigned long long>(sysconf(_SC_PHYS_PAGES));
  if (oomcast_bpf__load(oomcast_)) {
    std::fprintf(stderr, "bench_cost: loading the programs: %s\n", std::strerror(errno));
    return false;
  }
  rings_ = ring_buffer__new(bpf_map__fd(oomcast_->maps.samples), count_record, &records_, nullptr);
  if (!rings_ || ring_buffer__add(rings_, bpf_map__fd(oomcast_->maps.events), count_record, &records_)) {
    std::fprintf(stderr, "bench_cost: opening the rings: %s\n", std::strerror(errno));
    return false;
  }
  reader_ = std::thread([this] { read_rings(); });
  return true;
}

Programs::~Programs() {
  detach();
  count_runs(false);
  stop_ = true;
  if (reader_.joinable()) reader_.join();
  ring_buffer__free(rings_);
  floor_bpf__destroy(floor_);
  gpu_bpf__destroy(gpu_);
  oomcast_bpf__destroy(oomcast_);
}

// As oomcast does: at once when woken, otherwise ten times a second.
void Programs::read_rings() {
  while (!stop_) {
    ring_buffer__poll(rings_, 100);
    ring_buffer__consume(rings_);
  }
}

bool Programs::keep(bpf_link* link, const char* what) {
  if (!link) {
    std::fprintf(stderr, "bench_cost: attaching %s: %s\n", what, std::strerror(errno));
    return false;
  }
  links_.push_back(link);
  return true;
}

bool Programs::attach_clocks(std::uint64_t period_ns) {
  const int cpus = libbpf_num_possible_cpus();
  for (int cpu = 0; cpu < cpus; ++cpu) {
    perf_event_attr clock{};
    clock.size = sizeof(clock);
    clock.type = PERF_TYPE_SOFTWARE;
    clock.config = PERF_COUNT_SW_CPU_CLOCK;
    clock.sample_period = period_ns;
    const int fd = static_cast<int>(syscall(SYS_perf_event_open, &clock, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
    if (fd < 0 && errno == ENODEV) continue;  // offline
    bpf_link* link = fd < 0 ? nullptr : bpf_program__attach_perf_event(oomcast_->progs.on_clock, fd);
    if (!keep(link, "on_clock")) {
      if (fd >= 0) close(fd);
      return false;
    }
  }
  return true;
}

bool Programs::load_gpu(std::string_view sections) {
  gpu_bpf__destroy(gpu_);
  gpu_ = gpu_bpf__open();
  if (!gpu_) return false;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, gpu_->obj) bpf_program__set_autoload(
      program, std::string_view(bpf_program__section_name(program)).starts_with(sections));
  oomcast::LibbpfLog quiet;  // the next form is tried
  if (gpu_bpf__load(gpu_) == 0) return true;
  gpu_bpf__destroy(gpu_);
  gpu_ = nullptr;
  return false;
}

// As GpuSource does, but loaded once for all slices.
bool Programs::attach_gpu() {
  for (std::string_view sections : {std::string_view("fexit/"), std::string_view("tracepoint/"), traced_prefix}) {
    if (!gpu_ && !load_gpu(sections)) continue;
    const std::size_t before = links_.size();
    bool all = true;
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, gpu_->obj) {
      if (!bpf_program__autoload(program)) continue;
      bpf_link* link = oomcast::attach(program, tracepoint_ids_);
      if (!link) {
        all = false;
        break;
      }
      links_.push_back(link);
    }
    if (all) return true;
    for (; links_.size() > before; links_.pop_back()) bpf_link__destroy(links_.back());
    gpu_bpf__destroy(gpu_);
    gpu_ = nullptr;
  }
  std::fprintf(stderr, "bench_cost: attaching the GPU programs: %s\n", std::strerror(errno));
  return false;
}

bool Programs::attach_piece(std::string_view piece) {
  if (piece == "gpu") return attach_gpu();
  if (piece == "floor:rss_stat") return keep(bpf_program__attach(floor_->progs.on_rss_stat_empty), "floor");
  if (piece == "floor:sys_exit") return keep(bpf_program__attach(floor_->progs.on_sys_exit_empty), "floor");
  if (piece == "rss") return keep(bpf_program__attach(oomcast_->progs.on_rss_stat), "on_rss_stat");
  if (piece.starts_with("clock:")) {
    std::uint64_t period_ns = 0;
    std::from_chars(piece.data() + 6, piece.data() + piece.size(), period_ns);
    return period_ns && attach_clocks(period_ns);
  }
  const bool one = piece.starts_with("only:");
  bool any = false;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, oomcast_->obj) {
    if (!bpf_program__autoload(program) || bpf_program__fd(program) < 0) continue;
    if (!std::string_view(bpf_program__section_name(program)).starts_with(traced_prefix)) continue;
    const std::string_view name = bpf_program__name(program);
    if (one ? name != piece.substr(5) : program == oomcast_->progs.on_rss_stat) continue;
    if (!one && piece != "default") continue;
    any = true;
    if (!keep(bpf_program__attach(program), name.data())) return false;
  }
  if (!any)
    std::fprintf(stderr, "bench_cost: nothing is called %.*s\n", static_cast<int>(piece.size()),
                 piece.data());
  return any;
}

bool Programs::attach(std::string_view pieces) {
  while (!pieces.empty()) {
    const auto end = std::min(pieces.find(','), pieces.size());
    if (!attach_piece(pieces.substr(0, end))) {
      detach();
      return false;
    }
    pieces.remove_prefix(std::min(end + 1, pieces.size()));
  }
  return true;
}

void Programs::detach() {
  for (bpf_link* link : links_) bpf_link__destroy(link);
  links_.clear();
}

bool Programs::count_runs(bool on) {
  if (stats_fd_ >= 0) close(stats_fd_);
  stats_fd_ = on ? bpf_enable_stats(BPF_STATS_RUN_TIME) : -1;
  return !on || stats_fd_ >= 0;
}

std::vector<ProgramCost> Programs::costs() const {
  std::vector<ProgramCost> costs;
  for (const bpf_object* object : {oomcast_->obj, floor_->obj, gpu_ ? gpu_->obj : nullptr}) {
    if (!object) continue;
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) {
      bpf_prog_info info{};
      __u32 size = sizeof(info);
      const int fd = bpf_program__fd(program);
      if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size)) continue;
      costs.push_back({bpf_program__name(program), info.run_cnt, info.run_time_ns});
    }
  }
  return costs;
}

std::uint64_t Programs::reader_cpu_ns() const {
  clockid_t clock{};
  timespec t{};
  if (pthread_getcpuclockid(const_cast<std::thread&>(reader_).native_handle(), &clock) ||
      clock_gettime(clock, &t))
    return 0;
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t Programs::lost() const {
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> per_cpu(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  for (std::uint32_t reason = 0; reason < bpf_map__max_entries(oomcast_->maps.lost); ++reason) {
    if (bpf_map_lookup_elem(bpf_map__fd(oomcast_->maps.lost), &reason, per_cpu.data())) continue;
    for (auto n : per_cpu) sum += n;
  }
  return sum;
}
