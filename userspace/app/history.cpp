#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "app/commands.h"
#include "app/scope.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "collect/files.h"
#include "collect/kmsg.h"
#include "collect/log_file.h"
#include "parse/oom_reports.h"
#include "parse/text.h"
#include "present/past_kills.h"
#include "store/import.h"
#include "store/open.h"
#include "store/past_kills.h"

namespace oomcast {
namespace {

using std::chrono::seconds;

// What is kept of one log: the newest, and some more while it is read.
constexpr std::size_t kMaxKills = 20'000, kTrim = kMaxKills / 4;
// The kernel's log clock is not disciplined, and runs away from the wall's by up to this part of the time
// since.
constexpr std::int64_t kDrift = 10'000;

bool is_below(const CgroupPtr& cgroup, const std::string& path) {
  return cgroup && in_scope(cgroup->path, path);
}

class KillHistory {
 public:
  explicit KillHistory(const Options& options) : options_(options), say_(diagnostics(options)) {}

  Result<int> run() {
    facts_.version = OOMCAST_VERSION;
    facts_.now = wall_now();
    bool files_alone = !options_.history.logs.empty() && !options_.store.named;
    facts_.of_files = files_alone;
    if (!files_alone && !options_.store.path.empty()) read_store();
    for (const std::string& path : options_.history.logs)
      if (auto ok = read_file(path); !ok) return ok.error();
    if (options_.history.logs.empty() && options_.sources.use_kmsg) {
      read_kmsg();
      read_journal();
    }
    // Nothing could be read, and for want of a right: then no kill that is found is no answer.
    if (facts_.sources.empty() && forbidden_) return *forbidden_;
    if (facts_.sources.empty() && missing_store_) return *missing_store_;
    auto kills = each_once(std::move(kills_));
    // Kills may be in it: without any from elsewhere, none is no answer.
    if (unread_store_ && kills.empty()) return *unread_store_;
    if (unread_store_) tell_error(unread_store_->message);
    facts_.without_victim = std::erase_if(kills, [](const PastKill& kill) { return kill.no_victim; });
    for (PastKill& kill : kills)
      if (kill.episode.id.empty()) kill.episode.id = name_of(kill);
    if (!files_alone && options_.history.import && !options_.store.path.empty()) keep(kills);
    choose(kills);
    facts_.machine = machine();
    Output output(options_);
    bool ok = print(stdout, options_.output.json ? history_json(kills, facts_)
                                                 : history_text(kills, facts_, TextStyle{output.color()}));
    if (!ok) return Error::failed("stdout was closed or is full: stopped");
    if (kills.empty() && unread_) return *unread_;
    return 0;
  }

 private:
  void read_store() {
    auto store = Store::open(options_.store.path);
    if (!store) {
      struct stat what {};
      bool there = stat((options_.store.path + "/" + kStoreFile).c_str(), &what) == 0 || errno != ENOENT;
      if (there)
        unread_store_ = store.error();
      else if (options_.store.named)
        missing_store_ = store.error();  // or one to be made, of what logs tell
      else if (options_.output.verbose)
        say_(store.error().message);
      return;
    }
    auto episodes = store->episodes(options_.output.json ? EpisodeParts::all : EpisodeParts::victims);
    if (!episodes) {
      unread_store_ = episodes.error();
      return;
    }
    for (const std::string& part : store->take_unread())
      tell_error(fmt::format("of the store not read: {}", escape_for_terminal(part)));
    facts_.sources.push_back("store");
    for (EpisodeSummary& stored : *episodes) {
      PastKill kill;
      if (stored.source == EpisodeSource::live) kill.mono = stored.episode.time.time_since_epoch();
      kill.episode = std::move(stored.episode);
      kill.sources = {stored.source};
      kill.kept = true;
      kill.confirmed = kill.kept_confirmed = is_confirmed(stored.source);
      kill.time = stored.time;
      if (stored.run && !stored.run->boot_id.empty()) kill.boot_id = plain_boot_id(stored.run->boot_id);
      kill.run = std::move(stored.run);
      kill.forecast_before = std::move(stored.forecast_before);
      kill.first_forecast = stored.first_forecast;
      kills_.push_back(std::move(kill));
    }
  }

