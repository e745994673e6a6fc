#include "blame/blame.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collect/process_memory.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr Bytes kMaxTables = MiB(32);  // limit for reading private memory: 16 GiB, 0.2 s
constexpr Nanos kWalksFor = std::chrono::seconds(1);
constexpr std::size_t kMaxEnvironment = 64 * 1024;
constexpr std::uint64_t kShrunkPages = 256;
const Nanos kClockTick{1'000'000'000 / sysconf(_SC_CLK_TCK)};

}  // namespace

Blame::Blame(Config config) : config_(std::move(config)), procfs_(config_.roots) {}

std::optional<ProcessLevel> Blame::level_of(const TaskId& id) const {
  ProcessLevel out;
  if (auto status = procfs_.read_status(id.tgid); !status) {
    // A process can make its status file too long to be read. statm is always short, but has less.
    auto statm = procfs_.read_statm(id.tgid);
    if (!statm || !*statm || (*statm)->resident_pages < (*statm)->shared_pages || (*statm)->size_pages == 0)
      return std::nullopt;
    out.anon.count = static_cast<std::int64_t>(((*statm)->resident_pages - (*statm)->shared_pages) * kPage);
  } else {
    if (!*status || !(*status)->rss_anon || !(*status)->rss_shmem || !(*status)->swap) return std::nullopt;
    out.anon = *(*status)->rss_anon + *(*status)->swap;
    out.shmem = (*status)->rss_shmem;
    out.hugetlb = (*status)->hugetlb;
    out.swap = (*status)->swap;
  }
  auto stat = procfs_.read_stat(id.tgid);
  if (!stat || !*stat || (*stat)->start_ticks != id.start_ticks) return std::nullopt;
  out.faults = (*stat)->faults;
  return out;
}

bool Blame::has_ended(const TaskId& id) const {
  auto stat = procfs_.read_stat(id.tgid);
  return stat && (!*stat || (*stat)->start_ticks != id.start_ticks || (*stat)->exiting());
}

bool Blame::about_to_read(std::uint32_t tgid) const {
  if (config_.blind || config_.unread.contains(tgid)) return false;
  if (config_.on_read) config_.on_read(tgid);
  return true;
}

ProcessMemory Blame::memory_of(std::uint32_t tgid) const {
  ProcessMemory memory(config_.roots, tgid);
  if (config_.guard_of) memory.set_guard(config_.guard_of(tgid));
  return memory;
}

std::optional<Bytes> Blame::private_bytes_of(const TaskId& id) const {
  auto status = procfs_.read_status(id.tgid);
  if (!status || !*status || !(*status)->quick_to_walk(kMaxTables) || !about_to_read(id.tgid))
    return std::nullopt;
  return ProcessMemory(config_.roots, id.tgid).private_memory();
}

std::unordered_map<TaskId, std::optional<Bytes>> Blame::private_bytes() const {
  std::unordered_map<TaskId, std::optional<Bytes>> out;
  MonoTime until = mono_now() + kWalksFor;
  for (const auto& [id, p] : processes_)
    if (mono_now() < until) out[id] = private_bytes_of(id);
  return out;
}

void Blame::describe(Process& process) const {
  ProcessRef& ref = process.ref;
  if (config_.cgroup_of) ref.cgroup = config_.cgroup_of(ref.id.tgid);
  if (about_to_read(ref.id.tgid))
    if (auto cmdline = memory_of(ref.id.tgid).arguments()) {
      ref.cmdline = cmdline->args;
      ref.cmdline_source = CmdlineSource::shown;
      ref.cmdline_truncated = cmdline->truncated;
    }
  if (auto status = procfs_.read_status(ref.id.tgid); status && *status) {
    ref.uid = (*status)->uid;
    if (!(*status)->ns_pid.empty()) ref.ns_pid = (*status)->ns_pid.back();
  }
}

void Blame::open_view(Process& process) {
  std::uint32_t pid = process.ref.id.tgid;
  process.view = std::make_unique<ProcessView>(config_.roots, pid, files_, !about_to_read(pid),
                                               config_.guard_of ? config_.guard_of(pid) : nullptr);
  process.python_told = false;
  process.containers.known = process.allocations.blocks_tell = process.allocations.has_own_new =
      false;  // they belong to the previous program
  tell_python(process);
}

void Blame::tell_python(Process& process) const {
  const auto& python = process.view->python().python;
  if (!python || !config_.on_python || std::exchange(process.python_told, true)) return;
  config_.on_python(process.ref.id.tgid, python->layout);
}

bool Blame::has_executed(Process& process) const {
  auto stat = procfs_.read_stat(process.ref.id.tgid);
  if (!stat || !*stat || !(*stat)->stack) return false;
  auto before = std::exchange(process.stack, (*stat)->stack);
  return before && before != process.stack;
}

