#include "app/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "app/analysis.h"
#include "app/privileges.h"
#include "app/scope.h"
#include "blame/python.h"
#include "collect/text.h"
#include "model/logged_kill.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kLook = 100ms;        // records that are not urgent wait this long
constexpr Nanos kMoreSoon = 50ms;     // after a record: one more look, so that many do not wake us one by one
constexpr Nanos kLogSettles = 500ms;  // after a line of the kernel log
constexpr Nanos kCountEvery = 50ms;   // while a kill is open
constexpr Nanos kExactFor = 5s;       // of what is nearly full
constexpr Nanos kFirstAnswers = 300ms;
constexpr Nanos kPaceWindow = 500ms, kLeastPace = 50ms, kSlowestPace = 60s;
constexpr double kMostAwake = 0.5;
constexpr Nanos kClockSet = 20ms;         // more than a reading of it can be off
constexpr Nanos kEndWait = 700ms;         // for what is still open of a kill
constexpr std::size_t kMostUntold = 512;  // facts
constexpr Nanos kReaderRests = 200ms;     // after a sign of an OOM
constexpr double kShort = 0.03;           // of a host's memory, available
constexpr std::size_t kMaxEvents = 100;

std::optional<std::string> first_line_of(const Roots& roots, const char* sysctl) {
  std::ifstream file(roots.proc() + "/sys/" + sysctl);
  std::string line;
  return std::getline(file, line) && !line.empty() ? std::optional(line) : std::nullopt;
}

}  // namespace

Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const Options& options,
                                               const std::function<void(const std::string&)>& diagnostics) {
  std::unique_ptr<Session> s(new Session());
  s->options_ = options;
  s->roots_.root = options.root;
  s->procfs_.emplace(s->roots_);
  s->clock_ = {wall_ahead_of(CLOCK_MONOTONIC), wall_ahead_of(CLOCK_BOOTTIME),
               Nanos(1'000'000'000 / sysconf(_SC_CLK_TCK))};

  if (auto ok = s->open_cgroups(); !ok) return ok.error();
  WorldConfig config;
  config.hierarchy = s->cgroupfs_->mount().hierarchy;
  config.rss_error = rss_error();
  config.scope.whole_machine = options.scope.whole_machine();  // nothing is in any other until it is resolved
  if (options.use_kmsg) s->open_log(diagnostics);
  if (options.use_bpf)
    if (auto ok = s->open_kernel(diagnostics); !ok) return ok.error();
  if (!s->bpf_ && !s->kmsg_ && options.use_kmsg)
    return Error::forbidden(
        "neither kernel programs nor the kernel log can be used: no OOM kill would be seen");
  config.sources = {s->bpf_ != nullptr, s->kmsg_.has_value(), Bytes{sysconf(_SC_PAGESIZE)}};
  s->world_ = std::make_unique<World>(config);
  s->cgroups_.emplace(*s->world_, *s->cgroupfs_, descriptor_budget());
  s->processes_.emplace(*s->world_, *s->procfs_, options.interval);
  if (s->bpf_) s->gpu_.emplace(options, s->roots_, *s->world_);
  s->reader_.emplace(options.root, score_before_protection());
  if (s->bpf_) s->pythons_.emplace(*s->reader_, *s->bpf_);
  if (s->bpf_) s->looks_.emplace(*s->world_, options.root, score_before_protection());
  if (options.alert.any())
    s->alerts_ = std::make_unique<Alerts>(
        options.alert, *s->world_,
        Alerts::Out{[s = s.get()](const Fact& fact) { s->emit(fact); },
                    [s = s.get()](const std::string& reason) { s->lose(reason, 1); }});

  s->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  s->timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!s->epoll_ || !s->timer_) return Error::from_errno("opening a timer");
  s->also_wait_for(s->timer_.get());
  if (s->bpf_) s->also_wait_for(s->bpf_->fd());
  if (s->kmsg_) s->also_wait_for(s->kmsg_->fd());
  if (s->reader_->fd() >= 0) s->also_wait_for(s->reader_->fd());

  // After the kernel programs: nothing that happens from here on is missed.
  s->scan_tree();
  s->scan_processes();
  if (s->gpu_) s->look_for_gpu();
  // What is told first should have its arguments; who holds up the reader is not waited for.
  for (MonoTime until = s->now() + kFirstAnswers; s->reader_->wait() && s->now() < until; s->take_answers()) {
    pollfd answers{s->reader_->fd(), POLLIN, 0};
    poll(&answers, 1, 20);
  }
  return s;
}

Status Session::open_cgroups() {
  auto fs = CgroupFs::open(roots_);
  if (!fs) return fs.error();
  cgroupfs_.emplace(*std::move(fs));
  sources_.push_back(cgroupfs_->mount().hierarchy == Hierarchy::v1 ? "cgroupfs-v1" : "cgroupfs-v2");
  return Ok{};
}

Status Session::open_kernel(const std::function<void(const std::string&)>& diagnostics) {
  BpfOptions bpf;
  bpf.btf_path = roots_.at("/sys/kernel/btf/vmlinux");
  bpf.kprobes = has_kprobes(roots_);
  bpf.memory_hierarchy = cgroupfs_->mount().hierarchy_id;
  bpf.interval = options_.interval;
  bpf.cgroup_mount = cgroupfs_->mount().mount_point;
  bpf.tickless_cpus =
      read_file_at(AT_FDCWD, roots_.at("/sys/devices/system/cpu/nohz_full").c_str(), 4096).value_or("");
  bpf.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  if (auto info = procfs_->read_meminfo(); info && info->total) bpf.host_memory = *info->total;
  auto source = BpfSource::load(bpf);
  if (!source) {
    Error error = source.error();
    error.message +=
        "\nWhat is missing in detail: oomcast doctor. To go on with the kernel log and cgroup files: "
        "--no-bpf";
    return error;
  }
  bpf_ = *std::move(source);
  sources_.push_back("bpf");
  for (const ProgramState& program : bpf_->programs()) {
    if (program.attached && program.name == "on_oom_kill_process") sources_.push_back("kprobe");
    if (!program.why_not.empty() && options_.verbose) diagnostics(program.name + ": " + program.why_not);
  }
  return Ok{};
}

void Session::open_log(const std::function<void(const std::string&)>& diagnostics) {
  OomLogLimits limits;
  limits.settle = 300ms;  // an episode waits for its report, and must be told within 2 s
  log_parser_ = OomLogParser(limits);
  auto reader = KmsgReader::open(roots_.at("/dev/kmsg"), KmsgFrom::end);
  if (!reader) {
    diagnostics("the kernel log is not read: " + reader.error().message);
    return;
  }
  kmsg_.emplace(*std::move(reader));
  sources_.push_back("kmsg");
}

void Session::scan_tree() {
  auto tree = cgroupfs_->list();
  if (!tree) return;
  world_->on_tree(*tree, now());
  next_scan_ = now() + 1s;
}

std::optional<TaskId> Session::note_process(std::uint32_t pid, bool ask_again) {
  auto stat = procfs_->read_stat(pid);
  if (!stat || !*stat || (*stat)->kernel_thread()) return std::nullopt;
  SeenProcess seen;
  seen.id = {pid, (*stat)->start_ticks};
  seen.comm = (*stat)->comm;
  if ((*stat)->ppid)
    if (auto parent = procfs_->read_task_id((*stat)->ppid); parent && *parent) seen.parent = **parent;
  if (auto status = procfs_->read_status(pid); status && *status) {
    seen.uid = (*status)->uid;
    if (!(*status)->ns_pid.empty()) seen.ns_pid = (*status)->ns_pid.back();
  }
  const CgroupMount& mount = cgroupfs_->mount();
  bool dead = (*stat)->exiting();
  if (auto cgroup = procfs_->read_cgroup_of(seen.id, mount.hierarchy); cgroup && *cgroup)
    if (auto path = mount.from_proc_path((*cgroup)->path))
      if (const CgroupState* state = world_->cgroups().by_path(*path)) seen.cgroup = state->ref->id.inode;
  world_->on_process(seen);
  const TaskState* known = world_->tasks().find(seen.id);
  if (!dead && (ask_again || !known || known->cmdline.empty())) ask_for_arguments(seen.id);
  return seen.id;
}

void Session::ask_for_arguments(const TaskId& id) {
  if (!reader_->ask(Reader::What::arguments, id, now()) && unasked_.size() < Reader::kMostWaiting)
    unasked_.push_back(id);
}

void Session::refresh() {
  drain();
  scan_tree();
}

void Session::scan_processes() {
  auto pids = procfs_->list_pids();
  if (!pids) return;
  bool answered = !reader_->wait();  // what was asked in the last scan
  for (std::uint32_t pid : *pids) note_process(pid, answered);
}

Status Session::resolve_scope(const ScopeOptions& scope) {
  if (scope.whole_machine()) return Ok{};
  ScopeRoots roots;
  roots.whole_machine = false;
  if (scope.pid) {
    auto id = note_process(*scope.pid);
    if (!id) return Error::failed(fmt::format("no process has pid {}", *scope.pid));
    roots.tasks.push_back(*id);
    set_process(*id);
    set_scope(std::move(roots));
    return Ok{};
  }
  std::vector<KnownCgroup> known;
  world_->cgroups().for_each([&](const CgroupState& c) {
    if (!c.removed) known.push_back({c.ref->id, c.ref->path, c.ref->name, {}});
  });
  auto matches = match_cgroups(scope, std::move(known), cgroupfs_->mount(), roots_);
  if (!matches) return matches.error();
  for (const CgroupId& id : *matches) roots.cgroups.insert(id.inode);
  set_scope(std::move(roots));
  return Ok{};
}

void Session::set_process(TaskId id) {
  if (alerts_) alerts_->set_process(id);
}

void Session::also_wait_for(int fd) {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted);
}

