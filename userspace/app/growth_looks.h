// From which lines the memory in scope grows, for the post-mortem: now and then a short `oomcast blame` of
// what grows most, in a process of its own.
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

/// Whose growth is worth a look, and when. A look takes kWindow, and the next one waits a quarter of the time
/// since the first began (5 s at least, 5 minutes at most), and 50 times what the look took of a CPU: 2 % of
/// one on average. Growth by a tenth of the limit is looked at sooner.
class LookPlan {
 public:
  static constexpr Nanos kWindow = kLookLasts;  // what grows does so in bursts
  struct Target {
    std::string cgroup;  // path; empty: the process, with its descendants
    std::optional<std::uint32_t> pid;
    auto operator<=>(const Target&) const = default;
  };
  /// One is the other, or around it.
  static bool are_one(const Target& a, const Target& b);

  /// `limit`: what it runs against.
  void on_level(const Target& target, Bytes level, Bytes limit, MonoTime now);
  /// What to look at now: of what grew most, the innermost cgroup. What was looked at last, and what is
  /// around or below it, stands behind others that are due.
  std::optional<Target> due(MonoTime now) const;
  /// A look at `target` has ended.
  void looked(const Target& target, MonoTime began, MonoTime now, Nanos cpu);

 private:
  struct Level {
    Bytes from, now, limit;  // from: the lowest since the last look at it
    MonoTime since;          // of `from`
    Bytes grown() const { return now - from; }
  };
  void make_room();
  bool is_due(const Level& level, MonoTime now) const;

  std::map<Target, Level> levels_;
  std::size_t paths_ = 0;   // bytes of their cgroups' paths
  bool any_grown_ = false;  // some level by kMinGrown, since the last look
  std::optional<MonoTime> first_;
  std::optional<Target> last_;  // the newest that was looked at
  MonoTime next_{}, next_by_cost_{};
};

class GrowthLooks {
 public:
  /// `limits` are for its process, which keeps what allow_reserves() gave. `body`: as HelperProcess has it.
  GrowthLooks(const MachineModel& model, std::string root, ChildLimits limits, HelperProcess::Body body = {})
      : model_(model), root_(std::move(root)), limits_(std::move(limits)), body_(std::move(body)) {
    limits_.realtime.reset();
  }

  void on(const Sample& sample);
  void on(const ProcessSampleFact& sample);
  /// Whether a look is due; once per interval. None is on a machine that has no room for it.
  void plan(MonoTime now);
  /// A person asks: after the look that goes on.
  void ask(CgroupId cgroup);
  /// Starts what is planned or asked for, and reads what goes on. Waits 50 ms at most, for the end of a look
  /// that has closed its output; one that does not end when it is killed is left behind. The descriptor of a
  /// look that was started, to wait for: readable when there is something to do.
  std::optional<int> advance(MonoTime now);
  /// How long advance() may wait although nothing comes.
  std::optional<Nanos> wait() const {
    return look_ && look_->hurried ? std::optional<Nanos>(std::chrono::milliseconds(50)) : std::nullopt;
  }
  /// The look that runs is at somebody who may be killed in it.
  bool is_at(const Episode& episode) const;
  /// What grew is being killed: what was seen is to be told now.
  void end_soon(MonoTime now);
  /// The look that runs stands still, or goes on.
  void stand_still(bool still) const;

  const GrowthFound& found() const { return found_; }
  /// Looks that took too long on this machine, and were stopped without a result.
  std::uint64_t given_up() const { return given_up_; }
  /// Times in which one was due, and the machine had no room for it (MemoryLimits::kOfLook).
  std::uint64_t no_room() const { return no_room_; }
  /// Looks that the kernel did not allow, or whose reader lacked what keeps it harmless.
  std::uint64_t not_allowed() const { return not_allowed_; }
  /// Path of the cgroup that is looked at now; empty: none.
  std::string looking_at() const { return look_ ? look_->target.cgroup : ""; }

 private:
  bool has_room() const;
  bool has_pages() const;  // the machine does
  bool start(const LookPlan::Target& target, MonoTime now);
  bool read();
  void end(MonoTime now);
  void leave(MonoTime now);

  const MachineModel& model_;
  std::string root_;
  ChildLimits limits_;
  HelperProcess::Body body_;
  HelperProcess process_;  // of look_; with kMaxUnreaped behind it no look is started
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
