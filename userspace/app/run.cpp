// oomcast run [--memory SIZE] -- CMD: follows a child process from before its first page; oomcast itself
// stays outside of its cgroup.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "app/child_cgroup.h"
#include "app/commands.h"
#include "app/ending.h"
#include "app/leftovers.h"
#include "app/privileges.h"
#include "app/run_peaks.h"
#include "app/tracing.h"
#include "app/waiting_child.h"
#include "base/escape.h"
#include "present/blame.h"
#include "present/report.h"
#include "store/store.h"
#include "stream/cells.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr Nanos kEndGrace = std::chrono::seconds(10);  // a trainer writes its checkpoint

std::string wrapped(const std::string& text) {
  std::string out;
  for (const std::string& line : wrap(text, 80, 2)) out += (out.empty() ? "" : "\n") + line;
  return out;
}

// Text output while the command runs: kills, and deadlines as they come closer.
class Progress {
 public:
  Progress(Output& output, const ClockMap& clock, bool own_cgroup, TaskId command, MonoTime began)
      : output_(output), clock_(clock), own_cgroup_(own_cgroup), command_(command), began_(began) {}

  void operator()(const Fact& fact) {
    note_memory(fact);
    if (auto* oom = std::get_if<OomEvent>(&fact)) note_kill(oom->episode);
    auto* forecast = std::get_if<ForecastFact>(&fact);
    bool wanted = forecast ? is_news(*forecast)
                           : kind_of(fact) == FactKind::event || std::holds_alternative<EndFact>(fact);
    if (output_.json() || wanted) output_.write(fact, clock_);
  }

  /// The peak counter of the command's cgroup: samples miss short peaks.
  void peak(Bytes held) { peaks_.at_least(held); }

  /// The current forecast of the command's cgroup. An unchanged verdict is not published again, so the last
  /// one covers the time until now.
  void stands(MonoTime now, const Forecast& forecast) {
    if (!last_ || killed_ || last_->forecast.verdict != forecast.verdict) return;
    ForecastFact fact = *last_;
    fact.time = now, fact.forecast = forecast;
    keep(fact);
  }

  /// The id of the last kill.
  const std::optional<std::string>& killed() const { return killed_; }

  struct Ended {
    std::string command, how;  // "train", "exited with 0", unless it was OOM-killed
    Bytes largest;             // RSS of its largest process
    MonoTime at;
    /// The post-mortem found a sudden rise, which a forecast from earlier samples cannot show.
    bool step = false;
  };
  std::string summary(const Ended& ended) const {
    std::string out = fmt::format("{} {}", ended.command, command_killed_ ? "was OOM-killed" : ended.how);
    if (killed_ && !command_killed_) out += fmt::format("; its process {} was OOM-killed", victim_);
    if (!own_cgroup_ && ended.largest.count)
      out += fmt::format("; largest process {}", format_size(ended.largest));
    out += peaks_.summary(own_cgroup_);
    if (thrashed_.count() > 0)
      out += fmt::format("; its cgroup thrashed at its limit for over {}", format_duration(thrashed_));
    out += on_cards();
    auto last = verdict_on_the_run(ended.at);
    std::string verdict = "verdict: unknown (it ended too early to tell)";
    if (ended.step)
      verdict = "verdict: step (it came at once: see below)";
    else if (last)
      verdict = fmt::format("verdict: {} ({})", to_string(last->forecast.verdict), last->forecast.why);
    return wrapped(out) + "\n" + wrapped(verdict);
  }