Book::Config Session::book_config() const {
  Book::Config config;
  config.interval = options_.interval;
  if (!world_->scope().tasks.empty()) config.tree = world_->scope().tasks.front();
  return config;
}

RunInfo Session::run_info() const {
  return {OOMCAST_VERSION,
          first_line_of(roots_, "kernel/osrelease").value_or("unknown"),
          options_.scope.describe(),
          cgroupfs_->mount().hierarchy,
          options_.interval,
          clock_.wall_of_mono_zero,
          clock_.wall_of_boot_zero,
          clock_.tick,
          book_config().tree,
          0,
          first_line_of(roots_, "kernel/random/boot_id").value_or("")};
}

void Session::start(Sink sink) {
  sink_ = [this, sink = std::move(sink)](const Fact& fact) {
    store(fact);
    sink(fact);
  };
  book_.emplace(book_config());
  count_kills();  // what is killed once we say that we follow is more than this
  emit(StartFact{now(), OOMCAST_VERSION, run_info().kernel, sources_});
  poll_all();
  tell_all();
}

// Curves and forecasts give way where the loop is at work, or waits for a CPU, for more than half of the
// time, as on a slow machine on which hundreds of cgroups meet their limits at once: kills are to be told in
// time. CPU time alone is not enough: who shares a CPU with five others never has half of it.
void Session::keep_pace() {
  MonoTime when = now();
  if (paced_at_ == MonoTime{}) paced_at_ = when;
  if (when - paced_at_ < kPaceWindow) return;
  double awake = 1 - Seconds(std::exchange(slept_, Nanos{})) / Seconds(when - paced_at_);
  paced_at_ = when;
  if (awake > kMostAwake)
    pace_ = std::clamp<Nanos>(2 * pace_, kLeastPace, kSlowestPace);
  else if (awake < kMostAwake / 2)
    pace_ = pace_ <= kLeastPace ? Nanos{} : pace_ / 2;
  world_->set_pace(pace_);
}

