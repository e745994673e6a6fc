#include "collect/bpf_source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <oomcast.skel.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "base/unique_fd.h"
#include "collect/cgroup_walk.h"
#include "collect/libbpf.h"

namespace oomcast {
namespace {

// Interval for reading the memory of the running task; every tick if the kernel ticks more slowly.
constexpr Nanos kLookEvery = std::chrono::milliseconds(4);

bool is_optional(std::string_view program) {
  // Without these there is no data, or no way to tell a kill from a mark; all others only add to a record.
  return program != "on_mark_victim" && program != "on_mark_victim_pid" && program != "on_signal_generate" &&
         program != "on_tick";
}

// The kernel's tick: the resolution of its coarse clocks.
Nanos jiffy() {
  timespec resolution{};
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  return std::max(Nanos(1), Nanos(std::chrono::seconds(resolution.tv_sec)) + Nanos(resolution.tv_nsec));
}

// Parses "1-3,5"; invalid text ends the list.
std::vector<int> cpus_in(std::string_view list) {
  std::vector<int> cpus;
  auto take = [&](int& n) {
    auto [end, err] = std::from_chars(list.data(), list.data() + list.size(), n);
    list.remove_prefix(static_cast<std::size_t>(end - list.data()));
    return err == std::errc{};
  };
  for (int first = 0; take(first);) {
    int last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      if (!take(last)) break;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (!list.starts_with(',')) break;
    list.remove_prefix(1);
  }
  return cpus;
}

class LoadedBpfSource final : public BpfSource {
 public:
  explicit LoadedBpfSource(const BpfOptions& options) : options_(options) {
    pending_.reserve(kBatchBytes + wire::max_record_bytes());
  }

  Status start() {
    if (auto ok = complete(options_.features, options_.roots); !ok) return ok;
    if (auto s = load_skeleton(); !s) return s;
    options_.features.reset();  // a thousand names
    attach_all();
    open_clocks();
    open_walk();
    if (auto s = open_rings(); !s) return s;
    return Ok{};
  }

  int fd() const override { return epoll_.get(); }

  bool drain(const std::function<void(const wire::Record&)>& sink, std::size_t max_records) override {
    // Samples first: a process's exec is known before its exit.
    bool more = drain_ring(samples_.get(), sink, max_records);
    more = drain_ring(user_kills_.get(), sink, max_records) || more;
    return drain_ring(events_.get(), sink, max_records) || more;
  }

  bool walk_cgroups() override {
    constexpr std::uint64_t kAtOnce = 4096;  // cgroups: some 5 ms
    constexpr Nanos kPatience = std::chrono::milliseconds(50), kBelieved = std::chrono::seconds(2);
    if (!walk_) return false;
    auto* bss = skeleton_->bss;
    if (bss->oc_put_off == 0 && walks_skipped_ < bss->oc_visited / kAtOnce) {
      ++walks_skipped_;
      return true;
    }
    walks_skipped_ = bss->oc_visited = bss->oc_put_off = 0;
    ++bss->oc_walks;
    return walk_->run(kPatience, kBelieved);
  }

  void sleep_until(MonoTime until) override {
    __atomic_store_n(&skeleton_->bss->oc_next_look_ns,
                     static_cast<std::uint64_t>(until.time_since_epoch().count()), __ATOMIC_SEQ_CST);
  }

  bool set_exact(bool on) override {
    if (!bpf_program__autoload(skeleton_->progs.on_rss_stat)) return false;
    if (!on) {
      exact_.reset();
    } else if (!exact_) {
      LibbpfLog quiet;
      exact_.reset(bpf_program__attach(skeleton_->progs.on_rss_stat));
    }
    return on == (exact_ != nullptr);
  }

  bool set_python(std::uint32_t tgid, const std::vector<std::byte>* layout) override {
    int map = bpf_map__fd(skeleton_->maps.pythons);
    if (layout && layout->size() == bpf_map__value_size(skeleton_->maps.pythons))
      return bpf_map_update_elem(map, &tgid, layout->data(), BPF_ANY) == 0;
    bpf_map_delete_elem(map, &tgid);
    return true;
  }

  int pythons() const override { return bpf_map__fd(skeleton_->maps.pythons); }

