// oomcast blame: samples page faults for a window, and reports growth by process and line.
#include "blame/blame.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <unordered_map>

#include "app/allocation_watch.h"
#include "app/blame_reader.h"
#include "app/commands.h"
#include "app/gpu_growth.h"
#include "app/memory_limits.h"
#include "app/output_file.h"
#include "app/privileges.h"
#include "app/scope.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "collect/bpf_source_faults.h"
#include "collect/files.h"
#include "collect/safe_path.h"
#include "parse/text.h"
#include "present/blame.h"
#include "present/blame_brief.h"
#include "present/blame_diff.h"
#include "present/blame_json.h"
#include "present/stack_profile.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kDefaultWindow = 10s;
constexpr Nanos kNoteEvery = 50ms;  // a process that exits takes the names of its functions with it

std::optional<Bytes> usage_of(const CgroupFs& fs, const ScopeNow& scope) {
  if (scope.cgroups.empty()) return std::nullopt;
  Bytes sum;
  for (const CgroupEntry& c : scope.cgroups) {
    auto dir = fs.open_dir(c.path);
    if (!dir) return std::nullopt;
    auto usage = dir->read_usage();
    if (!usage) return std::nullopt;
    sum += *usage;
  }
  return sum;
}

// A machine-wide report with thousands of processes has some tens of MiB.
constexpr std::size_t kMaxFile = 256 << 20;

Result<BlameReport> read_blame(const std::string& path) {
  std::string shown = escape_for_terminal(path);
  auto file = open_input(path);
  if (!file) return Error::failed(fmt::format("reading {}: {}", shown, file.error().message));
  auto text = read_file(file->get(), kMaxFile);
  if (!text) return Error::from_errno("reading " + shown);
  return parse_blame(*text, shown);
}

