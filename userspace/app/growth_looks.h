// From which lines the memory in scope grows, for the post-mortem: now and then a short `oomcast blame` of
// what grows most, in a process of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "app/options.h"
#include "base/unique_fd.h"
#include "blame/blame.h"
#include "model/task_table.h"

namespace oomcast {

/// Whose growth is worth a look, and when. A look takes kWindow, and the next one waits a quarter of the time
/// since the first began (5 s at least, 5 minutes at most), and 50 times what the look took of a CPU: 2 % of
/// one on average. Growth by a tenth of the limit is looked at sooner.
class LookPlan {
 public:
  static constexpr Nanos kWindow = std::chrono::seconds(2);
  struct Target {
    std::string cgroup;  // path; empty: the process, with its descendants
    std::optional<std::uint32_t> pid;
    auto operator<=>(const Target&) const = default;
  };

  /// `limit`: what it runs against.
  void on_level(const Target& target, Bytes level, Bytes limit, MonoTime now);
  /// What to look at now: of what grew most, the innermost cgroup.
  std::optional<Target> due(MonoTime now) const;
  /// A look at it has ended.
  void looked(MonoTime began, MonoTime now, Nanos cpu);

 private:
  struct Level {
    Bytes from, now, limit;  // from: the lowest since the last look
    MonoTime since;          // of `from`
    Bytes grown() const { return now - from; }
  };
  std::map<Target, Level> levels_;
  std::optional<MonoTime> first_;
  MonoTime next_{}, next_by_cost_{};
};

/// What the looks found, per process.
class GrowthFound {
 public:
  void add(const BlameReport& report, const TaskTable& tasks, MonoTime from, MonoTime to);
  /// Of these processes, in their order, the largest growth first.
  std::vector<GrewFrom> of(const std::vector<ProcessRef>& processes) const;

 private:
  struct Process {
    Bytes grown;
    Seconds watched{};
    MonoTime from, to;
    std::map<std::vector<CodePlace>, Bytes> sites;
  };
  std::unordered_map<TaskId, Process> processes_;
};

class GrowthLooks {
 public:
  /// `oom_score_adj`: what this process had before it protected itself.
  GrowthLooks(std::string root, std::string oom_score_adj)
      : root_(std::move(root)), oom_score_adj_(std::move(oom_score_adj)) {}
  ~GrowthLooks();
  GrowthLooks(const GrowthLooks&) = delete;
  GrowthLooks& operator=(const GrowthLooks&) = delete;

  LookPlan& plan() { return plan_; }
  /// A person asks: after the one that goes on.
  void ask(LookPlan::Target target) { asked_ = std::move(target); }
  /// What is looked at now; nullopt: nothing.
  std::optional<LookPlan::Target> now() const { return look_ ? std::optional(look_->target) : std::nullopt; }
  /// Starts a look that is due, and reads one that goes on. Never waits. The descriptor of a look that was
  /// started, to wait for: readable when there is something to do.
  std::optional<int> advance(MonoTime now, const TaskTable& tasks);
  /// What is grown is about to be killed: what was seen is to be told now.
  void hurry();
  const GrowthFound& found() const { return found_; }

 private:
  bool start(const LookPlan::Target& target, MonoTime now);
  bool read();
  void end(MonoTime now, const TaskTable& tasks);

  std::string root_, oom_score_adj_;
  LookPlan plan_;
  GrowthFound found_;
  struct Look {
    LookPlan::Target target;
    pid_t pid = -1;
    UniqueFd output;
    std::string text;
    MonoTime began;
    bool hurried = false;
  };
  std::optional<Look> look_;
  std::optional<LookPlan::Target> asked_;
};

}  // namespace oomcast
