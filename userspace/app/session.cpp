#include "app/session.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>

#include "app/privileges.h"
#include "app/scope.h"
#include "app/snapshots.h"
#include "app/tracing.h"
#include "blame/python.h"
#include "model/limit_owner.h"
#include "model/logged_kill.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kForeseenKept = std::chrono::minutes(1);  // longer than an episode is followed
constexpr Nanos kCountEvery = 50ms;                       // while a kill is open
constexpr Nanos kFirstAnswers = 300ms;
constexpr Nanos kOpenWait = 700ms;       // for outstanding data of a kill
constexpr std::size_t kMaxUntold = 512;  // facts

std::optional<std::string> first_line_of(const Roots& roots, const char* sysctl) {
  std::ifstream file(roots.proc() + "/sys/" + sysctl);
  std::string line;
  return std::getline(file, line) && !line.empty() ? std::optional(line) : std::nullopt;
}

MachineConfig model_config(const Options& options, const Sources& sources) {
  MachineConfig config;
  const CgroupMount& mount = sources.cgroupfs.mount();
  config.hierarchy = mount.hierarchy;
  config.sees_root = mount.sees_root;
  config.rss_error = rss_error();
  config.scope.whole_machine = options.scope.whole_machine();  // nothing is in any other until it is resolved
  config.sources = {sources.bpf != nullptr, sources.log.has_value(), Bytes{sysconf(_SC_PAGESIZE)}};
  return config;
}

}  // namespace

// ---- its beginning