void Session::step(MonoTime deadline) {
  // One timer serves the interval, the look at lazy records and the end.
  MonoTime until = std::min(deadline, next_poll_);
  for (auto wait : {time_to_look(), reader_->wait(), looks_ ? looks_->wait() : std::nullopt})
    if (wait) until = std::min(until, now() + *wait);
  if (bpf_) {
    bpf_->sleep_until(until);
    if (drain()) until = std::min(until, now() + kLook);  // came before the kernel programs knew
  }
  itimerspec when{};
  Nanos at = std::max<Nanos>(until.time_since_epoch(), 1ns);
  when.it_value.tv_sec = static_cast<time_t>(at / 1s);
  when.it_value.tv_nsec = static_cast<long>((at % 1s).count());
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  std::array<epoll_event, 8> ready{};
  MonoTime sleeps = now();
  epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), -1);
  slept_ += now() - sleeps;

  drain();
  take_answers();
  if (cgroups_->following()) cgroups_->look_at_followed(now());
  if (!world_->episodes().watched().empty()) cgroups_->look_at_kills(now());
  if (now() >= next_poll_) poll_all();
  tell_all();
  keep_pace();
  if (alerts_) alerts_->advance(now());
  if (looks_)
    if (auto fd = looks_->advance(now())) also_wait_for(*fd);
}