 private:
  static constexpr Nanos kEndsOfIt = std::chrono::seconds(10);
  // What the user has read about one series.
  class Told {
   public:
    bool is_news(const ForecastFact& fact) {
      auto eta = fact.forecast.eta;
      Verdict verdict = fact.forecast.verdict;
      if (verdict == Verdict::unknown) return false;
      // Report each time a tenth of the remaining time has passed, so that eight days give no more lines than
      // forty minutes.
      bool closer =
          eta && (!eta_ || eta->count() < 0.9 * eta_->count() || eta->count() > 1.5 * eta_->count());
      bool changed = verdict_ != verdict;
      // A program whose memory comes and goes alternates between stable and spiky, many times a minute.
      auto asks_nothing = [](Verdict v) { return v != Verdict::leak && v != Verdict::unknown; };
      if (asks_nothing(verdict_) && asks_nothing(verdict) && !eta &&
          fact.time - at_ < std::chrono::seconds(10))
        changed = false;
      closer = closer && fact.time - at_ >= std::chrono::seconds(1);
      if (!closer && !changed) return false;
      verdict_ = verdict;
      at_ = fact.time;
      if (closer) eta_ = eta;
      if (!eta) eta_.reset();
      return true;
    }

   private:
    MonoTime at_{};
    std::optional<Seconds> eta_;
    Verdict verdict_ = Verdict::unknown;
  };

  // "; ran out of GPU memory: asked for 512 MiB for main (train.py:11); on GPU-8f6e…: leak (its floor …)"
  std::string on_cards() const {
    std::string out;
    if (refused_) {
      out += fmt::format("; ran out of {}", memory_of(refused_->kind));
      if (refused_->bytes) out += fmt::format(": asked for {}", format_size(*refused_->bytes));
      if (const CodePlace* place = culprit(refused_->code)) out += " for " + to_text(*place);
    }
    for (const auto& [card, forecast] : on_cards_)
      if (forecast.verdict == Verdict::leak)
        out += fmt::format("; on {}: leak ({})", to_string(card), forecast.why);
    return out;
  }
  void note_memory(const Fact& fact) {
    if (auto* sample = std::get_if<Sample>(&fact)) {
      peaks_.on(*sample);
      if (own_cgroup_ && sample->pinned) holds(sample->time, *sample->pinned);
    }
    if (auto* sample = std::get_if<ProcessSampleFact>(&fact); sample && !own_cgroup_) {
      Bytes& held = held_by_[sample->process.id];
      Bytes before = std::exchange(held, sample->anon + sample->shmem + sample->swap);
      holds(sample->time, level_ - before + held);
    }
    if (auto* exit = std::get_if<ExitFact>(&fact))
      if (auto of = held_by_.extract(exit->process.id)) holds(exit->time, level_ - of.mapped());
    if (auto* gpu = std::get_if<GpuSample>(&fact); gpu && gpu->process) peaks_.on(*gpu);
    if (auto* gpu = std::get_if<GpuFact>(&fact)) {
      if (gpu->event.op == GpuEvent::Op::oom) refused_ = gpu->event;
      if (gpu->event.op == GpuEvent::Op::recovered) refused_.reset();
    }
  }
  void note_kill(const Episode& kill) {
    killed_ = kill.id;
    for (const Victim& v : kill.victims) {
      command_killed_ = command_killed_ || v.process.id == command_;
      victim_ = fmt::format("{}[{}]", escape_for_terminal(v.process.comm), v.process.id.tgid);
    }
  }
  // Keeps it for the summary. Returns whether to print it now, too.
  bool is_news(const ForecastFact& forecast) {
    if (const auto& thrashing = forecast.forecast.evidence.thrashing) return thrashes_longer(*thrashing);
    // The command's own cgroup is enough; without one, its process tree is. Besides, each card.
    bool on_card = forecast.device && !forecast.process;
    bool about_it =
        own_cgroup_ ? forecast.cgroup != nullptr : forecast.process.has_value() && !forecast.device;
    if (about_it) keep(forecast);
    // Out of GPU memory nothing grows any more, until the program exits or goes on with less.
    bool ran_out = refused_ && forecast.time - refused_->time < kEndsOfIt;
    if (on_card && !ran_out) on_cards_[*forecast.device] = forecast.forecast;
    return (about_it || on_card) && told_[forecast.device].is_news(forecast);
  }
  void holds(MonoTime time, Bytes level) {
    level_ = level;
    if (last_) until_the_end_.add(time, level, last_);
  }
  // After a kill the forecast restarts as unknown: that is not a verdict on the run. A run that was flat and
  // now rises is one.
  void keep(const ForecastFact& forecast) {
    bool rises = forecast.forecast.evidence.regime && !(last_ && last_->forecast.verdict == Verdict::leak);
    if (forecast.forecast.verdict == Verdict::unknown && !rises) return;
    last_ = std::make_shared<const ForecastFact>(forecast);
    until_the_end_.add(forecast.time, level_, last_);
  }
  // A killed run did not wind down, so the last verdict counts.
  std::shared_ptr<const ForecastFact> verdict_on_the_run(MonoTime end) const {
    return killed_ ? last_ : until_the_end_.said(began_, end).value_or(nullptr);
  }
  // Report it at first, and whenever its duration has doubled.
  bool thrashes_longer(const Thrashing& now) {
    if (now.since != thrashing_since_) told_thrashing_ = {};
    thrashing_since_ = now.since;
    thrashed_ = std::max(thrashed_, now.lasts);
    if (now.lasts < 2 * told_thrashing_) return false;
    told_thrashing_ = now.lasts;
    return true;
  }

