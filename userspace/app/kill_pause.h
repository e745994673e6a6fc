// What oomcast stops doing during an OOM kill.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "app/reader.h"
#include "base/units.h"
#include "collect/procfs.h"
#include "model/machine_model.h"

namespace oomcast {

/// A victim has to run for its memory to come back, and from 6.0 on the kernel skips a victim that is about
/// to free most of its pages: an allocator that needs a victim meanwhile makes the kernel kill a second
/// process (seen on 6.1, with the loop busy on the first kill). So after a global OOM kill nothing is done
/// until the memory is back, and after any kill no memory is read near it.
class KillPause {
 public:
  static constexpr Nanos kReaderRests = std::chrono::milliseconds(200);  // after a kill
  static constexpr Nanos kLongest = std::chrono::milliseconds(500);
  static constexpr std::size_t kMaxLimits = 256;

  KillPause(const MachineModel& model, const ProcFs& procfs, Reader& reader)
      : model_(model), procfs_(procfs), reader_(reader) {}

  void on_kill(const KillDecision& decision, MonoTime now);
  /// The process is below a limit hit in the last kReaderRests, or its cgroup is unknown.
  bool is_near_a_kill(const TaskId& id, MonoTime now) const;
  /// A global OOM kill was reported: read nothing more, and call pause().
  bool is_due() const { return machine_kills_; }
  /// Sleeps until the machine is no longer short of memory, at most kLongest, and not past the deadline to
  /// publish an earlier kill; at most half of the time overall. Calls `stand_still` with true before and with
  /// false after.
  void pause(const std::function<void(bool)>& stand_still);

 private:
  const MachineModel& model_;
  const ProcFs& procfs_;
  Reader& reader_;
  bool machine_kills_ = false;
  std::unordered_map<std::uint64_t, MonoTime> limits_;  // of hit limits: nothing below is read until then
  MonoTime next_rest_{}, next_pause_{};
};

}  // namespace oomcast
