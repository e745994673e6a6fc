#include "collect/bpf_source_faults.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <oomcast_faults.skel.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include "base/unique_fd.h"
#include "collect/bpf_source_additions.h"
#include "collect/bpf_source_allocations.h"
#include "collect/code_mappings.h"
#include "collect/held_locks.h"
#include "collect/libbpf.h"
#include "collect/perf_event.h"
#include "collect/procfs.h"

namespace oomcast {
namespace {

constexpr Nanos kPaceEvery = std::chrono::milliseconds(100);
constexpr std::size_t kMaxHeld = 1 << 20;      // bytes of records about locks
constexpr std::size_t kMaxFaultRecords = 512;  // so that signals are handled, however fast records arrive

// Runs in this thread's context. Returns whether the result was 0.
bool run_here(int program) {
  bpf_test_run_opts options{};
  options.sz = sizeof(options);
  return bpf_prog_test_run_opts(program, &options) == 0 && options.retval == 0;
}

class LoadedFaultSource final : public FaultSource {
 public:
  explicit LoadedFaultSource(const FaultOptions& options) : options_(options) {}

  Status start() {
    if (auto ok = complete(options_.features, options_.roots); !ok) return ok;
    whole_process_ = options_.features->process_uprobes;
    LibbpfLog log;
    ProcFs procfs(options_.roots);
    if (auto ok = load(procfs.pid_numbers().space); !ok) return ok;
    options_.features.reset();  // a thousand names
    int cpus = libbpf_num_possible_cpus();
    if (cpus <= 0) return Error::failed("counting the CPUs");
    counted_.resize(static_cast<std::size_t>(cpus));
    for (std::uint64_t id : options_.cgroups) add_to_scope(id);
    for (std::uint32_t tgid : options_.processes)
      if (auto id = procfs.read_task_id(tgid); id && *id) add_to_scope(wire::scope_key(**id));
    if (options_.code_breakpoints) ask_for_locks();
    ring_.reset(
        ring_buffer__new(bpf_map__fd(skeleton_->maps.faults), &LoadedFaultSource::take, this, nullptr));
    if (!ring_) return Error::from_errno("opening the page-fault program's ring buffer");
    return Ok{};
  }

  Status begin(MonoTime now) override {
    budget_.emplace(options_.budget, now);
    allow();
    if (auto ok = watch(); !ok) return ok;
    if (sees_a_fault()) return Ok{};
    links_.clear();
    return Error::forbidden(
        "the page-fault event opens on this machine and does not fire: a fault was not seen");
  }

  int fd() const override { return ring_buffer__epoll_fd(ring_.get()); }

  Status drain(const Sink& sink, MonoTime now) override {
    now_ = now;
    if (auto ok = keep_to_budget(); !ok) return ok;
    sink_ = &sink;
    left_ = kMaxFaultRecords;
    ring_buffer__consume(ring_.get());
    sink_ = nullptr;
    for (auto& [tgid, probes] : allocations_) probes.advance(now);
    for (auto& [tgid, probes] : additions_) probes.advance(now);
    pace(now);
    return Ok{};
  }

  Nanos next_look() const override {
    Nanos next = budget_->next_look();
    for (const auto& [tgid, probes] : allocations_) next = std::min(next, probes.next(now_));
    for (const auto& [tgid, probes] : additions_) next = std::min(next, probes.next(now_));
    return next;
  }
  double watched_share() const override { return budget_->watched_share(); }

