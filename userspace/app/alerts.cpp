#include "app/alerts.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <tuple>
#include <utility>

#include "app/privileges.h"
#include "base/unique_fd.h"
#include "model/process_ref.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxAsked = 1024;  // processes whose /proc is read for one alert

// Signals that terminate the process by default, and mean something only to a process with a handler.
bool needs_a_handler(int signal) {
  return signal == SIGUSR1 || signal == SIGUSR2 || signal >= SIGRTMIN;
}

std::vector<std::string> variables(const Alert& alert) {
  auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string(); };
  auto seconds = [](const std::optional<Seconds>& value) {
    return value ? fmt::format("{:.3f}", value->count()) : std::string();
  };
  auto bytes = [&](const std::optional<Bytes>& value) {
    return number(value ? std::optional(value->count) : std::nullopt);
  };
  Forecast f = alert.of.forecast.value_or(Forecast{});
  return {"OOMCAST_RULE=" + alert.rule.text,
          "OOMCAST_MESSAGE=" + alert.message,
          "OOMCAST_CGROUP=" + (alert.of.cgroup ? alert.of.cgroup->path : std::string()),
          "OOMCAST_PID=" + (alert.of.process ? fmt::format("{}", alert.of.process->id.tgid) : std::string()),
          "OOMCAST_LEVEL_BYTES=" + bytes(alert.of.level),
          "OOMCAST_LIMIT_BYTES=" + bytes(alert.of.limit),
          "OOMCAST_GROWTH_BYTES_PER_S=" +
              (f.growth ? fmt::format("{:.0f}", f.growth->rate.value) : std::string()),
          "OOMCAST_VERDICT=" + (alert.of.forecast ? std::string(to_string(f.verdict)) : std::string()),
          "OOMCAST_ETA_S=" + seconds(f.eta),
          "OOMCAST_ETA_LOW_S=" + seconds(f.eta_low),
          "OOMCAST_ETA_HIGH_S=" + seconds(f.eta_high)};
}

}  // namespace

Alerts::Alerts(const AlertOptions& options, MachineModel& model, Out out)
    : options_(options),
      model_(model),
      out_(std::move(out)),
      engine_(options.rules),
      runner_(callers_limits()),
      procfs_(Roots{}) {}

bool Alerts::Pending::running() const {
  return std::any_of(fact.actions.begin(), fact.actions.end(),
                     [](const ActionRun& run) { return run.result == ActionRun::Result::running; });
}

void Alerts::check(MonoTime now, std::span<const AlertInput> all) {
  act(now, engine_.check(now, all));
}

void Alerts::on_sample(const Sample& sample, const Forecast* forecast) {
  AlertInput in;
  in.host = !sample.cgroup || sample.cgroup->name.kind == CgroupKind::root;  // as in alert_inputs()
  in.cgroup = sample.cgroup;
  in.level = sample.pinned;
  NextLimit next = next_limit(sample);
  in.limit = next.limit;
  in.limit_cgroup = next.owner;
  if (forecast) in.forecast = *forecast;
  act(sample.time, engine_.check_one(sample.time, in));
}

void Alerts::act(MonoTime now, std::vector<Alert> alerts) {
  for (Alert& alert : alerts) {
    Pending pending;
    AlertFact& fact = pending.fact;
    fact.time = now;
    fact.rule = alert.rule.text;
    fact.cgroup = alert.of.cgroup;
    fact.message = alert.message;
    if (alert.of.forecast)
      fact.forecast = ForecastFact{
          now,          alert.of.cgroup, alert.of.process, alert.of.limit_cgroup, *alert.of.forecast,
          std::nullopt, alert.of.device};
    if (alert.acts)
      start(now, alert, pending);
    else if (options_.acts())
      fact.message += "; the action was run for what is above it";
    pending_.push_back(std::move(pending));
  }
  advance(now);
}