Session::Session(const Options& options, Sources sources)
    : options_(options),
      sources_(std::move(sources)),
      clock_{wall_ahead_of(CLOCK_MONOTONIC), wall_ahead_of(CLOCK_BOOTTIME),
             Nanos(1'000'000'000 / sysconf(_SC_CLK_TCK))},
      model_(model_config(options, sources_)),
      losses_([this](const std::string& reason, std::uint64_t count) {
        if (publisher_.started()) publisher_.publish(LostFact{now(), reason, count});
      }),
      reader_(options.sources.root, callers_limits(),
              [this](const TaskId& id) { return pause_.is_near_a_kill(id, now()); }),
      pause_(model_, sources_.procfs, reader_),
      tree_(model_, sources_.cgroupfs),
      finder_(model_, sources_.procfs, sources_.cgroupfs.mount(),
              [this](const TaskId& id) { return reader_.ask(Reader::What::arguments, id, now()); }),
      cgroups_(model_, sources_.cgroupfs, descriptor_budget()),
      processes_(model_, sources_.procfs, options.sources.interval) {
  if (auto own = note_process(static_cast<std::uint32_t>(getpid()))) model_.set_own(*own);
  if (sources_.bpf) {
    rss_tracing_.emplace(*sources_.bpf);
    pythons_.emplace(reader_, *sources_.bpf);
    if (!sources_.procfs.pid_numbers().foreign)
      looks_.emplace(model_, options.sources.root, callers_limits());
    gpu_.emplace(options, sources_.roots, model_, sources_.bpf->pythons());
  }
  set_alerts(options.alert);
}

Session::~Session() = default;

void Session::set_alerts(const AlertOptions& alert) {
  if (alerts_) alerts_->finish();
  alerts_.reset();
  if (!alert.any()) return;
  alerts_ =
      std::make_unique<Alerts>(alert, model_,
                               Alerts::Out{[this](const Fact& fact) { publisher_.publish(fact); },
                                           [this](const std::string& reason) { losses_.add(reason, 1); }});
}

Result<std::unique_ptr<Session>> Session::open(const Options& options,
                                               const std::function<void(const std::string&)>& diagnostics,
                                               const Sources::Load& load) {
  auto sources = Sources::open(options, diagnostics, load);
  if (!sources) return sources.error();
  std::unique_ptr<Session> s(new Session(options, *std::move(sources)));
  if (auto ok = s->loop_.open(); !ok) return ok.error();
  auto wake_on = [&](int fd, std::string_view what) {
    if (auto ok = s->loop_.wake_on(fd); !ok)
      diagnostics(fmt::format("{} is read once per interval only: {}", what, ok.error().message));
  };
  if (s->sources_.bpf) wake_on(s->sources_.bpf->fd(), "the kernel programs' ring");
  if (s->sources_.log) wake_on(s->sources_.log->fd(), "the kernel log");
  if (s->reader_.fd() >= 0) wake_on(s->reader_.fd(), "what the reader answers");
  // After the kernel programs are loaded, so that nothing is missed from here on.
  s->read_what_exists();
  return s;
}

void Session::read_what_exists() {
  tree_.scan();
  finder_.find_all(true);
  look_for_gpu();
  // The first samples should have their arguments; do not block on a slow reader.
  for (MonoTime until = now() + kFirstAnswers; reader_.wait() && now() < until; take_answers()) {
    pollfd answers{reader_.fd(), POLLIN, 0};
    poll(&answers, 1, 20);
  }
}

void Session::refresh() {
  drain();
  tree_.scan();
  // Discard events from before the start: kept, the kills of hours would use up the room of those to come.
  model_.advance(heard_until_);
  for (const ModelEvent& event : model_.take())
    if (auto* dropped = std::get_if<CgroupDropped>(&event))
      cgroups_.forget({sources_.cgroupfs.mount().hierarchy, dropped->inode});
}

Result<std::vector<CgroupEntry>> Session::resolve_scope(const ScopeOptions& scope) {
  std::vector<CgroupEntry> none;
  if (scope.whole_machine()) return none;
  ScopeRoots roots;
  roots.whole_machine = false;
  if (scope.pid) {
    auto id = finder_.find(*scope.pid);
    if (!id) return Error::failed(fmt::format("no process has pid {}", *scope.pid));
    roots.tasks.push_back(*id);
    set_process(*id);
    set_scope(std::move(roots));
    return none;
  }
  auto matches = cgroups_of(scope, sources_.cgroupfs, sources_.roots);
  if (!matches) return matches;
  for (const CgroupEntry& cgroup : *matches) {
    model_.on_cgroup(cgroup);
    roots.cgroups.insert(cgroup.id.inode);
  }
  set_scope(std::move(roots));
  return matches;
}

void Session::set_process(TaskId id) {
  if (alerts_) alerts_->set_process(id);
}

ForecastRegistry::Config Session::forecast_config() const {
  ForecastRegistry::Config config;
  config.interval = options_.sources.interval;
  if (!model_.scope().tasks.empty()) config.tree = model_.scope().tasks.front();
  return config;
}

RunInfo Session::run_info() const {
  return {OOMCAST_VERSION,
          first_line_of(sources_.roots, "kernel/osrelease").value_or(""),
          options_.scope.describe(),
          sources_.cgroupfs.mount().hierarchy,
          options_.sources.interval,
          clock_.wall_of_mono_zero,
          clock_.wall_of_boot_zero,
          clock_.tick,
          forecast_config().tree,
          0,
          first_line_of(sources_.roots, "kernel/random/boot_id").value_or("")};
}

void Session::start(Sink sink) {
  publisher_.subscribe(std::move(sink));
  publisher_.start(forecast_config());
  count_kills();  // baseline: later kills count from here
  StartFact begin{now(), OOMCAST_VERSION, run_info().kernel, sources_.names};
  begin.host = first_line_of(sources_.roots, "kernel/hostname").value_or("");
  begin.boot_id = run_info().boot_id;
  std::erase(begin.boot_id, '-');  // as in history, and the journal
  publisher_.publish(std::move(begin));
  for (const auto& [reason, count] : losses_.totals()) publisher_.publish(LostFact{now(), reason, count});
  each_interval();
  publish_all();
}

// ---- its rounds

void Session::step(MonoTime deadline) {
  wait(deadline);
  collect();
  loop_.run_due(now());
  publish_all();
  act();
}

// Sleeps until a source has something to do; collect() then reads all of them, in its order.
void Session::wait(MonoTime deadline) {
  MonoTime until = deadline;
  for (auto wait : {poll_timeout(), reader_.wait(), looks_ ? looks_->wait() : std::nullopt,
                    pythons_ ? pythons_->wait() : std::nullopt})
    if (wait) until = std::min(until, now() + *wait);
  if (sources_.bpf) {
    sources_.bpf->sleep_until(std::min(until, loop_.next()));
    if (drain()) until = std::min(until, now() + kLook);  // may be ahead of the kernel programs
  }
  pace_.slept(loop_.wait_until(until));
}

void Session::collect() {
  drain();
  take_answers();
  if (pythons_) pythons_->advance(now());
  if (cgroups_.any_hot()) cgroups_.poll_hot(now());
  if (!model_.episodes().watched().empty()) cgroups_.poll_kills(now());
}

void Session::act() {
  if (auto apart = pace_.advance(now())) model_.set_pace(*apart);
  if (auto part = ceiling_.advance(now())) {
    model_.set_room(*part);
    publisher_.set_room(*part);
  }
  if (alerts_) alerts_->advance(now());
  if (looks_)
    if (auto fd = looks_->advance(now())) (void)loop_.wake_on(*fd);  // without, its wait() ends it
}

// nullopt: nothing is pending; a source with data wakes us.
std::optional<Nanos> Session::poll_timeout() const {
  if (more_records_) return Nanos{};
  if (cgroups_.any_hot()) return CgroupSamples::kHotPoll;
  if (!model_.episodes().watched().empty()) return CgroupSamples::kKillPoll;
  bool busy = now() < lazy_records_until_ || model_.episodes().any_open() || model_.unknown_cgroups() ||
              (alerts_ && alerts_->busy());
  return busy ? std::optional(kLook) : std::nullopt;
}

void Session::finish() {
  MonoTime asked = now(), latest = asked + kOpenWait;
  auto counted = count_kills();  // everything counted here has been read by now
  do drain();
  while (more_records_ && now() < latest);
  publish_all();
  // In a storm new kills begin all the time.
  while (model_.episodes().any_open_of(asked) && now() < latest) step(std::min(latest, now() + kMoreSoon));
  take_reports(true);
  publish_all(true);
  for (MonoTime until = now() + Alerts::kEndWait; alerts_ && alerts_->busy() && now() < until;)
    step(now() + kLook);
  if (counted) model_.episodes().count_unseen(*counted);
  count_losses();
  if (alerts_) alerts_->finish();
  publisher_.publish(EndFact{now(), records_, losses_.totals()});
  publisher_.close_store();
}

// ---- what is published

void Session::publish_all(bool last) {
  if (model_.episodes().any_open() && (last || now() - kills_counted_ >= kCountEvery)) count_kills();
  // The line of a kill is published when its data is complete. The store gets what is known at once, before
  // the line: a machine out of memory may not live that long.
  publish_taken();
  model_.set_store_behind(publisher_.behind());
  // If this process was not scheduled for a while, more records may be waiting; an episode ends only when all
  // records of its time have been read.
  model_.advance(heard_until_, last);
  publish_taken();
  std::erase_if(foreseen_, [&](const auto& f) {
    return heard_until_ - f.second.forecast.time > EpisodeBuilder::kFollow + kForeseenKept;
  });
}

// Ten thousand cgroups seen at once took 21 MiB of samples.
void Session::publish_if_many() {
  if (model_.untaken() >= kMaxUntold && publisher_.started()) publish_taken();
}

void Session::publish_taken() {
  for (ModelEvent& event : model_.take())
    std::visit([this](auto&& e) { on(std::forward<decltype(e)>(e)); }, std::move(event));
}

void Session::on(KillOpened kill) {
  if (looks_ && looks_->is_at(kill.episode)) looks_->end_soon(now());
  publisher_.store(EpisodeFact{with_forecast(std::move(kill.episode)), false});
}

// Data from after the line, which cannot wait for 500 GiB to be freed.
void Session::on(KillCompleted kill) {
  publisher_.store(EpisodeFact{with_forecast(std::move(kill.episode))});
}

void Session::on(LimitHit limit) {
  if (alerts_) alerts_->on_kill(*limit.owner);
  publisher_.publish(TickFact{now(), std::move(limit.owner)});
}

void Session::on(CgroupDropped cgroup) {
  CgroupId id{sources_.cgroupfs.mount().hierarchy, cgroup.inode};
  cgroups_.forget(id);
  publisher_.publish(ForgottenFact{now(), id});
}

void Session::on(ModelFact fact) {
  std::visit(
      [this](auto&& f) {
        using T = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<T, Episode>) {
          publisher_.publish(with_forecast(std::forward<decltype(f)>(f)));
        } else if constexpr (std::is_same_v<T, ProcessSampleFact>) {
          publish_process(std::forward<decltype(f)>(f));
        } else {
          if constexpr (std::is_same_v<T, Sample>) {
            check_levels(f);
            if (looks_) looks_->on(f);
          }
          publisher_.publish(Fact(std::forward<decltype(f)>(f)));
        }
      },
      std::move(fact));
}

void Session::publish_process(ProcessSampleFact sample) {
  if (pythons_) pythons_->on_sample(sample.process, sample.rss, sample.time);
  ProcessSampleFact told = publisher_.publish(std::move(sample));
  if (looks_) looks_->on(told);
  processes_.on(told);
}

// The forecast is looked up when the kill is first published: one made half a minute later is about the next
// life.
OomEvent Session::with_forecast(Episode episode) {
  episode.id = episode_id(clock_.wall(episode.time), episode);
  if (looks_) {
    std::vector<ProcessRef> of;
    for (const GrewProcess& g : episode.grew_most) of.push_back(g.process);
    for (const Victim& v : episode.victims) of.push_back(v.process);
    episode.grew_from = looks_->found().of(of);
  }
  OomEvent line{std::move(episode), std::nullopt, std::nullopt};
  // For a global OOM kill the kernel names no cgroup.
  bool whole_machine = line.episode.scope == OomScope::global;
  const CgroupPtr& owner = whole_machine ? model_.host_ref() : line.episode.limit_cgroup;
  auto known = foreseen_.find(line.episode.serial);
  if (known == foreseen_.end() && owner)
    if (auto before = publisher_.forecasts().before(owner->id, line.episode.time))
      known = foreseen_.emplace(line.episode.serial, *std::move(before)).first;
  if (known != foreseen_.end()) {
    line.forecast_before = known->second.forecast;
    line.first_forecast = known->second.first;
  }
  return line;
}

// ---- for the screen

void Session::look_for_growth(CgroupId cgroup) {
  if (looks_) looks_->ask(cgroup);
}

Overview Session::overview() const {
  Overview out;
  out.time = now();
  out.scope = options_.scope.describe();
  out.sources = sources_.names;
  out.events = publisher_.events();
  out.lost = losses_.totals();
  out.rows = overview_rows(model_, publisher_.forecasts());
  for (const auto& [id, sample] : processes_.newest()) out.processes.push_back(sample);
  if (gpu_) {
    out.cards = gpu_->cards();
    out.gpu = gpu_->tier();
    for (OverviewCard& card : out.cards)
      if (const Forecast* known = publisher_.forecasts().of(*card.now.device)) card.forecast = *known;
  }
  if (looks_) {
    out.can_look = true;
    std::vector<ProcessRef> of;
    for (const ProcessSampleFact& p : out.processes) of.push_back(p.process);
    out.grew_from = looks_->found().of(of);
    out.looking_at = looks_->looking_at();
  }
  return out;
}

namespace {

constexpr Nanos kLogSettles = 500ms;      // after a line of the kernel log
constexpr Nanos kClockSet = 20ms;         // more than the error of a reading
constexpr std::size_t kMaxFollowed = 32;  // cgroups whose small processes are sampled, too

}  // namespace

// ---- what the sources say

// Returns whether there was anything.
bool Session::drain() {
  MonoTime began = now();
  bool logged = read_log(), news = logged;
  if (gpu_ && gpu_->drain()) news = true;
  bool more = sources_.bpf != nullptr;
  while (more && !pause_.is_due() && now() - began < kDrain)
    more = sources_.bpf->drain([&](const wire::Record& record) {
      news = true;
      on_record(record);
    });
  more_records_ = more || (gpu_ && gpu_->has_more());
  pause_.pause([this](bool still) {
    if (looks_) looks_->stand_still(still);
  });
  take_reports();
  heard_until_ = began;
  tree_.advance(now());
  if (news) lazy_records_until_ = std::max(lazy_records_until_, now() + (logged ? kLogSettles : kMoreSoon));
  return news;
}

void Session::on_record(const wire::Record& record) {
  ++records_;
  if (auto* exit = std::get_if<wire::Exit>(&record)) {
    gpu_->on_exit(exit->task.id);
    pythons_->forget(exit->task.id);
  }
  if (auto* exec = std::get_if<wire::Exec>(&record)) pythons_->forget(exec->task.id);
  if (auto* code = std::get_if<wire::DyingCode>(&record))
    model_.on_code(code->task.id, code->task.tid, places_of(*code));
  if (auto decision = model_.on_record(record)) pause_.on_kill(*decision, now());
  if (auto* sample = std::get_if<wire::CgroupSample>(&record)) on_cgroup_sample(*sample);
  publish_if_many();
}

void Session::on_cgroup_sample(const wire::CgroupSample& sample) {
  std::uint64_t inode = sample.memcg.inode;
  if (!model_.cgroup_in_scope(inode)) return;
  CgroupState* state = model_.cgroups().find(inode);
  // A process that grows between two sleeps may be on no CPU at any tick: the walk finds it.
  bool moved = sample.moved || (state && cgroups_.moved_far(*state, sample.memcg.usage));
  auto before = state ? state->pinned : std::nullopt;
  cgroups_.on_usage(inode, sample.memcg.usage, sample.time, now());
  if (!sample.moved && before && state->pinned)
    processes_.look_in(inode, state->pinned->value - before->value);
  if (state) state->told_by_kernel = true;
  if (moved) mark_hot(inode, sample.time);
}

// Ticks see only running tasks. A cgroup that moved is also polled for a while, and its RSS traced if the
// scope is explicit.
void Session::mark_hot(std::uint64_t inode, MonoTime moved) {
  cgroups_.mark_hot(inode, moved);
  if (!model_.scope().whole_machine) rss_tracing_->on_moved(moved);
}

bool Session::read_log() {
  if (!sources_.log) return false;
  KernelLog::Read read = sources_.log->read([&](std::uint32_t tid) {
    if (!sources_.bpf && !model_.tasks().by_pid(tid)) finder_.find(tid);
  });
  losses_.add("kernel_log_overwritten", read.overwritten);
  losses_.add("kernel_log_unreadable", read.unreadable);
  return read.any;
}

// After the kernel programs' records, as the log may be ahead of them.
void Session::take_reports(bool all) {
  if (!sources_.log) return;
  MonoTime when = now();
  std::vector<OomDump> reports =
      all ? sources_.log->take_all() : sources_.log->take(when, model_.episodes().due(when + kLook));
  if (!sources_.bpf && !reports.empty()) tree_.scan();  // otherwise new cgroups are unknown
  for (const OomDump& dump : reports) model_.on_dump(dump, dump.time.kill ? MonoTime(*dump.time.kill) : when);
  if (auto until = sources_.log->take_read_until()) model_.on_log_read(*until);
}

void Session::take_answers() {
  for (const Reader::Answer& answer : reader_.advance(now())) {
    if (answer.what == Reader::What::arguments) {
      if (answer.dropped) finder_.ask_for_arguments(answer.id);
      if (answer.arguments)
        model_.on_arguments(answer.id, {answer.arguments->args, answer.arguments->truncated}, answer.asked);
    } else if (answer.what == Reader::What::python) {
      if (pythons_) pythons_->on_answer(answer, now());
    } else if (answer.given_up) {
      processes_.gave_up(answer.id);
    } else if (auto sample = processes_.measured(answer.id, answer.private_bytes, answer.cost, now())) {
      publish_process(*std::move(sample));
    }
  }
}

// ---- each interval

void Session::each_interval() {
  loop_.at(now() + options_.sources.interval, [this] { each_interval(); });
  poll_all();
}

void Session::poll_all() {
  MonoTime when = now();
  read_clock();
  if (auto info = sources_.procfs.read_meminfo()) {
    model_.on_host(when, *info);
    if (info->swap_total && info->swap_total->count > 0) {
      auto swappiness = sources_.procfs.read_swappiness();
      model_.on_swappiness(swappiness ? std::optional(*swappiness) : std::nullopt);
    }
  }
  count_kills();
  if (!sources_.bpf) {
    // Nothing reports new cgroups and processes: search for them.
    tree_.scan();
    finder_.find_all(!reader_.wait());  // if requests of the last scan are answered
  }
  poll_cgroups(when);
  poll_pressure(when);
  poll_processes(when);
  look_for_gpu();
  if (gpu_) gpu_->sample(now());
  if (gpu_ && pythons_)
    model_.gpu().for_each([&](TaskId id, const GpuHeld&) {
      const TaskState* task = model_.tasks().find(id);
      pythons_->on_gpu_user(id, task ? task->uid : std::nullopt, now());
    });
  publisher_.publish(TickFact{now()});
  if (alerts_)
    alerts_->check(now(), alert_inputs(model_, publisher_.forecasts(),
                                       gpu_ ? gpu_->cards() : std::vector<OverviewCard>()));
  if (rss_tracing_) rss_tracing_->advance(cgroups_.nearly_full(), now());
  count_losses();
}

// The walk allocates 32 KiB in the kernel: on a full machine that invoked the OOM killer (seen on 6.1). Idle
// cgroups can wait, and reading their files costs as much.
void Session::poll_cgroups(MonoTime when) {
  bool walked = sources_.bpf && (is_short_of_memory() || sources_.bpf->walk_cgroups());
  if (walked) drain();
  // After lost records, the kernel programs believe reported what was never received.
  bool told = walked && !std::exchange(samples_lost_, false);
  cgroups_.sample_all(when, told, [this] { publish_if_many(); });
}

void Session::poll_pressure(MonoTime when) {
  if (auto pressure = sources_.procfs.read_pressure(); pressure && *pressure)
    model_.on_pressure(when, std::nullopt, **pressure);
  if (!sources_.bpf) return;
  sources_.bpf->for_each_stall([&](std::uint64_t inode, const wire::Stalls& sums) {
    if (!model_.on_stalls(when, inode, sums)) return;
    // A cgroup with stalls is under pressure; the files of others are not worth reading.
    auto dir = sources_.cgroupfs.open_dir(model_.cgroups().find(inode)->ref->path);
    if (!dir) return;
    if (auto pressure = dir->read_pressure(); pressure && *pressure)
      model_.on_pressure(when, inode, **pressure);
  });
}

void Session::poll_processes(MonoTime when) {
  for (TaskId id : processes_.gone()) {
    if (gpu_) gpu_->on_exit(id);
    if (pythons_) pythons_->forget(id);
    model_.on_gone(now(), id);
  }
  for (ExitFact& exit : processes_.ended(now())) publisher_.publish(std::move(exit));
  model_.follow(growing_cgroups(model_, publisher_.forecasts(), kMaxFollowed));
  for (ProcessSampleFact& sample : processes_.moved(now())) publish_process(std::move(sample));
  if (is_short_of_memory()) reader_.rest(now() + options_.sources.interval + KillPause::kReaderRests);
  finder_.ask_again();
  for (const TaskId& id : processes_.to_measure(now())) reader_.ask(Reader::What::private_memory, id, now());
  if (looks_) looks_->plan(when);
}

std::optional<KillCount> Session::count_kills() {
  KillCount count;
  count.began = kills_counted_ = now();
  auto kills = sources_.procfs.read_vmstat_oom_kill();
  if (!kills || !*kills) return std::nullopt;
  count.ended = now();
  count.kills = **kills;
  model_.on_vmstat(count);
  return count;
}

void Session::look_for_gpu() {
  if (!gpu_ || !gpu_->find_driver()) return;
  (void)loop_.wake_on(gpu_->fd());  // on failure its ring is read with the others
  sources_.names.push_back("gpu:" + gpu_->hook());
  // Processes that opened the driver's files before tracing hold uncounted memory.
  auto pids = sources_.procfs.list_pids();
  if (!pids) return;
  for (std::uint32_t pid : *pids)
    if (gpu_->uses_driver(pid))
      if (auto id = finder_.find(pid)) model_.gpu().on_known_user(*id);
}

// A machine without an RTC may be 200 days behind until it has asked a time server; after suspend, or a VM
// pause, wall time is ahead of the monotonic clock.
void Session::read_clock() {
  Nanos mono = wall_ahead_of(CLOCK_MONOTONIC), boot = wall_ahead_of(CLOCK_BOOTTIME);
  if (std::chrono::abs(mono - clock_.wall_of_mono_zero) > kClockSet) {
    clock_.wall_of_mono_zero = mono;
    publisher_.set_clock(mono);
  }
  if (std::chrono::abs(boot - clock_.wall_of_boot_zero) > kClockSet) clock_.wall_of_boot_zero = boot;
}

// Practically nothing is left: the next page allocation may trigger an OOM kill.
bool Session::is_short_of_memory() const {
  const auto& host = model_.host();
  return host && host->is_short();
}

void Session::count_losses() {
  losses_.track("not_stored", publisher_.not_stored());
  losses_.track("reader_given_up", reader_.given_up());
  if (losses_.track("reader_refused", reader_.refusal() != nullptr) && !publisher_.holds_notices())
    tell_error(
        fmt::format("the reader {}, so it does not serve: no arguments, private memory and Python lines of "
                    "other processes",
                    reader_.refusal()));
  losses_.track("oom_kill_no_room", model_.episodes().dropped());
  losses_.track("oom_kill_unseen", model_.episodes().unseen(now()));
  losses_.track("samples_spared", model_.spared());
  if (sources_.log) losses_.track("kernel_log_unreadable", sources_.log->unread());
  losses_.track("oom_victim_late", model_.episodes().late_victims());
  publisher_.tell_notices();
  if (!sources_.bpf) return;
  LostCounts counts = sources_.bpf->lost();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (losses_.track(wire::lost_reasons()[i], counts[i]) && wire::lost_reasons()[i] == "samples_ring_full") {
      processes_.ends_were_lost();
      samples_lost_ = true;
    }
  losses_.track("program_interrupted_itself", sources_.bpf->missed_runs());
  losses_.track("python_table_full", pythons_->no_room());
  losses_.track("undecodable_record", sources_.bpf->undecodable());
  if (looks_) {
    losses_.track("growth_look_given_up", looks_->given_up());
    losses_.track("growth_look_no_room", looks_->no_room());
    losses_.track("growth_look_not_allowed", looks_->not_allowed());
  }
  losses_.track("gpu_ring_full", gpu_->lost());
  losses_.track("gpu_code_no_room", gpu_->code_lost());
  losses_.track("gpu_page_events", gpu_->page_events_lost());
  losses_.track("gpu_not_followed", gpu_->failures());
  // Only the kernel programs report the usage of a refused cgroup: without them any of these may hold much.
  const CgroupTree& cgroups = model_.cgroups();
  std::uint64_t refused = sources_.bpf ? cgroups.not_followed() : cgroups.refused();
  losses_.track("model_full", model_.tasks().forgotten() + refused + publisher_.forecasts().not_followed() +
                                  model_.gpu().dropped());
}

void Session::check_levels(const Sample& sample) {
  if (!alerts_) return;
  // A process in the root cgroup is sampled as the host, which is in scope only for the whole machine.
  bool host = !sample.cgroup || sample.cgroup->name.kind == CgroupKind::root;
  if (host && !model_.scope().whole_machine) return;
  alerts_->on_sample(sample, sample.cgroup ? publisher_.forecasts().of(sample.cgroup->id) : nullptr);
}

}  // namespace oomcast