// nullopt: nothing is going on; who has news wakes us.
std::optional<Nanos> Session::time_to_look() const {
  if (cgroups_->following()) return CgroupSamples::kHotPoll;
  if (!world_->episodes().watched().empty()) return CgroupSamples::kKillPoll;
  bool busy = now() < look_until_ || world_->episodes().any_open() || world_->unknown_cgroups() ||
              (alerts_ && alerts_->busy());
  return busy ? std::optional(kLook) : std::nullopt;
}

void Session::finish() {
  MonoTime latest = now() + kEndWait;
  auto counted = count_kills();  // what it counts was said by now; what comes later may still be on its way
  drain();
  tell_all();
  while (world_->episodes().any_open() && now() < latest) step(std::min(latest, now() + kMoreSoon));
  take_reports(true);
  tell_all(true);
  for (MonoTime until = now() + Alerts::kEndWait; alerts_ && alerts_->busy() && now() < until;)
    step(now() + kLook);
  if (counted) world_->episodes().count_unseen(*counted);
  count_losses();
  if (alerts_) alerts_->finish();
  emit(EndFact{now(), records_, lost_});
  close_store();
}

// Whether there was anything.
bool Session::drain() {
  MonoTime began = now();
  bool logged = read_log(), news = logged;
  if (gpu_ && gpu_->drain()) news = true;
  bool more = bpf_ != nullptr;
  for (int round = 0; more && round < 64; ++round)
    more = bpf_->drain([&](const wire::Record& record) {
      ++records_;
      news = true;
      if (auto* exit = std::get_if<wire::Exit>(&record)) {
        if (gpu_) gpu_->on_exit(exit->task.id);
        pythons_->forget(exit->task.id);
      }
      if (auto* exec = std::get_if<wire::Exec>(&record)) pythons_->forget(exec->task.id);
      if (std::holds_alternative<wire::OomMark>(record)) reader_->rest(now() + kReaderRests);
      if (auto* code = std::get_if<wire::DyingCode>(&record)) {
        std::vector<CodePlace> places;
        for (Frame& frame : frames_of(*code))
          places.push_back({std::move(frame.function), std::move(frame.file), frame.line});
        world_->on_code(code->task.id, code->task.tid, std::move(places));
      }
      world_->on_record(record);
      if (auto* sample = std::get_if<wire::CgroupSample>(&record)) {
        if (!world_->cgroup_in_scope(sample->memcg.inode)) return;
        CgroupState* state = world_->cgroups().find(sample->memcg.inode);
        // What grows between two sleeps may be on no CPU at any tick: the walk finds it.
        bool moved = sample->moved || (state && cgroups_->moved_far(*state, sample->memcg.usage));
        cgroups_->look_at(sample->memcg.inode, sample->memcg.usage, sample->time);
        if (state) state->told_by_kernel = true;
        if (moved) follow(sample->memcg.inode, sample->time);
        tell_if_many();
      }
    });
  take_reports();
  heard_ = began;
  if (world_->take_urgent_scan() || (now() >= next_scan_ && world_->take_unknown_cgroups())) scan_tree();
  if (news) look_until_ = std::max(look_until_, now() + (logged ? kLogSettles : kMoreSoon));
  return news;
}

// Ticks see what runs. What moved is also looked at from here for a while, and exactly if a person asked for
// it.
void Session::follow(std::uint64_t inode, MonoTime moved) {
  cgroups_->follow(inode, moved);
  if (!world_->scope().whole_machine && moved + kExactFor > exact_until_) {
    exact_until_ = moved + kExactFor;
    bpf_->set_exact(true);
  }
}

std::optional<KillCount> Session::count_kills() {
  KillCount count;
  count.began = counted_at_ = now();
  auto kills = procfs_->read_vmstat_oom_kill();
  if (!kills || !*kills) return std::nullopt;
  count.ended = now();
  count.kills = **kills;
  world_->on_vmstat(count);
  return count;
}

void Session::look_for_gpu() {
  if (!gpu_) return;
  if (!gpu_->look()) return;
  also_wait_for(gpu_->fd());
  sources_.push_back("gpu:" + gpu_->hook());
  // Who had the driver's files open before its calls were followed holds what nobody counted.
  auto pids = procfs_->list_pids();
  if (!pids) return;
  for (std::uint32_t pid : *pids)
    if (gpu_->uses_driver(pid))
      if (auto id = note_process(pid)) world_->gpu().on_known_user(*id);
}