void Blame::note(std::uint32_t pid) {
  auto stat = procfs_.read_stat(pid);
  if (!stat || !*stat || (*stat)->kernel_thread()) return;
  if (processes_.size() >= config_.max_noted) {
    ++report_.not_noted;
    return;
  }
  Process p;
  p.ref.id = {pid, (*stat)->start_ticks};
  p.ref.comm = (*stat)->comm;
  p.ref.ppid = (*stat)->ppid;
  p.stack = (*stat)->stack;
  describe(p);
  open_view(p);
  processes_.insert_or_assign(p.ref.id, std::move(p));
}

// The counters for growth are read last, and first at the end: anything between them and the faults would be
// growth without samples, and reading private memory takes long.
void Blame::begin() {
  auto own = private_bytes();
  for (auto& [id, p] : processes_) {
    if (has_executed(p)) {
      describe(p);
      open_view(p);
    }
    p.before = level_of(id);
    if (!p.before) continue;
    p.before->set_private(own[id]);
    if (config_.on_baseline && p.before->shmem)
      config_.on_baseline(id.tgid, p.before->anon + *p.before->shmem);
    p.settled.counted = p.before->faults;
  }
  began_ticks_ = static_cast<std::uint64_t>(config_.boot_time() / kClockTick);
}

bool Blame::began_before(const Process& p) const {
  return p.ref.id.start_ticks < began_ticks_;
}

// Its memory at the start of the window is unknown: growth counts from this fault on.
void Blame::begin_late(Process& p, const wire::Fault& fault) const {
  auto stat = procfs_.read_stat(p.ref.id.tgid);
  std::uint64_t counted = stat && *stat ? (*stat)->faults : 0;
  const auto& m = fault.memory;
  p.before = m ? ProcessLevel{m->anon + m->swap, m->shmem, std::nullopt, std::nullopt, m->swap, counted}
               : level_of(p.ref.id);
  p.settled.counted = counted - std::min(counted, fault.faults);  // these include its own
}

void Blame::end() {
  for (auto& [id, p] : processes_) p.after = level_of(id);
  auto own = private_bytes();
  for (auto& [id, p] : processes_)
    if (p.after) p.after->set_private(own[id]);
}

void Blame::sample_objects_again(std::uint32_t pid) {
  Process* p = known(pid);
  if (!p || !p->containers.known || !p->after || !about_to_read(pid)) return;
  if (PythonHeap* heap = p->view->python_heap()) {
    std::uint64_t refused = p->view->refused();
    p->containers.grown = heap->end();
    p->containers.refused |= p->view->refused() > refused;
    heap->release();
  }
}

Blame::Process& Blame::process_of(const wire::Fault& fault) {
  auto [at, fresh] = processes_.try_emplace(fault.task.id);
  Process& p = at->second;
  std::uint64_t mm = fault.memory ? fault.memory->mm_key : 0;
  // It called exec: stacks and memory of the old program are void.
  bool executed = !fresh && (p.mm_key ? p.mm_key != mm : has_executed(p));
  if (executed) {
    auto stat = procfs_.read_stat(p.ref.id.tgid);
    p.before = ProcessLevel{{}, Bytes(), Bytes(), Bytes(), Bytes(), stat && *stat ? (*stat)->faults : 0};
    p.after.reset();
    p.faults = p.settled.faults = 0;
    p.settled.from = p.settled.to = 0;
    p.settled.counted = p.before->faults;
    p.samples.clear();
    p.sites.clear();
    p.survivors = {};
    p.containers = {};
    p.gpu.clear();
    p.gpu_sites.clear();
  }
  if (fresh || executed) {
    p.ref.id = fault.task.id;
    if (fault.task.parent) p.ref.ppid = fault.task.parent->tgid;
    describe(p);
    open_view(p);
  }
  if (!p.before && began_before(p)) begin_late(p, fault);
  p.mm_key = mm;
  p.ref.comm = fault.task.comm;
  p.last = fault.memory;
  return p;
}

Stack Blame::read_stack(Process& p, const wire::UserStack& at, MonoTime now) {
  ReadStack stack = p.view->read(at, now);
  for (Frame& frame : stack.frames) shorten(frame, config_.longest_name);
  tell_python(p);  // its library may just have been loaded
  ++report_.samples;
  report_.incomplete_stacks += !stack.complete;
  report_.incomplete_python += !stack.python_complete;
  report_.misplaced_python += !stack.python_placed;
  report_.unnamed_frames += stack.unnamed;
  report_.frames += stack.frames.size();
  return std::move(stack.frames);
}

std::uint32_t Blame::site_of(Process& p, const wire::UserStack& at, MonoTime now) {
  return p.sites.try_emplace(read_stack(p, at, now), static_cast<std::uint32_t>(p.sites.size()))
      .first->second;
}

