#include "app/known_kills.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "app/command_flags.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "collect/files.h"
#include "collect/kmsg.h"
#include "collect/log_directory.h"
#include "collect/log_file.h"
#include "collect/safe_path.h"
#include "parse/oom_reports.h"
#include "parse/text.h"
#include "store/import.h"
#include "store/open.h"

namespace oomcast {
namespace {

// Kills kept per log or directory: the newest, and some more while reading.
constexpr std::size_t kMaxKills = 20'000, kTrim = kMaxKills / 4;
// Kills kept with their whole task table: at most 40 MiB.
constexpr std::size_t kWholeTables = 256;
// The kernel log's clock is not NTP-adjusted: it drifts from wall time by up to this fraction (1/kDrift) of
// the time since.
constexpr std::int64_t kDrift = 10'000;

// journald writes boot ids without dashes.
std::string plain_boot_id(std::string_view text) {
  std::string out(trim(text));
  std::erase(out, '-');
  return out;
}

std::string kill_count(std::size_t n) {
  return n == 1 ? "1 kill" : fmt::format("{} kills", n);
}

class KillReader {
 public:
  KillReader(const Options& options, WallTime now)
      : options_(options), say_(diagnostics(options)), now_(now) {}

  Result<KnownKills> read(EpisodeParts parts, bool dates) {
    const auto& logs = options_.history.logs;
    if ((logs.empty() || options_.store.named) && !options_.store.path.empty()) read_stores(parts);
    for (const std::string& path : logs)
      if (auto ok = read_path(path); !ok) return ok.error();
    if (logs.empty() && options_.sources.use_kmsg) {
      read_kmsg();
      read_journal();
    }
    bool whole_machine = logs.empty() && options_.sources.use_kmsg;
    if (out_.sources.empty() && out_.forbidden && !whole_machine) return *out_.forbidden;
    if (out_.sources.empty() && missing_store_) return *missing_store_;
    if (dates && std::ranges::any_of(kills_, [](const PastKill& k) { return !k.time && k.since_boot; }))
      date_by_kmsg();
    out_.kills = each_once(std::move(kills_));
    std::erase_if(out_.kills, [&](const PastKill& k) { return !logs.empty() && k.files.empty() && !k.kept; });
    // The unread store may have kills: "none found" would be wrong.
    bool is_the_question = options_.command == Command::report && options_.store.named;
    if (unread_store_ && (out_.kills.empty() || is_the_question)) return *unread_store_;
    if (unread_store_) tell_error(unread_store_->message);
    // No permission: there may be newer kills than those found.
    if (out_.forbidden && whole_machine && !read_kernel_log_) {
      if (out_.kills.empty()) return without_rights();
      say_(fmt::format(
          "newer kills may be in {}the kernel log, which this user may not read: sudo oomcast report, sudo "
          "oomcast history",
          out_.store == kSystemStore ? "" : fmt::format("{} and ", kSystemStore)));
    }
    out_.without_victim = std::erase_if(out_.kills, [](const PastKill& kill) { return kill.no_victim; });
    for (PastKill& kill : out_.kills)
      if (kill.episode.id.empty()) kill.episode.id = name_of(kill);
    if (out_.left_out)
      say_(
          fmt::format("the oldest {} kills are left out: more than {} in one log", out_.left_out, kMaxKills));
    return std::move(out_);
  }

 private:
  // The user's own store, or root's if readable.
  void read_stores(EpisodeParts parts) {
    bool root = geteuid() == 0;
    read_store(options_.store.path, parts);
    if (options_.store.named || root || !out_.store.empty()) return;
    std::string file = fmt::format("{}/{}", kSystemStore, kStoreFile);
    if (faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0)
      read_store(kSystemStore, parts);
    else if (errno == EACCES)
      out_.forbidden = Error::forbidden(fmt::format("{} is root's", kSystemStore));
  }