bool Session::read_log() {
  if (!kmsg_) return false;
  bool news = false;
  auto drained = kmsg_->drain([&](const KmsgRecord& record) {
    news = true;
    auto line = line_of(record);
    if (!line) return;
    // The log's clock drifts from the monotonic one by seconds in days; records are read as they come.
    line->time = now().time_since_epoch();
    for (const OomFact& fact : log_parser_.feed(*line))
      if (auto* victim = std::get_if<OomVictimLine>(&fact);
          victim && !bpf_ && !world_->tasks().by_pid(victim->tid))
        note_process(victim->tid);  // a last chance: it may still be dying
    for (OomDump& dump : log_parser_.take_finished()) reports_.push_back(std::move(dump));
  });
  if (!drained) return news;
  if (drained->lost) lose("kernel_log_overwritten", drained->lost);
  if (drained->unreadable) lose("kernel_log_unreadable", drained->unreadable);
  if (!drained->more) log_read_ = now();
  return news;
}

// After the kernel programs' records, which the log may be ahead of.
void Session::take_reports(bool all) {
  if (!kmsg_) return;
  MonoTime when = now();
  std::vector<OomDump> reports = std::exchange(reports_, {});
  for (OomDump& dump :
       all ? log_parser_.finish()
           : log_parser_.take_named(when.time_since_epoch(), world_->episodes().due(when + kLook)))
    reports.push_back(std::move(dump));
  if (!bpf_ && !reports.empty()) scan_tree();  // nobody else tells of a new cgroup
  for (const OomDump& dump : reports)
    world_->on_dump(dump, dump.kill_time ? MonoTime(*dump.kill_time) : when);
  if (log_read_) world_->on_log_read(*log_read_);
  log_read_.reset();
}

// A machine without a clock of its own is 200 days behind until it has asked another; one that slept, or a
// virtual one that was stopped, is ahead of its monotonic clock.
void Session::read_clock() {
  Nanos mono = wall_ahead_of(CLOCK_MONOTONIC), boot = wall_ahead_of(CLOCK_BOOTTIME);
  if (std::chrono::abs(mono - clock_.wall_of_mono_zero) > kClockSet) {
    clock_.wall_of_mono_zero = mono;
    for (StoreWriter* writer : writers_) writer->set_clock(mono);
  }
  if (std::chrono::abs(boot - clock_.wall_of_boot_zero) > kClockSet) clock_.wall_of_boot_zero = boot;
}

void Session::poll_all() {
  MonoTime when = now();
  read_clock();
  next_poll_ = when + options_.interval;
  if (auto info = procfs_->read_meminfo()) world_->on_host(when, *info);
  count_kills();
  if (!bpf_) {
    // Nobody tells of new cgroups and processes: look for them.
    scan_tree();
    scan_processes();
  }

  bool walked = bpf_ && bpf_->walk_cgroups();
  if (walked) drain();
  cgroups_->look_at_all(when, walked, [this] { tell_if_many(); });
  for (std::uint64_t inode : world_->take_forgotten()) {
    CgroupId id{cgroupfs_->mount().hierarchy, inode};
    cgroups_->forget(id);
    emit(ForgottenFact{when, id});
  }
  if (auto pressure = procfs_->read_pressure(); pressure && *pressure)
    world_->on_pressure(when, std::nullopt, **pressure);
  if (bpf_)
    bpf_->for_each_stall([&](std::uint64_t inode, const wire::Stalls& sums) {
      if (!world_->on_stalls(when, inode, sums)) return;
      // Who stalls is under pressure; the others' files are not worth a look.
      auto dir = cgroupfs_->open_dir(world_->cgroups().find(inode)->ref->path);
      if (!dir) return;
      if (auto pressure = dir->read_pressure(); pressure && *pressure)
        world_->on_pressure(when, inode, **pressure);
    });
  for (ExitFact& exit : processes_->ended(now())) emit(std::move(exit));
  for (ProcessSampleFact& sample : processes_->moved(now())) tell_process(std::move(sample));
  if (is_short_of_memory()) reader_->rest(now() + options_.interval + kReaderRests);
  for (const TaskId& id : std::exchange(unasked_, {})) ask_for_arguments(id);
  for (const TaskId& id : processes_->to_measure(now()))
    reader_->ask(Reader::What::private_memory, id, now());
  if (looks_) looks_->plan(when);
  look_for_gpu();
  if (gpu_) gpu_->sample(now());
  emit(TickFact{now()});
  if (alerts_) check_rules();
  choose_effort();
  count_losses();
}