void Blame::add_gpu(const wire::GpuStack& at, const GpuObject& object, Bytes bytes) {
  auto found = processes_.find(at.task.id);
  if (found == processes_.end() || !about_to_read(at.task.id.tgid)) return;
  Process& p = found->second;
  auto site =
      p.gpu_sites.try_emplace(read_stack(p, at, at.time), static_cast<std::uint32_t>(p.gpu_sites.size()));
  p.gpu[object] = {site.first->second, bytes};
}

void Blame::gpu_gone(std::uint32_t pid, std::span<const GpuObject> objects) {
  if (Process* p = known(pid))
    for (const GpuObject& object : objects) p->gpu.erase(object);
}

void Blame::add(const wire::Fault& fault) {
  Process& p = process_of(fault);
  (void)about_to_read(p.ref.id.tgid);
  p.faults += fault.faults;
  std::uint32_t site = site_of(p, fault, fault.time);
  if (samples_ >= config_.max_samples) thin_most();
  ++samples_;
  p.samples.push_back({fault.address, fault.weight, fault.faults, site, looks_});
}

void Blame::thin_most() {
  auto most = std::ranges::max_element(processes_, {}, [](const auto& p) { return p.second.samples.size(); });
  thin_samples(most->second);
  samples_ = 0;
  for (const auto& [id, p] : processes_) samples_ += p.samples.size();
}

// Keeps every second sample with double weight, alternately from the first or the second on.
void Blame::thin_samples(Process& p) {
  std::size_t first = p.thinned++ % 2, kept = 0;
  for (std::size_t i = first; i < p.samples.size(); i += 2) {
    Sample sample = p.samples[i];
    sample.weight += sample.weight;
    sample.faults *= 2;
    p.samples[kept++] = sample;
  }
  p.samples.resize(kept);
  for (std::size_t* end : {&p.settled.from, &p.settled.to}) *end = (*end + 1 - first) / 2;
}

Blame::Process* Blame::known(std::uint32_t pid) {
  auto found =
      std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p.first.tgid == pid; });
  return found == processes_.end() ? nullptr : &found->second;
}

// A large Python list that grows moves at each realloc(), and keeps its pages: without this they would be
// taken for freed. This applies to glibc's mmapped blocks, which begin 16 bytes into a mapping and move by
// mremap(); a copied block has new pages.
void Blame::follow_moved(Process& p, const wire::Allocation& a) {
  constexpr std::uint64_t kInMapping = 16;
  auto is_mapped = [](std::uint64_t address) { return address % kPage == kInMapping; };
  if (!a.replaces || a.replaces == a.address || !is_mapped(a.replaces) || !is_mapped(a.address)) return;
  std::uint64_t begin = a.replaces - kInMapping, size = p.survivors.bytes_at(a.replaces).value_or(1);
  for (Sample& sample : p.samples)
    if (!sample.gone && sample.address >= begin && sample.address - begin < size + kInMapping)
      sample.address += a.address - a.replaces;
}

void Blame::add(wire::Allocation allocation) {
  auto found = processes_.find(allocation.task.id);
  if (found == processes_.end()) return;
  follow_moved(found->second, allocation);
  if (!found->second.survivors.has_room()) read_stacks(found->second, true);
  found->second.survivors.add(std::move(allocation));
}

void Blame::add(const wire::Freed& freed) {
  if (Process* p = known(freed.tgid)) p->survivors.freed(freed);
}

void Blame::add(const wire::Addition& addition) {
  auto found = processes_.find(addition.task.id);
  if (found == processes_.end() || !about_to_read(addition.task.id.tgid)) return;
  Process& p = found->second;
  ++p.containers.additions[addition.length_at][read_stack(p, addition, addition.time)];
}

std::vector<std::uint64_t> Blame::growing_lengths(std::uint32_t pid, std::size_t most) {
  Process* p = known(pid);
  PythonHeap* heap = p && p->containers.known && about_to_read(pid) ? p->view->python_heap() : nullptr;
  if (!heap) return {};
  auto lengths = heap->growing(most);
  heap->release();
  return lengths;
}

Result<FoundAllocator> Blame::find_allocator(std::uint32_t pid) {
  Process* p = known(pid);
  if (!p || !about_to_read(pid)) return Error::failed("it may not be read");
  auto found = p->view->find_allocator();
  p->allocations.blocks_tell = found && found->glibc;
  p->allocations.has_own_new = found && found->has_own_new;
  return found;
}

void Blame::sample_objects(std::uint32_t pid) {
  Process* p = known(pid);
  if (!p || !about_to_read(pid)) return;
  PythonHeap* heap = p->view->python_heap();
  std::uint64_t refused = p->view->refused();
  p->containers.known = heap && heap->begin();
  p->containers.refused = heap && p->view->refused() > refused;
  if (heap) heap->release();  // one process at a time
}

void Blame::add_living(std::uint32_t pid, std::span<const wire::LivingBlock> living) {
  if (Process* p = known(pid))
    for (const wire::LivingBlock& block : living) p->allocations.living[block.address] = block.born;
}

