#include "blame/blame.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "collect/process_memory.h"
#include "collect/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostSamples = 200'000;  // of one process; later ones only count as touched
constexpr std::int64_t kPage = 4096;
constexpr Bytes kLeastCopied = MiB(1);
constexpr Bytes kMostTables = MiB(32);  // of what private memory is counted: 16 GiB, .2 s
constexpr Nanos kWalksFor = std::chrono::seconds(1);
constexpr std::size_t kMostEnvironment = 64 * 1024;
constexpr std::uint64_t kShrunkPages = 256;
constexpr double kMostBeyondGrowth = 1.5;  // of kept blocks, which may lie where there was room
constexpr double kSureOfHeap = 3;
constexpr double kSlowed = 0.2;
constexpr double kLeastHeld = 0.01;  // of what its process grew by
constexpr std::uint64_t kEnoughBlocks = 5;
constexpr Bytes kUntold = MiB(1);  // smaller growth waits for its record, or in a CPU's own counter

Bytes scaled(Bytes part, double factor) {
  return {static_cast<std::int64_t>(part.as_double() * factor)};
}

}  // namespace

Blame::Blame(Config config) : config_(std::move(config)), procfs_(config_.roots) {}

std::optional<ProcessLevel> Blame::level_of(const TaskId& id) const {
  auto status = procfs_.read_status(id.tgid);
  auto stat = procfs_.read_stat(id.tgid);
  if (!status || !*status || !stat || !*stat || (*stat)->start_ticks != id.start_ticks ||
      !(*status)->rss_anon || !(*status)->swap)
    return std::nullopt;
  return ProcessLevel{*(*status)->rss_anon + *(*status)->swap,
                      (*status)->rss_shmem.value_or(Bytes()),
                      std::nullopt,
                      (*status)->hugetlb,
                      *(*status)->swap,
                      (*stat)->faults};
}

bool Blame::about_to_read(std::uint32_t tgid) const {
  if (config_.unread.contains(tgid)) return false;
  if (config_.on_read) config_.on_read(tgid);
  return true;
}

std::optional<Bytes> Blame::private_bytes_of(const TaskId& id) const {
  auto status = procfs_.read_status(id.tgid);
  if (!status || !*status || !(*status)->quick_to_walk(kMostTables) || !about_to_read(id.tgid))
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
    if (auto cmdline = procfs_.read_cmdline(ref.id.tgid); cmdline && *cmdline) {
      ref.cmdline = (*cmdline)->args;
      ref.cmdline_source = CmdlineSource::shown;
      ref.cmdline_truncated = (*cmdline)->truncated;
    }
  if (auto status = procfs_.read_status(ref.id.tgid); status && *status) {
    ref.uid = (*status)->uid;
    if (!(*status)->ns_pid.empty()) ref.ns_pid = (*status)->ns_pid.back();
  }
}

void Blame::open_view(Process& process) {
  std::uint32_t pid = process.ref.id.tgid;
  process.view = std::make_unique<ProcessView>(config_.roots, pid, !about_to_read(pid));
  if (const auto& python = process.view->python().python; python && config_.on_python)
    config_.on_python(process.ref.id.tgid, python->layout);
}

void Blame::note(std::uint32_t pid) {
  auto id = procfs_.read_task_id(pid);
  auto stat = procfs_.read_stat(pid);
  if (!id || !*id || !stat || !*stat || (*stat)->kernel_thread()) return;
  Process p;
  p.ref.id = **id;
  p.ref.comm = (*stat)->comm;
  p.ref.ppid = (*stat)->ppid;
  describe(p);
  open_view(p);
  processes_.insert_or_assign(p.ref.id, std::move(p));
}

