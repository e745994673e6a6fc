#include "store/retention.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "store/schema.h"
#include "store/writer.h"

namespace oomcast {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
struct Tier {
  std::int64_t step_s, age_s;
};
constexpr Tier kTiers[] = {{10, 600}, {60, 3600}, {600, 6 * 3600}};
constexpr std::int64_t kThinEvery = 60 * kSecond;
constexpr std::int64_t kExpireEvery = 3600 * kSecond;
constexpr std::int64_t kSlice = 20'000;  // rows of one transaction, which its log has to hold
constexpr std::int64_t kVacuumPages = 2000;
constexpr int kStepsBetweenLooks = 20'000;             // of SQLite's machine: a millisecond or so
constexpr std::int64_t kRestAfterStop = 10 * kSecond;  // in a storm of kills nothing is begun over and over
// Tables whose rows are few; each has an index on its time.
constexpr const char* kSmall[] = {"exits",  "forecasts", "reclaim",     "pressure",  "kills",
                                  "alerts", "losses",    "gpu_samples", "gpu_events"};

// SIGKILLs from user space: of a busy cluster's day, and what is left of them in a full store.
constexpr std::int64_t kMaxUserKills = 20'000, kFewUserKills = 1000;

// A clock that was set back leaves times that are not to come.
constexpr std::int64_t kFuture = 3600 * kSecond;

// The rows of one owner in one step of time that stay: their seqs and values.
struct Extremes {
  std::int64_t low_at, high_at, usage_at, low, high, usage;

  void add(std::int64_t seq, std::int64_t level, std::int64_t used) {
    if (level < low) low = level, low_at = seq;
    if (level > high) high = level, high_at = seq;
    if (used > usage) usage = used, usage_at = seq;
  }
};

}  // namespace

// Who is kept, and around which moments.
struct Retention::Kept {
  struct While {
    std::int64_t from, to;
  };
  // By cgroup. Those of kills that follow each other closely are one, so that a crash loop of days is.
  std::unordered_map<std::int64_t, std::vector<While>> whiles;
  std::unordered_map<std::int64_t, std::int64_t> cgroup_of;  // of processes; absent: not kept
  bool processes = false;

  bool has(std::int64_t owner, std::int64_t time) const {
    if (processes) {
      auto at = cgroup_of.find(owner);
      if (at == cgroup_of.end()) return false;
      owner = at->second;
    }
    auto at = whiles.find(owner);
    return at != whiles.end() && std::any_of(at->second.begin(), at->second.end(), [&](const While& each) {
             return time >= each.from && time <= each.to;
           });
  }
  // Kills come in the order of their rows, which is nearly that of time.
  void add(std::int64_t cgroup, std::int64_t kill) {
    While each{kill - kKeptBefore.count(), kill + kKeptAfter.count()};
    auto& all = whiles[cgroup];
    if (all.empty() || each.from > all.back().to || each.to < all.back().from) {
      all.push_back(each);
    } else {
      all.back().from = std::min(all.back().from, each.from);
      all.back().to = std::max(all.back().to, each.to);
    }
  }
};

// Commits if `work` says so.
template <typename Work>
bool Retention::transaction(Work&& work) {
  if (stop_ && stop_()) return false;
  bool begun = execute(db_, "BEGIN IMMEDIATE");
  if (begun && work() && execute(db_, "COMMIT")) return true;
  code_ = sqlite3_extended_errcode(db_);
  if (begun) execute(db_, "ROLLBACK");
  return false;
}

Retention::Retention(sqlite3* db, std::string path, const StoreLimits& limits, ListInUse list_in_use)
    : db_(db),
      path_(std::move(path)),
      list_in_use_(std::move(list_in_use)),
      most_bytes_(limits.size.count),
      age_ns_(limits.age.count()),
      slice_(std::min(kSlice, most_bytes_ / 2048)) {
  // The log keeps its largest size as a file, up to this, and is part of the store's.
  execute(db_, fmt::format("PRAGMA wal_autocheckpoint={}; PRAGMA journal_size_limit={}",
                           std::min<std::int64_t>(1000, most_bytes_ / 65536),
                           std::min<std::int64_t>(4 << 20, most_bytes_ / 8)));
  // One that is larger already keeps its size until it has shrunk.
  auto page = ask(db_, "PRAGMA page_size");
  execute(db_, fmt::format("PRAGMA max_page_count={}", most_bytes_ / 8 * 7 / page.value_or(4096)));
}