void Blame::set_watched(const WatchedAllocations& watched) {
  if (Process* p = known(watched.tgid)) p->allocations.watched = watched;
}

void Blame::set_unwatched(std::uint32_t pid, const std::string& why) {
  if (Process* p = known(pid)) p->allocations.why_not_watched = why;
}

void Blame::read_stacks(Process& p, bool all) {
  if (!p.view || !about_to_read(p.ref.id.tgid)) return;
  p.survivors.read_stacks(mono_now(), all, [&](const wire::Allocation& a) { return site_of(p, a, a.time); });
  if (p.allocations.blocks_tell && !all)
    p.survivors.check(mono_now(), [&](std::uint64_t address, Bytes size, bool resized) {
      return p.view->block_held(address, size, resized);
    });
}

// An untraced interval is treated like the next traced one, and at the end like the last one.
void Blame::settle(Process& p, std::uint64_t counted, bool last) {
  std::uint64_t faults = p.faults - p.settled.faults, all = counted - p.settled.counted;
  bool fresh = p.samples.size() > p.settled.to && faults;
  if (!fresh && !last) return;
  if (fresh) {
    p.settled.from = p.settled.to;
    p.settled.to = p.samples.size();
  } else {
    for (std::size_t i = p.settled.from; i < p.settled.to; ++i) faults += p.samples[i].faults;
    all += faults;
  }
  double each = faults ? std::max(1.0, static_cast<double>(all) / static_cast<double>(faults)) : 1;
  for (std::size_t i = p.settled.from; i < p.settled.to; ++i) {
    Sample& sample = p.samples[i];
    sample.weight = scaled(sample.weight, each);
    sample.faults = static_cast<std::uint64_t>(static_cast<double>(sample.faults) * each);
  }
  p.settled.faults = p.faults;
  p.settled.counted = counted;
}

void Blame::look(double watched_share) {
  ++looks_;
  for (auto& [id, p] : processes_) {
    read_stacks(p, false);
    if (p.samples.empty()) continue;
    auto statm = procfs_.read_statm(id.tgid);
    std::uint64_t resident = statm && *statm ? (*statm)->resident_pages : 0;
    if (auto stat = procfs_.read_stat(id.tgid); stat && *stat && (*stat)->start_ticks == id.start_ticks) {
      if (watched_share < 1) {
        settle(p, (*stat)->faults, false);
      } else {
        if (p.samples.size() > p.settled.to) p.settled.from = std::exchange(p.settled.to, p.samples.size());
        p.settled.faults = p.faults;
        p.settled.counted = (*stat)->faults;
      }
    }
    if (!about_to_read(id.tgid)) continue;
    bool shrunk = resident + kShrunkPages <= std::exchange(p.resident_pages, resident);
    for (Sample& sample : p.samples) {
      if (sample.gone || (sample.next_look >= looks_ && !shrunk)) continue;
      auto page = p.view->page_at(sample.address);
      sample.gone = page && !page->held;
      sample.next_look = looks_ + sample.gap;
      sample.gap *= 2;
    }
  }
}

// Which sampled pages are present at the end. Newest first: a page that was faulted in again had been freed
// before.
void Blame::read_pages(Process& p) const {
  if (!about_to_read(p.ref.id.tgid)) return;
  std::unordered_set<std::uint64_t> seen;
  for (auto sample = p.samples.rbegin(); sample != p.samples.rend(); ++sample) {
    if (sample->gone) continue;
    auto page = seen.insert(sample->address / kPage).second ? p.view->page_at(sample->address) : std::nullopt;
    sample->gone = !page || !page->held;
    sample->shared = page && page->shared;
  }
}

BlameReport Blame::finish(Seconds window, double watched_share) {
  BlameReport out = std::move(report_);
  out.window = window;
  out.watched_share = watched_share;
  for (auto& [id, process] : processes_) {
    if (process.view->blind()) out.unread.push_back(fmt::format("{}[{}]", process.ref.comm, id.tgid));
    if (process.allocations.watched) {
      process.survivors.keep_only(process.allocations.living);
      process.survivors.settle_gone(*process.allocations.watched);
    }
    read_stacks(process, true);
    if (process.allocations.watched && about_to_read(id.tgid))
      process.survivors.look_into_large([&p = process](std::uint64_t address) {
        auto page = p.view->page_at(address);
        return page ? std::optional(page->held) : std::nullopt;
      });
    out.processes.push_back(judge(process, window, watched_share));
    process.containers.additions.clear();
    if (PythonHeap* heap = process.containers.grown ? process.view->python_heap() : nullptr) heap->release();
    out.grown += out.processes.back().grown();
  }
  out.symbols_unread = files_.unread();
  for (const auto& [id, process] : processes_) out.symbols_unread += process.view->symbols_cut();
  std::vector<ProcessRef> refs;
  std::vector<std::string> environments;
  for (const BlameProcess& p : out.processes) {
    refs.push_back(p.process);
    environments.emplace_back();
    if (p.exited || !about_to_read(p.process.id.tgid)) continue;
    environments.back() = memory_of(p.process.id.tgid).environment(kMaxEnvironment).value_or(std::string());
  }
  auto roles = find_roles(refs, environments);
  for (std::size_t i = 0; i < roles.size(); ++i) out.processes[i].role = std::move(roles[i]);
  auto taken = [](const BlameProcess& p) {
    return p.grown_hugetlb ? p.grown() + *p.grown_hugetlb : p.grown();
  };
  std::sort(out.processes.begin(), out.processes.end(),
            [&](const BlameProcess& a, const BlameProcess& b) { return taken(a) > taken(b); });
  return out;
}

