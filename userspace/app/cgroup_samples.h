// What memory cgroups hold, from their files: what the kernel programs do not tell, and what moved in
// between.
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

/// It stands just below its limit: its last moments are followed exactly.
bool is_nearly_full(const CgroupState& cgroup);

/// Reads cgroups and tells the model of it; the samples come out of that. Cost: that of CgroupReader for what
/// moved; of an idle cgroup that the kernel tells of, none.
class CgroupSamples {
 public:
  /// Between two calls of poll_hot().
  static constexpr Nanos kHotPoll = std::chrono::milliseconds(4);
  static constexpr Nanos kKillPoll = std::chrono::milliseconds(10);  // while a victim's memory is coming back

  /// `most_files` may be open at once.
  CgroupSamples(MachineModel& model, const CgroupFs& fs, std::size_t most_files)
      : model_(model), reader_(fs, most_files) {}

  /// Reads all of one cgroup.
  void sample(std::uint64_t inode, MonoTime now);
  /// The same where the kernel has said its usage and limit at `when`. After a stall there are thousands of
  /// such records, and each read of memory.stat has the kernel sum up all CPUs under a lock of the machine:
  /// one serves for kStatServes.
  void on_usage(std::uint64_t inode, Bytes usage, MonoTime when, MonoTime now);
  static constexpr Nanos kStatServes = std::chrono::milliseconds(4);
  /// At each interval. `told`: the kernel programs have just told of the cgroups they know. `after_each`: may
  /// take the model's facts, which are many where the cgroups are.
  void sample_all(MonoTime now, bool told, const std::function<void()>& after_each = nullptr);

  /// As far as a tick tells of it at once.
  bool moved_far(const CgroupState& state, Bytes usage) const;
  /// A cgroup moved a moment ago: its tasks may sleep at the peak. It is looked at for a while, at most 64 of
  /// them at a time, and told of when it moves on.
  void mark_hot(std::uint64_t inode, MonoTime moved);
  /// When one in scope was last seen just below its limit.
  std::optional<MonoTime> nearly_full() const { return nearly_full_; }
  bool any_hot() const { return !hot_.empty(); }
  void poll_hot(MonoTime now);
  /// Where memory of a victim is coming back.
  void poll_kills(MonoTime now);

  /// It was removed: its files are closed.
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
