#include "app/allocation_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/page_room.h"
#include "base/clock.h"
#include "collect/bpf_source_allocations.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kMinChosen = 64;  // pages that a process has grown by
constexpr std::size_t kMaxUnfit = 16;     // processes checked in one go
constexpr std::uint64_t kMostToOne = 10;  // one that grows by less than a tenth of the fastest is not chosen
constexpr Nanos kCheckRoom = std::chrono::milliseconds(200);
constexpr Nanos kAskGrowing = std::chrono::seconds(1);  // then twice as late each time
constexpr const char* kNoEvents = "the machine has little memory left, and each data breakpoint takes some";
constexpr const char* kWaits = "processes of this machine wait for memory";
constexpr const char* kTraced = "it runs under a debugger or strace, whose breakpoints these could undo";

}  // namespace

bool AllocationWatch::pressed() const {
  constexpr double kMaxWaiting = 1;  // percent
  auto pressure = procfs_.read_pressure();
  return pressure && *pressure && (*pressure)->some && (*pressure)->some->avg10 > kMaxWaiting;
}

const char* AllocationWatch::why_unfit(std::uint32_t pid) const {
  if (pressed()) return kWaits;
  return traced(pid) ? kTraced : why_no_room(procfs_, fs_, pid);
}

// A data breakpoint takes a perf event for each thread, some KiB of the machine's memory, not of the
// cgroup's.
const char* AllocationWatch::why_not_addable(std::uint32_t pid) const {
  auto host = procfs_.read_meminfo();
  if (!host || !host->has_room()) return kNoEvents;
  return traced(pid) ? kTraced : nullptr;
}

bool AllocationWatch::traced(std::uint32_t pid) const {
  auto status = procfs_.read_status(pid);
  return status && *status && (*status)->tracer && *(*status)->tracer != 0;
}

void AllocationWatch::prepare(const FaultSource* source) {
  begun_ = false;
  chosen_.clear();
  watched_.clear();
  most_ = 0;
  unfit_.clear();
  not_added_.clear();
  found_.reset();
  choosing_ = {};
  choosing_.breakpoints = source && source->sets_code_breakpoints();
  ask_growing_at_ = MonoTime::max();
  sampled_.clear();
  // Stacks are not read while objects are read and breakpoints set, and a process that exits meanwhile takes
  // its symbol names with it.
  if (scope_.pids.size() != 1) return;
  sampled_.insert(scope_.pids.front());
  reader_.begin_objects(scope_.pids.front());
  if (choosing_.breakpoints && !why_unfit(scope_.pids.front())) reader_.find_allocator(scope_.pids.front());
}

void AllocationWatch::on_allocator(FaultSource* source, std::uint32_t pid, Result<Allocator> allocator) {
  if (begun_) return watch(source, pid, allocator);
  found_.emplace(pid, std::move(allocator));
}

void AllocationWatch::watch(FaultSource* source, std::uint32_t pid, const Result<Allocator>& allocator) {
  if (!source) return;
  if (!allocator) return reader_.set_unwatched(pid, allocator.error().message);
  // The reader answers after its earlier requests, up to seconds after there was room.
  if (const char* why = why_unfit(pid)) return reader_.set_unwatched(pid, why);
  MonoTime now = mono_now();
  double share = 1.0 / static_cast<double>(std::max<std::size_t>(chosen_.size(), 1));
  Status ok = source->watch_allocations(pid, *allocator, share, now, end_);
  if (!ok) return reader_.set_unwatched(pid, ok.error().message);
  watched_.push_back(pid);
  next_check_ = mono_now() + kCheckRoom;
}

bool AllocationWatch::watch_found(FaultSource* source, MonoTime end) {
  end_ = end;
  if (!found_) return false;
  watch(source, found_->first, found_->second);
  found_.reset();
  return true;
}

void AllocationWatch::begin(const FaultSource* source, MonoTime begin, MonoTime end, bool choose) {
  begun_ = true;
  end_ = end;
  ask_growing_again_ = std::min<Nanos>(kAskGrowing, (end - begin) / 3);
  if (source) ask_growing_at_ = begin + ask_growing_again_;
  levels_.clear();
  if (!choose || !source) return;
  for (std::uint32_t pid : scope_.pids)
    if (auto held = procfs_.read_statm(pid); held && *held) levels_[pid] = (*held)->resident_pages;
  choosing_.again = (end - begin) / 10;
  choosing_.until = begin + (end - begin) / 2;
  // Among several processes, growth takes a while to show.
  choosing_.at = levels_.size() > 1 ? begin + choosing_.again : begin;
}