// Of what the database may take beside its log, 1 is all. A log that a reader holds up does not make room by
// deleting.
double Retention::fill() const {
  auto pages = ask(db_, "PRAGMA page_count"), free = ask(db_, "PRAGMA freelist_count");
  auto size = ask(db_, "PRAGMA page_size");
  if (!pages || !free || !size) return 0;
  struct stat what {};
  std::int64_t log = stat((path_ + "-wal").c_str(), &what) == 0 ? what.st_size : 0;
  std::int64_t room = most_bytes_ - std::clamp(log, most_bytes_ / 8, most_bytes_ / 4);
  return static_cast<double>((*pages - *free) * *size) / static_cast<double>(room);
}

std::optional<int> Retention::keep_within(std::int64_t now, const Stop& stop) {
  auto recent = [&](const std::optional<std::int64_t>& last, std::int64_t every) {
    return last && now - *last < every && now >= *last;
  };
  if (recent(stopped_, kRestAfterStop)) return std::nullopt;
  now_ = now;
  bool stopped = false;
  if (stop) {
    stop_ = [&] { return stopped = stopped || stop(); };
    sqlite3_progress_handler(
        db_, kStepsBetweenLooks, [](void* asked) { return (*static_cast<Stop*>(asked))() ? 1 : 0; }, &stop_);
  }
  bool ok = true;
  auto each = [&](std::int64_t every, std::optional<std::int64_t>& last, auto&& work) {
    if (!ok || recent(last, every)) return;
    ok = work();
    if (ok || !stopped) last = now;
  };
  each(kThinEvery, thinned_, [&] { return thin(now); });
  each(kExpireEvery, expired_, [&] { return expire(now - age_ns_) && drop_names(); });
  each(kSecond, measured_, [&] { return drop_user_kills(kMaxUserKills) && shrink(now); });
  sqlite3_progress_handler(db_, 0, nullptr, nullptr);
  stop_ = nullptr;
  forget_kept();
  if (!ok && !stopped) return code_;
  if (!ok) stopped_ = now;
  return std::nullopt;
}

bool Retention::make_room(std::int64_t now) {
  now_ = now;
  bool made = fill() > 0.9 && shrink(now, 0.9) && fill() < 1;
  forget_kept();
  return made;
}

// The newest stay, and what an episode keeps.
bool Retention::drop_user_kills(std::int64_t most) {
  auto last = ask(db_, fmt::format("SELECT seq FROM kills ORDER BY seq DESC LIMIT 1 OFFSET {}", most));
  if (!last) return true;
  return transaction([&] {
    return execute(
        db_,
        fmt::format("DELETE FROM kills WHERE seq<={} AND NOT EXISTS(SELECT 1 FROM episodes e WHERE e.time_ns"
                    " BETWEEN kills.time_ns-{} AND kills.time_ns+{} AND EXISTS(SELECT 1 FROM kept k WHERE"
                    " k.episode=e.id) AND kills.seq>{})",
                    *last, kKeptAfter.count(), kKeptBefore.count(), *last - most));
  });
}

// In a transaction, and until another writer has changed the database: a store of long crash loops has
// millions of such rows.
std::shared_ptr<const Retention::Kept> Retention::kept_in(Curves& curves) {
  auto version = ask(db_, "PRAGMA data_version");
  if (curves.kept && version && version == curves.version) return curves.kept;
  auto kept = std::make_shared<Kept>();
  if (!read_kept(curves, *kept)) return nullptr;
  curves.version = version;
  return curves.kept = std::move(kept);
}