// ---- what a process's samples, blocks and containers say of its growth

namespace {

constexpr Bytes kMinCopied = MiB(1);
constexpr double kMaxBeyondGrowth = 1.5;  // retained blocks may use memory that was free already
constexpr double kSureOfHeap = 3;
constexpr Bytes kAlwaysTold = KiB(64);  // lower bound: few of these are allocated in untraced time
constexpr double kSlowed = 0.2;
constexpr double kMinHeld = 0.01;  // of its process's growth
constexpr std::uint64_t kEnoughBlocks = 5;
constexpr Bytes kUntold = MiB(1);  // less may wait in unsent records or per-CPU counters

const Frame* innermost_python(const Stack& stack) {
  auto frame = std::find_if(stack.rbegin(), stack.rend(),
                            [](const Frame& f) { return f.kind == Frame::Kind::python; });
  return frame == stack.rend() ? nullptr : &*frame;
}

std::optional<Bytes> more_than(std::optional<Bytes> before, std::optional<Bytes> after) {
  return before && after ? std::optional(*after - *before) : std::nullopt;
}

// `anon` includes swap, where that is known.
Bytes resident_anon(const ProcessLevel& level) {
  return level.swap ? level.anon - *level.swap : level.anon;
}

// Without swap, unless it is known for both.
Bytes more_anon(const ProcessLevel& before, const ProcessLevel& after) {
  if (before.swap && after.swap) return after.anon - before.anon;
  return resident_anon(after) - resident_anon(before);
}

}  // namespace

// The counters at the end of the window, or now if they are lower: a process killed since has lost its
// sampled pages. nullopt: see level_of().
std::optional<ProcessLevel> Blame::still_held(const Process& p) const {
  auto now = level_of(p.ref.id);
  if (now && p.after) {
    Bytes lost = more_anon(*now, *p.after);
    if (auto shmem = more_than(now->shmem, p.after->shmem)) lost += *shmem;
    if (lost <= kUntold) return p.after;
  }
  if (now) now->set_private(private_bytes_of(p.ref.id));
  return now;
}

BlameProcess Blame::judge(Process& p, Seconds window, double watched_share) const {
  BlameProcess out;
  out.process = p.ref;
  read_pages(p);
  const std::optional<ProcessLevel> after = still_held(p);
  if (after) out.anon = after->anon;
  if (after) out.own = after->uss;
  out.exited = !after && has_ended(p.ref.id);
  out.growth_unknown = !out.exited && (!after || (!p.before && began_before(p)));
  if (watched_share < 1 && after) settle(p, after->faults, true);
  if (const auto& python = p.view->python(); python.python) {
    out.python = to_string(*python.python);
  } else {
    out.python = python.why_not;
  }
  if (out.growth_unknown) out.grown_shmem.reset();
  if (after && !out.growth_unknown) {
    // A process started in the window begins with no memory of its own, but may hold pages shared by fork.
    ProcessLevel before = p.before.value_or(ProcessLevel{{}, Bytes(), Bytes(), Bytes(), Bytes(), 0});
    out.grown_uss = more_than(before.uss, after->uss);
    out.grown_hugetlb = more_than(before.hugetlb, after->hugetlb);
    out.grown_anon = p.before ? more_anon(before, *after) : out.grown_uss.value_or(after->anon);
    out.grown_shmem = more_than(before.shmem, after->shmem);
  }

  judge_touched(p, watched_share, out);
  judge_kept(p, window, out);
  if (!out.exited && !out.growth_unknown) join_small_objects(out, parts_in_pools(p, out));
  if (!out.exited) out.gpu = judge_gpu(p);
  std::sort(out.sites.begin(), out.sites.end(), [](const BlameSite& a, const BlameSite& b) {
    return std::tuple(a.grown, a.kept.bytes, a.touched) > std::tuple(b.grown, b.kept.bytes, b.touched);
  });
  return out;
}