  Status set_python(std::uint32_t tgid, std::span<const std::byte> layout) override {
    if (layout.size() != bpf_map__value_size(skeleton_->maps.pythons)) return Ok{};  // no layout
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.pythons), &tgid, layout.data(), BPF_ANY) != 0)
      return Error::from_errno(
          fmt::format("telling the page-fault program of the Python in process {}", tgid));
    return Ok{};
  }

  Status set_baseline(std::uint32_t tgid, Bytes resident) override {
    auto value = wire::encode_baseline(resident, options_.units);
    if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.growth), &tgid, value.data(), BPF_NOEXIST) != 0 &&
        errno != EEXIST)
      return Error::from_errno(fmt::format("telling the page-fault program of process {}", tgid));
    return Ok{};
  }

  bool sets_code_breakpoints() const override { return options_.code_breakpoints; }

  Status watch_allocations(std::uint32_t tgid, const Allocator& allocator, double share, MonoTime now,
                           MonoTime end) override {
    if (!options_.code_breakpoints) return Error::failed(kNoBreakpoints);
    if (allocations_.size() >= wire::kWatched || allocations_.contains(tgid))
      return Error::failed(fmt::format("those of {} processes are watched already", allocations_.size()));
    auto number = static_cast<std::uint32_t>(allocations_.size());
    auto all = allocation_programs();
    AllocationProbes::Programs programs;
    std::copy_n(all.begin(), programs.enter.size(), programs.enter.begin());
    programs.enter_free = all[programs.enter.size()];
    programs.leave = all.back();
    programs.whole_process = whole_process_;
    programs.locks = locks_;
    programs.mappings = &*mappings_;
    programs.roots = options_.roots;
    programs.calls = bpf_map__fd(skeleton_->maps.allocator_calls);
    programs.number = number;
    programs.tgid = &skeleton_->bss->oc_watched_tgids[number];
    programs.sample = &skeleton_->bss->oc_sample_bytes[number];
    programs.extra = &skeleton_->bss->oc_sample_extra[number];
    programs.told = &skeleton_->bss->oc_functions_told[number];
    programs.calling_malloc = &skeleton_->bss->oc_calling_malloc[number];
    programs.records = &skeleton_->bss->oc_blocks_told[number];
    AllocationBudget budget;
    budget.each = each_;
    budget.records_per_s *= share;
    AllocationProbes& probes = allocations_.try_emplace(tgid, std::move(programs)).first->second;
    Status ok = probes.begin(tgid, allocator, budget, now, end);
    if (ok) each_ = probes.budget().each;
    if (!ok && !probes.closing()) allocations_.erase(tgid);
    return ok;
  }

  std::string why_drop(std::uint32_t tgid) const override {
    auto at = allocations_.find(tgid);
    return at == allocations_.end() ? std::string() : at->second.why_not_any_more();
  }

  void drop_allocations(std::uint32_t tgid, MonoTime now) override {
    if (auto at = allocations_.find(tgid); at != allocations_.end()) (void)at->second.end(now);
  }

  std::vector<WatchedAllocations> end_allocations(MonoTime now) override {
    std::vector<WatchedAllocations> out;
    for (auto& [tgid, probes] : allocations_) probes.stop_all(now);
    for (auto& [tgid, probes] : allocations_)
      if (auto watched = probes.end(now)) out.push_back(*watched);
    return out;
  }

  Status watch_additions(std::uint32_t tgid, std::span<const std::uint64_t> lengths, MonoTime now) override {
    if (additions_.empty())  // else it was tried for the first one
      if (auto ok = try_data_breakpoint(options_.data_breakpoints); !ok) return ok;
    AdditionProbes::Programs programs{skeleton_->progs.on_addition, bpf_map__fd(skeleton_->maps.lengths),
                                      options_.roots, options_.data_breakpoints};
    AdditionProbes& probes = additions_.try_emplace(tgid, std::move(programs), tgid).first->second;
    Status ok = probes.watch(lengths, now);
    if (!ok) additions_.erase(tgid);
    return ok;
  }

  void end_additions() override { additions_.clear(); }

  std::optional<std::uint32_t> waits_for() const override {
    bool closing = std::ranges::any_of(allocations_, [](const auto& each) { return each.second.closing(); });
    return closing && locks_ ? locks_->keeper() : std::nullopt;
  }

  Result<std::vector<wire::LivingBlock>> living_blocks(std::uint32_t tgid) const override {
    constexpr __u32 kAtOnce = 4096;
    const auto* map = skeleton_->maps.blocks;
    std::size_t key = bpf_map__key_size(map), value = bpf_map__value_size(map);
    std::vector<std::byte> keys(kAtOnce * key), values(kAtOnce * value);
    std::vector<wire::LivingBlock> out;
    __u32 from = 0, next = 0;
    bool first = true;
    for (int err = 0; err != -ENOENT; first = false, from = next) {
      __u32 count = kAtOnce;
      err = bpf_map_lookup_batch(bpf_map__fd(map), first ? nullptr : &from, &next, keys.data(), values.data(),
                                 &count, nullptr);
      if (err && err != -ENOENT) return Error::from_errno("reading which of its blocks live");
      auto living = wire::decode_living(std::span(keys).first(count * key),
                                        std::span(values).first(count * value), tgid);
      out.insert(out.end(), living.begin(), living.end());
    }
    return out;
  }

  std::map<std::string, std::uint64_t> lost() const override {
    std::map<std::string, std::uint64_t> out;
    int cpus = libbpf_num_possible_cpus();
    std::vector<__u64> per_cpu(cpus > 0 ? static_cast<std::size_t>(cpus) : 1);
    __u32 reason = 0;
    for (std::string_view name : wire::fault_lost_reasons()) {
      std::uint64_t& sum = out[std::string(name)];
      if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.faults_lost), &reason, per_cpu.data()) == 0)
        for (__u64 n : per_cpu) sum += n;
      ++reason;
    }
    out["scope_table_full"] = skeleton_->bss->oc_scope_lost;
    return out;
  }

 private:
  Status load(std::uint32_t pid_namespace) {
    std::string types = options_.roots.kernel_types();
    LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = types.c_str());
    skeleton_.reset(oomcast_faults_bpf__open_opts(&open_options));
    if (!skeleton_) return Error::from_errno("opening the page-fault program");
    skeleton_->rodata->oc_pid_namespace = pid_namespace;
    skeleton_->rodata->oc_asking_tgid = options_.asking;
    skeleton_->rodata->oc_scope_by_cgroup = !options_.cgroups.empty();
    skeleton_->rodata->oc_scope_by_process = !options_.processes.empty();
    skeleton_->rodata->oc_ns_per_tick = static_cast<std::uint64_t>(options_.units.ns_per_tick);
    // Each CPU buffers that much of a counter's change.
    int batch = std::max(32, 2 * libbpf_num_possible_cpus());
    skeleton_->rodata->oc_lag_pages = 2 * batch;
    skeleton_->data->oc_sample_pages =
        static_cast<__u64>(options_.sample_bytes.count / options_.units.page_bytes);
    bpf_map__set_map_flags(skeleton_->maps.pythons, 0);  // see fault_scope
    program_ = the_one_used({skeleton_->progs.on_fault, skeleton_->progs.on_fault_before_5_15});
    bpf_program* begin_walk =
        the_one_used({skeleton_->progs.begin_walk, skeleton_->progs.begin_walk_before_5_17});
    for (bpf_program* p : {begin_walk, skeleton_->progs.walk_mappings, skeleton_->progs.held_locks})
      bpf_program__set_autoload(p, options_.code_breakpoints);
    for (bpf_program* p : allocation_programs()) {
      bpf_program__set_autoload(p, options_.code_breakpoints);
      if (whole_process_)
        bpf_program__set_expected_attach_type(p, static_cast<bpf_attach_type>(kUprobeMulti));
    }
    if (int err = oomcast_faults_bpf__load(skeleton_.get()); err)
      return Error::forbidden("loading the page-fault program: " + LibbpfLog::failure(-err));
    auto* bss = skeleton_->bss;
    auto run = [](const bpf_program* program) {
      return [at = bpf_program__fd(program)] { return run_here(at); };
    };
    mappings_.emplace(CodeMappings::Programs{run(begin_walk), run(skeleton_->progs.walk_mappings),
                                             &bss->oc_walk_address, &bss->oc_walk_node, &bss->oc_walk_tgid,
                                             &bss->oc_walk_from, &bss->oc_walk_all, &bss->oc_walk_of_process,
                                             &bss->oc_walk_mappings});
    return Ok{};
  }

  // The others are not loaded: an older kernel rejects what it does not support.
  bpf_program* the_one_used(std::initializer_list<bpf_program*> all) const {
    bpf_program* out = nullptr;  // one of each pair is for every kernel that the other is not for
    for (bpf_program* p : all) {
      bool used =
          why_not_used(bpf_program__name(p), bpf_program__section_name(p), *options_.features).empty();
      bpf_program__set_autoload(p, used);
      if (used) out = p;
    }
    return out;
  }

  // In the order of wire::Allocates, then free() and the return probe.
  std::array<bpf_program*, wire::kAllocatorFunctions + 1> allocation_programs() const {
    const auto& p = skeleton_->progs;
    return {p.enter_malloc,        p.enter_calloc,   p.enter_realloc, p.enter_posix_memalign,
            p.enter_aligned_alloc, p.enter_memalign, p.enter_free,    p.leave};
  }

  void ask_for_locks() {
    std::shared_ptr<bpf_link> link(bpf_program__attach_iter(skeleton_->progs.held_locks, nullptr),
                                   bpf_link__destroy);
    if (!link) return;
    locks_ = std::make_shared<HeldLocks>([link] {
      std::vector<std::byte> held;
      run_iterator(bpf_link__fd(link.get()), [&](std::span<const std::byte> some) {
        if (held.size() < kMaxHeld) held.insert(held.end(), some.begin(), some.end());
      });
      return wire::decode_held_locks(held);
    });
  }

  void add_to_scope(std::uint64_t key) {
    __u32 yes = 1;
    bpf_map_update_elem(bpf_map__fd(skeleton_->maps.fault_scope), &key, &yes, BPF_ANY);
  }

  // One event per CPU, for everything that runs there: a new process is traced from its first fault on.
  Status watch() {
    for (std::size_t cpu = 0; cpu < counted_.size(); ++cpu) {
      perf_event_attr attr{};
      attr.size = sizeof(attr);
      attr.type = PERF_TYPE_SOFTWARE;
      // Minor faults are counted after the fault; major ones bring back old memory.
      attr.config = PERF_COUNT_SW_PAGE_FAULTS_MIN;
      attr.sample_period = 1;
      attr.sample_type = PERF_SAMPLE_ADDR;
      if (options_.page_faults == Events::that_never_fire) never_fire(attr);
      UniqueFd fd = open_perf_event(attr, -1, static_cast<int>(cpu));
      if (!fd && errno == ENODEV) continue;  // offline
      if (!fd)
        return Error::forbidden(
            fmt::format("opening the page-fault event of CPU {}: {}. It needs {}", cpu, std::strerror(errno),
                        perf_events_need_admin() ? "CAP_SYS_ADMIN, as kernel.perf_event_paranoid is above 2"
                                                 : "root, or CAP_PERFMON"));
      Link link(bpf_program__attach_perf_event(program_, fd.get()));
      if (!link)
        return Error::forbidden(
            fmt::format("attaching to the page-fault event of CPU {}: {}", cpu, std::strerror(errno)));
      fd.release();  // the link closes it
      links_.push_back(std::move(link));
    }
    return Ok{};
  }

  // A fault of this process, unless another one comes first.
  bool sees_a_fault() {
    faults_of_busiest_cpu();
    auto size = static_cast<std::size_t>(options_.units.page_bytes);
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return true;
    *static_cast<volatile char*>(page) = 1;
    munmap(page, size);
    return faults_of_busiest_cpu() > 0;
  }

  Status keep_to_budget() {
    bool watching = budget_->watching();
    bool goes_on = budget_->look(now_, faults_of_busiest_cpu(), chance_());
    if (goes_on) allow();
    if (goes_on == watching) return Ok{};
    if (!watching) {
      ++skeleton_->data->oc_window;
      return watch();
    }
    // Close, do not disable: while one such event exists anywhere, every fault of the machine takes a slow
    // path.
    links_.clear();
    return Ok{};
  }

  void allow() {
    __u32 zero = 0;
    std::vector<__u64> left(counted_.size(), budget_->left());
    bpf_map_update_elem(bpf_map__fd(skeleton_->maps.fault_allowance), &zero, left.data(), BPF_ANY);
  }

  std::uint64_t faults_of_busiest_cpu() {
    __u32 zero = 0;
    std::vector<__u64> now(counted_.size());
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.fault_count), &zero, now.data()) != 0) return 0;
    std::uint64_t most = 0;
    for (std::size_t cpu = 0; cpu < now.size(); ++cpu)
      most = std::max<std::uint64_t>(most, now[cpu] - counted_[cpu]);
    counted_ = std::move(now);
    return most;
  }

  // Every reported fault costs an unwinding: if memory grows fast, each one stands for more of it. Allocation
  // records have a budget of their own.
  void pace(MonoTime now) {
    if (now < next_pace_) return;
    constexpr std::uint64_t kMaxPages = 1 << 18;
    auto least = static_cast<std::uint64_t>(options_.sample_bytes.count / options_.units.page_bytes);
    auto& pages = skeleton_->data->oc_sample_pages;
    std::uint64_t per_s = faults_ * static_cast<std::uint64_t>(std::chrono::seconds(1) / kPaceEvery);
    if (per_s > options_.records_per_s && pages < kMaxPages) pages *= 2;
    if (per_s < options_.records_per_s / 4 && pages / 2 >= least) pages /= 2;
    faults_ = 0;
    next_pace_ = now + kPaceEvery;
  }

  static int take(void* self, void* data, std::size_t size) {
    auto& source = *static_cast<LoadedFaultSource*>(self);
    // Unwinding the queue may take long, and faults go on meanwhile.
    constexpr std::uint64_t kChecked = 32;
    if (++source.records_ % kChecked == 0 && source.budget_->watching()) (void)source.keep_to_budget();
    std::span record{static_cast<const std::byte*>(data), size};
    source.faults_ += wire::is_fault(record);
    if (source.sink_) (*source.sink_)(record);
    return --source.left_ ? 0 : -EAGAIN;
  }

  FaultOptions options_;
  std::unique_ptr<oomcast_faults_bpf, Destroys<oomcast_faults_bpf__destroy>> skeleton_;
  bpf_program* program_ = nullptr;  // the variant for this kernel
  Ring ring_;
  std::vector<Link> links_;
  bool whole_process_ = false;
  std::optional<CodeMappings> mappings_;
  std::shared_ptr<const HeldLocks> locks_;                 // null: not supported
  std::map<std::uint32_t, AllocationProbes> allocations_;  // by tgid
  std::map<std::uint32_t, AdditionProbes> additions_;      // by tgid
  CallCost each_;                                          // cost of a traced call
  const Sink* sink_ = nullptr;
  std::size_t left_ = 0;  // records until drain() returns
  std::uint64_t records_ = 0;
  std::uint64_t faults_ = 0;  // among them since the last pace()
  MonoTime next_pace_{}, now_{};
  std::optional<FaultBudget> budget_;
  std::vector<__u64> counted_;  // faults processed, by CPU
  struct Chance {
    std::minstd_rand random{std::random_device{}()};
    double operator()() { return std::uniform_real_distribution<double>()(random); }
  } chance_;
};

}  // namespace

Result<std::unique_ptr<FaultSource>> FaultSource::open(const FaultOptions& options) {
  auto source = std::make_unique<LoadedFaultSource>(options);
  if (auto s = source->start(); !s) return s.error();
  return std::unique_ptr<FaultSource>(std::move(source));
}

}  // namespace oomcast
