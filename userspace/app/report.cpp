// oomcast report [ID]: the post-mortem of an OOM kill from the store, this machine's kernel log and journal,
// any log, or a recording.
#include "present/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "app/commands.h"
#include "app/known_kills.h"
#include "app/output_file.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "collect/safe_path.h"
#include "model/workload.h"
#include "present/report_html.h"
#include "store/store.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxNear = 5, kMaxEarlier = 100;

Result<std::string> render(const PostMortem& report, Format format, bool color) {
  switch (format) {
    case Format::json:
      return to_json(report);
    case Format::markdown:
      return to_markdown(report);
    case Format::html:
      return to_html(report);
    default:
      break;
  }
  return to_text(report, TextStyle{color});
}

// "20261121T030405Z-4301": the seconds in the id differ if another clock dated the same kill.
bool dates(const PastKill& kill, const std::string& id) {
  std::size_t dash = id.rfind('-');
  if (!kill.time || dash == std::string::npos) return false;
  std::tm utc{};
  const char* end = strptime(id.substr(0, dash).c_str(), "%Y%m%dT%H%M%SZ", &utc);
  if (!end || *end) return false;
  WallTime at{std::chrono::seconds(timegm(&utc))};
  bool near = std::chrono::abs(*kill.time - at) <= kSameKill + kill.error;
  return near && std::ranges::any_of(kill.episode.victims, [&](const Victim& v) {
           return id.substr(dash + 1) == std::to_string(v.process.id.tgid);
         });
}

std::string read_in(const KnownKills& known) {
  std::string out;
  for (const std::string& source : known.sources) out += (out.empty() ? "" : ", ") + source_in_words(source);
  return out.empty() ? "" : " in " + out;
}

Error no_such_kill(const KnownKills& known, const std::string& id) {
  auto names_of = [&](std::string_view part) {
    std::string out;
    std::size_t listed = 0;
    for (const PastKill& kill : known.kills)
      if (kill.episode.id.find(part) != std::string::npos && listed++ < kMaxNear)
        out += "\n  " + escape_for_terminal(kill.episode.id);
    return out;
  };
  if (std::ranges::any_of(known.kills, [&](const PastKill& k) { return k.episode.id.starts_with(id); }))
    return Error::failed(
        fmt::format("several OOM kills begin with {}:{}", escape_for_terminal(id), names_of(id)));
  std::string names = names_of(id);
  if (names.empty()) names = names_of("");
  return Error::failed(fmt::format("no OOM kill {}{}{}{}", escape_for_terminal(id), read_in(known),
                                   names.empty() ? "" : "; there are:", names));
}

// By id, unique prefix of an id, or a victim's pid. Without an id: the newest. Among this machine's own
// sources, the newest that the kernel itself reported; kills known only from a text file come last.
Result<std::size_t> choose(const KnownKills& known, const Options& options) {
  const auto& kills = known.kills;
  const std::string& id = options.report.id;
  bool of_files = !options.history.logs.empty();
  auto index = [&](auto at) { return static_cast<std::size_t>(at - kills.begin()); };
  if (!id.empty()) {
    auto is_it = [&](const PastKill& k) { return k.episode.id == id; };
    auto begins = [&](const PastKill& k) { return k.episode.id.starts_with(id); };
    auto of_pid = [&](const PastKill& k) {
      return std::ranges::any_of(k.episode.victims,
                                 [&](const Victim& v) { return id == std::to_string(v.process.id.tgid); });
    };
    auto is_dated = [&](const PastKill& k) { return dates(k, id); };
    if (auto at = std::ranges::find_if(kills, is_it); at != kills.end()) return index(at);
    if (std::ranges::count_if(kills, begins) == 1) return index(std::ranges::find_if(kills, begins));
    if (auto at = std::ranges::find_if(kills, is_dated); at != kills.end()) return index(at);
    // The user may have given a pid; newest first, as pids are reused.
    if (auto at = std::ranges::find_if(kills, of_pid); at != kills.end()) return index(at);
    return no_such_kill(known, id);
  }
  auto wanted = [&](const PastKill& k) { return of_files ? !k.files.empty() : k.confirmed; };
  if (auto at = std::ranges::find_if(kills, wanted); at != kills.end()) return index(at);
  if (!of_files && !kills.empty()) return std::size_t{0};
  if (known.unread) return *known.unread;
  return Error::failed(fmt::format(
      "no OOM kill found{}{}{}", read_in(known),
      known.without_victim ? ", but an OOM in which no process could be killed" : "",
      of_files ? ""
               : "\nA log of another time or machine: oomcast report --from FILE, or - for standard input"));
}

