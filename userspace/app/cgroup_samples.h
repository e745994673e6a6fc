// Reads memory cgroups from their files: what the kernel programs do not report, and what changed between two
// reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "base/units.h"
#include "collect/cgroupfs.h"
#include "model/machine_model.h"

namespace oomcast {

/// Just below its limit: sampled at the highest rate.
bool is_nearly_full(const CgroupState& cgroup);

/// Reads cgroups and passes the readings to the model, which turns them into samples. Cost: that of
/// CgroupReader for cgroups that changed; none for idle cgroups that the kernel programs cover.
class CgroupSamples {
 public:
  /// Between two calls of poll_hot().
  static constexpr Nanos kHotPoll = std::chrono::milliseconds(4);
  static constexpr Nanos kKillPoll = std::chrono::milliseconds(10);  // while a victim's memory is coming back

  /// `most_files` may be open at once.
  CgroupSamples(MachineModel& model, const CgroupFs& fs, std::size_t most_files)
      : model_(model), reader_(fs, most_files) {}

  /// Reads all files of one cgroup.
  void sample(std::uint64_t inode, MonoTime now);
  /// The same, with usage and limit from a kernel record of `when`. After a stall there are thousands of such
  /// records, and each read of memory.stat makes the kernel sum up all CPUs under a global lock (rstat): one
  /// read serves for kStatServes.
  void on_usage(std::uint64_t inode, Bytes usage, MonoTime when, MonoTime now);
  static constexpr Nanos kStatServes = std::chrono::milliseconds(4);
  /// Call at each interval. `told`: the kernel programs have just reported the cgroups they know.
  /// `after_each` may take the model's facts, which are many where there are many cgroups.
  void sample_all(MonoTime now, bool told, const std::function<void()>& after_each = nullptr);

  /// Moved by as much as a tick reports at once.
  bool moved_far(const CgroupState& state, Bytes usage) const;
  /// A cgroup that has just moved: its tasks may sleep at the peak, where no tick reports it. It is polled
  /// for a while (at most 64 at a time) and sampled when it moves again.
  void mark_hot(std::uint64_t inode, MonoTime moved);
  /// When a cgroup in scope was last seen just below its limit.
  std::optional<MonoTime> nearly_full() const { return nearly_full_; }
  bool any_hot() const { return !hot_.empty(); }
  void poll_hot(MonoTime now);
  /// Polls the cgroups in which a victim's memory is being freed.
  void poll_kills(MonoTime now);

  /// The cgroup was removed: closes its files.
  void forget(CgroupId id) { reader_.forget(id); }

 private:
  void read(CgroupState& state, CgroupReading reading, bool told_by_kernel, MonoTime now);
  bool machine_swaps() const;
  void read_limits(CgroupState& cgroup);
  void read_high(CgroupState& cgroup, MonoTime now);
  void read_limits_above(const CgroupState& cgroup, MonoTime now);

  MachineModel& model_;
  MonoTime next_kill_poll_{};
  std::optional<MonoTime> nearly_full_;
  CgroupReader reader_;
  std::unordered_map<std::uint64_t, MonoTime> hot_;  // until when
  std::uint64_t rounds_ = 0;
};

}  // namespace oomcast
