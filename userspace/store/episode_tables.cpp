// Episodes as rows: the part of Tables that is about them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "store/schema.h"
#include "store/store.h"
#include "store/tables.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxSerials = 4096;  // more than are still followed

}  // namespace

std::string_view to_string(EpisodeSource source) {
  constexpr std::string_view names[] = {"live", "kmsg", "journal", "file"};
  return names[static_cast<std::size_t>(source)];
}

// The same thread died at the same time in the same boot, as far as both sides know theirs.
std::optional<Tables::Twin> Tables::find_twin(const EpisodeFact& fact) {
  const Episode& e = fact.line.episode;
  Statement find(
      db_,
      "SELECT e.id, e.run, e.complete, e.source='live' FROM episodes e JOIN victims v ON v.episode=e.id"
      " LEFT JOIN runs r ON r.id=e.run LEFT JOIN runs mine ON mine.id=?"
      " WHERE v.tid=? AND e.time_ns BETWEEN ? AND ? AND (e.run<>? OR e.source<>'live')"
      " AND coalesce((SELECT host FROM kill_hosts h WHERE h.episode=e.id),'')=?"
      " AND (r.boot_id IS NULL OR mine.boot_id IS NULL OR "
      " replace(r.boot_id,'-','')=replace(mine.boot_id,'-',''))"
      " ORDER BY e.source='live' DESC LIMIT 1");
  std::int64_t at = wall(e.time);
  for (const Victim& v : e.victims) {
    find << run_ << v.tid << at - kSameKill.count() << at + kSameKill.count()
         << (fact.source == EpisodeSource::live ? run_ : std::int64_t{0}) << fact.host;
    std::optional<Twin> twin;
    if (find.row()) twin = Twin{find.integer(0), find.integer(1), find.integer(2) != 0, find.integer(3) != 0};
    find.again();
    if (twin) return twin;
  }
  return std::nullopt;
}

// A row of this run that another took over.
std::optional<Tables::Twin> Tables::twin_at(std::int64_t id) {
  Statement row(db_, "SELECT run, complete, source='live' FROM episodes WHERE id=? AND run<>?");
  row << id << run_;
  if (!row.row()) return std::nullopt;
  return Twin{id, row.integer(0), row.integer(1) != 0, row.integer(2) != 0};
}

// What the one that is there does not know.
void Tables::fill_in(std::int64_t id, const Episode& e) {
  std::optional<std::string> scope;
  if (e.scope) scope = to_string(*e.scope);
  auto limit_group = id_of(e.limit_cgroup);
  auto trigger = id_of(e.trigger);
  Statement fill(db_,
                 "UPDATE episodes SET scope=coalesce(scope,?), limit_cgroup=coalesce(limit_cgroup,?),"
                 " usage=coalesce(usage,?), usage_limit=coalesce(usage_limit,?), trigger=coalesce(trigger,?),"
                 " page_order=coalesce(page_order,?), gfp=coalesce(gfp,?), group_kill=coalesce(group_kill,?),"
                 " logged=coalesce(logged,?) WHERE id=?");
  fill << scope << limit_group << e.usage << e.limit << trigger << e.request.order << e.request.gfp
       << e.group_kill << e.checks.kmsg << id;
  run(fill);
  auto no_row_in = [&](const char* table) {
    return ask(db_, fmt::format("SELECT count(*) FROM {} WHERE episode={}", table, id)) == 0;
  };
  if (no_row_in("memory_at_kill") && no_row_in("machine_at_kill")) write_log_parts(id, e);
  Statement victim(
      db_,
      "UPDATE victims SET anon=coalesce(anon,?), file=coalesce(file,?), shmem=coalesce(shmem,?),"
      " swap=coalesce(swap,?), pgtables=coalesce(pgtables,?), total_vm=coalesce(total_vm,?),"
      " oom_score_adj=coalesce(oom_score_adj,?), logged=max(logged,?) WHERE episode=? AND tid=?");
  for (const Victim& v : e.victims) {
    victim << v.anon << v.file << v.shmem << v.swap << v.pgtables << v.total_vm << v.oom_score_adj << v.logged
           << id << v.tid;
    run(victim);
  }
}