// The counters that growth is told by are read last, and at the end first: what comes between them and the
// faults would be growth without samples, and private memory takes long to read.
void Blame::begin() {
  auto own = private_bytes();
  for (auto& [id, p] : processes_) {
    p.before = level_of(id);
    if (!p.before) continue;
    p.before->set_private(own[id]);
    if (config_.on_baseline) config_.on_baseline(id.tgid, p.before->anon + p.before->shmem);
    p.settled_counted = p.before->faults;
  }
}

void Blame::end() {
  for (auto& [id, p] : processes_) p.after = level_of(id);
  auto own = private_bytes();
  for (auto& [id, p] : processes_)
    if (p.after) p.after->set_private(own[id]);
}

void Blame::look_at_objects_again() {
  for (auto& [id, p] : processes_)
    if (p.objects_known && p.after && about_to_read(id.tgid)) p.holders = p.view->python_heap()->end();
}

Blame::Process& Blame::process_of(const wire::Fault& fault) {
  auto [at, fresh] = processes_.try_emplace(fault.task.id);
  Process& p = at->second;
  std::uint64_t mm = fault.memory ? fault.memory->mm_key : 0;
  bool executed = !fresh && p.mm_key && p.mm_key != mm;  // another program: its stacks are others
  if (executed) {                                        // nothing is left of what it had
    auto stat = procfs_.read_stat(p.ref.id.tgid);
    p.before = ProcessLevel{{}, {}, Bytes(), Bytes(), {}, stat && *stat ? (*stat)->faults : 0};
    p.after.reset();
    p.faults = p.settled_faults = 0;
    p.settled_from = p.settled_to = 0;
    p.settled_counted = p.before->faults;
    p.samples.clear();
    p.sites.clear();
    p.survivors = {};
    p.objects_known = false;
    p.holders.reset();
  }
  if (fresh || executed) {
    p.ref.id = fault.task.id;
    if (fault.task.parent) p.ref.ppid = fault.task.parent->tgid;
    describe(p);
    open_view(p);
  }
  p.mm_key = mm;
  p.ref.comm = fault.task.comm;
  p.last = fault.memory;
  return p;
}

std::uint32_t Blame::site_of(Process& p, const wire::UserStack& at, MonoTime now) {
  ReadStack stack = p.view->read(at, now);
  ++report_.samples;
  report_.incomplete_stacks += !stack.complete;
  report_.incomplete_python += !stack.python_complete;
  report_.misplaced_python += !stack.python_placed;
  report_.unnamed_frames += stack.unnamed;
  report_.frames += stack.frames.size();
  return p.sites.try_emplace(std::move(stack.frames), static_cast<std::uint32_t>(p.sites.size()))
      .first->second;
}

void Blame::add(const wire::Fault& fault) {
  Process& p = process_of(fault);
  (void)about_to_read(p.ref.id.tgid);
  p.faults += fault.faults;
  std::uint32_t site = site_of(p, fault, fault.time);
  if (p.samples.size() < kMostSamples)
    p.samples.push_back({fault.address, fault.weight, fault.faults, site, looks_});
}

Blame::Process* Blame::known(std::uint32_t pid) {
  auto found =
      std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p.first.tgid == pid; });
  return found == processes_.end() ? nullptr : &found->second;
}

void Blame::add(wire::Allocation allocation) {
  auto found = processes_.find(allocation.task.id);
  if (found != processes_.end()) found->second.survivors.add(std::move(allocation));
}

void Blame::add(const wire::Freed& freed) {
  if (Process* p = known(freed.tgid)) p->survivors.freed(freed);
}

Result<FoundAllocator> Blame::find_allocator(std::uint32_t pid) {
  Process* p = known(pid);
  if (!p || !about_to_read(pid)) return Error::failed("it may not be read");
  auto found = p->view->find_allocator();
  p->blocks_tell = found && found->glibc;
  return found;
}

void Blame::look_at_objects(std::uint32_t pid) {
  Process* p = known(pid);
  if (!p || !about_to_read(pid)) return;
  PythonHeap* heap = p->view->python_heap();
  p->objects_known = heap && heap->begin();
}