std::vector<std::pair<std::uint64_t, std::uint32_t>> AllocationWatch::grown() const {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> out;
  for (auto [pid, before] : levels_) {
    if (chosen_.contains(pid)) continue;
    auto held = procfs_.read_statm(pid);
    if (!held || !*held) continue;
    std::uint64_t grown = (*held)->resident_pages > before ? (*held)->resident_pages - before : 0;
    if (levels_.size() == 1 || grown > kMinChosen) out.emplace_back(grown, pid);
  }
  std::sort(out.rbegin(), out.rend());
  return out;
}

// Processes that grow late, or in steps, are chosen when they do.
void AllocationWatch::choose(MonoTime now) {
  if (now >= ask_growing_at_) {
    ask_growing_again_ *= 2;
    ask_growing_at_ = now + ask_growing_again_ < end_ ? now + ask_growing_again_ : MonoTime::max();
    reader_.ask_growing();
  }
  if (now < choosing_.at) return;
  choosing_.at = now < choosing_.until ? now + choosing_.again : MonoTime::max();
  std::vector<std::uint32_t> fresh;
  std::size_t unfit = 0;
  for (auto [grown, pid] : grown()) {
    most_ = std::max(most_, grown);
    if (chosen_.size() >= wire::kWatched || grown * kMostToOne < most_) break;
    if (sampled_.size() < wire::kWatched && sampled_.insert(pid).second) fresh.push_back(pid);
    if (const char* why = choosing_.breakpoints ? why_unfit(pid) : nullptr) {
      unfit_[pid] = why;
      if (++unfit >= kMaxUnfit) break;
      continue;
    }
    unfit_.erase(pid);
    chosen_.insert(pid);
    if (choosing_.breakpoints) reader_.find_allocator(pid);
  }
  for (std::uint32_t pid : fresh) reader_.begin_objects(pid);  // last, as each takes up to a second
  if (chosen_.size() >= std::min(levels_.size(), wire::kWatched)) choosing_.at = MonoTime::max();
}

void AllocationWatch::on_growing(FaultSource* source, std::uint32_t pid,
                                 std::span<const std::uint64_t> lengths) {
  if (!source || !begun_) return;
  if (const char* why = why_not_addable(pid)) {
    not_added_[pid] = why;
    return;
  }
  if (auto ok = source->watch_additions(pid, lengths, mono_now()); !ok) not_added_[pid] = ok.error().message;
}

std::string AllocationWatch::why_not_added(std::uint32_t pid) const {
  auto at = not_added_.find(pid);
  return at == not_added_.end() ? std::string() : at->second;
}

std::string AllocationWatch::why_not(std::uint32_t pid) const {
  if (!choosing_.breakpoints) return kNoBreakpoints;
  if (auto why = unfit_.find(pid); why != unfit_.end()) return why->second;
  if (!levels_.contains(pid)) return "it began while others were watched";
  if (chosen_.size() < wire::kWatched) return "by half of the time it had grown little";
  return fmt::format("those of {} processes are watched, and others had grown more", wire::kWatched);
}

// Their functions take turns, each with a breakpoint of its own.
void AllocationWatch::check_room(FaultSource& source, MonoTime now) {
  if (watched_.empty() || now < next_check_) return;
  next_check_ = now + kCheckRoom;
  std::erase_if(watched_, [&](std::uint32_t pid) {
    const char* unfit = why_unfit(pid);
    std::string why = unfit ? unfit : source.why_drop(pid);
    if (why.empty()) return false;
    source.drop_allocations(pid, now);
    reader_.set_unwatched(pid, why);
    return true;
  });
}

void AllocationWatch::end(FaultSource& source, MonoTime now) {
  source.end_additions();
  for (const WatchedAllocations& watched : source.end_allocations(now)) {
    if (auto living = source.living_blocks(watched.tgid))
      reader_.set_watched(watched, *living);
    else
      reader_.set_unwatched(watched.tgid, living.error().message);
  }
}

}  // namespace oomcast