  Status read_file(const std::string& path) {
    bool standard_input = path == "-";
    auto fd = standard_input ? Result<UniqueFd>(UniqueFd(dup(STDIN_FILENO))) : open_log(path);
    if (!fd) return fd.error();
    std::string shown = standard_input ? "stdin" : path;
    struct stat what {};
    std::uint64_t size =
        fstat(fd->get(), &what) == 0 && S_ISREG(what.st_mode) ? static_cast<std::uint64_t>(what.st_size) : 0;
    OomReports reports;
    auto ok = read_lines(*std::move(fd), shown, size, reports, EpisodeSource::file, shown);
    if (!ok) return Error::failed(fmt::format("{}: {}", escape_for_terminal(shown), ok.error().message));
    return Ok{};
  }

  Status read_lines(UniqueFd fd, const std::string& name, std::uint64_t size, OomReports& reports,
                    EpisodeSource source, const std::string& file) {
    facts_.sources.push_back(name);
    std::size_t before = kills_.size();
    std::uint64_t told = 0;
    bool progress = isatty(STDERR_FILENO) && !options_.output.quiet;
    constexpr std::uint64_t step = 64 << 20;
    auto ok = read_log(
        std::move(fd),
        [&](std::string_view line, bool cut) {
          reports.line(line, cut);
          take(reports.take(), source, file, before);
        },
        [&](std::uint64_t bytes) {
          if (progress && bytes - told >= step) {
            told = bytes;
            std::string of = size > bytes ? " of " + format_size(Bytes{static_cast<std::int64_t>(size)}) : "";
            (void)print(stderr, fmt::format("\r{}: {}{} read\033[K", escape_for_terminal(name),
                                            format_size(Bytes{static_cast<std::int64_t>(bytes)}), of));
          }
          return true;
        });
    if (told) (void)print(stderr, "\r\033[K");
    take(reports.finish(), source, file, before);
    keep_newest(before);
    for (std::size_t i = before; i < kills_.size(); ++i)
      kills_[i].confirmed = kills_[i].confirmed || reports.shows_writer();
    for (std::size_t i = before; i < kills_.size(); ++i)
      if (yearless_.contains(i)) set_time(kills_[i], reports.resolve(yearless_[i], facts_.now));
    yearless_.clear();
    if (source == EpisodeSource::file && kills_.size() == before && reports.counts().unread && !unread_)
      unread_ = Error::failed(fmt::format(
          "{}: {} speak{} of an OOM kill in a form that is not read here, the first: {}",
          escape_for_terminal(name),
          reports.counts().unread == 1 ? "1 line" : fmt::format("{} lines", reports.counts().unread),
          reports.counts().unread == 1 ? "s" : "", escape_for_terminal(reports.counts().first_unread)));
    if (reports.counts().others)
      say_(fmt::format(
          "{}: {} read like a report of an OOM kill, but were not written by the kernel: left out",
          escape_for_terminal(name),
          reports.counts().others == 1 ? "1 line" : fmt::format("{} lines", reports.counts().others)));
    return ok;
  }

  void take(const std::vector<LoggedOom>& found, EpisodeSource source, const std::string& file,
            std::size_t before) {
    for (const LoggedOom& oom : found) {
      auto kill = past_kill(oom, source);
      if (!kill) continue;
      if (!file.empty()) kill->files = {file};
      if (oom.wall && oom.wall->yearless) yearless_[kills_.size()] = *oom.wall;
      kills_.push_back(*std::move(kill));
      if (kills_.size() - before >= kMaxKills + kTrim) keep_newest(before);
    }
  }

  // Of those of one log, which begin at `before`.
  void keep_newest(std::size_t before) {
    std::size_t gone = kills_.size() - std::min(kills_.size(), before + kMaxKills);
    if (gone == 0) return;
    auto first = kills_.begin() + static_cast<std::ptrdiff_t>(before);
    kills_.erase(first, first + static_cast<std::ptrdiff_t>(gone));
    std::map<std::size_t, WallStamp> rest;
    for (const auto& [at, stamp] : yearless_)
      if (at >= before + gone) rest.emplace(at - gone, stamp);
    yearless_ = std::move(rest);
    facts_.left_out += gone;
  }