const Nanos kTick{1'000'000'000 / sysconf(_SC_CLK_TCK)};

/// The window: passes sampled page faults to the reader.
class Watch {
 public:
  using Say = std::function<void(const std::string&)>;
  /// Calls `drop_privileges` once the probes are attached.
  Watch(const Options& options, const ScopeNow& scope, StopSignals& stop, const Roots& roots,
        const CgroupFs& fs, Say say, std::function<void()> drop_privileges)
      : options_(options),
        scope_(scope),
        stop_(stop),
        procfs_(roots),
        fs_(fs),
        say_(std::move(say)),
        reader_(options.sources.root, callers_limits(),
                options.blame.brief ? MemoryLimits::kLookReader : MemoryLimits::kBlameReader, events()),
        allocations_(scope, procfs_, fs, reader_),
        gpu_(reader_),
        drop_privileges_(std::move(drop_privileges)) {
    fault_.roots = roots;
    fault_.asking = static_cast<std::uint32_t>(getpid());
    fault_.code_breakpoints = !options.blame.brief;
    fault_.units = {sysconf(_SC_PAGESIZE), kTick.count()};
    fault_.page_faults = options.sources.page_faults;
    fault_.data_breakpoints = options.sources.data_breakpoints;
    for (const CgroupEntry& c : scope.cgroups) fault_.cgroups.push_back(c.id.inode);
    if (options.scope.pid) fault_.processes = scope.pids;
  }

  /// Retries without the processes that could not be read; after kMaxLost of those, without reading any: a
  /// tenant with a few files that crash the reader would otherwise prevent any report. A read that was only
  /// late is retried first, up to some times, at growing intervals: on busy CPUs a read of a young process,
  /// which still maps its libraries, took more than its 50 ms twice in a row, and its report had no line.
  Result<BlameReport> run() {
    allow_reserves();
    if (procfs_.pid_numbers().foreign) return Error::forbidden(what_it_costs(procfs_.pid_numbers()));
    setpriority(PRIO_PROCESS, 0, -10);  // late, it would watch for longer than it should
    if (!options_.blame.brief) follow_gpu();
    MonoTime until = mono_now() + duration();
    bool blind = false;
    for (std::optional<MonoTime> again;; again = until) {
      if (auto ok = open_source(); !ok) return ok.error();
      if (auto ok = reader_.start(unread_, blind); !ok) return ok.error();
      auto done = watch(again);
      if (!done) return done.error();
      if (*done)
        if (auto report = reader_.take_report()) return completed(*std::move(report));
      if (*done && reader_.report_is_too_long())
        return Error::failed(
            "the report is longer than there is room for: ask for a part of these processes");
      if (reader_.refusal())
        return Error::forbidden(
            fmt::format("the process that reads others' memory {}, so it does not serve", reader_.refusal()));
      auto by = reader_.looked_at();
      if (by && stop_.pending())
        return Error::failed(fmt::format("stopped without a result: process {} could not be looked at", *by));
      if (!by || blind)
        return Error::failed("the process that reads others' memory ended before it had a result");
      if (reader_.was_late() && may_be_late_again(*by)) {
        say_(fmt::format("a look at process {} took too long: once more", *by));
        wait_after_late_look(*by);
        continue;
      }
      if (unread_.size() >= kMaxLost) {
        blind = true;
        say_(fmt::format("{} processes could not be looked at: once more, without anybody's files and memory",
                         unread_.size() + 1));
        continue;
      }
      say_(fmt::format("process {} could not be looked at: once more, without its files and memory", *by));
      unread_.push_back(*by);
    }
  }
  MonoTime ended() const { return ended_; }
  /// Call it last: the end may block.
  void tell_why_it_lasts() const {
    auto keeper = source_ ? source_->waits_for() : std::nullopt;
    if (keeper)
      say_(fmt::format(
          "process {} sleeps with the lock of its memory: the breakpoints go when it lets go of it, "
          "in a minute at the latest",
          *keeper));
  }

 private:
  static constexpr std::size_t kMaxLost = 8;
  static constexpr int kMaxLateOfOne = 3, kFirstWaitMs = 100;
  static constexpr Nanos kMinAgain = 5s;
  static constexpr double kMinToldOf = 0.1;  // of all growth

  Nanos duration() const { return options_.duration.value_or(kDefaultWindow); }
  bool samples_faults() const { return source_ && begun_; }
  double watched_share() const { return source_ ? source_->watched_share() : 1; }

  BlameReader::Events events() {
    return {[this](std::uint32_t pid, std::span<const std::byte> layout) {
              gpu_.set_python(pid, layout);
              if (!source_) return;
              if (auto ok = source_->set_python(pid, layout); !ok) say_(ok.error().message);
            },
            [this](std::uint32_t pid, Bytes resident) {
              if (!source_) return;
              if (auto ok = source_->set_baseline(pid, resident); !ok) say_(ok.error().message);
            },
            [this](std::uint32_t pid, Result<Allocator> allocator) {
              allocations_.on_allocator(source_.get(), pid, std::move(allocator));
            },
            [this](std::uint32_t pid, std::span<const std::uint64_t> lengths) {
              allocations_.on_growing(source_.get(), pid, lengths);
            }};
  }

  // Only for the requested process; with many, others would grow unseen while we wait for one. Not for a
  // brief profile: the tracer waits for it, at most 20 s.
  bool is_waited_for(std::uint32_t pid) const {
    return !options_.blame.brief && (scope_.pids.size() == 1 || options_.scope.pid == pid);
  }

  bool may_be_late_again(std::uint32_t pid) const {
    auto so_far = late_of_.find(pid);
    int most = is_waited_for(pid) ? kMaxLateOfOne : 1;
    return late_ < kMaxLost && (so_far == late_of_.end() || so_far->second < most);
  }

  void wait_after_late_look(std::uint32_t pid) {
    ++late_;
    int wait_ms = kFirstWaitMs << (2 * late_of_[pid]++);
    source_.reset();  // detached meanwhile
    pollfd stop{stop_.fd(), POLLIN, 0};
    if (is_waited_for(pid)) poll(&stop, 1, wait_ms);
  }

  void follow_gpu() {
    if (auto ok = gpu_.open(options_.sources.gpu_test, fault_.roots); !ok)
      say_("no lines for memory of cards: " + ok.error().message);
  }

  Status do_without_source(const Error& why) {
    bool stacks_alone = options_.blame.format != Format::text && options_.blame.format != Format::json;
    if (stacks_alone || why.exit_code != Error::forbidden("").exit_code) return why;
    source_.reset();
    no_stacks_ = why.message;
    say_("no stacks, only which process grows: " + why.message);
    return Ok{};
  }

  Status open_source() {
    source_.reset();
    if (!no_stacks_.empty()) return Ok{};
    auto opened = FaultSource::open(fault_);
    if (!opened) return do_without_source(opened.error());
    source_ = *std::move(opened);
    return Ok{};
  }

  // Runs until the reader has finished its requests, or until `until` or a stop signal. false: the reader is
  // lost.
  Result<bool> go_on(std::optional<MonoTime> until) {
    FaultSource::Sink take = [&](std::span<const std::byte> record) { reader_.add(record); };
    MonoTime next_look = mono_now() + kNoteEvery;
    for (;;) {
      MonoTime now = mono_now();
      if (samples_faults())
        if (auto ok = source_->drain(take, now); !ok) return ok.error();
      if (begun_) gpu_.drain();
      reader_.advance(now);
      if (reader_.lost()) return false;
      if (until) allocations_.choose(now);
      if (until ? now >= *until || stop_.pending() : reader_.idle()) return true;
      if (samples_faults()) allocations_.check_room(*source_, now);
      if (until && now >= next_look) {
        reader_.look(watched_share());
        next_look = now + kNoteEvery;
      }
      wait(until, now);
    }
  }

  // Sleeps until there is something to read or to do.
  void wait(std::optional<MonoTime> until, MonoTime now) {
    short reads_and_writes = reader_.wants_to_write() ? POLLIN | POLLOUT : POLLIN;
    pollfd fds[] = {{reader_.fd(), reads_and_writes, 0},
                    {samples_faults() ? source_->fd() : -1, POLLIN, 0},
                    {begun_ ? gpu_.fd() : -1, POLLIN, 0},
                    {until ? stop_.fd() : -1, POLLIN, 0}};
    Nanos left = samples_faults() ? std::min(source_->next_look(), kNoteEvery) : kNoteEvery;
    if (until)
      left = std::min<Nanos>(left, std::min(*until, std::max(allocations_.next_choice(), now)) - now);
    timespec timeout{static_cast<time_t>(left / 1s), static_cast<long>((left % 1s).count())};
    ppoll(fds, std::size(fds), &timeout, nullptr);
  }

  // `until`: this is a retry. false: the reader is lost.
  Result<bool> watch(std::optional<MonoTime> until) {
    begun_ = false;
    // There is room for some hundreds (Blame::Config), and large processes are the likelier to grow.
    for (std::uint32_t pid : largest_first(scope_.pids, procfs_)) reader_.note(pid);
    allocations_.prepare(source_.get());
    reader_.begin();
    if (auto went = go_on(std::nullopt); !went || !*went) return went;
    before_ = usage_of(fs_, scope_);
    auto end_of = [&](MonoTime begin) {
      return until ? std::max(*until, begin + std::min(duration(), kMinAgain)) : begin + duration();
    };
    bool chosen = allocations_.watch_found(source_.get(), end_of(mono_now()));
    MonoTime begin = mono_now();
    if (source_)
      if (auto ok = source_->begin(begin); !ok)
        if (auto still = do_without_source(ok.error()); !still) return still.error();
    gpu_.begin();
    begun_ = true;
    if (auto drop = std::exchange(drop_privileges_, nullptr)) {
      drop();
      say_(fmt::format("watching {} process{} of {} for {}", scope_.pids.size(),
                       scope_.pids.size() == 1 ? "" : "es", options_.scope.describe(),
                       format_duration(duration())));
    }
    MonoTime end = end_of(begin);
    allocations_.begin(source_.get(), begin, end, !chosen);
    if (auto went = go_on(end); !went || !*went) return went;
    gpu_.end();
    reader_.end();
    if (auto went = go_on(std::nullopt); !went || !*went) return went;
    ended_ = mono_now();
    reader_.end_objects();
    reader_.advance(ended_);  // while the breakpoints are removed
    if (source_) allocations_.end(*source_, ended_);
    after_ = usage_of(fs_, scope_);
    reader_.finish(ended_ - begin, watched_share());
    return go_on(std::nullopt);
  }

  BlameReport completed(BlameReport report) const {
    report.cgroup_grown = before_ && after_ ? std::optional(*after_ - *before_) : std::nullopt;
    report.scope = options_.scope.describe();
    report.lost.clear();
    if (source_) report.lost = source_->lost();
    for (const auto& [reason, count] : reader_.losses()) report.lost[reason] += count;
    report.no_stacks = no_stacks_;
    report.gpu_followed = gpu_.followed();
    if (gpu_.followed()) report.lost["gpu_ring_full"] = gpu_.lost();
    // Only a few processes' allocations are traced: tell the user why, for others that grow as well.
    for (BlameProcess& p : report.processes) {
      if (p.why_not_added.empty()) p.why_not_added = allocations_.why_not_added(p.process.id.tgid);
      bool grew = p.grown().as_double() >= kMinToldOf * report.grown.as_double() && report.grown > Bytes{};
      if (!source_ || p.kept || p.exited || !p.why_not_kept.empty() || !grew) continue;
      p.why_not_kept = allocations_.why_not(p.process.id.tgid);
    }
    return report;
  }

  const Options& options_;
  const ScopeNow& scope_;
  StopSignals& stop_;
  ProcFs procfs_;
  const CgroupFs& fs_;
  Say say_;
  FaultOptions fault_;
  std::unique_ptr<FaultSource> source_;
  BlameReader reader_;
  AllocationWatch allocations_;
  GpuGrowth gpu_;
  std::vector<std::uint32_t> unread_;
  std::unordered_map<std::uint32_t, int> late_of_;  // timeouts of one process
  std::size_t late_ = 0;                            // in total
  std::string no_stacks_;
  std::optional<Bytes> before_, after_;
  bool begun_ = false;                     // faults are being sampled
  std::function<void()> drop_privileges_;  // empty: done
  MonoTime ended_{};
};

/// `text` and `json` render formats that have a form of their own.
template <typename Text, typename JsonText>
Result<std::string> render(Format format, const StackProfile& profile, Text text, JsonText json) {
  switch (format) {
    case Format::json:
      return json();
    case Format::folded:
      return to_folded(profile);
    case Format::pprof:
      return to_pprof(profile);
    case Format::html:
      return to_html(profile);
    default:
      break;
  }
  return text();
}

Result<std::string> render_difference(const BlameReport& before, const BlameReport& after, Format format,
                                      WallTime now) {
  StackProfile profile = difference(before, after);
  profile.time = now;
  return render(
      format, profile, [&] { return to_text(profile); }, [&] { return to_json(profile); });
}

Status deliver(std::optional<OutputFile>& file, const Result<std::string>& text) {
  if (!text) return text.error();
  if (file) return file->write(*text);
  if (!print(stdout, *text)) return stdout_failed();
  return Ok{};
}

Status open_file(const std::string& path, std::optional<OutputFile>& file) {
  if (path.empty() || path == "-") return Ok{};
  auto opened = OutputFile::open(path);
  if (!opened) return opened.error();
  file.emplace(*std::move(opened));
  return Ok{};
}

Result<int> tell_difference(const Options& options) {
  WallTime started = wall_now();
  auto before = read_blame(options.blame.diff[0]), after = read_blame(options.blame.diff[1]);
  if (!before) return before.error();
  if (!after) return after.error();
  std::optional<OutputFile> file;
  if (auto ok = open_file(options.blame.file, file); !ok) return ok.error();
  if (auto ok = deliver(file, render_difference(*before, *after, options.blame.format, started)); !ok)
    return ok.error();
  return 0;
}

}  // namespace

