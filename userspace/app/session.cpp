#include "app/session.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <type_traits>
#include <utility>
#include <variant>

#include "app/privileges.h"
#include "app/scope.h"
#include "app/snapshots.h"
#include "model/logged_kill.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kForeseenKept = std::chrono::minutes(1);  // beyond what an episode is followed for
constexpr Nanos kCountEvery = 50ms;                       // while a kill is open
constexpr Nanos kFirstAnswers = 300ms;
constexpr Nanos kOpenWait = 700ms;       // for what is still open of a kill
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
              [this](const TaskId& id) { return is_near_a_kill(id); }),
      finder_(model_, sources_.procfs, sources_.cgroupfs.mount(),
              [this](const TaskId& id) { return reader_.ask(Reader::What::arguments, id, now()); }),
      cgroups_(model_, sources_.cgroupfs, descriptor_budget()),
      processes_(model_, sources_.procfs, options.sources.interval) {
  if (auto own = note_process(static_cast<std::uint32_t>(getpid()))) model_.set_own(*own);
  if (sources_.bpf) {
    pythons_.emplace(reader_, *sources_.bpf);
    if (!sources_.procfs.pid_numbers().foreign)
      looks_.emplace(model_, options.sources.root, callers_limits());
    gpu_.emplace(options, sources_.roots, model_, sources_.bpf->pythons());
  }
  if (options.alert.any())
    alerts_ =
        std::make_unique<Alerts>(options.alert, model_,
                                 Alerts::Out{[this](const Fact& fact) { publisher_.publish(fact); },
                                             [this](const std::string& reason) { losses_.add(reason, 1); }});
}

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const Options& options,
                                               const std::function<void(const std::string&)>& diagnostics,
                                               const Sources::Load& load) {
  auto sources = Sources::open(options, diagnostics, load);
  if (!sources) return sources.error();
  std::unique_ptr<Session> s(new Session(options, *std::move(sources)));
  if (auto ok = s->loop_.open(); !ok) return ok.error();
  if (s->sources_.bpf) s->loop_.watch(s->sources_.bpf->fd());
  if (s->sources_.log) s->loop_.watch(s->sources_.log->fd());
  if (s->reader_.fd() >= 0) s->loop_.watch(s->reader_.fd());
  // After the kernel programs: nothing that happens from here on is missed.
  s->read_what_exists();
  return s;
}

void Session::read_what_exists() {
  scan_tree();
  finder_.find_all(true);
  look_for_gpu();
  // What is told first should have its arguments; who holds up the reader is not waited for.
  for (MonoTime until = now() + kFirstAnswers; reader_.wait() && now() < until; take_answers()) {
    pollfd answers{reader_.fd(), POLLIN, 0};
    poll(&answers, 1, 20);
  }
}

// A twentieth of the time at most, however large the tree is, and whoever makes it be walked.
void Session::scan_tree() {
  MonoTime began = now();
  auto tree = sources_.cgroupfs.list();
  if (!tree) return;
  model_.on_tree(*tree, now());
  times_.next_urgent_scan = now() + kPerScan * (now() - began);
  times_.next_scan = std::max(times_.next_urgent_scan, now() + 1s);
}

// A tree of tens of thousands is walked every quarter of a minute. What grows by then may have been killed.
void Session::find_growing() {
  MonoTime began = now();
  for (auto [inode, parent] : model_.take_growing_unknown())
    if (CgroupPtr above = model_.cgroups().ref(parent))
      if (auto found = sources_.cgroupfs.find_below(above->path, inode)) model_.on_cgroup(*found);
  times_.next_search = now() + kPerScan * (now() - began);
}

void Session::refresh() {
  drain();
  scan_tree();
  // Nobody has asked yet for what happens now; kept, the kills of hours would fill the room of those to come.
  model_.advance(times_.heard);
  (void)model_.take_opened();
  (void)model_.take_killed();
  (void)model_.take_completed(times_.heard);
  (void)model_.take_facts();
  for (std::uint64_t inode : model_.take_forgotten())
    cgroups_.forget({sources_.cgroupfs.mount().hierarchy, inode});
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
  publisher_.start(forecast_config(), std::move(sink));
  count_kills();  // what is killed once we say that we follow is more than this
  StartFact begin{now(), OOMCAST_VERSION, run_info().kernel, sources_.names};
  begin.host = first_line_of(sources_.roots, "kernel/hostname").value_or("");
  begin.boot_id = run_info().boot_id;
  std::erase(begin.boot_id, '-');  // as in history, and the journal
  publisher_.publish(std::move(begin));
  for (const auto& [reason, count] : losses_.totals()) publisher_.publish(LostFact{now(), reason, count});
  poll_all();
  publish_all();
}

// ---- its rounds

