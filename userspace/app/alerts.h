// The alert stage of a session: evaluates the rules, publishes alert facts and runs their actions.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/action_queue.h"
#include "app/actions.h"
#include "app/options.h"
#include "collect/procfs.h"
#include "forecast/alerts.h"
#include "model/machine_model.h"
#include "stream/facts.h"

namespace oomcast {

class Alerts {
 public:
  /// Results are published at most this long after the alert; an action still running is published again when
  /// it ends.
  static constexpr Nanos kTellWithin = std::chrono::seconds(1);
  /// On exit, wait this long for running actions.
  static constexpr Nanos kEndWait = std::chrono::seconds(2);

  struct Out {
    std::function<void(const Fact&)> emit;
    std::function<void(const std::string& reason)> lose;
  };
  Alerts(const AlertOptions& options, MachineModel& model, Out out);

  /// The process to signal, whichever cgroup the alert is for; a launcher without a handler for the signal is
  /// replaced by its descendants.
  void set_process(TaskId id) { process_ = id; }

  /// Evaluates everything in scope, once per interval.
  void check(MonoTime now, std::span<const AlertInput> all);
  void on_kill(const CgroupRef& owner) { engine_.on_kill(owner); }
  /// Evaluates one cgroup between two calls of check(), with its newest forecast if there is one.
  void on_sample(const Sample& sample, const Forecast* forecast);
  /// Collects finished actions. Never waits.
  void advance(MonoTime now);
  bool busy() const { return runner_.busy(); }
  /// Publishes everything still pending.
  void finish();

 private:
  struct Pending {
    AlertFact fact;
    std::vector<ActionRunner::Id> ids;  // of fact.actions; 0: not run by the runner
    bool told = false;
    bool running() const;
  };

  void act(MonoTime now, std::vector<Alert> alerts);
  void start(MonoTime now, const Alert& alert, Pending& pending);
  void start_waiting(MonoTime now);
  ActionRun send_signal(const Alert& alert) const;
  std::vector<TaskId> receivers(const Alert& alert) const;
  bool belongs(const TaskState& task, const Alert& alert) const;
  std::vector<const TaskState*> largest_first(const Alert& alert) const;
  const TaskState& stands_for(const TaskState& task, const Alert& alert) const;
  Status send(TaskId id) const;
  bool takes_signal(std::uint32_t pid) const;

  AlertOptions options_;
  MachineModel& model_;
  Out out_;
  AlertEngine engine_;
  ActionRunner runner_;
  ProcFs procfs_;
  std::optional<TaskId> process_;
  std::deque<Pending> pending_;
  ActionQueue waiting_;
  ActionRunner::Id newest_touch_ = 0;
  MonoTime newest_touch_at_{};
};

}  // namespace oomcast