// Every call is traced, so nothing has to be scaled.
std::vector<BlameGpuSite> Blame::judge_gpu(const Process& p) {
  std::vector<BlameGpuSite> out(p.gpu_sites.size());
  for (const auto& [stack, number] : p.gpu_sites) out[number].stack = stack;
  for (const auto& [object, taken] : p.gpu) {
    out[taken.first].bytes += taken.second;
    ++out[taken.first].calls;
  }
  std::erase_if(out, [](const BlameGpuSite& site) { return !site.calls; });
  std::stable_sort(out.begin(), out.end(),
                   [](const BlameGpuSite& a, const BlameGpuSite& b) { return a.bytes > b.bytes; });
  return out;
}

// Samples are weights for what was touched; counters give what was retained.
void Blame::judge_touched(Process& p, double watched_share, BlameProcess& out) {
  for (const auto& [stack, number] : p.sites) {
    (void)number;
    out.sites.emplace_back();
  }
  while (!p.sites.empty()) {  // names can be so long that there is no room for a copy
    auto site = p.sites.extract(p.sites.begin());
    out.sites[site.mapped()].stack = std::move(site.key());
  }
  Bytes staying;
  std::size_t counted = 0;
  for (const Sample& sample : p.samples) {
    BlameSite& site = out.sites[sample.site];
    site.touched += sample.weight;
    ++site.samples;
    if (out.exited || out.growth_unknown || sample.gone) continue;
    if (sample.shared && out.grown_shmem <= Bytes{}) continue;  // a file's pages: cache, not growth
    site.grown += sample.weight;
    staying += sample.weight;
    ++counted;
  }
  // Copies of shared pages increase its private memory, and fault; without such faults, the other sharers
  // have exited, which uses no memory.
  if (out.grown_uss && p.before) {
    Bytes copied = std::min(*out.grown_uss - out.grown_anon, staying - std::max(out.grown(), Bytes{}));
    if (copied >= kMinCopied) out.unshared = copied;
  }
  // Growth beyond the error of the samples had no sampled faults. The error is two standard deviations, from
  // pages not reported yet, from each sampled page standing for its neighbours, and, with pauses, from
  // samples standing for untraced time.
  Bytes grown = std::max(out.grown(), Bytes{});
  double all = static_cast<double>(p.samples.size()), squares = 0;
  for (const Sample& sample : p.samples) squares += sample.weight.as_double() * sample.weight.as_double();
  double kept = (static_cast<double>(counted) + 1) / (all + 1);
  double error = kUntold.as_double() + (watched_share < 1 ? 4 * std::sqrt(squares * kept)
                                                          : 2 * std::sqrt(squares * kept * (1 - kept)));
  if (counted && (grown - staying).as_double() <= error) {
    for (BlameSite& site : out.sites)
      site.grown = scaled(site.grown, grown.as_double() / staying.as_double());
  } else {
    out.unseen = grown - staying;
  }
}

// A leak's blocks fill holes that others left, and then others touch new pages: retained blocks prove more
// than touched pages. The counters give the total to be explained.
void Blame::judge_kept(const Process& p, Seconds window, BlameProcess& out) {
  out.why_not_kept = p.allocations.why_not_watched;
  if (out.exited || out.growth_unknown) return;
  if (!p.allocations.watched) return judge_holders(p, {}, out);
  if (p.survivors.dropped()) {
    out.why_not_kept = fmt::format("there was no room for {} of its blocks", p.survivors.dropped());
    return judge_holders(p, {}, out);
  }
  const WatchedAllocations& watched = *p.allocations.watched;
  Survivors::Estimate estimate = p.survivors.estimate(watched, window);
  std::vector<std::pair<std::uint64_t, Bytes>> pages;
  for (const Sample& sample : p.samples)
    if (!sample.gone) pages.emplace_back(sample.address, sample.weight);
  estimate.raise_to_pages(pages);
  Bytes grown = std::max(out.grown(), Bytes{}), kept = estimate.all.bytes;
  if (kept - estimate.all.error > scaled(grown, kMaxBeyondGrowth) + kUntold) {
    out.why_not_kept = "blocks that outlived others went later";
    return judge_holders(p, {}, out);
  }
  out.kept = {estimate.all,     estimate.outlived,   watched.all_watched(),
              estimate.watched, watched.calls_per_s, p.allocations.has_own_new};
  for (const auto& [site, of_site] : estimate.sites)
    if (site < out.sites.size()) out.sites[site].kept = of_site;
  judge_holders(p, estimate, out);
  if (grown <= Bytes{}) return;
  // The rest is attributed to touched pages; nothing if within the error.
  Bytes left = std::max(grown - kept, Bytes{});
  Bytes error = std::max(estimate.all.error, kUntold);
  if (left <= error && kept > error) left = {};
  // Tracing slowed the program so much that it retained less in that time than usual: this shows which sites
  // leak, not how much. Only as far as breakpoints can have slowed it: a few small retained blocks do not
  // explain a hundred times as much. Nor if C++ allocations are untraced.
  bool slowed = watched.taken > kSlowed;
  if (slowed && !p.allocations.has_own_new && estimate.all.blocks >= kEnoughBlocks &&
      left <= scaled(kept + estimate.all.error, Survivors::most_faster(watched)))
    left = {};
  // Unless that is well above the error, memory not seen as live may still be. A large live block that was
  // not reported is from before the window.
  Heap heap;
  if (p.allocations.blocks_tell && !slowed && left > scaled(error, kSureOfHeap))
    heap = p.view->heap(std::max(scaled(watched.sample, 2), kAlwaysTold));
  Bytes touched, in_heap;
  for (BlameSite& site : out.sites) site.grown = {};
  for (const Sample& sample : p.samples) {
    if (sample.gone || (sample.shared && out.grown_shmem <= Bytes{})) continue;
    auto place = estimate.at(sample.address);
    if (place == Survivors::Place::kept) continue;
    bool free = place == Survivors::Place::elsewhere && heap.may_be_free(sample.address);
    (free ? in_heap : touched) += sample.weight;
    if (!free) out.sites[sample.site].grown += sample.weight;
  }
  double of_kept = kept > Bytes{} ? (grown - left).as_double() / kept.as_double() : 0;
  Bytes both = touched + in_heap;
  double of_touched = both > Bytes{} ? left.as_double() / both.as_double() : 0;
  // Growth beyond the samples is attributed to no site.
  if (left - both > kUntold + error) of_touched = 1;
  for (BlameSite& site : out.sites)
    site.grown = scaled(site.grown, of_touched) + scaled(site.kept.bytes, of_kept);
  out.free_in_heap = scaled(in_heap, of_touched);
  out.unseen = left - scaled(both, of_touched);
}