void Alerts::start(MonoTime now, const Alert& alert, Pending& pending) {
  auto add = [&](ActionRun run, ActionRunner::Id id) {
    pending.fact.actions.push_back(std::move(run));
    pending.ids.push_back(id);
  };
  auto spawn = [&](ActionRun run, auto how) {
    if (runner_.full(run.kind)) {
      run.result = ActionRun::Result::lost;
      run.error = fmt::format("{} of them still run: not started", ActionRunner::kMaxRunning);
      out_.lose("too_many_actions");
      return add(std::move(run), 0);
    }
    Result<ActionRunner::Id> id = how();
    if (!id) {
      run.result = ActionRun::Result::failed;
      run.error = id.error().message;
    }
    add(std::move(run), id ? *id : 0);
  };
  // Actions that take no time come first.
  if (options_.signal) add(send_signal(alert), 0);
  if (options_.touch) {
    ActionRun touch{.kind = ActionRun::Kind::touch, .what = *options_.touch};
    if (newest_touch_ && newest_touch_at_ == now) {
      add(std::move(touch), newest_touch_);  // one touch serves all alerts of a moment
    } else {
      spawn(std::move(touch), [&] { return runner_.touch(*options_.touch, now); });
      newest_touch_ = pending.ids.back();
      newest_touch_at_ = now;
    }
  }
  if (!options_.exec) return;
  bool waits = runner_.full(ActionRun::Kind::exec);
  spawn({.kind = ActionRun::Kind::exec, .what = *options_.exec},
        [&] { return runner_.exec(*options_.exec, variables(alert), now); });
  if (!waits) return;
  AlertFact again = pending.fact;
  again.actions.clear();
  waiting_.add({alert, std::move(again)});
}

// Runs published as not started are published again once they are.
void Alerts::start_waiting(MonoTime now) {
  while (!waiting_.empty() && !runner_.full(ActionRun::Kind::exec)) {
    auto next = waiting_.next([this](const Alert& alert) { return engine_.is_still_true(alert); });
    if (!next) return;
    ActionRun run{.kind = ActionRun::Kind::exec, .what = *options_.exec};
    Result<ActionRunner::Id> id = runner_.exec(*options_.exec, variables(next->alert), now);
    if (!id) {
      run.result = ActionRun::Result::failed;
      run.error = id.error().message;
    }
    Pending pending;
    pending.fact = std::move(next->fact);
    pending.fact.actions.push_back(std::move(run));
    pending.ids.push_back(id ? *id : 0);
    pending_.push_back(std::move(pending));
  }
}

bool Alerts::takes_signal(std::uint32_t pid) const {
  auto status = procfs_.read_status(pid);
  if (!status || !*status) return false;
  std::uint64_t bit = std::uint64_t{1} << (*options_.signal - 1);
  auto has = [bit](const std::optional<std::uint64_t>& mask) { return mask && (*mask & bit) != 0; };
  return has((*status)->caught) || has((*status)->blocked);
}

// A fork that never called exec. A child forked while being followed has no arguments of its own. Name and
// arguments are under the child's control, its user and its cgroup are not.
static bool is_fork_of(const TaskState& child, const TaskState& parent) {
  return child.comm == parent.comm && (child.cmdline.empty() || child.cmdline == parent.cmdline) &&
         child.uid && child.uid == parent.uid && child.cgroup && child.cgroup == parent.cgroup;
}

// Below the process that the user named, or in the alert's cgroup.
bool Alerts::belongs(const TaskState& task, const Alert& alert) const {
  if (task.died || task.id.tgid <= 1 || task.id.tgid == static_cast<std::uint32_t>(getpid())) return false;
  if (process_) return model_.tasks().descends_from(task.id, *process_);
  if (alert.of.host) return true;
  return alert.of.cgroup && task.cgroup && model_.cgroups().is_below(*task.cgroup, alert.of.cgroup->id.inode);
}