Result<int> blame(const Options& options) {
  if (options.blame.format == Format::pprof && options.blame.file.empty() && isatty(STDOUT_FILENO))
    return Error::usage("blame --format pprof is not for a terminal: give -o FILE, or send it to one");
  if (!options.blame.diff.empty()) return tell_difference(options);
  std::optional<BlameReport> earlier;
  if (!options.blame.earlier.empty()) {
    auto read = read_blame(options.blame.earlier);
    if (!read) return read.error();
    earlier = *std::move(read);
  }
  std::optional<OutputFile> file;
  if (auto ok = open_file(options.blame.file, file); !ok) return ok.error();
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  if (options.blame.brief) prctl(PR_SET_PDEATHSIG, SIGKILL);  // a profile dies with its tracer
  raise_file_limit();
  Roots roots{options.sources.root};
  ProcFs procfs(roots);
  auto fs = CgroupFs::open(roots);
  if (!fs) return fs.error();
  auto say = diagnostics(options);
  std::optional<ScopeNow> scope;
  Status found = await_scope(options.scope, *stop, say, [&]() -> Status {
    auto looked = scope_now(options.scope, *fs, procfs, roots);
    if (!looked) return looked.error();
    scope = *std::move(looked);
    std::erase(scope->pids, static_cast<std::uint32_t>(getpid()));  // would measure its own work
    return Ok{};
  });
  if (!found && stop->pending()) return 0;
  if (!found) return found.error();

  auto drop = [&] {
    for (const std::string& line : drop_privileges(file && file->is_beside_others_files())) say(line);
  };
  Watch watch(options, *scope, *stop, roots, *fs, say, drop);
  auto watched = watch.run();
  if (!watched) return watched.error();
  BlameReport report = options.blame.brief ? in_brief(*std::move(watched)) : *std::move(watched);
  MonoTime now = watch.ended();
  ClockMap clock{wall_ahead_of(CLOCK_MONOTONIC), wall_ahead_of(CLOCK_BOOTTIME), kTick};
  auto text = earlier ? render_difference(*earlier, report, options.blame.format, clock.wall(now))
                      : render(
                            options.blame.format, profile_of(report, clock, now),
                            [&] { return to_text(report); }, [&] { return to_json(report, clock, now); });
  if (auto ok = deliver(file, text); !ok) return ok.error();
  watch.tell_why_it_lasts();
  return 0;
}

}  // namespace oomcast