  void read_store(const std::string& path, EpisodeParts parts) {
    auto store = Store::open(path);
    if (!store) {
      struct stat what {};
      // $HOME may be another user's (sudo -u, setpriv): a default store that is unreadable there is not an
      // error.
      bool there = stat((path + "/" + kStoreFile).c_str(), &what) == 0 ||
                   (errno != ENOENT && (errno != EACCES || options_.store.named));
      if (there)
        unread_store_ = store.error();
      else if (options_.store.named)
        missing_store_ = store.error();  // or one to be created from the logs
      else if (options_.output.verbose)
        say_(store.error().message);
      return;
    }
    auto episodes = store->episodes(parts);
    if (!episodes) {
      unread_store_ = episodes.error();
      return;
    }
    for (const std::string& part : store->take_unread())
      tell_error(fmt::format("of the store not read: {}", escape_for_terminal(part)));
    out_.sources.push_back("store");
    out_.store = path;
    for (EpisodeSummary& stored : *episodes) {
      PastKill kill;
      if (stored.source == EpisodeSource::live) kill.mono = stored.episode.time.time_since_epoch();
      kill.episode = std::move(stored.episode);
      kill.sources = {stored.source};
      kill.kept = true;
      kill.confirmed = kill.kept_confirmed = is_confirmed(stored.source);
      kill.time = stored.time;
      kill.host = std::move(stored.host);
      if (stored.run && !stored.run->boot_id.empty()) kill.boot_id = plain_boot_id(stored.run->boot_id);
      kill.run = std::move(stored.run);
      kill.forecast_before = std::move(stored.forecast_before);
      kill.first_forecast = stored.first_forecast;
      kills_.push_back(std::move(kill));
    }
  }

  static Error without_rights() {
    return Error::forbidden(fmt::format(
        "no OOM kill can be read as this user: the kernel log is closed to you, and what oomcast has "
        "recorded is "
        "in {}, which is root's\nRun sudo oomcast report, or sudo oomcast history; members of the group "
        "systemd-journal or adm read the kernel's messages without root",
        kSystemStore));
  }

  Status read_path(const std::string& path) {
    if (path == "-") return read_file(UniqueFd(dup(STDIN_FILENO)), "stdin");
    auto place = resolve(path, {});
    if (place && place->is_directory()) return read_directory(path);
    auto fd = open_log(path);
    if (!fd) return fd.error();
    return read_file(*std::move(fd), path);
  }

  Status read_file(UniqueFd fd, const std::string& shown) {
    if (!fd) return Error::from_errno("cannot read " + shown);
    struct stat what {};
    std::uint64_t size =
        fstat(fd.get(), &what) == 0 && S_ISREG(what.st_mode) ? static_cast<std::uint64_t>(what.st_size) : 0;
    OomReports reports;
    auto ok = read_lines(std::move(fd), shown, size, reports, EpisodeSource::file, shown);
    if (!ok) return Error::failed(fmt::format("{}: {}", escape_for_terminal(shown), ok.error().message));
    return Ok{};
  }

  // An unreadable file hides no kill in the other files.
  Status read_directory(const std::string& path) {
    auto logs = list_logs(path);
    if (!logs) return logs.error();
    std::string shown = escape_for_terminal(path);
    std::size_t before = kills_.size(), compressed = 0, journals = 0;
    for (const std::string& file : logs->files) {
      auto fd = open_log(file);
      LogContent content = fd ? content_of(fd->get()) : LogContent::text;
      compressed += content == LogContent::compressed;
      journals += content == LogContent::journal;
      if (content != LogContent::text) continue;
      Status ok = fd ? read_file(*std::move(fd), file) : Status(fd.error());
      if (!ok) tell_error(ok.error().message);
      if (kills_.size() - before > kMaxKills) keep_newest(before);
    }
    out_.sources.push_back(path);
    if (compressed)
      tell_error(
          fmt::format("{}: files left out that are compressed by other means than gzip: {} (unpack them, "
                      "as by xzcat FILE | oomcast report --from -)",
                      shown, compressed));
    if (journals)
      tell_error(
          fmt::format("{0}: it holds a journal, which journalctl reads: journalctl -k -o json "
                      "--directory={0} | oomcast report --from -",
                      shown));
    if (logs->more_names)
      tell_error(
          fmt::format("{}: it has more than 100,000 names, and only so many are read: name the log itself "
                      "(--from FILE)",
                      shown));
    if (logs->left_out)
      tell_error(fmt::format("{}: the oldest {} files are left out: {} files and 8 GiB are read at most",
                             shown, logs->left_out, LogDirectory::kMaxFiles));
    return Ok{};
  }