// By growth or size, largest first.
std::vector<const TaskState*> Alerts::largest_first(const Alert& alert) const {
  struct Candidate {
    const TaskState* task;
    Bytes grew, rss;
  };
  std::vector<Candidate> found;
  model_.tasks().for_each([&](const TaskState& task) {
    if (!belongs(task, alert)) return;
    auto points = task.rss.points();
    Bytes grew = points.empty() ? Bytes{} : points.back().value - points.front().value;
    found.push_back({&task, grew, points.empty() ? Bytes{} : points.back().value});
  });
  auto more = [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.grew, a.rss, b.task->id) > std::tuple(b.grew, b.rss, a.task->id);
  };
  std::sort(found.begin(), found.end(), more);
  if (found.size() > kMaxAsked) found.resize(kMaxAsked);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  for (Candidate& c : found)  // those that no sample told of
    if (c.task->rss.empty())
      if (auto holds = procfs_.read_statm(c.task->id.tgid); holds && *holds)
        c.rss = Bytes{static_cast<std::int64_t>((*holds)->resident_pages) * page};
  std::sort(found.begin(), found.end(), more);
  std::vector<const TaskState*> out;
  for (const Candidate& c : found) out.push_back(c.task);
  return out;
}

// For a worker that was forked and never called exec: the process it was forked from, if that handles the
// signal, too.
const TaskState& Alerts::stands_for(const TaskState& task, const Alert& alert) const {
  const TaskState* chosen = &task;
  while (chosen->parent) {
    const TaskState* above = model_.tasks().find(*chosen->parent);
    if (!above || !belongs(*above, alert) || !is_fork_of(*chosen, *above) || !takes_signal(above->id.tgid))
      break;
    chosen = above;
  }
  return *chosen;
}

std::vector<TaskId> Alerts::receivers(const Alert& alert) const {
  const bool needs_handler = needs_a_handler(*options_.signal);
  if (process_ && (!needs_handler || takes_signal(process_->tgid))) return {*process_};
  std::vector<TaskId> out;
  for (const TaskState* task : largest_first(alert)) {
    if (takes_signal(task->id.tgid))
      out.push_back(stands_for(*task, alert).id);
    else if (!needs_handler)
      out.push_back(task->id);
  }
  return out;
}

// The pidfd is opened before the identity is read: if the identity still matches, the pidfd is of that
// process, and a recycled pid is never signalled.
Status Alerts::send(TaskId id) const {
  if (id.tgid <= 1 || id.tgid == static_cast<std::uint32_t>(getpid()))
    return Error::failed("neither init nor oomcast itself is signalled");
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, id.tgid, 0)));
  if (!fd) return Error::from_errno("finding the process");
  auto now = procfs_.read_task_id(id.tgid);
  if (!now || *now != id) return Error::failed("the process has ended, or has another number here");
  if (syscall(SYS_pidfd_send_signal, fd.get(), *options_.signal, nullptr, 0) != 0)
    return Error::from_errno("sending the signal");
  return Ok{};
}

ActionRun Alerts::send_signal(const Alert& alert) const {
  ActionRun run{.kind = ActionRun::Kind::signal, .what = signal_name(*options_.signal)};
  run.result = ActionRun::Result::failed;
  for (TaskId id : receivers(alert)) {
    run.process = process_ref(model_.tasks(), model_.cgroups(), id);
    Status sent = send(id);
    if (sent) {
      run.result = ActionRun::Result::ok;
      run.error.reset();
      break;
    }
    run.error = sent.error().message;  // try the next one
  }
  if (!run.process)
    run.error = needs_a_handler(*options_.signal)
                    ? "no process there handles it; it would end one that does not"
                    : "no process is known there";
  return run;
}

void Alerts::advance(MonoTime now) {
  for (const ActionRunner::Ended& ended : runner_.reap(now))
    for (Pending& p : pending_)
      for (std::size_t i = 0; i < p.ids.size(); ++i)
        if (p.ids[i] == ended.id) {
          ActionRun& run = p.fact.actions[i];
          run.result = ended.result;
          run.exit_code = ended.exit_code;
          run.signal = ended.signal;
          run.error = ended.error;
          run.took = ended.took;
        }
  start_waiting(now);
  for (Pending& p : pending_)
    if (!p.running() || (!p.told && now - p.fact.time >= kTellWithin)) {
      out_.emit(p.fact);
      p.told = true;
    }
  std::erase_if(pending_, [](const Pending& p) { return !p.running(); });
}

void Alerts::finish() {
  for (Pending& p : pending_) {
    for (ActionRun& run : p.fact.actions)
      if (run.result == ActionRun::Result::running) run.result = ActionRun::Result::left;
    out_.emit(p.fact);
  }
  pending_.clear();
}

}  // namespace oomcast