  LostCounts lost() const override {
    std::size_t reasons = wire::lost_reasons().size();
    LostCounts out(reasons, 0);
    int cpus = libbpf_num_possible_cpus();
    std::vector<__u64> per_cpu(cpus > 0 ? static_cast<std::size_t>(cpus) : 1);
    for (__u32 reason = 0; reason < reasons; ++reason)
      if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.lost), &reason, per_cpu.data()) == 0)
        for (__u64 n : per_cpu) out[reason] += n;
    return out;
  }
  std::uint64_t undecodable() const override { return undecodable_; }

  std::uint64_t missed_runs() const override { return oomcast::missed_runs(skeleton_->obj); }

  void for_each_stall(const std::function<void(std::uint64_t, const wire::Stalls&)>& sink) const override {
    int map = bpf_map__fd(skeleton_->maps.stalls);
    std::vector<std::byte> value(wire::stalls_bytes());
    __u64 key = 0;
    for (bool more = bpf_map_get_next_key(map, nullptr, &key) == 0; more;
         more = bpf_map_get_next_key(map, &key, &key) == 0)
      if (bpf_map_lookup_elem(map, &key, value.data()) == 0)
        sink(key, wire::decode_stalls(value, options_.units));
  }

  const std::vector<ProgramState>& programs() const override { return programs_; }

 private:
  static constexpr std::size_t kBatchBytes = 256 * 1024;

  Status load_skeleton() {
    std::string types = options_.roots.kernel_types();
    // If the verifier rejects an optional program, drop it and try again: at most once per program. First
    // without casts: calling one requires the BPF JIT in the kernel (net.core.bpf_jit_enable).
    for (bool cast = options_.features->cast;;) {
      LibbpfLog log;  // for this attempt: the log of the last one names another program
      // With an explicit path, libbpf reads the kernel's types only from this file and does not ask for those
      // of modules, which requires CAP_SYS_ADMIN.
      LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = types.c_str());
      skeleton_.reset(oomcast_bpf__open_opts(&open_options));
      if (!skeleton_) return Error::from_errno("opening the kernel programs");
      skeleton_->rodata->oc_memory_hierarchy_id = options_.memory_hierarchy;
      skeleton_->rodata->oc_can_cast = cast;
      skeleton_->rodata->oc_interval_ns = static_cast<std::uint64_t>(options_.interval.count());
      skeleton_->rodata->oc_host_pages =
          static_cast<std::uint64_t>(options_.host_memory.count / options_.units.page_bytes);
      skeleton_->rodata->oc_tick_jiffies =
          static_cast<std::uint32_t>(std::max<Nanos::rep>(1, kLookEvery / jiffy()));
      give_each_cpu_room();
      choose_programs();
      int err = oomcast_bpf__load(skeleton_.get());
      if (!err) break;
      if (std::exchange(cast, false)) continue;
      auto program = LibbpfLog::failed_program();
      if (err == -EPERM || !program || !is_optional(*program) || refused_.size() > 64)
        return Error::forbidden(LibbpfLog::failure(-err));
      refused_.emplace_back(*program, fmt::format("the kernel refused it: {}", LibbpfLog::verdict()));
    }
    return Ok{};
  }

  // In an LRU table each CPU keeps up to 128 free entries for itself.
  void give_each_cpu_room() {
    auto least = static_cast<__u32>(256 * std::max(1, libbpf_num_possible_cpus()));
    for (bpf_map* map : {skeleton_->maps.victims, skeleton_->maps.marked_victims,
                         skeleton_->maps.last_process, skeleton_->maps.stalls})
      if (bpf_map__max_entries(map) < least) bpf_map__set_max_entries(map, least);
  }

  void choose_programs() {
    programs_.clear();
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, skeleton_->obj) {
      ProgramState state{bpf_program__name(program), false, {}};
      state.why_not = why_not_used(state.name, bpf_program__section_name(program), *options_.features);
      for (const auto& [name, why] : refused_)
        if (name == state.name) state.why_not = why;
      bpf_program__set_autoload(program, state.why_not.empty());
      programs_.push_back(std::move(state));
    }
  }

  void attach_all() {
    for (ProgramState& state : programs_) {
      if (!state.why_not.empty() || state.name == "on_rss_stat" || state.name == "on_clock" ||
          state.name == "walk_cgroups")
        continue;
      LibbpfLog log;
      Link link(bpf_program__attach(bpf_object__find_program_by_name(skeleton_->obj, state.name.c_str())));
      state.attached = link != nullptr;
      if (link)
        links_.push_back(std::move(link));
      else
        state.why_not = fmt::format("it did not attach: {}", std::strerror(errno));
    }
  }

  void open_walk() {
    auto state = std::find_if(programs_.begin(), programs_.end(),
                              [](const ProgramState& p) { return p.name == "walk_cgroups"; });
    if (state == programs_.end() || !state->why_not.empty()) return;
    LibbpfLog log;
    UniqueFd top(open(options_.cgroup_mount.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    bpf_iter_link_info where{};
    where.cgroup.order = BPF_CGROUP_ITER_DESCENDANTS_PRE;
    where.cgroup.cgroup_fd = static_cast<__u32>(top.get());
    LIBBPF_OPTS(bpf_iter_attach_opts, attach, .link_info = &where, .link_info_len = sizeof(where));
    std::shared_ptr<bpf_link> link;
    if (top) link.reset(bpf_program__attach_iter(skeleton_->progs.walk_cgroups, &attach), bpf_link__destroy);
    state->attached = link != nullptr;
    if (link)
      walk_.emplace([link] { return run_iterator(bpf_link__fd(link.get()), [](auto) {}); });  // by records
    else
      state->why_not = fmt::format("it did not attach: {}", std::strerror(errno));
  }

  // On CPUs whose tick may be stopped, use a timer of our own instead.
  void open_clocks() {
    for (int cpu : cpus_in(options_.tickless_cpus)) {
      perf_event_attr attr{};
      attr.size = sizeof(attr);
      attr.type = PERF_TYPE_SOFTWARE;
      attr.config = PERF_COUNT_SW_CPU_CLOCK;
      attr.sample_period = static_cast<__u64>(kLookEvery.count());
      UniqueFd fd(static_cast<int>(syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
      LibbpfLog log;
      Link link(fd ? bpf_program__attach_perf_event(skeleton_->progs.on_clock, fd.get()) : nullptr);
      const int err = errno;
      for (ProgramState& state : programs_) {
        if (state.name != "on_clock") continue;
        if (link)
          state.attached = true;
        else if (err != ENODEV)  // ENODEV: the CPU is offline
          state.why_not = fmt::format("a CPU's clock could not be opened: {}", std::strerror(err));
      }
      if (!link) continue;
      fd.release();  // the link closes it
      links_.push_back(std::move(link));
    }
  }

  Status open_rings() {
    auto failed = [] { return Error::from_errno("opening the kernel programs' ring buffers"); };
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return failed();
    for (auto [ring, map] :
         {std::pair(&events_, skeleton_->maps.events), std::pair(&samples_, skeleton_->maps.samples),
          std::pair(&user_kills_, skeleton_->maps.user_kills)}) {
      ring->reset(ring_buffer__new(bpf_map__fd(map), &LoadedBpfSource::keep, this, nullptr));
      epoll_event wanted{};
      wanted.events = EPOLLIN;
      if (!*ring || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bpf_map__fd(map), &wanted) != 0) return failed();
    }
    return Ok{};
  }

  // Ring callback: copies, never allocates. A non-zero result stops reading after this record, which is kept.
  static int keep(void* self, void* data, std::size_t size) {
    auto& pending = static_cast<LoadedBpfSource*>(self)->pending_;
    auto* bytes = static_cast<const std::byte*>(data);
    if (pending.size() + size > pending.capacity())
      return -EMSGSIZE;  // impossible: there is room for the largest record
    pending.insert(pending.end(), bytes, bytes + size);
    return pending.size() > kBatchBytes ? -EAGAIN : 0;
  }

  bool drain_ring(ring_buffer* ring, const std::function<void(const wire::Record&)>& sink,
                  std::size_t max_records) {
    std::size_t records = 0;
    bool more = true;
    while (more && records < max_records) {
      pending_.clear();
      more = ring_buffer__consume(ring) < 0;
      std::span<const std::byte> rest(pending_);
      while (rest.size() >= sizeof(std::uint32_t)) {
        std::uint16_t size = 0;
        std::memcpy(&size, rest.data() + sizeof(std::uint16_t), sizeof(size));
        if (size == 0 || size > rest.size()) {
          ++undecodable_;
          break;
        }
        auto record = wire::decode(rest.first(size), options_.units);
        if (record)
          sink(*record);
        else
          ++undecodable_;
        ++records;
        rest = rest.subspan(size);
      }
    }
    return more;
  }

  BpfOptions options_;
  std::unique_ptr<oomcast_bpf, Destroys<oomcast_bpf__destroy>> skeleton_;
  std::vector<std::pair<std::string, std::string>> refused_;
  std::vector<ProgramState> programs_;
  std::vector<Link> links_;
  Link exact_;
  std::optional<CgroupWalk> walk_;
  std::uint64_t walks_skipped_ = 0;
  Ring events_, samples_, user_kills_;
  UniqueFd epoll_;
  std::vector<std::byte> pending_;
  std::uint64_t undecodable_ = 0;
};

}  // namespace

Result<std::unique_ptr<BpfSource>> BpfSource::load(const BpfOptions& options) {
  auto source = std::make_unique<LoadedBpfSource>(options);
  if (auto s = source->start(); !s) return s.error();
  return std::unique_ptr<BpfSource>(std::move(source));
}

}  // namespace oomcast