  Status read_lines(UniqueFd fd, const std::string& name, std::uint64_t size, OomReports& reports,
                    EpisodeSource source, const std::string& file) {
    out_.sources.push_back(name);
    std::size_t before = kills_.size();
    std::uint64_t printed = 0;
    bool progress = isatty(STDERR_FILENO) && !options_.output.quiet;
    constexpr std::uint64_t step = 64 << 20;
    auto ok = read_log(
        std::move(fd),
        [&](std::string_view line, bool cut) {
          reports.line(line, cut);
          take(reports.take(), source, file, before);
        },
        [&](std::uint64_t bytes) {
          if (progress && bytes - printed >= step) {
            printed = bytes;
            std::string of = size > bytes ? " of " + format_size(Bytes{static_cast<std::int64_t>(size)}) : "";
            (void)print(stderr, fmt::format("\r{}: {}{} read\033[K", escape_for_terminal(name),
                                            format_size(Bytes{static_cast<std::int64_t>(bytes)}), of));
          }
          return true;
        });
    if (printed) (void)print(stderr, "\r\033[K");
    take(reports.finish(), source, file, before);
    keep_newest(before);
    for (std::size_t i = before; i < kills_.size(); ++i)
      kills_[i].confirmed = kills_[i].confirmed || reports.shows_writer();
    for (std::size_t i = before; i < kills_.size(); ++i)
      if (yearless_.contains(i)) set_time(kills_[i], reports.resolve(yearless_[i], now_));
    yearless_.clear();
    if (source == EpisodeSource::file) take_others(reports, name, kills_.size() == before);
    if (source == EpisodeSource::file && kills_.size() == before && reports.counts().unread && !out_.unread)
      out_.unread = Error::failed(fmt::format(
          "{}: {} speak{} of an OOM kill in a form that is not read here, the first: {}",
          escape_for_terminal(name),
          reports.counts().unread == 1 ? "1 line" : fmt::format("{} lines", reports.counts().unread),
          reports.counts().unread == 1 ? "s" : "", escape_for_terminal(reports.counts().first_unread)));
    note_left_out(
        reports.counts(), name,
        source == EpisodeSource::file && kills_.size() == before && reports.others().kills().empty());
    return ok;
  }

  void note_left_out(const LogCounts& counts, const std::string& name, bool nothing_else) {
    if (!counts.others) return;
    std::string what =
        fmt::format("{}: {} like a report of an OOM kill, but {} not written by the kernel: left out",
                    escape_for_terminal(name),
                    counts.others == 1 ? "1 line reads" : fmt::format("{} lines read", counts.others),
                    counts.others == 1 ? "was" : "were");
    if (nothing_else && !counts.first_other.empty() && !out_.unread)
      out_.unread = Error::failed(what + ", the first: " + escape_for_terminal(counts.first_other));
    else
      say_(what);
  }

  // Kills by other killers. A line that only mentions a kill is printed only if the log has no kill itself.
  void take_others(const OomReports& reports, const std::string& name, bool no_kill) {
    const OtherKills& others = reports.others();
    for (const OtherKill& kill : others.kills()) {
      std::optional<WallTime> time;
      if (kill.wall) time = WallTime(reports.resolve(*kill.wall, now_).since_epoch);
      out_.user_kills.push_back({kill, time, name});
    }
    if (others.dropped())
      say_(fmt::format("{}: the oldest {} kills by other killers are left out: more than {} in one log",
                       escape_for_terminal(name), others.dropped(), OtherKills::kMost));
    out_.user_kills_left_out += others.dropped();
    for (const OtherSaid& said : others.said())
      if (no_kill || said.killer->killing == Killing::by_it)
        say_(escape_for_terminal(name) + ": " + describe(said));
    if (reports.counts().ends_in_report)
      say_(escape_for_terminal(name) +
           ": it ends in the first line of another OOM report: was it cut there?");
  }