// Earlier kills of the same workload, on the clock of its run. Kills known only from a text file are
// excluded: any user who can write to a log could invent them.
std::vector<Episode> earlier_than(const StoredEpisode& e, const PastKill& kill,
                                  const std::vector<PastKill>& all, const std::string& own) {
  std::vector<Episode> out;
  const auto& victims = kill.episode.victims;
  if (!kill.time || victims.empty()) return out;
  for (const PastKill& before : all) {
    bool counts = before.confirmed && before.time && *before.time < *kill.time;
    if (!counts || !are_of_one_host(before, kill, own) || before.episode.victims.empty()) continue;
    if (!same_workload(victims.front().process, before.episode.victims.front().process)) continue;
    Episode& episode = out.emplace_back(before.episode);
    episode.time = MonoTime(before.time->time_since_epoch() - e.run.wall_of_mono_zero);
    episode.tasks = {};
    if (out.size() == kMaxEarlier) break;
  }
  std::ranges::reverse(out);
  return out;
}

// Its times are wall time: there was no run of oomcast.
StoredEpisode of_logs(const PastKill& kill) {
  StoredEpisode out;
  out.source = kill.sources.front();
  if (kill.confirmed && !is_confirmed(out.source)) out.source = EpisodeSource::journal;
  out.run.version = OOMCAST_VERSION;
  out.told.episode = kill.episode;
  out.logged.dated = kill.time.has_value();
  if (!kill.time) out.told.episode.time = MonoTime(kill.since_boot ? *kill.since_boot : Nanos{});
  return out;
}

Result<StoredEpisode> find(const Options& options) {
  auto known = find_kills(options, wall_now(), EpisodeParts::victims, true);
  if (!known) return known.error();
  bool keeps = !options.history.logs.empty() && options.store.named && !options.store.path.empty();
  if (keeps) keep_kills(options, known->kills);
  auto at = choose(*known, options);
  if (!at) return at.error();
  PastKill& kill = known->kills[*at];
  StoredEpisode out = of_logs(kill);
  if (kill.kept && !known->store.empty()) {
    auto store = Store::open(known->store);
    if (!store) return store.error();
    auto stored = store->episode(kill.episode.id);
    if (!stored) return stored.error();
    // A kill stored from a text file is superseded by one that the kernel itself reported.
    if (is_confirmed(stored->source) || !kill.confirmed) {
      out = *std::move(stored);
      complete(out.told.episode, kill.episode);
    }
  }
  HistoryFacts facts;
  facts.machine = this_machine();
  out.before.of_workload = earlier_than(out, kill, known->kills, facts.machine.host);
  out.logged.host = kill.host;
  out.logged.files = kill.files;
  out.logged.since_boot = kill.since_boot;
  out.logged.time_error = kill.error;
  out.logged.doubt = doubt_of(kill, facts);
  return out;
}

// A recording, or a store's file.
bool is_recording(const StoreOptions& store) {
  auto place = store.named && !store.path.empty() ? resolve(store.path, {}) : Result<SafePath>(Error{});
  return place && place->found && !place->is_directory();
}

Result<StoredEpisode> find_in_recording(const Options& options) {
  auto store = Store::open(options.store.path);
  if (!store) return store.error();
  std::optional<std::string> id;
  if (!options.report.id.empty()) id = options.report.id;
  return store->episode(id);
}

}  // namespace

Result<int> report(const Options& options) {
  bool recording = options.history.logs.empty() && is_recording(options.store);
  auto episode = recording ? find_in_recording(options) : find(options);
  if (!episode) return episode.error();
  bool color = options.report.file.empty() && Output(options).color();
  auto text = render(make_post_mortem(*std::move(episode)), options.report.format, color);
  if (!text) return text.error();
  if (!options.report.file.empty() && options.report.file != "-") {
    auto file = OutputFile::open(options.report.file);
    if (!file) return file.error();
    if (auto ok = file->write(*text); !ok) return ok.error();
    return 0;
  }
  if (!print(stdout, *text)) return stdout_failed();
  return 0;
}

}  // namespace oomcast