bool holds_site(std::uint64_t reached, std::uint64_t own, std::uint64_t blocks, double part) {
  constexpr double kMost = 0.5;
  if (own && 2 * own >= blocks) return true;
  double likely = part * static_cast<double>(blocks - own);
  return (part >= kMost || likely >= 1) && static_cast<double>(reached) >= likely / 2;
}

std::vector<BlameAddition> Blame::additions_to(const Process& p, std::size_t holder) {
  constexpr std::size_t kMax = 8;
  std::map<Stack, std::uint64_t> all;
  for (const auto& [length_at, stacks] : p.containers.additions) {
    if (!p.view->python_heap()->has_length_at(holder, length_at)) continue;
    for (const auto& [stack, seen] : stacks) all[stack] += seen;
  }
  std::vector<BlameAddition> out;
  for (const auto& [stack, seen] : all) out.push_back({stack, seen});
  std::ranges::stable_sort(out, std::greater(), &BlameAddition::seen);
  if (out.size() > kMax) out.resize(kMax);
  return out;
}

// Holders that lead to at least half as many of a site's blocks as expected from the sample of added
// elements.
void Blame::judge_holders(const Process& p, const Survivors::Estimate& kept, BlameProcess& out) {
  bool refused = p.containers.refused;
  if (refused && (!p.containers.grown || p.containers.grown->empty()))
    out.why_not_added =
        "not all of its objects were read: its cgroup or the machine is nearly full, or it has too many "
        "mappings";
  if (!p.containers.grown || !p.view->python_heap()) return;
  PythonHeap& heap = *p.view->python_heap();
  out.holders.emplace().cut = heap.cut() || refused;
  out.holders->types = heap.grown_types();
  struct Lead {
    std::uint64_t blocks = 0;
    std::uint32_t holder = 0;
  };
  std::map<std::uint32_t, Lead> leads;  // by site
  std::vector<BlameHolder> all;
  Bytes least = scaled(std::max(out.grown(), Bytes{}), kMinHeld);
  for (std::size_t i = 0; i < p.containers.grown->size(); ++i) {
    PythonHeap::Reached reached;
    if (!kept.living.empty()) reached = heap.reach(i, [&](std::uint64_t at) { return kept.kept_at(at); });
    std::uint64_t blocks = reached.blocks.size() + reached.own.has_value();
    if (!blocks && (*p.containers.grown)[i].least < least) continue;
    std::map<std::uint32_t, std::uint64_t> by_site;
    auto site_at = [&](std::uint64_t block) { return kept.living.at(block).site; };
    for (std::uint64_t block : reached.blocks) ++by_site[site_at(block)];
    std::optional<std::uint32_t> of_own;
    if (reached.own) by_site.try_emplace(*(of_own = site_at(*reached.own)));
    double part = std::min(
        1.0, static_cast<double>(reached.looked_at) / static_cast<double>((*p.containers.grown)[i].added));
    for (auto [site, count] : by_site) {
      std::uint64_t own = of_own == site;
      Lead& lead = leads[site];
      if (holds_site(count, own, kept.sites.at(site).blocks, part) && count + own > lead.blocks)
        lead = {count + own, static_cast<std::uint32_t>(all.size())};
    }
    all.push_back({(*p.containers.grown)[i], blocks, additions_to(p, i)});
  }
  std::vector<std::uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return all[a].blocks > all[b].blocks; });
  for (std::uint32_t i : order) out.holders->all.push_back(all[i]);
  for (const auto& [site, lead] : leads) {
    if (!lead.blocks || site >= out.sites.size()) continue;
    auto at = std::find(order.begin(), order.end(), lead.holder);
    out.sites[site].held_by = static_cast<std::uint32_t>(at - order.begin());
  }
}

