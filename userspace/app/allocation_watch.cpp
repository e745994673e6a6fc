#include "app/allocation_watch.h"

#include <algorithm>

#include "base/clock.h"
#include "model/headroom.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kMinChosen = 64;  // pages that a process has grown by
constexpr Nanos kCheckRoom = std::chrono::milliseconds(200);
constexpr const char* kNoRoom = "its cgroup is near its limit, and breakpoints take some pages";

}  // namespace

bool AllocationWatch::pressed() const {
  constexpr double kMaxWaiting = 1;  // percent
  auto pressure = procfs_.read_pressure();
  return pressure && *pressure && (*pressure)->some && (*pressure)->some->avg10 > kMaxWaiting;
}

bool AllocationWatch::has_room_for(std::uint32_t pid) const {
  auto cgroup = procfs_.read_cgroup(pid, fs_.mount().hierarchy);
  auto path = cgroup && *cgroup ? fs_.mount().from_proc_path((*cgroup)->path) : std::nullopt;
  for (std::string level = path.value_or(""); !level.empty();) {
    auto dir = fs_.open_dir(level);
    auto limit = dir ? dir->read_limit() : Result<std::optional<Bytes>>(dir.error());
    if (limit && *limit) {
      auto usage = dir->read_usage();
      auto stat = dir->read_stat();
      if (!has_room(usage ? std::optional(*usage) : std::nullopt, stat ? *stat : MemoryStat{}, *limit))
        return false;
    }
    level = level == "/" ? "" : level.substr(0, std::max<std::size_t>(level.rfind('/'), 1));
  }
  return true;
}

void AllocationWatch::prepare(const FaultSource* source) {
  begun_ = false;
  watched_.reset();
  found_.reset();
  choose_at_ = MonoTime::max();
  why_not_.clear();
  // While objects are looked at, and breakpoints set, no stacks are read, and whoever ends meanwhile takes
  // its names along.
  if (scope_.pids.size() != 1 || pressed()) return;
  reader_.begin_objects(scope_.pids.front());
  if (source && has_room_for(scope_.pids.front())) reader_.find_allocator(scope_.pids.front());
}

void AllocationWatch::on_allocator(FaultSource* source, std::uint32_t pid, Result<Allocator> allocator) {
  if (begun_) return watch(source, pid, allocator);
  found_.emplace(pid, std::move(allocator));
}

void AllocationWatch::watch(FaultSource* source, std::uint32_t pid, const Result<Allocator>& allocator) {
  if (!source) return;
  MonoTime now = mono_now();
  Status ok = allocator ? source->watch_allocations(pid, *allocator, now, end_) : Status(allocator.error());
  if (!ok) return reader_.set_unwatched(pid, ok.error().message);
  watched_ = pid;
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
  levels_.clear();
  if (!choose || !source) return;
  if (pressed()) {
    why_not_ = "processes of this machine wait for memory";
    return;
  }
  for (std::uint32_t pid : scope_.pids)
    if (auto held = procfs_.read_statm(pid); held && *held) levels_[pid] = (*held)->resident_pages;
  choose_again_ = (end - begin) / 10;
  choose_until_ = begin + (end - begin) / 2;
  // Among several it shows in a while.
  choose_at_ = levels_.size() > 1 ? begin + choose_again_ : begin;
}

void AllocationWatch::choose(MonoTime now) {
  if (now < choose_at_) return;
  choose_at_ = MonoTime::max();
  std::optional<std::uint32_t> chosen;
  std::uint64_t most = kMinChosen;
  for (auto [pid, before] : levels_) {
    auto held = procfs_.read_statm(pid);
    if (!held || !*held) continue;
    std::uint64_t grown = (*held)->resident_pages > before ? (*held)->resident_pages - before : 0;
    if (levels_.size() == 1 || grown > most) chosen = pid;
    most = std::max(most, grown);
  }
  if (chosen && !has_room_for(*chosen)) {
    why_not_ = kNoRoom;
  } else if (chosen) {
    reader_.find_allocator(*chosen);
    if (scope_.pids.size() > 1) reader_.begin_objects(*chosen);
  } else if (now < choose_until_) {
    choose_at_ = now + choose_again_;
  } else {
    why_not_ = "no process had grown by half of the time";
  }
}

// Its functions take turns, each with a breakpoint of its own.
void AllocationWatch::check_room(FaultSource& source, MonoTime now) {
  if (!watched_ || now < next_check_) return;
  next_check_ = now + kCheckRoom;
  if (has_room_for(*watched_)) return;
  (void)source.end_allocations(now);
  reader_.set_unwatched(*watched_, kNoRoom);
  watched_.reset();
}

void AllocationWatch::end(FaultSource& source, MonoTime now) {
  auto watched = source.end_allocations(now);
  if (!watched) return;
  if (auto living = source.living_blocks(watched->tgid))
    reader_.set_watched(*watched, *living);
  else
    reader_.set_unwatched(watched->tgid, living.error().message);
}

}  // namespace oomcast