void Session::check_rules() {
  MonoTime when = now();
  std::vector<AlertInput> all;
  auto host_total = world_->host() ? world_->host()->total : std::nullopt;
  AlertInput host;
  world_->cgroups().for_each([&](const CgroupState& c) {
    if (c.ref->name.kind == CgroupKind::root) host.cgroup = c.ref;  // what stands for it elsewhere
    if (c.ref->name.kind == CgroupKind::root || c.removed || !c.pinned ||
        !world_->cgroup_in_scope(c.ref->id.inode))
      return;
    AlertInput in;
    in.cgroup = c.ref;
    in.level = c.pinned->value;
    in.limit = c.headroom_limit;
    in.limit_cgroup = world_->cgroups().tightest_limit(c.ref->id.inode, host_total).owner;
    if (const Forecast* known = book_->of(c.ref->id)) in.forecast = *known;
    all.push_back(std::move(in));
  });
  auto room = world_->host() ? host_headroom(*world_->host()) : std::nullopt;
  if (world_->scope().whole_machine && room) {
    host.host = true;
    host.level = room->pinned;
    host.limit = room->limit;
    if (const Forecast* known = book_->of(world_->host_ref()->id)) host.forecast = *known;
    all.push_back(std::move(host));
  }
  if (gpu_)
    for (const OverviewCard& card : gpu_->cards()) {
      AlertInput in;
      in.device = card.now.device;
      in.level = card.now.held;
      in.limit = card.now.limit;
      if (const Forecast* known = book_->of(*in.device)) in.forecast = *known;
      all.push_back(std::move(in));
    }
  if (const ForecastFact* tree = book_->tree()) {
    AlertInput in;
    in.process = tree->process;
    in.cgroup = tree->process->cgroup;
    in.level = book_->tree_holds();
    in.limit = tree->forecast.limit;
    in.limit_cgroup = tree->limit_cgroup;
    in.forecast = tree->forecast;
    all.push_back(std::move(in));
  }
  alerts_->look(when, all);
}

void Session::check_levels(const Sample& sample) {
  if (!alerts_) return;
  // The root cgroup of a process stands for the host, which is nobody's scope but the whole machine's.
  bool host = !sample.cgroup || sample.cgroup->name.kind == CgroupKind::root;
  if (host && !world_->scope().whole_machine) return;
  const Forecast* newest = sample.cgroup ? book_->of(sample.cgroup->id) : nullptr;
  alerts_->look_at(sample, newest);
}

void Session::look_for_growth(CgroupId cgroup) {
  if (looks_) looks_->ask(cgroup);
}

// How closely to look: every RSS change while a cgroup is about to meet its limit, otherwise each tick is
// enough.
void Session::choose_effort() {
  if (!bpf_) return;
  MonoTime when = now();
  world_->cgroups().for_each([&](const CgroupState& state) {
    if (state.removed || !state.pinned || !state.limit || !state.headroom_limit ||
        !world_->cgroup_in_scope(state.ref->id.inode))
      return;
    bool fresh = when - state.pinned->time < kExactFor;
    if (fresh && is_nearly_full(state)) exact_until_ = when + kExactFor;
  });
  bpf_->set_exact(when < exact_until_);
}