namespace {

// The common part of the stacks: functions that touched no page themselves, without lines. The touching
// function may have made temporaries, while the function called in the next line retains.
Stack common_to(const BlameProcess& process, std::span<const std::size_t> parts) {
  Stack out = process.sites[parts.front()].stack;
  std::set<std::pair<std::string, std::string>> touched;
  for (std::size_t i : parts) {
    const Stack& stack = process.sites[i].stack;
    out.erase(std::mismatch(out.begin(), out.end(), stack.begin(), stack.end()).first, out.end());
    const Frame& inner = *innermost_python(stack);
    touched.emplace(inner.file, inner.function);
  }
  auto calls = [&](const Frame& frame) {
    return frame.kind == Frame::Kind::python && !touched.contains({frame.file, frame.function});
  };
  out.erase(std::find_if(out.rbegin(), out.rend(), calls).base(), out.end());
  if (!out.empty()) out.back().line.reset();
  return out;
}

// Attributes `small_objects` to containers, by holder number, in proportion to what was added; the part
// without a known holder to nullopt.
std::map<std::optional<std::uint32_t>, Bytes> by_holder(const BlameProcess& process, Bytes small_objects) {
  constexpr double kMinOfThem = 0.05, kNearlyAll = 0.8;
  std::map<std::optional<std::uint32_t>, Bytes> out;
  Bytes held;
  for (std::uint32_t i = 0; process.holders && i < process.holders->all.size(); ++i) {
    Bytes small = process.holders->all[i].holder.small;
    if (small < scaled(small_objects, kMinOfThem)) continue;
    out[i] = small;
    held += small;
  }
  if (held >= scaled(small_objects, kNearlyAll))
    for (auto& [holder, bytes] : out) bytes = scaled(bytes, small_objects.as_double() / held.as_double());
  else
    out[std::nullopt] = small_objects - held;
  return out;
}

}  // namespace

void join_small_objects(BlameProcess& process, std::span<const double> in_pools) {
  constexpr double kMinOfGrowth = 0.1;
  BlameSite joined;
  joined.small_objects = true;
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < process.sites.size(); ++i) {
    if (in_pools[i] <= 0 || !innermost_python(process.sites[i].stack)) continue;
    joined.grown += scaled(process.sites[i].grown, in_pools[i]);
    parts.push_back(i);
  }
  if (joined.grown <= Bytes{} || joined.grown < scaled(process.grown(), kMinOfGrowth)) return;
  joined.stack = common_to(process, parts);
  for (std::size_t i : parts) {
    BlameSite& site = process.sites[i];
    site.grown -= scaled(site.grown, in_pools[i]);
    Bytes touched = scaled(site.touched, in_pools[i]);
    site.touched -= touched;
    joined.touched += touched;
  }
  auto add = [&](BlameSite site, Bytes grown) {
    site.touched = scaled(joined.touched, grown.as_double() / joined.grown.as_double());
    site.grown = grown;
    process.sites.push_back(std::move(site));
  };
  for (auto [holder, bytes] : by_holder(process, joined.grown)) {
    BlameSite site = joined;
    site.held_by = holder;
    std::span<const BlameAddition> additions;
    if (holder) additions = process.holders->all[*holder].additions;
    std::uint64_t seen = 0;
    for (const BlameAddition& each : additions) seen += each.seen;
    if (!seen) add(site, bytes);
    site.small_objects = false;
    site.adds = true;
    for (const BlameAddition& each : additions) {
      site.stack = each.stack;
      add(site, scaled(bytes, static_cast<double>(each.seen) / static_cast<double>(seen)));
    }
  }
}

// For each site.
std::vector<double> Blame::parts_in_pools(const Process& p, const BlameProcess& out) {
  std::vector<double> pools(out.sites.size()), all(out.sites.size());
  // 32 MiB of cache each: only for processes whose objects were read.
  PythonHeap* heap = p.containers.grown ? p.view->python_heap() : nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = out.sites[i].kept.bytes.as_double();
  for (const Sample& sample : p.samples) {
    if (!heap || sample.gone || sample.shared) continue;
    all[sample.site] += sample.weight.as_double();
    if (heap->has_small_objects(sample.address)) pools[sample.site] += sample.weight.as_double();
  }
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (all[i] > 0) pools[i] /= all[i];
  return pools;
}

}  // namespace oomcast
