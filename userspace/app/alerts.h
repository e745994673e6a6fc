// The alert stage of a session: what is known goes in, alert facts come out, and the actions are run.
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
  /// A result is told at the latest this long after the alert; what still runs is told again at its end.
  static constexpr Nanos kTellWithin = std::chrono::seconds(1);
  /// For this long the end of oomcast waits for actions.
  static constexpr Nanos kEndWait = std::chrono::seconds(2);

  struct Out {
    std::function<void(const Fact&)> emit;
    std::function<void(const std::string& reason)> lose;
  };
  Alerts(const AlertOptions& options, MachineModel& model, Out out);

  /// The process that gets the signal, whatever cgroup an alert is of; a launcher that does not handle it
  /// stands for its descendants.
  void set_process(TaskId id) { process_ = id; }

  /// Everything in scope, once per interval.
  void check(MonoTime now, std::span<const AlertInput> all);
  void on_kill(const CgroupRef& owner) { engine_.on_kill(owner); }
  /// A cgroup between two of these, with its newest forecast if there is one.
  void on_sample(const Sample& sample, const Forecast* forecast);
  /// Ends of actions. Never waits.
  void advance(MonoTime now);
  bool busy() const { return runner_.busy(); }
  /// Tells of everything that was not told yet.
  void finish();

 private:
  struct Pending {
    AlertFact fact;
    std::vector<ActionRunner::Id> ids;  // of fact.actions; 0: not one of the runner's
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