  Output& output_;
  const ClockMap& clock_;
  bool own_cgroup_;
  TaskId command_;
  MonoTime began_;
  std::map<std::optional<GpuUuid>, Told> told_;  // for host memory, and for each card
  std::map<GpuUuid, Forecast> on_cards_;         // the newest
  std::optional<GpuEvent> refused_;              // the last, unless it got as much a moment later
  std::shared_ptr<const ForecastFact> last_;     // of the command
  BeforeTheEnd<std::shared_ptr<const ForecastFact>> until_the_end_;
  Bytes level_;                      // of its cgroup, or the sum of held_by_
  std::map<TaskId, Bytes> held_by_;  // if it has no cgroup of its own
  std::optional<std::string> killed_;
  bool command_killed_ = false;
  std::string victim_;  // the last one, of all its processes
  RunPeaks peaks_;
  MonoTime thrashing_since_{};
  Seconds told_thrashing_{}, thrashed_{};
};

/// Holds kills for the report if there is no store: a directory that is removed when oomcast exits.
class TemporaryStore {
 public:
  TemporaryStore() {
    if (!mkdtemp(path_.data())) path_.clear();
  }
  TemporaryStore(const TemporaryStore&) = delete;
  ~TemporaryStore() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  /// Empty: creating it failed.
  const std::string& path() const { return path_; }

 private:
  std::string path_ = fmt::format("/tmp/{}{}-XXXXXX", kRunFolder, getpid());
};

// Reads it back like `oomcast report`.
Result<PostMortem> post_mortem(const std::string& store_path, const std::string& id) {
  auto store = Store::open(store_path);
  if (!store) return store.error();
  auto episode = store->episode(id);
  if (!episode) return episode.error();
  return make_post_mortem(*std::move(episode));
}

