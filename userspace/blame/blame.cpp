#include "blame/blame.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "collect/process_memory.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr Bytes kMaxTables = MiB(32);  // of what private memory is counted: 16 GiB, .2 s
constexpr Nanos kWalksFor = std::chrono::seconds(1);
constexpr std::size_t kMaxEnvironment = 64 * 1024;
constexpr std::uint64_t kShrunkPages = 256;
const Nanos kClockTick{1'000'000'000 / sysconf(_SC_CLK_TCK)};

}  // namespace

Blame::Blame(Config config) : config_(std::move(config)), procfs_(config_.roots) {}

std::optional<ProcessLevel> Blame::level_of(const TaskId& id) const {
  ProcessLevel out;
  if (auto status = procfs_.read_status(id.tgid); !status) {
    // As long as its process likes, and refused then. This one is short, and has less.
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
      false;  // they were of another program
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

// The counters that growth is told by are read last, and at the end first: what comes between them and the
// faults would be growth without samples, and private memory takes long to read.
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

// What it held when the window began is not known, and is no growth: that counts from this fault on.
void Blame::begin_late(Process& p, const wire::Fault& fault) const {
  auto stat = procfs_.read_stat(p.ref.id.tgid);
  std::uint64_t counted = stat && *stat ? (*stat)->faults : 0;
  const auto& m = fault.memory;
  p.before = m ? ProcessLevel{m->anon + m->swap, m->shmem, std::nullopt, std::nullopt, m->swap, counted}
               : level_of(p.ref.id);
  p.settled.counted = counted - std::min(counted, fault.faults);  // among these are its own
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
  // Another program: its stacks are others, and nothing is left of what it had.
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
  tell_python(p);  // its library may have been loaded just now
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

// Every second one stands for two, from the first or the second on in turn.
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

// A large list of Python's that grows lies elsewhere after each realloc(), with the pages that it had:
// without this they would be taken for given back. Of glibc's large blocks, which begin 16 bytes into a
// mapping and are moved with it (mremap); what is copied has new pages.
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
  if (heap) heap->release();  // of one process at a time
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

// What was not watched is like what was watched next, and at the end like what was watched last.
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

// What is still there at the end. The newest first: a page that was faulted in again had been given back
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

}  // namespace oomcast