void Session::count_losses() {
  auto since = [this](std::uint64_t& known, std::uint64_t count, const char* reason) {
    if (count > known) lose(reason, count - known);
    known = count;
  };
  if (store_) since(not_stored_, store_->lost(), "not_stored");
  since(reads_given_up_, reader_->given_up(), "reader_given_up");
  since(kills_dropped_, world_->episodes().dropped(), "oom_kill_no_room");
  since(kills_unseen_, world_->episodes().unseen(now()), "oom_kill_unseen");
  since(spared_, world_->spared(), "samples_spared");
  since(late_victims_, world_->episodes().late_victims(), "oom_victim_late");
  tell_notices();
  if (!bpf_) return;
  LostCounts counts = bpf_->lost();
  kernel_lost_.resize(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > kernel_lost_[i]) lose(std::string(wire::lost_reasons()[i]), counts[i] - kernel_lost_[i]);
    kernel_lost_[i] = counts[i];
  }
  since(missed_, bpf_->missed_runs(), "program_interrupted_itself");
  since(undecodable_, bpf_->undecodable(), "undecodable_record");
  if (looks_) since(looks_given_up_, looks_->given_up(), "growth_look_given_up");
  if (gpu_) since(gpu_lost_, gpu_->lost(), "gpu_ring_full");
  if (gpu_) since(gpu_pages_lost_, gpu_->page_events_lost(), "gpu_page_events");
  since(dropped_,
        world_->tasks().forgotten() + world_->cgroups().not_followed() + book_->not_followed() +
            world_->gpu().dropped(),
        "model_full");
}

void Session::lose(const std::string& reason, std::uint64_t count) {
  lost_[reason] += count;
  emit(LostFact{now(), reason, count});
}

void Session::tell_all(bool last) {
  MonoTime when = now();
  if (world_->episodes().any_open() && (last || when - counted_at_ >= kCountEvery)) count_kills();
  // On a machine that let us wait, more may have come since; an episode ends when what came in its time was
  // heard.
  store_begun();
  world_->set_store_behind(std::ranges::any_of(writers_, [](const StoreWriter* w) { return w->behind(); }));
  world_->advance(heard_, last);
  for (CgroupPtr& cgroup : world_->take_killed()) emit(TickFact{when, std::move(cgroup)});
  store_completed(last);
  for (ModelFact& fact : world_->take_facts()) tell(std::move(fact));
}

// Ten thousand cgroups that are seen at once were 21 MiB of samples.
void Session::tell_if_many() {
  if (world_->untaken() < kMostUntold) return;
  for (ModelFact& fact : world_->take_facts()) tell(std::move(fact));
}

OomFactLine Session::with_forecast(Episode episode) const {
  episode.id = episode_id(clock_.wall(episode.time), episode);
  if (looks_) {
    std::vector<ProcessRef> of;
    for (const GrewProcess& g : episode.grew_most) of.push_back(g.process);
    for (const Victim& v : episode.victims) of.push_back(v.process);
    episode.grew_from = looks_->found().of(of);
  }
  OomFactLine line{std::move(episode), std::nullopt, std::nullopt};
  if (line.episode.limit_cgroup)
    if (auto before = book_->before(line.episode.limit_cgroup->id, line.episode.time)) {
      line.forecast_before = before->forecast;
      line.first_forecast = before->first;
    }
  return line;
}

void Session::keep_in(std::unique_ptr<StoreWriter> store,
                      std::function<void(const std::string&)> tell_error) {
  store_ = std::move(store);
  tell_error_ = std::move(tell_error);
  writers_.push_back(store_.get());
}

void Session::close_store() {
  if (!store_) return;
  (void)store_->finish();
  tell_notices();
}

void Session::tell_notices() {
  if (!store_ || hold_notices_) return;
  for (const std::string& notice : store_->take_notices()) tell_error_(notice);
}

void Session::store(const Fact& fact) {
  for (StoreWriter* writer : writers_)
    std::visit(
        [&](const auto& f) {
          using T = std::decay_t<decltype(f)>;
          if constexpr (std::is_same_v<T, OomFactLine>)
            writer->add(EpisodeFact{f});
          else if constexpr (!std::is_same_v<T, StartFact> && !std::is_same_v<T, EndFact>)
            writer->add(f);
        },
        fact);
}

// The line that tells of a kill comes when all of it is known. The store has what is known at once, and
// before the line: a machine without memory may not live that long.
void Session::store_begun() {
  for (Episode& episode : world_->take_begun()) {
    if (looks_) looks_->hurry(now());
    for (StoreWriter* writer : writers_) writer->add(EpisodeFact{with_forecast(episode), false});
  }
}

// And it has what came after the line, which cannot wait for a memory of 500 GiB to come back.
void Session::store_completed(bool last) {
  for (Episode& episode : world_->take_completed(last ? heard_ + EpisodeBuilder::kFollow : heard_))
    for (StoreWriter* writer : writers_) writer->add(EpisodeFact{with_forecast(episode)});
}