void Session::step(MonoTime deadline) {
  // One timer serves the interval, the look at lazy records and the end.
  MonoTime until = std::min(deadline, times_.next_poll);
  for (auto wait : {poll_timeout(), reader_.wait(), looks_ ? looks_->wait() : std::nullopt,
                    pythons_ ? pythons_->wait() : std::nullopt})
    if (wait) until = std::min(until, now() + *wait);
  if (sources_.bpf) {
    sources_.bpf->sleep_until(until);
    if (drain()) until = std::min(until, now() + kLook);  // came before the kernel programs knew
  }
  pace_.slept(loop_.wait_until(until));

  drain();
  take_answers();
  if (pythons_) pythons_->advance(now());
  if (cgroups_.any_hot()) cgroups_.poll_hot(now());
  if (!model_.episodes().watched().empty()) cgroups_.poll_kills(now());
  if (now() >= times_.next_poll) poll_all();
  publish_all();
  if (auto apart = pace_.advance(now())) model_.set_pace(*apart);
  if (auto part = ceiling_.advance(now())) {
    model_.set_room(*part);
    publisher_.set_room(*part);
  }
  if (alerts_) alerts_->advance(now());
  if (looks_)
    if (auto fd = looks_->advance(now())) loop_.watch(*fd);
}

// nullopt: nothing is going on; a source that has something wakes us.
std::optional<Nanos> Session::poll_timeout() const {
  if (heard_.more) return Nanos{};
  if (cgroups_.any_hot()) return CgroupSamples::kHotPoll;
  if (!model_.episodes().watched().empty()) return CgroupSamples::kKillPoll;
  bool busy = now() < times_.look_until || model_.episodes().any_open() || model_.unknown_cgroups() ||
              (alerts_ && alerts_->busy());
  return busy ? std::optional(kLook) : std::nullopt;
}

void Session::finish() {
  MonoTime asked = now(), latest = asked + kOpenWait;
  auto counted = count_kills();  // what it counts was said by now; what comes later may still be on its way
  do drain();
  while (heard_.more && now() < latest);
  publish_all();
  // In a storm others begin all the time.
  while (model_.episodes().any_open_of(asked) && now() < latest) step(std::min(latest, now() + kMoreSoon));
  take_reports(true);
  publish_all(true);
  for (MonoTime until = now() + Alerts::kEndWait; alerts_ && alerts_->busy() && now() < until;)
    step(now() + kLook);
  if (counted) model_.episodes().count_unseen(*counted);
  count_losses();
  if (alerts_) alerts_->finish();
  publisher_.publish(EndFact{now(), heard_.count, losses_.totals()});
  publisher_.close_store();
}

// ---- what is published

void Session::publish_all(bool last) {
  MonoTime when = now();
  if (model_.episodes().any_open() && (last || when - times_.counted >= kCountEvery)) count_kills();
  // On a machine that let us wait, more may have come since; an episode ends when what came in its time was
  // heard.
  store_opened();
  model_.set_store_behind(publisher_.behind());
  model_.advance(times_.heard, last);
  for (CgroupPtr& cgroup : model_.take_killed()) {
    if (alerts_) alerts_->on_kill(*cgroup);
    publisher_.publish(TickFact{when, std::move(cgroup)});
  }
  store_completed(last);
  for (ModelFact& fact : model_.take_facts()) publish(std::move(fact));
}

// Ten thousand cgroups that are seen at once were 21 MiB of samples.
void Session::publish_if_many() {
  if (model_.untaken() < kMaxUntold || !publisher_.started()) return;
  for (ModelFact& fact : model_.take_facts()) publish(std::move(fact));
}

void Session::publish(ModelFact fact) {
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

// The line that tells of a kill comes when all of it is known. The store has what is known at once, and
// before the line: a machine without memory may not live that long.
void Session::store_opened() {
  for (Episode& episode : model_.take_opened()) {
    if (looks_ && looks_->is_at(episode)) looks_->end_soon(now());
    publisher_.store(EpisodeFact{with_forecast(std::move(episode)), false});
  }
}

// And it has what came after the line, which cannot wait for a memory of 500 GiB to come back.
void Session::store_completed(bool last) {
  for (Episode& episode : model_.take_completed(last ? times_.heard + EpisodeBuilder::kFollow : times_.heard))
    publisher_.store(EpisodeFact{with_forecast(std::move(episode))});
  std::erase_if(foreseen_, [&](const auto& f) {
    return times_.heard - f.second.forecast.time > EpisodeBuilder::kFollow + kForeseenKept;
  });
}

// What had been foreseen is looked up when the kill is first told of: what is foreseen half a minute later is
// of the next life.
OomEvent Session::with_forecast(Episode episode) {
  episode.id = episode_id(clock_.wall(episode.time), episode);
  if (looks_) {
    std::vector<ProcessRef> of;
    for (const GrewProcess& g : episode.grew_most) of.push_back(g.process);
    for (const Victim& v : episode.victims) of.push_back(v.process);
    episode.grew_from = looks_->found().of(of);
  }
  OomEvent line{std::move(episode), std::nullopt, std::nullopt};
  // The machine's own limit has no cgroup in the kernel's words.
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

}  // namespace oomcast