  void take(const std::vector<LoggedOom>& found, EpisodeSource source, const std::string& file,
            std::size_t before) {
    for (const LoggedOom& oom : found) {
      auto kill = past_kill(oom, source);
      if (!kill) continue;
      if (!file.empty()) kill->files = {file};
      if (oom.wall && oom.wall->yearless) yearless_[kills_.size()] = *oom.wall;
      kills_.push_back(*std::move(kill));
      if (kills_.size() > kWholeTables) shorten(kills_[kills_.size() - 1 - kWholeTables].episode.tasks.rows);
      if (kills_.size() - before >= kMaxKills + kTrim) keep_newest(before);
    }
  }

  static void shorten(std::vector<TaskAtKill>& rows) {
    if (rows.size() <= Episode::kMaxTasks) return;
    rows.resize(Episode::kMaxTasks);
    rows.shrink_to_fit();
  }

  // Applies to the kills of one log, which start at `before`.
  void keep_newest(std::size_t before) {
    std::size_t gone = kills_.size() - std::min(kills_.size(), before + kMaxKills);
    if (gone == 0) return;
    auto first = kills_.begin() + static_cast<std::ptrdiff_t>(before);
    kills_.erase(first, first + static_cast<std::ptrdiff_t>(gone));
    std::map<std::size_t, WallStamp> rest;
    for (const auto& [at, stamp] : yearless_)
      if (at >= before + gone) rest.emplace(at - gone, stamp);
    yearless_ = std::move(rest);
    out_.left_out += gone;
  }

  void read_kmsg() {
    auto reader = KmsgReader::open(options_.sources.root + "/dev/kmsg", KmsgFrom::start);
    if (!reader) {
      if (reader.error().exit_code != 3) return say_(reader.error().message);
      out_.forbidden = reader.error();
      if (options_.output.verbose) say_(reader.error().message);
      return;
    }
    out_.sources.push_back("kmsg");
    read_kernel_log_ = true;
    std::size_t before = kills_.size();
    OomReports reports;
    KmsgDrain drain;
    do {
      auto drained = reader->drain([&](const KmsgRecord& record) { reports.record(record); });
      if (!drained) return say_(drained.error().message);
      drain = *drained;
      take(reports.take(), EpisodeSource::kmsg, "", before);
    } while (drain.more);
    take(reports.finish(), EpisodeSource::kmsg, "", before);
    Nanos now = clock_now(CLOCK_MONOTONIC);
    // The log's clock stops while the machine is suspended, before a kill or since.
    Nanos slept = std::max(clock_now(CLOCK_BOOTTIME) - now, Nanos{});
    auto boot_id =
        read_file_at(AT_FDCWD, (options_.sources.root + "/proc/sys/kernel/random/boot_id").c_str(), 64);
    for (std::size_t i = before; i < kills_.size(); ++i) {
      PastKill& kill = kills_[i];
      if (boot_id) kill.boot_id = plain_boot_id(*boot_id);
      if (!kill.since_boot) continue;
      Nanos ago = std::max(now - *kill.since_boot, Nanos{});
      set_time(kill, {(now_ - ago).time_since_epoch(), ago / kDrift + std::chrono::milliseconds(10) + slept});
    }
  }

  // A log with time since this boot, as dmesg prints it, has the same timestamps as the kernel log.
  void date_by_kmsg() {
    auto read = out_.sources;
    auto forbidden = out_.forbidden;
    if (std::ranges::find(read, "kmsg") == read.end()) read_kmsg();
    out_.sources = std::move(read);
    out_.forbidden = std::move(forbidden);
  }

