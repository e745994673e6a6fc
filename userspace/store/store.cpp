#include "store/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/escape.h"
#include "model/workload.h"
#include "store/growth_rows.h"
#include "store/legacy.h"
#include "store/open.h"
#include "store/rows.h"
#include "store/schema.h"
#include "store/vfs.h"

namespace oomcast {
namespace {

constexpr int kMaxRows = 300'000;  // of one list
constexpr std::size_t kMaxEpisodes = 100'000;
constexpr std::size_t kMaxVictims = 1024;
constexpr std::size_t kMaxEarlier = 100;
constexpr std::int64_t kMaxLookedAt = 2000;  // episodes, for those
constexpr std::size_t kMaxNear = 5;
constexpr int kMaxCgroups = 64;  // whose curves are read

const std::string kEpisodeColumns =
    "e.id, e.run, e.time_ns, e.name, e.source, e.complete, e.scope, e.limit_cgroup, e.usage, e.usage_limit, "
    "e.trigger,"
    " e.page_order, e.gfp, e.group_kill, e.marked, e.logged, e.vmstat, e.forecast, e.first_forecast_ns,"
    " (SELECT kills FROM kill_series k WHERE k.episode=e.id),"
    " (SELECT since_ns FROM kill_series k WHERE k.episode=e.id),"
    " coalesce((SELECT host FROM kill_hosts h WHERE h.episode=e.id),'')";
constexpr int kHostColumn = 21;

template <typename Enum>
std::optional<Enum> named(const std::string& name, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (to_string(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return std::nullopt;
}

// Without victims and the like.
Episode episode_of(const Statement& r, Rows& rows) {
  Episode e;
  e.time = rows.time(r, 2);
  e.id = r.text(3);
  e.scope = named(r.text(6), OomScope::sysrq);
  e.limit_cgroup = rows.cgroup(r, 7);
  e.usage = r.bytes(8);
  e.limit = r.bytes(9);
  if (!r.null(10)) e.trigger = rows.process(r, 10);
  if (!r.null(11)) e.request.order = static_cast<int>(r.integer(11));
  if (!r.null(12)) e.request.gfp = r.text(12);
  if (!r.null(13)) e.group_kill = r.integer(13) != 0;
  e.checks = {r.count(14), r.count(15), r.count(16)};
  if (auto kills = r.count(19); kills && !r.null(20)) e.series = KillSeries{*kills, rows.time(r, 20)};
  return e;
}

EpisodeSource source_of(const Statement& r) {
  return named(r.text(4), EpisodeSource::file).value_or(EpisodeSource::file);
}

}  // namespace

struct Store::Impl {
  struct Run {
    std::shared_ptr<const RunInfo> info;
    Rows rows;
  };

  Run* run(std::int64_t id) {
    auto at = runs.find(id);
    if (at == runs.end()) {
      if (runs.size() >= Rows::kMaxNames) return nullptr;
      auto info = read_run(db.get(), id);
      if (!info) return nullptr;
      at = runs.emplace(id, Run{std::make_shared<const RunInfo>(*info), Rows(db.get(), *info)}).first;
    }
    return &at->second;
  }
  Error failed() const { return Error::failed(fmt::format("reading {}: {}", shown, why_failed(db.get()))); }
  // After its rows: whether they ended, or what comes behind them could not be read.
  void note(const Statement& rows, std::string_view what) {
    if (rows.failed()) note(what, why_failed(db.get()));
  }
  void note(std::string_view what, std::string_view why) {
    std::string text = fmt::format("{}: {}", what, why);
    if (std::ranges::find(unread, text) == unread.end()) unread.push_back(std::move(text));
  }
  // What the rows of a run name.
  void note_names(Rows& rows) {
    if (std::string why = rows.take_failure(); !why.empty()) note("names, commands and forecasts", why);
  }
  void read_victims(std::int64_t episode, Rows& rows, Episode& out) {
    Statement s(db.get(), "SELECT " + columns::victim + " FROM victims WHERE episode=? ORDER BY nr");
    s << episode;
    while (out.victims.size() < kMaxVictims && s.row()) out.victims.push_back(rows.victim(s));
    note(s, "victims");
    Statement code(db.get(),
                   "SELECT victim, function, file, line FROM victim_code WHERE episode=? AND nr<8 ORDER BY "
                   "victim, nr LIMIT 8192");
    code << episode;
    while (code.row())
      if (auto victim = code.number(0); victim && *victim < out.victims.size())
        out.victims[*victim].code.push_back({code.text(1), code.text(2), code.number(3)});
    note(code, "where the victims were");
  }
  void read_parts(std::int64_t episode, Rows& rows, Episode& out);
  template <typename Kill>
  void read_forecast(Statement& episode, Rows& rows, Kill& out);
  void read_machine(std::int64_t episode, Episode& out);
  std::string cgroups_of(std::int64_t episode, std::int64_t run_id, StoredEpisode& out);
  void read_lists(std::int64_t episode, std::int64_t run_id, Rows& rows, Nanos window, StoredEpisode& out);
  Result<std::int64_t> find(const std::optional<std::string>& id);
  Result<StoredEpisode> read(std::int64_t row, Nanos window);
  void read_before(std::int64_t row, StoredEpisode& out);

  std::string shown;
  DatabaseHandle db;
  std::map<std::int64_t, Run> runs;
  std::vector<std::string> unread;  // by what is being read now
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const std::string& path) {
  std::string file = path;
  auto place = resolve(file, {});
  if (place && place->is_directory()) place = resolve(file += std::string("/") + kStoreFile, {});
  int error = place ? ENOENT : errno;
  std::string shown = escape_for_terminal(file);
  if (!place || !place->found)
    return Error::failed(
        fmt::format("{}: {}{}", shown, place ? std::strerror(ENOENT) : place.error().message,
                    error == ENOENT ? "; oomcast watch, trace, run and record write it" : ""));
  if (!place->is_regular()) return Error::usage(shown + " is no file");
  if (faccessat(place->directory.get(), place->name.c_str(), R_OK, AT_EACCESS) != 0)
    return Error::from_errno("reading " + shown);
  auto db = open_to_read(*std::move(place), shown);
  if (!db) return db.error();
  auto impl = std::make_unique<Impl>();
  impl->shown = shown;
  impl->db = *std::move(db);
  // Who made it was killed before anything was in it.
  if (ask(impl->db.get(), "SELECT count(*) FROM sqlite_schema") == 0 &&
      ask(impl->db.get(), "PRAGMA application_id") == 0) {
    sqlite3* nothing = nullptr;
    int code = sqlite3_open(":memory:", &nothing);
    impl->db.reset(nothing);
    if (code != SQLITE_OK || !make_tables(nothing)) return impl->failed();
  }
  if (auto ok = prepare_to_read(impl->db.get(), shown); !ok) return ok.error();
  if (ask(impl->db.get(), "PRAGMA user_version") == 1 && !read_lines_of_schema_1(impl->db.get()))
    return impl->failed();
  return Store(std::move(impl));
}

Result<std::vector<EpisodeSummary>> Store::episodes(EpisodeParts parts) {
  std::vector<EpisodeSummary> out;
  impl_->unread.clear();
  Statement s(impl_->db.get(),
              "SELECT " + kEpisodeColumns + " FROM episodes e ORDER BY e.time_ns DESC, e.id DESC");
  if (!s) return impl_->failed();
  while (out.size() < kMaxEpisodes && s.row()) {
    Impl::Run* run = impl_->run(s.integer(1));
    if (!run) {
      impl_->note("kills", "the run that saw them cannot be read");
      continue;
    }
    EpisodeSummary e;
    e.source = source_of(s);
    e.complete = s.integer(5) != 0;
    e.time = WallTime(s.nanos(2));
    e.host = s.text(kHostColumn);
    e.run = run->info;
    e.episode = episode_of(s, run->rows);
    if (parts == EpisodeParts::all) {
      impl_->read_parts(s.integer(0), run->rows, e.episode);
      impl_->read_forecast(s, run->rows, e);
    } else {
      impl_->read_victims(s.integer(0), run->rows, e.episode);
    }
    for (Victim& v : e.episode.victims) v.stack.clear();
    impl_->note_names(run->rows);
    out.push_back(std::move(e));
  }
  bool more = out.size() == kMaxEpisodes && s.row();
  if (s.failed()) return impl_->failed();
  if (more) impl_->note("the oldest kills", fmt::format("only the newest {} are listed", kMaxEpisodes));
  std::ranges::reverse(out);
  return out;
}

std::vector<std::string> Store::take_unread() {
  return std::exchange(impl_->unread, {});
}

Result<std::int64_t> Store::Impl::find(const std::optional<std::string>& id) {
  Statement s(db.get(), id ? "SELECT id FROM episodes WHERE name=? ORDER BY time_ns DESC, id DESC LIMIT 1"
                           : "SELECT id FROM episodes ORDER BY source='file', time_ns DESC, id DESC LIMIT 1");
  if (!s) return failed();
  if (id) s << *id;
  if (s.row()) return s.integer(0);
  if (s.failed()) return failed();
  if (!id) return Error::failed(shown + ": no OOM kill is in it");
  // The beginning of one, or a part; otherwise the last there are.
  auto near = [&](const char* sql, const std::string& pattern) {
    std::vector<std::pair<std::int64_t, std::string>> found;
    Statement n(db.get(), sql);
    if (!pattern.empty()) n << pattern;
    while (found.size() < kMaxNear && n.row()) found.emplace_back(n.integer(0), n.text(1));
    return found;
  };
  auto found =
      near("SELECT id, name FROM episodes WHERE substr(name,1,length(?1))=?1 ORDER BY time_ns DESC, id", *id);
  if (found.size() == 1 && !id->empty()) return found.front().first;
  if (found.empty())
    found = near("SELECT id, name FROM episodes WHERE instr(name,?)>0 ORDER BY time_ns DESC, id", *id);
  if (found.empty()) found = near("SELECT id, name FROM episodes ORDER BY time_ns DESC, id", "");
  std::string names;
  for (const auto& [row, name] : found) names += "\n  " + escape_for_terminal(name);
  return Error::failed(fmt::format("{}: no OOM kill {} in it{}{}", shown, escape_for_terminal(*id),
                                   names.empty() ? "" : "; there are:", names));
}

template <typename Kill>
void Store::Impl::read_forecast(Statement& episode, Rows& rows, Kill& out) {
  out.forecast_before = rows.forecast_of(episode, 17);
  if (!episode.null(18)) out.first_forecast = rows.time(episode, 18);
}

void Store::Impl::read_parts(std::int64_t episode, Rows& rows, Episode& out) {
  read_victims(episode, rows, out);
  Statement other(db.get(), "SELECT role, process, grew, over_s FROM others WHERE episode=? ORDER BY nr");
  other << episode;
  while (out.also_killed.size() + out.grew_most.size() < kMaxVictims && other.row())
    if (other.text(0) == "grew")
      out.grew_most.push_back({rows.process(other, 1), other.size(2), other.duration(3)});
    else
      out.also_killed.push_back(rows.process(other, 1));
  note(other, "who else was killed, and who grew");
  read_growth(db.get(), episode, rows, out.grew_from,
              [&](const Statement& s, std::string_view what) { note(s, what); });
  Statement level(db.get(), "SELECT cgroup, usage, usage_limit FROM ancestors WHERE episode=? ORDER BY nr");
  level << episode;
  while (out.chain.size() < kMaxVictims && level.row())
    out.chain.push_back({rows.cgroup(level, 0), level.size(1), level.bytes(2)});
  note(level, "the cgroups above");
  Statement memory(db.get(),
                   "SELECT anon, file, shmem, kernel, slab, swap, tasks FROM memory_at_kill WHERE episode=?");
  memory << episode;
  if (memory.row()) {
    MemoryAtKill kinds{memory.bytes(0), memory.bytes(1), memory.bytes(2),
                       memory.bytes(3), memory.bytes(4), memory.bytes(5)};
    if (kinds.anon || kinds.file || kinds.kernel) out.memory = kinds;
    out.tasks.listed = static_cast<std::size_t>(memory.integer(6));
  }
  note(memory, "memory at the kill");
  Statement part(db.get(), "SELECT name, size FROM parts_at_kill WHERE episode=? ORDER BY nr LIMIT 64");
  part << episode;
  while (out.memory && part.row()) out.memory->parts.push_back({part.text(0), part.size(1)});
  note(part, "memory at the kill");
  Statement sums(db.get(), "SELECT rss, swap FROM task_sums WHERE episode=?");
  sums << episode;
  if (sums.row()) out.tasks.rss = sums.bytes(0), out.tasks.swap = sums.bytes(1);
  note(sums, "the kernel's table of processes");
  read_machine(episode, out);
  Statement task(db.get(),
                 "SELECT process, rss, anon, file, shmem, swap, pgtables, oom_score_adj FROM tasks"
                 " WHERE episode=? ORDER BY nr");
  task << episode;
  while (out.tasks.rows.size() < Episode::kMaxTasks && task.row()) {
    std::optional<int> adj;
    if (!task.null(7)) adj = static_cast<int>(task.integer(7));
    out.tasks.rows.push_back({rows.process(task, 0), task.bytes(1), task.bytes(2), task.bytes(3),
                              task.bytes(4), task.bytes(5), task.bytes(6), adj});
  }
  note(task, "the kernel's table of processes");
}

void Store::Impl::read_machine(std::int64_t episode, Episode& out) {
  Statement s(db.get(),
              "SELECT cpuset, mems_allowed, nodemask, ram, free, swap_total, swap_free FROM machine_at_kill"
              " WHERE episode=?");
  bool there = (s << episode).row();
  note(s, "the machine at the kill");
  if (!there) return;
  auto text = [&](int c) { return s.null(c) ? std::nullopt : std::optional(s.text(c)); };
  MachineAtKill& m = out.machine.emplace();
  m.cpuset = text(0), m.mems_allowed = text(1), m.nodemask = text(2);
  m.ram = s.bytes(3), m.free = s.bytes(4), m.swap_total = s.bytes(5), m.swap_free = s.bytes(6);
  Statement zone(db.get(),
                 "SELECT node, zone, free, min, low, high, present, managed FROM zones_at_kill"
                 " WHERE episode=? ORDER BY nr");
  zone << episode;
  while (m.zones.size() < MachineAtKill::kMaxZones && zone.row())
    m.zones.push_back({zone.number(0), zone.text(1), zone.bytes(2), zone.bytes(3), zone.bytes(4),
                       zone.bytes(5), zone.bytes(6), zone.bytes(7)});
  note(zone, "zones at the kill");
  Statement slab(db.get(), "SELECT name, used, total FROM slabs_at_kill WHERE episode=? ORDER BY nr");
  slab << episode;
  while (m.slabs.size() < MachineAtKill::kMaxSlabs && slab.row())
    m.slabs.push_back({slab.text(0), slab.size(1), slab.size(2)});
  note(slab, "slabs at the kill");
}

// What is not thinned yet stands at the end of its table, the rest is found by whose it is.
std::string both_ages(const std::string& wanted, const std::string& table, const std::string& whose) {
  return fmt::format(
      "SELECT {0} FROM {1} WHERE step_s IS NOT NULL AND {2} AND time_ns BETWEEN ?1 AND ?2"
      " UNION ALL SELECT {0} FROM {1} WHERE step_s IS NULL AND time_ns BETWEEN ?1 AND ?2 AND {2}"
      " AND seq>coalesce((SELECT max(seq) FROM thinned WHERE source='{1}' AND step_s=(SELECT min(step_s) "
      "FROM thinned"
      " WHERE source='{1}')),0) ORDER BY time_ns LIMIT {3}",
      wanted, table, whose, kMaxRows);
}

// Those whose samples the episode keeps, or else all of its limit's tree: ids with commas between them.
std::string Store::Impl::cgroups_of(std::int64_t episode, std::int64_t run_id, StoredEpisode& out) {
  std::string ids;
  Statement kept(db.get(), "SELECT cgroup FROM kept WHERE episode=? ORDER BY nr LIMIT ?");
  kept << episode << kMaxCgroups;
  while (kept.row()) ids += fmt::format("{}{}", ids.empty() ? "" : ",", kept.integer(0));
  note(kept, "whose curves it keeps");
  if (auto all = ask(db.get(), fmt::format("SELECT count(*) FROM kept WHERE episode={}", episode));
      all > kMaxCgroups) {
    out.left_out.cgroups = static_cast<std::size_t>(*all - kMaxCgroups);
    out.left_out.more = static_cast<std::size_t>(*all) >= kMaxKept;
  }
  if (!ids.empty() || !out.told.episode.limit_cgroup) return ids;
  Statement related(
      db.get(),
      "SELECT id FROM cgroups WHERE run=?1 AND (path=?2 OR ?2='/' OR path='/' OR"
      " substr(path,1,length(?2)+1)=?2||'/' OR substr(?2,1,length(path)+1)=path||'/') LIMIT ?3");
  related << run_id << out.told.episode.limit_cgroup->path << kMaxCgroups;
  while (related.row()) ids += fmt::format("{}{}", ids.empty() ? "" : ",", related.integer(0));
  note(related, "whose curves it keeps");
  return ids;
}

void Store::Impl::read_lists(std::int64_t episode, std::int64_t run_id, Rows& rows, Nanos window,
                             StoredEpisode& out) {
  std::string ids = cgroups_of(episode, run_id, out);
  std::int64_t kill = (out.told.episode.time.time_since_epoch() + out.run.wall_of_mono_zero).count();
  std::int64_t from = kill - window.count(), until = kill + kKeptAfter.count();
  std::string groups = fmt::format("cgroup IN ({})", ids);
  std::string members = fmt::format(
      "(SELECT id FROM processes WHERE run={} AND cgroup IN ({}) UNION"
      " SELECT process FROM victims WHERE episode={})",
      run_id, ids, episode);
  auto each = [&](std::string_view what, const std::string& sql, auto&& take) {
    Statement s(db.get(), sql);
    s << from << until;
    while (s.row()) take(s);
    note(s, what);
  };
  auto between = [&](const std::string& wanted, const std::string& table, const std::string& whose) {
    return fmt::format(
        "SELECT {} FROM {} WHERE time_ns BETWEEN ?1 AND ?2 AND {} ORDER BY time_ns, seq LIMIT {}", wanted,
        table, whose, kMaxRows);
  };
  each("samples", both_ages(columns::sample, "samples", groups),
       [&](const auto& r) { out.samples.push_back(rows.sample(r)); });
  each("samples of processes", both_ages(columns::process_sample, "process_samples", "process IN " + members),
       [&](const auto& r) { out.processes.push_back(rows.process_sample(r)); });
  each("exits", between(columns::exit, "exits", "process IN " + members), [&](const auto& r) {
    out.exits.push_back({rows.time(r, 0), rows.process(r, 1)});
  });
  each(
      "forecasts",
      between(columns::forecast, "forecasts", fmt::format("told AND ({} OR process IN {})", groups, members)),
      [&](const auto& r) { out.forecasts.push_back(rows.forecast(r)); });
  each("reclaim", between(columns::reclaim, "reclaim", groups),
       [&](const auto& r) { out.reclaim.push_back(rows.reclaim(r)); });
  each("pressure",
       between(columns::pressure, "pressure",
               fmt::format("run={} AND (cgroup IS NULL OR {})", run_id, groups)),
       [&](const auto& r) { out.pressure.push_back(rows.pressure(r)); });
  each("SIGKILLs", between(columns::kill, "kills", fmt::format("victim IN {}", members)),
       [&](const auto& r) { out.kills.push_back(rows.kill(r)); });
  each("alerts",
       between(columns::alert, "alerts", fmt::format("run={} AND (cgroup IS NULL OR {})", run_id, groups)),
       [&](const auto& r) { out.alerts.push_back(rows.alert(r)); });
  each("GPU samples",
       between(columns::gpu_sample, "gpu_samples",
               fmt::format("run={} AND (process IS NULL OR process IN {})", run_id, members)),
       [&](const auto& r) { out.gpu.push_back(rows.gpu_sample(r)); });
  each("GPU events",
       between(columns::gpu_event, "gpu_events", fmt::format("(process IN {} OR process IS NULL)", members)),
       [&](const auto& r) { out.gpu_events.push_back(rows.gpu_event(r)); });
  Statement lost(
      db.get(), "SELECT reason, sum(count) FROM losses WHERE run=? AND time_ns<=? GROUP BY reason LIMIT 100");
  lost << run_id << kill;
  while (lost.row()) out.lost[lost.text(0)] = static_cast<std::uint64_t>(lost.integer(1));
  note(lost, "what was lost");
}

Result<StoredEpisode> Store::Impl::read(std::int64_t row, Nanos window) {
  Statement s(db.get(), "SELECT " + kEpisodeColumns + " FROM episodes e WHERE e.id=?");
  if (!s || !(s << row).row()) return failed();
  Run* own = run(s.integer(1));
  if (!own) return Error::failed(fmt::format("{}: the run that saw this kill cannot be read", shown));
  unread.clear();
  StoredEpisode out;
  out.source = source_of(s);
  out.complete = s.integer(5) != 0;
  out.run = *own->info;
  out.logged.host = s.text(kHostColumn);
  out.told.episode = episode_of(s, own->rows);
  read_forecast(s, own->rows, out.told);
  read_parts(row, own->rows, out.told.episode);
  out.from = out.told.episode.time - window;
  if (out.source == EpisodeSource::live) read_lists(row, s.integer(1), own->rows, window, out);
  note_names(own->rows);
  out.unread = std::exchange(unread, {});
  return out;
}

// Those before it, in any run: in the window those of the same limit, and the newest of the same workload.
// Not those that only a text file tells of: whoever may write to a log would make a history for a kill.
void Store::Impl::read_before(std::int64_t row, StoredEpisode& out) {
  Statement s(db.get(), "SELECT " + kEpisodeColumns +
                            " FROM episodes e WHERE e.time_ns<? AND e.id<>? AND e.source<>'file' AND "
                            "coalesce((SELECT host FROM kill_hosts h WHERE h.episode=e.id),'')=? ORDER BY "
                            "e.time_ns DESC LIMIT ?");
  const Episode& e = out.told.episode;
  s << (e.time.time_since_epoch() + out.run.wall_of_mono_zero).count() << row << out.logged.host
    << kMaxLookedAt;
  while (out.before.of_workload.size() < kMaxEarlier && s.row()) {
    Run* theirs = run(s.integer(1));
    if (!theirs) continue;
    Episode before = episode_of(s, theirs->rows);
    read_victims(s.integer(0), theirs->rows, before);
    note_names(theirs->rows);
    bool again = !e.victims.empty() && !before.victims.empty() &&
                 same_workload(e.victims.front().process, before.victims.front().process);
    bool here = e.limit_cgroup && before.limit_cgroup && e.limit_cgroup->path == before.limit_cgroup->path;
    // On the clock of this run, as all times of a StoredEpisode.
    Nanos ahead = theirs->info->wall_of_mono_zero - out.run.wall_of_mono_zero;
    before.time += ahead;
    for (Victim& v : before.victims)
      if (v.time) *v.time += ahead;
    if (here && before.time >= out.from && out.before.at_limit.size() < kMaxEarlier)
      out.before.at_limit.push_back(before);
    if (again) out.before.of_workload.push_back(std::move(before));
  }
  note(s, "kills before it");
  std::ranges::reverse(out.before.of_workload);
  std::ranges::reverse(out.before.at_limit);
  out.unread.insert(out.unread.end(), unread.begin(), unread.end());
  unread.clear();
}

Result<StoredEpisode> Store::episode(const std::optional<std::string>& id, Nanos window) {
  auto row = impl_->find(id);
  auto out = row ? impl_->read(*row, window) : Result<StoredEpisode>(row.error());
  if (out) impl_->read_before(*row, *out);
  return out;
}

Result<std::optional<StoredEpisode>> Store::episode_at(std::int64_t row, Nanos window) {
  Statement there(impl_->db.get(), "SELECT 1 FROM episodes WHERE id=?");
  if (!(there << row).row() && !there.failed()) return std::optional<StoredEpisode>();
  auto out = impl_->read(row, window);
  if (!out) return out.error();
  return std::optional(*std::move(out));
}

std::int64_t Store::last_row() {
  std::int64_t last = 0;
  for (const char* sql : {"SELECT max(id) FROM episodes", "SELECT max(episode) FROM victims"})
    if (auto row = ask(impl_->db.get(), sql)) last = std::max(last, *row);
  return last;
}

}  // namespace oomcast