void Blame::add_living(std::uint32_t pid, std::span<const wire::LivingBlock> living) {
  if (Process* p = known(pid))
    for (const wire::LivingBlock& block : living) p->living[block.address] = block.born;
}

void Blame::set_watched(const WatchedAllocations& watched) {
  if (Process* p = known(watched.tgid)) p->watched = watched;
}

void Blame::set_unwatched(std::uint32_t pid, const std::string& why) {
  if (Process* p = known(pid)) p->why_not_watched = why;
}

void Blame::read_stacks(Process& p, bool all) {
  if (!p.view || !about_to_read(p.ref.id.tgid)) return;
  p.survivors.read_stacks(mono_now(), all, [&](const wire::Allocation& a) { return site_of(p, a, a.time); });
  if (p.blocks_tell && !all)
    p.survivors.check(mono_now(),
                      [&](std::uint64_t address, Bytes size) { return p.view->block_held(address, size); });
}

// What was not watched is like what was watched next, and at the end like what was watched last.
void Blame::settle(Process& p, std::uint64_t counted, bool last) {
  std::uint64_t faults = p.faults - p.settled_faults, all = counted - p.settled_counted;
  bool fresh = p.samples.size() > p.settled_to && faults;
  if (!fresh && !last) return;
  if (fresh) {
    p.settled_from = p.settled_to;
    p.settled_to = p.samples.size();
  } else {
    for (std::size_t i = p.settled_from; i < p.settled_to; ++i) faults += p.samples[i].faults;
    all += faults;
  }
  double each = faults ? std::max(1.0, static_cast<double>(all) / static_cast<double>(faults)) : 1;
  for (std::size_t i = p.settled_from; i < p.settled_to; ++i) {
    Sample& sample = p.samples[i];
    sample.weight = scaled(sample.weight, each);
    sample.faults = static_cast<std::uint64_t>(static_cast<double>(sample.faults) * each);
  }
  p.settled_faults = p.faults;
  p.settled_counted = counted;
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
        if (p.samples.size() > p.settled_to) p.settled_from = std::exchange(p.settled_to, p.samples.size());
        p.settled_faults = p.faults;
        p.settled_counted = (*stat)->faults;
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
void Blame::look_at_pages(Process& p) const {
  if (!about_to_read(p.ref.id.tgid)) return;
  std::unordered_set<std::uint64_t> seen;
  for (auto sample = p.samples.rbegin(); sample != p.samples.rend(); ++sample) {
    if (sample->gone) continue;
    auto page = seen.insert(sample->address / kPage).second ? p.view->page_at(sample->address) : std::nullopt;
    sample->gone = !page || !page->held;
    sample->shared = page && page->shared;
  }
}

// Its counters at the end of the window, or now if less is left since: who was killed meanwhile has lost the
// pages that were looked at. nullopt: it has ended.
std::optional<ProcessLevel> Blame::still_held(const Process& p) const {
  auto now = level_of(p.ref.id);
  if (now && p.after && now->anon + now->shmem + kUntold >= p.after->anon + p.after->shmem) return p.after;
  if (now) now->set_private(private_bytes_of(p.ref.id));
  return now;
}

BlameProcess Blame::judge(Process& p, Seconds window, double watched_share) const {
  BlameProcess out;
  out.process = p.ref;
  out.before = p.before;
  look_at_pages(p);
  out.after = still_held(p);
  out.exited = !out.after;
  if (watched_share < 1 && out.after) settle(p, out.after->faults, true);
  if (const auto& python = p.view->python(); python.python) {
    out.python = to_string(*python.python);
  } else {
    out.python = python.why_not;
  }
  if (out.after) {
    // A process that began in the window began with nothing of its own, but may hold what a fork shares.
    ProcessLevel before = out.before.value_or(ProcessLevel{{}, {}, Bytes(), Bytes(), {}, 0});
    if (out.after->uss && before.uss) out.grown_uss = *out.after->uss - *before.uss;
    if (out.after->hugetlb && before.hugetlb) out.grown_hugetlb = *out.after->hugetlb - *before.hugetlb;
    out.grown_anon = out.before ? out.after->anon - before.anon : out.grown_uss.value_or(out.after->anon);
    out.grown_shmem = out.after->shmem - before.shmem;
  }

  for (const auto& [stack, number] : p.sites) {
    (void)number;
    out.sites.emplace_back();
  }
  for (auto& [stack, number] : p.sites) out.sites[number].stack = stack;
  Bytes staying;
  std::size_t counted = 0;
  for (const Sample& sample : p.samples) {
    BlameSite& site = out.sites[sample.site];
    site.touched += sample.weight;
    ++site.samples;
    if (out.exited || sample.gone) continue;
    if (sample.shared && out.grown_shmem <= Bytes{}) continue;  // a file's pages: cache, not growth
    site.grown += sample.weight;
    staying += sample.weight;
    ++counted;
  }
  // Copies of shared pages make it hold more of its own, and faults; without such faults, others who shared
  // the pages have ended, which takes no memory.
  if (out.grown_uss && out.before) {
    Bytes copied = std::min(*out.grown_uss - out.grown_anon, staying - std::max(out.grown(), Bytes{}));
    if (copied >= kLeastCopied) out.unshared = copied;
  }
  // Samples weigh what was touched, counters say what was kept. What the samples lack beyond their own error
  // made no faults that could be sampled. That error, of two standard deviations: some pages not told of yet;
  // whether a sampled page is still there speaks for its neighbours; and with pauses, that a sample stands
  // for what nobody saw.
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
  judge_kept(p, window, out);
  if (!out.exited) join_small_objects(out, parts_in_pools(p, out));
  std::sort(out.sites.begin(), out.sites.end(), [](const BlameSite& a, const BlameSite& b) {
    return std::tuple(a.grown, a.kept.bytes, a.touched) > std::tuple(b.grown, b.kept.bytes, b.touched);
  });
  return out;
}

// Of a block that was there before it was seen, and of one in realloc() whose growth began before that, the
// pages tell more than its allocation.
void Blame::raise_to_pages(const Process& p, Survivors::Estimate& estimate) {
  std::map<std::uint32_t, Bytes> by_site;
  for (const Sample& sample : p.samples)
    if (!sample.gone)
      if (auto block = estimate.kept_at(sample.address))
        by_site[estimate.living.at(*block).site] += sample.weight;
  for (auto [site, pages] : by_site) {
    Bytes more = std::max(pages - estimate.sites.at(site).bytes, Bytes{});
    estimate.sites.at(site).bytes += more;
    estimate.all.bytes += more;
  }
}

// A leak's blocks lie in holes that others left, and others touch new pages then: what has stayed says more
// than what was touched. The counters say how much there is to explain.
void Blame::judge_kept(const Process& p, Seconds window, BlameProcess& out) {
  out.why_not_kept = p.why_not_watched;
  if (out.exited) return;
  if (!p.watched) return judge_holders(p, {}, out);
  if (p.survivors.dropped()) {
    out.why_not_kept = fmt::format("there was no room for {} of its blocks", p.survivors.dropped());
    return judge_holders(p, {}, out);
  }
  Survivors::Estimate estimate = p.survivors.estimate(*p.watched, window);
  raise_to_pages(p, estimate);
  Bytes grown = std::max(out.grown(), Bytes{}), kept = estimate.all.bytes;
  if (kept - estimate.all.error > scaled(grown, kMostBeyondGrowth) + kUntold) {
    out.why_not_kept = "blocks that outlived others went later";
    return judge_holders(p, {}, out);
  }
  out.kept = {estimate.all, estimate.outlived, p.watched->all_watched(), estimate.watched,
              p.watched->calls_per_s};
  for (const auto& [site, of_site] : estimate.sites)
    if (site < out.sites.size()) out.sites[site].kept = of_site;
  judge_holders(p, estimate, out);
  if (grown <= Bytes{}) return;
  // What is left for those that touched: nothing, if that is within the error.
  Bytes left = std::max(grown - kept, Bytes{});
  Bytes error = std::max(estimate.all.error, kUntold);
  if (left <= error && kept > error) left = {};
  // While it was watched it went so much slower that it kept less in that time than it does otherwise: that
  // tells of which, not how much.
  bool slowed = p.watched->taken > kSlowed;
  if (slowed && estimate.all.blocks >= kEnoughBlocks) left = {};
  // Without that much more than the error, what is not seen to live may live.
  std::pair<std::uint64_t, std::uint64_t> heap{};
  if (p.blocks_tell && !slowed && left > scaled(error, kSureOfHeap)) heap = p.view->heap();
  Bytes touched, in_heap;
  for (BlameSite& site : out.sites) site.grown = {};
  for (const Sample& sample : p.samples) {
    if (sample.gone || (sample.shared && out.grown_shmem <= Bytes{})) continue;
    auto place = estimate.at(sample.address);
    if (place == Survivors::Place::kept) continue;
    bool free =
        place == Survivors::Place::elsewhere && sample.address >= heap.first && sample.address < heap.second;
    (free ? in_heap : touched) += sample.weight;
    if (!free) out.sites[sample.site].grown += sample.weight;
  }
  double of_kept = kept > Bytes{} ? (grown - left).as_double() / kept.as_double() : 0;
  Bytes both = touched + in_heap;
  double of_touched = both > Bytes{} ? left.as_double() / both.as_double() : 0;
  // More than their samples tell is nobody's.
  if (left - both > kUntold + error) of_touched = 1;
  for (BlameSite& site : out.sites)
    site.grown = scaled(site.grown, of_touched) + scaled(site.kept.bytes, of_kept);
  out.free_in_heap = scaled(in_heap, of_touched);
  out.unseen = left - scaled(both, of_touched);
}

// Whoever leads to at least half as many of a site's blocks as the sample of what was added makes likely.
void Blame::judge_holders(const Process& p, const Survivors::Estimate& kept, BlameProcess& out) {
  if (!p.holders || !p.view->python_heap()) return;
  PythonHeap& heap = *p.view->python_heap();
  out.holders.emplace().cut = heap.cut();
  struct Lead {
    std::uint64_t blocks = 0;
    std::uint32_t holder = 0;
  };
  std::map<std::uint32_t, Lead> leads;  // by site
  std::vector<BlameHolder> all;
  Bytes least = scaled(std::max(out.grown(), Bytes{}), kLeastHeld);
  for (std::size_t i = 0; i < p.holders->size(); ++i) {
    PythonHeap::Reached reached;
    if (!kept.living.empty()) reached = heap.reach(i, [&](std::uint64_t at) { return kept.kept_at(at); });
    std::uint64_t blocks = reached.blocks.size();
    if (!blocks && (*p.holders)[i].least < least) continue;
    std::map<std::uint32_t, std::uint64_t> by_site;
    for (std::uint64_t block : reached.blocks) ++by_site[kept.living.at(block).site];
    double part =
        std::min(1.0, static_cast<double>(reached.looked_at) / static_cast<double>((*p.holders)[i].added));
    for (auto [site, count] : by_site) {
      double likely = part * static_cast<double>(kept.sites.at(site).blocks);
      Lead& lead = leads[site];
      if (static_cast<double>(count) >= likely / 2 && count > lead.blocks)
        lead = {count, static_cast<std::uint32_t>(all.size())};
    }
    all.push_back({(*p.holders)[i], blocks});
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

const Frame* innermost_python(const Stack& stack) {
  auto frame = std::find_if(stack.rbegin(), stack.rend(),
                            [](const Frame& f) { return f.kind == Frame::Kind::python; });
  return frame == stack.rend() ? nullptr : &*frame;
}

}  // namespace

// Objects that come and go leave holes in the interpreter's pools, what stays lies in them, and what comes
// next touches new pages. Where one line alone fills the pools, it is the one that keeps.
void join_small_objects(BlameProcess& process, std::span<const double> in_pools) {
  constexpr double kAlone = 0.9, kLeastOfGrowth = 0.1, kLeastHeldOfThem = 0.25;
  BlameSite joined;
  joined.small_objects = true;
  std::map<Frame, Bytes> lines;
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < process.sites.size(); ++i) {
    const BlameSite& site = process.sites[i];
    const Frame* line = innermost_python(site.stack);
    if (in_pools[i] <= 0 || !line) continue;
    if (parts.empty()) joined.stack = site.stack;
    auto differs =
        std::mismatch(joined.stack.begin(), joined.stack.end(), site.stack.begin(), site.stack.end());
    joined.stack.erase(differs.first, joined.stack.end());
    joined.grown += scaled(site.grown, in_pools[i]);
    lines[*line] += scaled(site.grown, in_pools[i]);
    parts.push_back(i);
  }
  Bytes most;
  for (const auto& [line, bytes] : lines) most = std::max(most, bytes);
  bool matters = joined.grown > Bytes{} && joined.grown >= scaled(process.grown(), kLeastOfGrowth);
  if (!matters || most >= scaled(joined.grown, kAlone)) return;
  for (std::size_t i : parts) {
    BlameSite& site = process.sites[i];
    site.grown -= scaled(site.grown, in_pools[i]);
    Bytes touched = scaled(site.touched, in_pools[i]);
    site.touched -= touched;
    joined.touched += touched;
  }
  const auto holders = process.holders ? std::span(process.holders->all) : std::span<BlameHolder>();
  auto least = [](const BlameHolder& holder) { return holder.holder.least; };
  auto holder = std::ranges::max_element(holders, {}, least);
  if (holder != holders.end() && least(*holder) >= scaled(joined.grown, kLeastHeldOfThem))
    joined.held_by = static_cast<std::uint32_t>(holder - holders.begin());
  process.sites.push_back(std::move(joined));
}

// Of each site.
std::vector<double> Blame::parts_in_pools(const Process& p, const BlameProcess& out) {
  std::vector<double> pools(out.sites.size()), all(out.sites.size());
  // 32 MiB of cache each: of who was looked at alone.
  PythonHeap* heap = p.holders ? p.view->python_heap() : nullptr;
  for (const Sample& sample : p.samples) {
    if (!heap || sample.gone || sample.shared || out.sites[sample.site].kept.blocks) continue;
    all[sample.site] += sample.weight.as_double();
    if (heap->has_small_objects(sample.address)) pools[sample.site] += sample.weight.as_double();
  }
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (all[i] > 0) pools[i] /= all[i];
  return pools;
}

BlameReport Blame::finish(Seconds window, double watched_share) {
  BlameReport out = std::move(report_);
  out.window = window;
  out.watched_share = watched_share;
  for (auto& [id, process] : processes_) {
    if (process.view->blind()) out.unread.push_back(fmt::format("{}[{}]", process.ref.comm, id.tgid));
    if (process.watched) process.survivors.keep_only(process.living);
    read_stacks(process, true);
    out.processes.push_back(judge(process, window, watched_share));
    out.grown += out.processes.back().grown();
  }
  std::vector<ProcessRef> refs;
  std::vector<std::string> environments;
  for (const BlameProcess& p : out.processes) {
    refs.push_back(p.process);
    std::string path = config_.roots.proc() + "/" + std::to_string(p.process.id.tgid) + "/environ";
    environments.emplace_back();
    if (p.exited || !about_to_read(p.process.id.tgid)) continue;
    Look look;
    environments.back() = read_file_at(AT_FDCWD, path.c_str(), kMostEnvironment).value_or(std::string());
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