bool Retention::read_kept(const Curves& curves, Kept& out) {
  Statement kept(db_, "SELECT k.cgroup, e.time_ns FROM kept k JOIN episodes e ON e.id=k.episode");
  while (kept.row()) out.add(kept.integer(0), kept.integer(1));
  out.processes = curves.owner == std::string_view("process");
  if (kept.failed() || !out.processes) return !kept.failed();
  // The process's cgroup, or for a victim the limit's own.
  Statement members(
      db_,
      "SELECT p.id, p.cgroup FROM processes p WHERE p.cgroup IN (SELECT cgroup FROM kept)"
      " UNION ALL SELECT v.process, k.cgroup FROM victims v JOIN kept k ON k.episode=v.episode AND k.nr=0");
  while (members.row()) out.cgroup_of[members.integer(0)] = members.integer(1);
  return !members.failed();
}

bool Retention::thin(std::int64_t now) {
  for (Curves* curves : {&samples_, &process_samples_})
    for (const Tier& tier : kTiers) {
      std::int64_t step = tier.step_s * kSecond, older = now - tier.age_s * kSecond;
      if (!thin(*curves, tier.step_s, older - older % step)) return false;
    }
  return true;
}

bool Retention::thin(Curves& curves, std::int64_t step_s, std::int64_t older_than) {
  bool more = true;
  while (more)
    if (!transaction([&] { return thin_slice(curves, step_s, older_than, more); })) return false;
  return true;
}

// In a transaction. `more`: the slice was full.
bool Retention::thin_slice(Curves& curves, std::int64_t step_s, std::int64_t older_than, bool& more) {
  auto done =
      ask(db_, fmt::format("SELECT seq FROM thinned WHERE source='{}' AND step_s={}", curves.table, step_s));
  auto kept = kept_in(curves);
  if (!kept) return false;
  Statement rows(
      db_, fmt::format("SELECT seq, time_ns, {}, {}, {}, step_s FROM {} WHERE seq>? ORDER BY seq LIMIT ?",
                       curves.owner, curves.level, curves.usage, curves.table));
  rows << done.value_or(INT64_MIN) << slice_;
  std::map<std::pair<std::int64_t, std::int64_t>, Extremes> buckets;  // by owner and time
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> whole;  // not thinned before, and kept
  std::optional<std::int64_t> last;
  std::int64_t seen = 0;
  more = false;
  while (rows.row()) {
    std::int64_t seq = rows.integer(0), time = rows.integer(1), owner = rows.integer(2);
    if (time >= older_than && time < now_ + kFuture) break;
    last = seq;
    more = ++seen == slice_;
    if (kept->has(owner, time)) {
      if (rows.null(5)) whole.push_back(seq);
      continue;
    }
    all.push_back(seq);
    std::int64_t level = rows.integer(3), usage = rows.integer(4);
    Extremes only{seq, seq, seq, level, level, usage};
    buckets.try_emplace({owner, time / (step_s * kSecond)}, only).first->second.add(seq, level, usage);
  }
  if (rows.failed()) return false;
  if (!last) return true;
  std::unordered_set<std::int64_t> stay;
  for (const auto& [key, e] : buckets) stay.insert({e.low_at, e.high_at, e.usage_at});
  Statement drop(db_, fmt::format("DELETE FROM {} WHERE seq=?", curves.table));
  Statement mark(db_, fmt::format("UPDATE {} SET step_s=? WHERE seq=?", curves.table));
  for (std::int64_t seq : all) {
    bool ok = stay.contains(seq) ? (mark << step_s << seq).run() : (drop << seq).run();
    if (!ok) return false;
  }
  for (std::int64_t seq : whole)
    if (!(mark << 0 << seq).run()) return false;
  Statement until(db_, "REPLACE INTO thinned VALUES(?,?,?)");
  return (until << std::string_view(curves.table) << step_s << *last).run();
}

// All that is older but the episodes themselves.
bool Retention::expire(std::int64_t time) {
  forget_kept();
  int before = 0;
  do {
    before = sqlite3_total_changes(db_);
    if (!drop_before(time, true)) return false;
  } while (sqlite3_total_changes(db_) != before);
  return true;
}

