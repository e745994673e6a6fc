// What oomcast stops doing while the kernel kills.
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

/// A victim has to run for its memory to come back, and a kernel from 6.0 on passes over it when most of its
/// pages are about to be free: an allocator that needs a victim meanwhile makes the kernel kill a second
/// process (seen on 6.1, beside a loop that was at work on the kill). So after a kill of the machine's nothing
/// is done until its memory is back, and after any kill no memory is read near it.
class KillPause {
 public:
  static constexpr Nanos kReaderRests = std::chrono::milliseconds(200);  // after a kill
  static constexpr Nanos kLongest = std::chrono::milliseconds(500);
  static constexpr std::size_t kMaxLimits = 256;

  KillPause(const MachineModel& model, const ProcFs& procfs, Reader& reader)
      : model_(model), procfs_(procfs), reader_(reader) {}

  void on_kill(const KillDecision& decision, MonoTime now);
  /// The process is below a limit that was hit in the last kReaderRests, or nobody knows where it is.
  bool is_near_a_kill(const TaskId& id, MonoTime now) const;
  /// A kill of the machine's was heard of: read nothing more, and pause().
  bool is_due() const { return machine_kills_; }
  /// Sleeps until the machine is not short of memory, for kLongest at most, and until an earlier kill has to be
  /// published; at most half of the time. `stand_still` is called with true before and with false after.
  void pause(const std::function<void(bool)>& stand_still);

 private:
  const MachineModel& model_;
  const ProcFs& procfs_;
  Reader& reader_;
  bool machine_kills_ = false;
  std::unordered_map<std::uint64_t, MonoTime>
      limits_;  // that were hit: until when nothing below them is read
  MonoTime next_rest_{}, next_pause_{};
};

}  // namespace oomcast