  void read_kmsg() {
    auto reader = KmsgReader::open(options_.sources.root + "/dev/kmsg", KmsgFrom::start);
    if (!reader) {
      if (reader.error().exit_code == 3) forbidden_ = reader.error();
      return say_(reader.error().message);
    }
    facts_.sources.push_back("kmsg");
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
    // The log's clock stands while the machine is suspended, before a kill or since.
    Nanos slept = std::max(clock_now(CLOCK_BOOTTIME) - now, Nanos{});
    auto boot_id =
        read_file_at(AT_FDCWD, (options_.sources.root + "/proc/sys/kernel/random/boot_id").c_str(), 64);
    for (std::size_t i = before; i < kills_.size(); ++i) {
      PastKill& kill = kills_[i];
      if (boot_id) kill.boot_id = plain_boot_id(*boot_id);
      if (!kill.since_boot) continue;
      Nanos ago = std::max(now - *kill.since_boot, Nanos{});
      set_time(kill,
               {(facts_.now - ago).time_since_epoch(), ago / kDrift + std::chrono::milliseconds(10) + slept});
    }
  }

  // journald writes it without dashes.
  static std::string plain_boot_id(std::string_view text) {
    std::string out(trim(text));
    std::erase(out, '-');
    return out;
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
    if (reports.counts().lines == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
      std::erase(facts_.sources, "journal");
      if (options_.output.verbose) say_("journalctl could not read a journal");
    }
  }

  static HistoryFacts::Machine machine() {
    std::array<char, 256> own{};
    if (gethostname(own.data(), own.size() - 1) != 0) own[0] = '\0';
    HistoryFacts::Machine out{own.data(), {}};
    struct sysinfo now {};
    if (sysinfo(&now) == 0)
      out.memory = Bytes{static_cast<std::int64_t>(now.totalram) * static_cast<std::int64_t>(now.mem_unit)};
    return out;
  }

  // What only logs know, into the store; not being able to is no reason to say less. One that is there as a
  // file had it is written again where a better source has it, too.
  void keep(std::vector<PastKill>& kills) {
    std::string own = machine().host;
    auto is_other = [&](const PastKill& kill) { return !kill.kept && is_of_another_host(kill, own); };
    auto is_new = [&](const PastKill& kill) {
      bool better = kill.confirmed && !kill.kept_confirmed;
      return (!kill.kept || better) && kill.time && !is_other(kill);
    };
    if (auto others = std::ranges::count_if(kills, is_other))
      say_(fmt::format("{} of other hosts {} not kept: a store is of one machine",
                       others == 1 ? "1 kill" : fmt::format("{} kills", others), others == 1 ? "is" : "are"));
    if (std::ranges::none_of(kills, is_new)) return;
    auto import = EpisodeImport::open(options_.store.path, OOMCAST_VERSION);
    if (!import) return say_("nothing is kept: " + import.error().message);
    for (auto kill = kills.rbegin(); kill != kills.rend(); ++kill) {
      if (!is_new(*kill)) continue;
      // What a file has of journald's own records is the journal's word.
      EpisodeSource source = kill->sources.front();
      if (kill->confirmed && !is_confirmed(source)) source = EpisodeSource::journal;
      auto added = import->add(kill->episode, source, *kill->time, kill->boot_id);
      if (!added) return say_("nothing is kept: " + added.error().message);
    }
    if (auto ok = import->finish(); !ok) say_("nothing is kept: " + ok.error().message);
  }

  void choose(std::vector<PastKill>& kills) {
    facts_.filtered = options_.scope.cgroup || options_.history.since;
    std::string path = path_of_typed(options_.scope.cgroup.value_or("/"));
    std::erase_if(kills, [&](const PastKill& kill) {
      if (options_.history.since && (!kill.time || *kill.time < *options_.history.since)) return true;
      if (!options_.scope.cgroup) return false;
      const Episode& e = kill.episode;
      return !is_below(e.limit_cgroup, path) && std::ranges::none_of(e.victims, [&](const Victim& v) {
        return is_below(v.process.cgroup, path);
      });
    });
    if (facts_.left_out)
      say_(fmt::format("the oldest {} kills are left out: more than {} in one log", facts_.left_out,
                       kMaxKills));
  }

  const Options& options_;
  std::function<void(const std::string&)> say_;
  HistoryFacts facts_;
  std::vector<PastKill> kills_;
  std::map<std::size_t, WallStamp> yearless_;  // by index of kills_
  std::optional<Error> forbidden_;
  std::optional<Error> unread_, unread_store_, missing_store_;
};

}  // namespace

Result<int> history(const Options& options) {
  return KillHistory(options).run();
}

}  // namespace oomcast