// A slice of each of the small tables of what no episode keeps; `expired`: whoever keeps it, and of the
// curves.
bool Retention::drop_before(std::int64_t time, bool expired) {
  return transaction([&] {
    std::string spared =
        expired ? ""
                : fmt::format(
                      " AND NOT EXISTS(SELECT 1 FROM episodes e WHERE e.time_ns BETWEEN t.time_ns-{} AND"
                      " t.time_ns+{} AND EXISTS(SELECT 1 FROM kept k WHERE k.episode=e.id))",
                      kKeptAfter.count(), kKeptBefore.count());
    for (std::string_view table : kSmall) {
      const char* named = table == "forecasts"
                              ? " AND seq NOT IN (SELECT forecast FROM episodes WHERE forecast IS NOT NULL)"
                              : "";
      if (!execute(db_,
                   fmt::format("DELETE FROM {0} WHERE seq IN (SELECT seq FROM {0} t WHERE time_ns<{1}{2}{3}"
                               " LIMIT {4})",
                               table, time, named, spared, slice_)))
        return false;
    }
    if (!execute(db_, "DELETE FROM alert_actions WHERE alert NOT IN (SELECT seq FROM alerts)")) return false;
    for (const char* table : {"forecast_devices", "forecast_evidence", "throttled_forecasts"})
      if (!execute(db_,
                   fmt::format("DELETE FROM {} WHERE forecast NOT IN (SELECT seq FROM forecasts)", table)))
        return false;
    if (!execute(db_, "DELETE FROM gpu_evictions WHERE sample NOT IN (SELECT seq FROM gpu_samples)"))
      return false;
    for (const char* table : {"gpu_errors", "gpu_event_code"})
      if (!execute(db_, fmt::format("DELETE FROM {} WHERE event NOT IN (SELECT seq FROM gpu_events)", table)))
        return false;
    if (!expired) return true;
    return drop_oldest(samples_, time) && drop_oldest(process_samples_, time) &&
           execute(db_,
                   fmt::format("DELETE FROM kept WHERE episode IN (SELECT id FROM episodes e WHERE"
                               " time_ns<{} AND EXISTS(SELECT 1 FROM kept k WHERE k.episode=e.id) LIMIT {})",
                               time, slice_ / static_cast<std::int64_t>(kMaxKept) + 1));
  });
}

// In a transaction, a slice.
bool Retention::drop_oldest(const Curves& curves, std::int64_t time) {
  std::optional<std::int64_t> last;
  Statement rows(db_, fmt::format("SELECT seq, time_ns FROM {} ORDER BY seq LIMIT {}", curves.table, slice_));
  while (rows.row() && rows.integer(1) < time) last = rows.integer(0);
  if (rows.failed()) return false;
  rows.again();
  return !last || execute(db_, fmt::format("DELETE FROM {} WHERE seq<={}", curves.table, *last));
}

bool Retention::sweep(Curves& curves, std::int64_t until, std::optional<std::int64_t>& at) {
  at.reset();
  std::int64_t before = curves.swept;
  bool ok = transaction([&] {
    auto kept = kept_in(curves);
    if (!kept) return false;
    Statement rows(db_, fmt::format("SELECT seq, time_ns, {} FROM {} WHERE seq>? ORDER BY seq LIMIT ?",
                                    curves.owner, curves.table));
    rows << curves.swept << slice_;
    std::vector<std::int64_t> gone;
    while (rows.row() && (rows.integer(1) < until || rows.integer(1) > now_ + kFuture)) {
      at = rows.integer(1);
      curves.swept = rows.integer(0);
      if (!kept->has(rows.integer(2), *at)) gone.push_back(curves.swept);
    }
    if (rows.failed()) return false;
    Statement drop(db_, fmt::format("DELETE FROM {} WHERE seq=?", curves.table));
    for (std::int64_t seq : gone)
      if (!(drop << seq).run()) return false;
    return true;
  });
  if (!ok) curves.swept = before;
  return ok;
}