bool Tables::write(const EpisodeFact& fact) {
  const Episode& e = fact.line.episode;
  std::int64_t id = 0;
  if (auto known = episodes_.find(e.serial); e.serial && known != episodes_.end()) id = known->second;
  bool is_new = id == 0;
  if (auto twin = id ? twin_at(id) : find_twin(fact)) {
    is_new = false;
    // Anybody may have written what a text file tells: it adds nothing to what another source has, and all of
    // it goes when there is one.
    bool was_claim = ask(db_, fmt::format("SELECT source='file' FROM episodes WHERE id={}", twin->id)) == 1;
    bool claims = fact.source == EpisodeSource::file;
    if (claims && !was_claim) return false;
    // Of two that saw it, the one that ran longer knows more of what led to it.
    bool better = (was_claim && !claims) ||
                  (fact.source == EpisodeSource::live &&
                   (!twin->live || (fact.complete == twin->complete ? run_ < twin->run : fact.complete)));
    if (!better) {
      fill_in(twin->id, e);
      return false;
    }
    id = twin->id;
  }
  std::optional<std::string> scope;
  if (e.scope) scope = to_string(*e.scope);
  auto limit_group = id_of(e.limit_cgroup);
  auto trigger = id_of(e.trigger);
  std::optional<std::int64_t> forecast, first;
  if (fact.line.forecast_before) forecast = write_forecast(*fact.line.forecast_before, false);
  if (fact.line.first_forecast) first = wall(*fact.line.first_forecast);
  Statement row(db_, "REPLACE INTO episodes VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  row << (id ? std::optional(id) : std::nullopt) << run_ << wall(e.time) << e.id << to_string(fact.source)
      << fact.complete << scope << limit_group << e.usage << e.limit << trigger << e.request.order
      << e.request.gfp << e.group_kill << e.checks.mark_victim << e.checks.kmsg << e.checks.vmstat << forecast
      << first;
  run(row);
  id = sqlite3_last_insert_rowid(db_);
  if (e.serial && !episodes_.contains(e.serial)) {
    if (episodes_.size() >= kMaxSerials) episodes_.erase(episodes_.begin());
    episodes_[e.serial] = id;
    fresh_episodes_.push_back(e.serial);
  }
  write_parts(id, fact);
  if (fact.source == EpisodeSource::live) keep(id, e);
  return is_new;
}

void Tables::write_code(Statement& row, std::int64_t episode, int nr, const std::vector<CodePlace>& code) {
  int depth = 0;
  for (const CodePlace& at : code) {
    row << episode << nr << depth++ << at.function << at.file << at.line;
    run(row);
  }
}

void Tables::write_parts(std::int64_t id, const EpisodeFact& fact) {
  const Episode& e = fact.line.episode;
  for (const char* table : kTablesOfEpisodes)
    check(execute(db_, fmt::format("DELETE FROM {} WHERE episode={}", table, id)));
  write_victims(id, e);
  if (!fact.host.empty()) {
    Statement host(db_, "INSERT INTO kill_hosts VALUES(?,?)");
    host << id << fact.host;
    run(host);
  }
  if (e.series) {
    Statement series(db_, "REPLACE INTO kill_series VALUES(?,?,?)");
    series << id << static_cast<std::int64_t>(e.series->kills) << wall(e.series->since);
    run(series);
  }
  write_others(id, e);
  write_growth(id, e);
  int nr = 0;
  Statement ancestor(db_, "INSERT INTO ancestors VALUES(?,?,?,?,?)");
  for (const ChainLevel& level : e.chain) {
    auto group = id_of(level.cgroup);
    ancestor << id << nr++ << group << level.usage << level.limit;
    run(ancestor);
  }
  write_log_parts(id, e);
}

void Tables::write_victims(std::int64_t id, const Episode& e) {
  int nr = 0;
  Statement victim(db_, "INSERT INTO victims VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  Statement place(db_, "INSERT INTO victim_code VALUES(?,?,?,?,?,?)");
  Statement moment(db_, "INSERT INTO victim_times VALUES(?,?,?)");
  for (const Victim& v : e.victims) {
    write_code(place, id, nr, v.code);
    auto process = id_of(v.process);
    std::string stack;
    for (std::uint64_t address : v.stack) stack += fmt::format("{}{:#x}", stack.empty() ? "" : " ", address);
    if (v.time) {
      moment << id << nr << wall(*v.time);
      run(moment);
    }
    victim << id << nr++ << process << v.tid << v.anon << v.file << v.shmem << v.swap << v.pgtables
           << v.total_vm << v.oom_score_adj << v.killed << v.freed_after
           << (stack.empty() ? std::nullopt : std::optional(stack)) << v.marked << v.logged;
    run(victim);
  }
}

void Tables::write_others(std::int64_t id, const Episode& e) {
  int nr = 0;
  Statement other(db_, "INSERT INTO others VALUES(?,?,?,?,?,?)");
  for (const ProcessRef& p : e.also_killed) {
    auto process = id_of(p);
    other << id << nr++ << std::string_view("also_killed") << process << std::optional<Bytes>()
          << std::optional<Seconds>();
    run(other);
  }
  for (const GrewProcess& g : e.grew_most) {
    auto process = id_of(g.process);
    other << id << nr++ << std::string_view("grew") << process << g.grew << g.over;
    run(other);
  }
}

void Tables::write_growth(std::int64_t id, const Episode& e) {
  int nr = 0;
  Statement site(db_, "INSERT INTO growth_sites VALUES(?,?,?,?,?,?,?,?)");
  Statement holder(db_, "INSERT INTO growth_holders VALUES(?,?,?)");
  Statement evidence(db_, "INSERT INTO growth_evidence VALUES(?,?,?,?,?,?,?,?,?,?,?)");
  Statement code(db_, "INSERT INTO growth_code VALUES(?,?,?,?,?,?)");
  auto if_said = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
  };
  for (const GrewFrom& g : e.grew_from.sites) {
    write_code(code, id, nr, g.code);
    const GrowthEvidence& known = g.evidence;
    if (!known.held_by.empty()) {
      holder << id << nr << known.held_by;
      run(holder);
    }
    evidence << id << nr << known.sure << known.kept << known.kept_error << if_said(known.kept_unknown)
             << known.touched << known.adds << g.samples << g.lost << g.faults_watched;
    run(evidence);
    auto process = id_of(g.process);
    site << id << nr++ << process << g.grown << g.of << g.watched << wall(g.from) << wall(g.to);
    run(site);
  }
  nr = 0;
  Statement container(db_, "INSERT INTO growth_containers VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  Statement adder(db_, "INSERT INTO growth_adders VALUES(?,?,?,?,?,?)");
  for (const GrownHolder& h : e.grew_from.holders) {
    write_code(adder, id, nr, h.adder);
    auto process = id_of(h.process);
    container << id << nr++ << process << h.path << h.type << if_said(h.added_type) << h.containers
              << h.length << h.added << h.least << h.of << h.watched << wall(h.from) << wall(h.to)
              << h.adder_seen << h.adds_seen;
    run(container);
  }
}

// What only the kernel's log tells.
void Tables::write_log_parts(std::int64_t id, const Episode& e) {
  Statement memory(db_, "INSERT INTO memory_at_kill VALUES(?,?,?,?,?,?,?,?)");
  MemoryAtKill kinds = e.memory.value_or(MemoryAtKill{});
  if (e.memory || !e.tasks.rows.empty()) {
    memory << id << kinds.anon << kinds.file << kinds.shmem << kinds.kernel << kinds.slab << kinds.swap
           << static_cast<std::int64_t>(e.tasks.listed);
    run(memory);
  }
  int nr = 0;
  Statement part(db_, "INSERT INTO parts_at_kill VALUES(?,?,?,?)");
  for (const MemoryAtKill::Part& p : kinds.parts) {
    part << id << nr++ << p.name << p.size;
    run(part);
  }
  if (e.tasks.rss || e.tasks.swap) {
    Statement sums(db_, "INSERT INTO task_sums VALUES(?,?,?)");
    sums << id << e.tasks.rss << e.tasks.swap;
    run(sums);
  }
  nr = 0;
  Statement task(db_, "INSERT INTO tasks VALUES(?,?,?,?,?,?,?,?,?,?)");
  for (const TaskAtKill& t : e.tasks.rows) {
    if (nr == static_cast<int>(Episode::kMaxTasks)) break;  // of a log there are more
    auto process = id_of(t.process);
    task << id << nr++ << process << t.rss << t.anon << t.file << t.shmem << t.swap << t.pgtables
         << t.oom_score_adj;
    run(task);
  }
  if (!e.machine) return;
  const MachineAtKill& m = *e.machine;
  Statement machine(db_, "INSERT INTO machine_at_kill VALUES(?,?,?,?,?,?,?,?)");
  machine << id << m.cpuset << m.mems_allowed << m.nodemask << m.ram << m.free << m.swap_total << m.swap_free;
  run(machine);
  nr = 0;
  Statement zone(db_, "INSERT INTO zones_at_kill VALUES(?,?,?,?,?,?,?,?,?,?)");
  for (const ZoneLine& z : m.zones) {
    zone << id << nr++ << z.node << z.zone << z.free << z.min << z.low << z.high << z.present << z.managed;
    run(zone);
  }
  nr = 0;
  Statement slab(db_, "INSERT INTO slabs_at_kill VALUES(?,?,?,?,?)");
  for (const SlabRow& row : m.slabs) {
    slab << id << nr++ << row.name << row.used << row.total;
    run(slab);
  }
}

// Of the limit's cgroup, of those that the victims were in, of those above and of those below, the largest
// first; of the host's limit, the largest of all.
void Tables::keep(std::int64_t id, const Episode& e) {
  std::vector<std::int64_t> first;
  auto add = [&](const CgroupPtr& ref) {
    if (auto known = id_of(ref)) first.push_back(*known);
  };
  add(e.limit_cgroup);
  for (const Victim& v : e.victims)
    if (first.size() < kMaxKept) add(v.process.cgroup);
  if (e.trigger) add(e.trigger->cgroup);
  for (const ChainLevel& level : e.chain) add(level.cgroup);
  std::string top = e.limit_cgroup ? e.limit_cgroup->path : "/";
  auto related = [&](const std::string& path) {
    return top == "/" || path == "/" || path.rfind(top + "/", 0) == 0 || top.rfind(path + "/", 0) == 0;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> others;  // usage, id
  for (const auto& [inode, known] : cgroups_) {
    if (!related(known.ref->path)) continue;
    if (known.ref->path == "/")
      first.push_back(known.id);
    else if (known.usage)
      others.emplace_back(known.usage->count, known.id);
  }
  std::sort(others.rbegin(), others.rend());
  for (const auto& [usage, group] : others) first.push_back(group);
  Statement row(db_, "INSERT INTO kept VALUES(?,?,?)");
  std::set<std::int64_t> there;
  int nr = 0;
  for (std::int64_t group : first) {
    if (there.size() >= kMaxKept) break;
    if (!there.insert(group).second) continue;
    row << id << nr++ << group;
    run(row);
  }
}

}  // namespace oomcast
