#include "app/page_room.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/clock.h"
#include "collect/bpf_source_allocations.h"
#include "model/headroom.h"

namespace oomcast {
namespace {

// A program that allocates 2 GiB a second takes 20 MiB in this time; the required room is 4 to 64 MiB.
constexpr Nanos kAskRoom = std::chrono::milliseconds(10);
constexpr const char* kNoRoom = "its cgroup is near its limit, and breakpoints take some pages";
constexpr const char* kUnseen = "its cgroup cannot be seen from here, and breakpoints take some of its pages";
constexpr const char* kUnread = "its cgroup could not be read, and breakpoints take some of its pages";

}  // namespace

const char* why_no_room(const ProcFs& procfs, const CgroupFs& fs, std::uint32_t pid) {
  auto host = procfs.read_meminfo();
  if (!host || !host->has_room()) return kNoPages;
  auto cgroup = procfs.read_cgroup(pid, fs.mount().hierarchy);
  if (!cgroup) return kUnread;
  if (!*cgroup) return nullptr;  // exited
  auto path = fs.mount().from_proc_path((*cgroup)->path);
  if (!path) return kUnseen;
  for (std::string level = *path; !level.empty();) {
    auto dir = fs.open_dir(level);
    auto limit = dir ? dir->read_limit() : Result<std::optional<Bytes>>(dir.error());
    if (limit && *limit) {
      auto usage = dir->read_usage();
      auto stat = dir->read_stat();
      if (!has_room(usage ? std::optional(*usage) : std::nullopt, stat ? *stat : MemoryStat{}, *limit))
        return kNoRoom;
    }
    level = level == "/" ? "" : level.substr(0, std::max<std::size_t>(level.rfind('/'), 1));
  }
  return nullptr;
}

ProcessMemory::Guard PageRoom::guard(std::uint32_t pid) const {
  struct Known {
    std::optional<MonoTime> swap_asked, room_asked;
    bool swap = true, room = false;
  };
  return [this, pid, known = Known{}](bool anon) mutable {
    MonoTime now = mono_now();
    auto is_old = [&](std::optional<MonoTime> asked) { return !asked || now - *asked >= kAskRoom; };
    if (anon) {
      if (is_old(known.swap_asked)) {
        auto host = procfs_.read_meminfo();
        known.swap = !host || host->swap_total != Bytes{};
        known.swap_asked = now;
      }
      if (!known.swap) return true;
    }
    if (is_old(known.room_asked)) {
      known.room = fs_ && !why_no_room(procfs_, *fs_, pid);
      known.room_asked = now;
    }
    return known.room;
  };
}

}  // namespace oomcast