// In temp.going: a tenth of the episodes for which `among` is true, or half of those of one part of the tree
// that has more than a tenth, if there are such parts: the one with most, and in it again. Who makes kills
// without end lets go of his own.
bool Retention::choose_going(const char* among, bool& found) {
  if (!execute(db_, "CREATE TEMP TABLE IF NOT EXISTS going(id INTEGER PRIMARY KEY); DELETE FROM temp.going"))
    return false;
  auto all = ask(db_, fmt::format("SELECT count(*) FROM episodes e WHERE {}", among));
  if (!all) return false;
  found = *all > 0;
  // ?1: what of the tree was chosen; below it, the first name of what is left of a path.
  constexpr const char* kBelow = "(substr(c.path,1,length(?1)+1)=?1||'/' AND length(c.path)>length(?1)+1)";
  constexpr const char* kFirst =
      "rtrim(substr(c.path,1,length(?1)+1+instr(substr(c.path,length(?1)+2)||'/','/')),'/')";
  std::string part;
  std::int64_t of_part = *all;
  while (found) {
    Statement children(
        db_, fmt::format("SELECT {} AS child, count(*) AS n FROM episodes e JOIN cgroups c ON"
                         " c.id=e.limit_cgroup WHERE {} AND {} GROUP BY child ORDER BY n DESC, min(e.time_ns)"
                         " LIMIT 1",
                         kFirst, among, kBelow));
    children << part;
    if (!children.row()) {
      if (children.failed()) return false;
      break;
    }
    if (children.integer(1) * 10 <= *all || children.text(0).size() <= part.size()) break;
    part = children.text(0);
    of_part = children.integer(1);
  }
  Statement take(db_,
                 fmt::format("INSERT INTO temp.going SELECT e.id FROM episodes e LEFT JOIN cgroups c ON"
                             " c.id=e.limit_cgroup WHERE {} AND (?1='' OR c.path=?1 OR {}) ORDER BY e.time_ns"
                             " LIMIT ?2",
                             among, kBelow));
  return (take << part << std::min(*all / 10 + 1, of_part / 2 + 1)).run();
}

// They keep curves no more.
bool Retention::let_go_of_curves(bool& found) {
  samples_.swept = process_samples_.swept = 0;
  forget_kept();
  return transaction([&] {
    return choose_going("EXISTS(SELECT 1 FROM kept k WHERE k.episode=e.id)", found) &&
           execute(db_, "DELETE FROM kept WHERE episode IN (SELECT id FROM temp.going)");
  });
}

bool Retention::let_go_of_episodes(bool& found) {
  forget_kept();
  return transaction([&] {
    auto forget = [&](const char* table) {
      return execute(db_, fmt::format("DELETE FROM {} WHERE episode IN (SELECT id FROM temp.going)", table));
    };
    return choose_going("1", found) && std::ranges::all_of(kTablesOfEpisodes, forget) &&
           forget(kSeriesTable) &&
           execute(db_, "DELETE FROM episodes WHERE id IN (SELECT id FROM temp.going)");
  });
}

bool Retention::drop_unkept(std::int64_t until, bool& found) {
  std::optional<std::int64_t> at, other;
  if (!sweep(samples_, until, at)) return false;
  if (!sweep(process_samples_, at ? *at : until, other)) return false;
  int before = sqlite3_total_changes(db_);
  if (!drop_before(at ? *at : until, false)) return false;
  found = at || other || sqlite3_total_changes(db_) != before;
  return true;
}

// From the oldest row on: what an episode kept when an earlier call passed it may be kept no more.
bool Retention::sweep_anew(std::int64_t until, bool& found) {
  samples_.swept = process_samples_.swept = 0;
  std::optional<std::int64_t> at;
  if (!sweep(samples_, until, at)) return false;
  found = at.has_value();
  return true;
}