  void read_journal() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) < 0) return;
    UniqueFd from(ends[0]), to(ends[1]);
    std::vector<std::string> words = {
        "journalctl",
        "--quiet",
        "--no-pager",
        "--all",
        "--output=json",
        "--output-fields=MESSAGE,_TRANSPORT,SYSLOG_FACILITY,_BOOT_ID,_SOURCE_MONOTONIC_TIMESTAMP",
        "_TRANSPORT=kernel"};
    if (!options_.sources.root.empty()) words.insert(words.begin() + 1, "--root=" + options_.sources.root);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    int error = posix_spawn(&pid, "/usr/bin/journalctl", &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    to.reset();
    if (error) {
      if (options_.output.verbose) say_(fmt::format("cannot run journalctl: {}", std::strerror(error)));
      return;
    }
    OomReports reports;
    auto ok = read_lines(std::move(from), "journal", 0, reports, EpisodeSource::journal, "");
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!ok) say_(fmt::format("the journal: {}", ok.error().message));
    read_kernel_log_ = read_kernel_log_ || reports.counts().lines > 0;
    if (reports.counts().lines == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
      std::erase(out_.sources, "journal");
      if (options_.output.verbose) say_("journalctl could not read a journal");
    }
  }

  const Options& options_;
  std::function<void(const std::string&)> say_;
  WallTime now_;
  KnownKills out_;
  std::vector<PastKill> kills_;
  std::map<std::size_t, WallStamp> yearless_;  // by index of kills_
  std::optional<Error> unread_store_, missing_store_;
  bool read_kernel_log_ = false;  // the ring, or the kernel's messages in the journal
};

}  // namespace

Result<KnownKills> find_kills(const Options& options, WallTime now, EpisodeParts parts, bool dates) {
  return KillReader(options, now).read(parts, dates);
}

HistoryFacts::Machine this_machine() {
  std::array<char, 256> own{};
  if (gethostname(own.data(), own.size() - 1) != 0) own[0] = '\0';
  HistoryFacts::Machine out{own.data(), {}};
  struct sysinfo now {};
  if (sysinfo(&now) == 0)
    out.memory = Bytes{static_cast<std::int64_t>(now.totalram) * static_cast<std::int64_t>(now.mem_unit)};
  return out;
}

void keep_kills(const Options& options, const std::vector<PastKill>& kills) {
  auto say = diagnostics(options);
  std::string own = this_machine().host;
  bool any_host = options.store.named;
  std::size_t others = 0, undated = 0;
  std::vector<const PastKill*> wanted;
  for (const PastKill& kill : kills) {
    if (kill.kept && !(kill.confirmed && !kill.kept_confirmed)) continue;
    bool other = !kill.kept && !any_host && is_of_another_host(kill, own);
    others += other;
    undated += !kill.time;
    if (kill.time && !other) wanted.push_back(&kill);
  }
  if (others)
    say(fmt::format("{} of other hosts {} not kept: name the store for {} (--store DIR)", kill_count(others),
                    others == 1 ? "is" : "are", others == 1 ? "it" : "them"));
  if (undated)
    tell_error(
        fmt::format("{} {} not kept: a log that only counts from a boot does not say when that was; "
                    "dmesg -T and dmesg --time-format iso do",
                    kill_count(undated), undated == 1 ? "is" : "are"));
  if (wanted.empty()) return;
  auto import = EpisodeImport::open(options.store.path, OOMCAST_VERSION);
  if (!import) return tell_error("nothing is kept: " + import.error().message);
  for (auto at = wanted.rbegin(); at != wanted.rend(); ++at) {
    const PastKill& kill = **at;
    // A file with journald's own records counts as the journal.
    EpisodeSource source = kill.sources.front();
    if (kill.confirmed && !is_confirmed(source)) source = EpisodeSource::journal;
    std::string host = is_of_another_host(kill, own) ? kill.host : "";
    auto added = import->add(kill.episode, source, *kill.time, kill.boot_id, host);
    if (!added) return tell_error("nothing is kept: " + added.error().message);
  }
  if (auto ok = import->finish(); !ok) tell_error("nothing is kept: " + ok.error().message);
}

}  // namespace oomcast
