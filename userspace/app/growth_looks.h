// Finds the lines from which memory in scope grows, for the post-mortem: a short `oomcast blame` of what
// grows most, now and then, in a child process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/growth_found.h"
#include "app/helper_process.h"
#include "app/privileges.h"
#include "base/unique_fd.h"
#include "model/machine_model.h"
#include "present/overview.h"

namespace oomcast {

/// Decides what to profile, and when. A profile takes kWindow. The next one waits for a quarter of the time
/// since the first began (at least 5 s, at most 5 minutes), and for 50 times the CPU time of the last: 2 % of
/// a CPU on average. Growth by a tenth of the limit is profiled sooner.
class LookPlan {
 public:
  static constexpr Nanos kWindow = kLookLasts;  // growth comes in bursts
  struct Target {
    std::string cgroup;  // path; empty: the process, with its descendants
    std::optional<std::uint32_t> pid;
    auto operator<=>(const Target&) const = default;
  };
  /// Equal, or one contains the other.
  static bool are_one(const Target& a, const Target& b);

  /// `limit`: the limit that it may hit.
  void on_level(const Target& target, Bytes level, Bytes limit, MonoTime now);
  /// The innermost cgroup of what grew most. The last target, and what contains it or is below it, comes
  /// after other targets that are due.
  std::optional<Target> due(MonoTime now) const;
  /// A profile of `target` has ended.
  void looked(const Target& target, MonoTime began, MonoTime now, Nanos cpu);

 private:
  struct Level {
    Bytes from, now, limit;  // from: the lowest since its last profile
    MonoTime since;          // of `from`
    Bytes grown() const { return now - from; }
  };
  void make_room();
  bool is_due(const Level& level, MonoTime now) const;

  std::map<Target, Level> levels_;
  std::size_t paths_ = 0;   // bytes of their cgroups' paths
  bool any_grown_ = false;  // some level grew by kMinGrown since the last profile
  std::optional<MonoTime> first_;
  std::optional<Target> last_;  // the last target
  MonoTime next_{}, next_by_cost_{};
};

class GrowthLooks {
 public:
  /// `limits` are for the child process, which keeps what allow_reserves() gave. `body`: see HelperProcess.
  GrowthLooks(const MachineModel& model, std::string root, ChildLimits limits, HelperProcess::Body body = {})
      : model_(model), root_(std::move(root)), limits_(std::move(limits)), body_(std::move(body)) {
    limits_.realtime.reset();
  }

  void on(const Sample& sample);
  void on(const ProcessSampleFact& sample);
  /// Decides whether a profile is due; once per interval. Never on a machine without room for it.
  void plan(MonoTime now);
  /// Profiles this cgroup on a user's request, after the running profile.
  void ask(CgroupId cgroup);
  /// Starts planned or requested profiles, and reads the running one. Blocks at most 50 ms, for the end of a
  /// child that has closed its output; a child that survives SIGKILL is abandoned. Returns the descriptor of
  /// a profile just started, to poll: readable when there is something to do.
  std::optional<int> advance(MonoTime now);
  /// How long advance() may be delayed without events.
  std::optional<Nanos> wait() const {
    return look_ && look_->hurried ? std::optional<Nanos>(std::chrono::milliseconds(50)) : std::nullopt;
  }
  /// A victim of this episode may be among the processes being profiled.
  bool is_at(const Episode& episode) const;
  /// The target is being killed: report what was seen, now.
  void end_soon(MonoTime now);
  /// Pauses or resumes the running profile.
  void stand_still(bool still) const;

  const GrowthFound& found() const { return found_; }
  /// Profiles aborted without a result, because they took too long on this machine.
  std::uint64_t given_up() const { return given_up_; }
  /// Profiles that were due but skipped, because the machine had no room (MemoryLimits::kOfLook).
  std::uint64_t no_room() const { return no_room_; }
  /// Profiles that the kernel refused, or whose reader could not be sandboxed.
  std::uint64_t not_allowed() const { return not_allowed_; }
  /// Path of the cgroup being profiled; empty: none.
  std::string looking_at() const { return look_ ? look_->target.cgroup : ""; }

 private:
  bool has_room() const;
  bool has_pages() const;  // the machine has enough free pages
  bool start(const LookPlan::Target& target, MonoTime now);
  bool read();
  void end(MonoTime now);
  void leave(MonoTime now);

  const MachineModel& model_;
  std::string root_;
  ChildLimits limits_;
  HelperProcess::Body body_;
  HelperProcess process_;  // runs look_; no profile starts with kMaxUnreaped children left
  LookPlan plan_;
  GrowthFound found_;
  struct Look {
    LookPlan::Target target;
    UniqueFd output;
    std::string text;
    MonoTime began;
    std::optional<MonoTime> hurried;
    std::optional<MonoTime> stopped;
  };
  std::optional<Look> look_;
  std::optional<LookPlan::Target> next_;
  std::uint64_t given_up_ = 0, no_room_ = 0, not_allowed_ = 0;
  bool waits_for_room_ = false;
};

}  // namespace oomcast