// Until there is room, a slice at a time, in the order of retention.h: what comes later in it goes only when
// nothing before it is left.
bool Retention::let_go(std::int64_t now) {
  std::int64_t newest = now - kTiers[0].age_s * kSecond;
  bool junk = true;
  for (int round = 0; round < 10'000 && fill() > 0.9; ++round) {
    bool found = false;
    if (!drop_unkept(newest, found)) return false;
    if (!found && round == 0 && !sweep_anew(newest, found)) return false;
    if (found) continue;
    if (std::exchange(junk, false)) {
      if (!drop_user_kills(kFewUserKills) || !drop_names()) return false;
      continue;
    }
    if (!let_go_of_curves(found)) return false;
    if (found) continue;
    // Nothing but the last minutes is left beside the episodes.
    if (newest < now) {
      newest = now;
      junk = true;
      continue;
    }
    if (!let_go_of_episodes(found)) return false;
    if (!found) break;
    junk = true;  // their names
  }
  return drop_names();
}

bool Retention::shrink(std::int64_t now, double above) {
  if (fill() > above && !let_go(now)) return false;
  auto free = ask(db_, "PRAGMA freelist_count"), pages = ask(db_, "PRAGMA page_count"),
       size = ask(db_, "PRAGMA page_size");
  if (free && pages && size && *free > 0 &&
      (*pages * *size > most_bytes_ || *free > *pages / 4 + kVacuumPages))
    return execute(db_, fmt::format("PRAGMA incremental_vacuum({})", kVacuumPages));
  return true;
}

// Cgroups and processes that no row names, of runs that cannot use them again, and runs of which nothing is
// left.
bool Retention::drop_names() {
  return transaction([&] {
    auto own = list_in_use_();
    if (!own) return false;
    std::string over =
        "(SELECT id FROM runs WHERE ended_ns IS NOT NULL OR boot_id IS NOT"
        " (SELECT boot_id FROM runs WHERE scope NOT LIKE 'imported%' ORDER BY id DESC LIMIT 1))";
    return execute(
               db_,
               fmt::format(
                   "DELETE FROM processes WHERE (run IN {} OR run={} AND id NOT IN (SELECT id FROM"
                   " temp.processes_in_use)) AND id NOT IN (SELECT process FROM"
                   " process_samples UNION SELECT process FROM exits UNION SELECT process FROM victims"
                   " UNION SELECT process FROM others UNION SELECT process FROM growth_sites UNION SELECT "
                   "process FROM growth_containers UNION SELECT process FROM"
                   " tasks UNION SELECT "
                   "trigger FROM episodes WHERE trigger"
                   " IS NOT NULL UNION SELECT victim FROM kills UNION SELECT sender FROM kills UNION"
                   " SELECT process FROM gpu_samples WHERE process IS NOT NULL UNION SELECT process FROM "
                   "gpu_events WHERE process IS NOT NULL"
                   " UNION SELECT process FROM forecasts WHERE process IS NOT NULL UNION SELECT process FROM"
                   " alert_actions WHERE process IS NOT NULL)",
                   over, *own)) &&
           execute(db_,
                   fmt::format(
                       "DELETE FROM cgroups WHERE (run IN {} OR run={} AND id NOT IN (SELECT id FROM"
                       " temp.cgroups_in_use)) AND id NOT IN (SELECT cgroup FROM samples WHERE"
                       " cgroup IS NOT NULL UNION SELECT limit_cgroup FROM samples WHERE limit_cgroup IS NOT"
                       " NULL UNION SELECT cgroup FROM processes WHERE cgroup IS NOT NULL UNION SELECT"
                       " limit_cgroup FROM episodes WHERE limit_cgroup IS NOT NULL UNION SELECT cgroup FROM"
                       " ancestors WHERE cgroup IS NOT NULL UNION SELECT cgroup FROM kept UNION SELECT"
                       " cgroup FROM forecasts WHERE cgroup IS NOT NULL UNION SELECT cgroup FROM reclaim"
                       " WHERE cgroup IS NOT NULL UNION SELECT cgroup FROM pressure WHERE cgroup IS NOT NULL"
                       " UNION SELECT cgroup FROM alerts WHERE cgroup IS NOT NULL)",
                       over, *own)) &&
           execute(db_,
                   fmt::format(
                       "DELETE FROM runs WHERE id IN {} AND id NOT IN (SELECT run FROM episodes UNION SELECT"
                       " run FROM cgroups UNION SELECT run FROM losses)",
                       over));
  });
}

}  // namespace oomcast