void Session::tell(ModelFact fact) {
  if (auto* episode = std::get_if<Episode>(&fact)) {
    emit(with_forecast(std::move(*episode)));
  } else if (auto* sample = std::get_if<ProcessSampleFact>(&fact)) {
    tell_process(std::move(*sample));
  } else {
    std::visit(
        [this](auto&& f) {
          if constexpr (std::is_same_v<std::decay_t<decltype(f)>, Sample>) {
            check_levels(f);
            if (looks_) looks_->on(f);
          }
          if constexpr (!std::is_same_v<std::decay_t<decltype(f)>, Episode> &&
                        !std::is_same_v<std::decay_t<decltype(f)>, ProcessSampleFact>)
            emit(Fact(f));
        },
        fact);
  }
}

void Session::take_answers() {
  for (const Reader::Answer& answer : reader_->advance(now())) {
    if (answer.what == Reader::What::arguments) {
      if (answer.dropped) ask_for_arguments(answer.id);
      if (answer.arguments)
        world_->on_arguments(answer.id, {answer.arguments->args, answer.arguments->truncated}, answer.asked);
    } else if (answer.what == Reader::What::python) {
      if (pythons_) pythons_->on_answer(answer);
    } else if (answer.given_up) {
      processes_->gave_up(answer.id);
    } else if (auto sample = processes_->measured(answer.id, answer.private_bytes, answer.cost, now())) {
      tell_process(*std::move(sample));
    }
  }
}

// As good as nothing is left: the next that wants a page may be the one for which somebody is killed.
bool Session::is_short_of_memory() const {
  const auto& host = world_->host();
  return host && host->available && host->total &&
         host->available->as_double() < kShort * host->total->as_double();
}

void Session::tell_process(ProcessSampleFact sample) {
  if (pythons_) pythons_->on_sample(sample.process.id, sample.rss, sample.time);
  Fact fact = std::move(sample);
  analyse(*book_, fact, sink_);
  auto& told = std::get<ProcessSampleFact>(fact);
  if (looks_) looks_->on(told);
  processes_->on(told);
}

void Session::emit(Fact fact) {
  if (auto* alert = std::get_if<AlertFact>(&fact)) {
    // With its last result, in place of the line that said that it runs.
    std::erase_if(events_, [&](const Fact& event) {
      auto* before = std::get_if<AlertFact>(&event);
      return before && before->time == alert->time && before->rule == alert->rule &&
             before->cgroup == alert->cgroup;
    });
  }
  if (std::holds_alternative<OomFactLine>(fact) || std::holds_alternative<UserKillFact>(fact) ||
      std::holds_alternative<AlertFact>(fact)) {
    events_.push_back(fact);
    if (events_.size() > kMaxEvents) events_.pop_front();
  }
  analyse(*book_, fact, sink_);
}

Overview Session::overview() const {
  Overview out;
  out.time = now();
  out.scope = options_.scope.describe();
  out.sources = sources_;
  out.events = events_;
  out.lost = lost_;
  std::optional<Bytes> host_total = world_->host() ? world_->host()->total : std::nullopt;
  if (world_->scope().whole_machine && world_->host()) {
    OverviewRow host;
    const MemInfo& info = *world_->host();
    if (info.total && info.free) host.usage = *info.total - *info.free;
    host.limit = info.total;
    if (auto room = host_headroom(info)) host.pinned = room->pinned;
    if (const Forecast* known = book_->of(world_->host_ref()->id)) host.forecast = *known;
    out.rows.push_back(std::move(host));
  }
  world_->cgroups().for_each([&](const CgroupState& c) {
    if (c.removed || c.ref->name.kind == CgroupKind::root || !world_->cgroup_in_scope(c.ref->id.inode))
      return;
    auto tightest = world_->cgroups().tightest_limit(c.ref->id.inode, host_total);
    OverviewRow row;
    row.cgroup = c.ref;
    row.usage = c.usage;
    row.limit = tightest.limit;
    row.limit_cgroup = tightest.owner;
    if (c.pinned) row.pinned = c.pinned->value;
    if (const Forecast* known = book_->of(c.ref->id)) row.forecast = *known;
    out.rows.push_back(std::move(row));
  });
  for (const auto& [id, sample] : processes_->newest()) out.processes.push_back(sample);
  if (gpu_) {
    out.cards = gpu_->cards();
    out.gpu = gpu_->tier();
    for (OverviewCard& card : out.cards)
      if (const Forecast* known = book_->of(*card.now.device)) card.forecast = *known;
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