std::string text_of(const Result<PostMortem>& report, bool color) {
  if (!report) return "no post-mortem: " + report.error().message;
  std::string text = to_text(*report, TextStyle{color});
  text.pop_back();
  return text;
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The waiting command, and the session that follows it.
class FollowedRun {
 public:
  FollowedRun(const Options& options, StopSignals& stop) : options_(options), stop_(stop), output_(options) {}

  Result<int> run() {
    // With the caller's limits and privileges: later execs no longer have them.
    auto start = [&](const Session&) -> Status {
      auto started = WaitingChild::start(options_.run.command, stop_, options_.output.json);
      if (!started) return started.error();
      child_ = *std::move(started);
      return Ok{};
    };
    auto session = open_session(options_, stop_, false, start);
    if (!session) return session.error();
    session_ = *std::move(session);
    open_store();
    if (child_->pidfd) (void)session_->loop().wake_on(child_->pidfd.get());
    if (auto ok = put_in_scope(); !ok) return ok.error();
    if (auto ok = let_go(); !ok) return ok.error();
    follow();
    return tell_the_end();
  }

 private:
  // A kill is explained even if nothing is to be kept.
  void open_store() {
    store_ = options_.store.path;
    if (session_->has_store() || options_.output.json) return;
    store_ = temporary_.emplace().path();
    auto kept = StoreWriter::keep(store_, session_->run_info());
    if (kept)
      session_->keep_in(*std::move(kept), error_lines());
    else
      tell_error("what leads to a kill is not kept, so there will be no post-mortem: " +
                 kept.error().message);
  }

  Status put_in_scope() {
    Session& s = *session_;
    ScopeRoots scope;
    scope.whole_machine = false;
    if (options_.run.memory) {
      auto made = ChildCgroup::make(s.cgroupfs(), *options_.run.memory, child_->pid);
      if (!made) return made.error();  // the waiting child ends with its pipe
      cgroup_.emplace(*std::move(made));
      auto entry = s.cgroupfs().lookup(cgroup_->path());
      if (!entry) return entry.error();
      s.model().on_cgroup(*entry);
      scope.cgroups.insert(entry->id.inode);
    }
    auto id = s.note_process(static_cast<std::uint32_t>(child_->pid));
    if (!id) return Error::failed("the command's process vanished before it started");
    s.set_process(*id);
    if (!options_.run.memory) scope.tasks.push_back(*id);
    s.set_scope(std::move(scope));
    progress_.emplace(output_, s.clock(), options_.run.memory.has_value(), *id, s.now());
    s.start([this](const Fact& fact) { (*progress_)(fact); });
    return Ok{};
  }

  Status let_go() {
    end_ = options_.duration ? session_->now() + *options_.duration : MonoTime::max();
    return child_->let_go(exec_error_);
  }

  // Passes signals on to the command, which decides; the third stop signal kills it. A terminal signals the
  // command directly, except for SIGHUP, which only the session leader gets: a second SIGINT would end many a
  // trainer before its checkpoint. At the end of --for the command and all processes in its cgroup get
  // SIGTERM, and SIGKILL kEndGrace later: a pool of 40 workers kept running, without a parent, in the limited
  // cgroup.
  void follow() {
    Session& s = *session_;
    int signals = 0;
    while (runs() || (ending_ != Ending::none && ending_ != Ending::given_up && !left_behind().empty())) {
      s.step(end_);
      output_.tell_losses(s);
      note_what_stands();
      if (int signal = stop_.next()) {
        bool for_leader = signal == SIGHUP && getsid(0) == getpid();
        bool has_it = stop_.is_from_kernel() && !for_leader && getpgid(child_->pid) == getpgrp();
        bool stops = signal != SIGUSR1 && signal != SIGUSR2;
        if (stops && ++signals == 3) signal = SIGKILL;
        if (!ended_ && (!has_it || signal == SIGKILL)) kill(child_->pid, signal);
        if (ending_ != Ending::none && signal == SIGKILL) end_ = s.now();
      }
      if (s.now() >= end_) end_by_force();
    }
    s.finish();
    if (cgroup_)
      if (auto dir = s.cgroupfs().open_dir(cgroup_->path()))
        if (auto peak = dir->read_peak(); peak && *peak) progress_->peak(**peak);
  }

  void note_what_stands() {
    constexpr Nanos kApart = std::chrono::seconds(1);
    MonoTime now = session_->now();
    if (!cgroup_ || output_.json() || now - said_ < kApart) return;
    said_ = now;
    for (const OverviewRow& row : session_->overview().rows)
      if (row.cgroup && row.cgroup->path == cgroup_->path()) progress_->stands(now, row.forecast);
  }

  // The command itself, as of wait4().
  bool runs() {
    if (!ended_ && wait4(child_->pid, &status_, WNOHANG, &usage_) != 0) ended_ = session_->now();
    return !ended_;
  }

  std::vector<pid_t> left_behind() const { return cgroup_ ? cgroup_->processes() : std::vector<pid_t>{}; }

  // Escalates every kEndGrace: a process waiting for a dead disk does not even die of SIGKILL.
  void end_by_force() {
    ending_ = ending_ == Ending::none    ? Ending::asked
              : ending_ == Ending::asked ? Ending::killed
                                         : Ending::given_up;
    end_ = session_->now() + kEndGrace;
    if (ending_ == Ending::given_up) return;
    int signal = ending_ == Ending::asked ? SIGTERM : SIGKILL;
    std::vector<pid_t> in_cgroup = left_behind();
    if (cgroup_) cgroup_->signal(signal);
    if (!ended_ && std::ranges::find(in_cgroup, child_->pid) == in_cgroup.end()) kill(child_->pid, signal);
  }

  std::string how_it_ended() const {
    std::string how = WIFSIGNALED(status_) ? fmt::format("was ended by signal {}", WTERMSIG(status_))
                                           : fmt::format("exited with {}", WEXITSTATUS(status_));
    if (ending_ != Ending::none && WIFSIGNALED(status_))
      how = fmt::format("was ended by oomcast (--for {}) with signal {}", format_duration(*options_.duration),
                        WTERMSIG(status_));
    std::size_t left = left_behind().size();
    if (left)
      how += fmt::format("; {} it started still {} in its cgroup",
                         left == 1 ? "a process" : fmt::format("{} processes", left),
                         left == 1 ? "runs" : "run");
    return how;
  }

  // " --store /kills", quoted for a shell.
  std::string where_it_is_kept() const {
    if (!options_.store.named) return "";
    bool plain = std::ranges::all_of(store_, [](unsigned char c) {
      return std::isalnum(c) || std::string_view("/._-").find(static_cast<char>(c)) != std::string_view::npos;
    });
    return " --store " + (plain ? store_ : "DIR");
  }

  Result<int> tell_the_end() {
    std::string command = escape_for_terminal(options_.run.command[0]);
    if (exec_error_)
      return Error{fmt::format("cannot run '{}': {}", command, std::strerror(exec_error_)),
                   exec_error_ == ENOENT ? 127 : 126};
    int code = exit_code(status_);
    if (output_.json()) return code;
    const auto& killed = progress_->killed();
    std::optional<Result<PostMortem>> report;
    if (killed) {
      session_->close_store();
      report = post_mortem(store_, *killed);
    }
    bool step = report && report->ok() && (*report)->rise && (*report)->rise->sudden &&
                (*report)->rise->cause == Verdict::step;
    output_.write_line(
        progress_->summary({command, how_it_ended(), {usage_.ru_maxrss * 1024}, *ended_, step}));
    if (report) {
      output_.write_line("\n" + text_of(*report, output_.color()));
      if (!temporary_)
        output_.write_line(
            fmt::format("\nWith curves, to open in a browser:\n  oomcast report{} {} -o report.html",
                        where_it_is_kept(), *killed));
    }
    return code;
  }

  const Options& options_;
  StopSignals& stop_;
  Output output_;
  std::optional<WaitingChild> child_;
  std::optional<TemporaryStore> temporary_;
  std::unique_ptr<Session> session_;
  std::optional<ChildCgroup> cgroup_;
  std::optional<Progress> progress_;
  std::string store_;
  /// Escalation at the end of --for.
  enum class Ending { none, asked, killed, given_up };
  Ending ending_ = Ending::none;
  MonoTime end_{};
  std::optional<MonoTime> ended_;  // the command
  MonoTime said_{};
  int status_ = 0, exec_error_ = 0;
  rusage usage_{};
};

}  // namespace

Result<int> run(const Options& options) {
  // Schedulers send these two to request a checkpoint.
  auto stop = StopSignals::block({SIGUSR1, SIGUSR2});
  if (!stop) return stop.error();
  return FollowedRun(options, *stop).run();
}

}  // namespace oomcast
