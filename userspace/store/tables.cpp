#include "store/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <type_traits>

#include "store/schema.h"
#include "store/store.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxKnown = 20'000;  // cgroups or processes
constexpr Nanos kRenamedEvery = std::chrono::minutes(1);

std::optional<std::int64_t> as_number(const std::optional<CmdlineSource>& source) {
  return source ? std::optional(static_cast<std::int64_t>(*source)) : std::nullopt;
}

std::optional<std::string> name_of(const std::optional<GpuUuid>& device) {
  return device ? std::optional(to_string(*device)) : std::nullopt;
}

void bind(Statement& to, const std::optional<PressureLine>& line) {
  std::optional<double> avg10, avg60, avg300;
  std::optional<std::uint64_t> total;
  if (line) {
    avg10 = line->avg10;
    avg60 = line->avg60;
    avg300 = line->avg300;
    total = line->total_us;
  }
  to << avg10 << avg60 << avg300 << total;
}

}  // namespace

Tables::Inserts::Inserts(sqlite3* db)
    : cgroup(db, "INSERT INTO cgroups VALUES(NULL,?,?,?,?,?,?,?,?,?,?)"),
      process(db, "INSERT INTO processes VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?)"),
      sample(db, "INSERT INTO samples VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,NULL)"),
      headroom(db, "INSERT INTO headroom_cgroups VALUES(?,?)"),
      throttle(db, "INSERT INTO throttles VALUES(?,?,?)"),
      process_sample(db, "INSERT INTO process_samples VALUES(?,?,?,?,?,?,?,?,?,?,NULL)"),
      exit(db, "INSERT INTO exits VALUES(?,?,?)"),
      removal(db, "INSERT INTO removals VALUES(?,?,?)"),
      tick(db, "INSERT INTO ticks VALUES(?,?,?)"),
      forecast(db, "INSERT INTO forecasts VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
      reclaim(db, "INSERT INTO reclaim VALUES(?,?,?,?,?,?)"),
      pressure(db, "INSERT INTO pressure VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"),
      kill(db, "INSERT INTO kills VALUES(?,?,?,?,?)"),
      loss(db, "INSERT INTO losses VALUES(?,?,?,?,?)"),
      event(db, "INSERT INTO events VALUES(?,?,?,?,?)"),
      gpu_sample(db, "INSERT INTO gpu_samples VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
      gpu_event(db, "INSERT INTO gpu_events VALUES(?,?,?,?,?,?,?,?,?,?,?)"),
      gpu_eviction(db, "INSERT INTO gpu_evictions VALUES(?,?,?)"),
      gpu_error(db, "INSERT INTO gpu_errors VALUES(?,?,?)"),
      gpu_code(db, "INSERT INTO gpu_event_code VALUES(?,?,?,?,?)") {}

Tables::Tables(sqlite3* db, std::int64_t run, const RunInfo& info, bool ordered)
    : db_(db), run_(run), offset_(info.wall_of_mono_zero), ordered_(ordered), insert_(db) {}

std::optional<std::int64_t> Tables::next_seq() {
  return ordered_ ? std::optional(++seq_) : std::nullopt;
}

void Tables::on_rollback() {
  for (std::uint64_t inode : fresh_cgroups_) cgroups_.erase(inode);
  for (const TaskId& id : fresh_processes_) processes_.erase(id);
  for (std::uint64_t serial : fresh_episodes_) episodes_.erase(serial);
  killed_ = killer_ = {};
  on_commit();
}

std::optional<std::int64_t> Tables::id_of(const CgroupPtr& ref) {
  if (!ref) return std::nullopt;
  if (cgroups_.size() >= kMaxKnown && !cgroups_.contains(ref->id.inode)) cgroups_.clear();
  auto& known = cgroups_[ref->id.inode];
  if (known.id && (known.ref == ref || known.ref->path == ref->path)) return known.id;
  const CgroupName& n = ref->name;
  insert_.cgroup << run_ << ref->id.inode << ref->path << n.name << to_string(n.kind) << n.container << n.pod
                 << n.unit << n.slurm_job << n.slurm_step;
  run(insert_.cgroup);
  known = {sqlite3_last_insert_rowid(db_), ref, std::nullopt};
  fresh_cgroups_.push_back(ref->id.inode);
  return known.id;
}

std::int64_t Tables::add(const ProcessRef& p, std::optional<std::int64_t> group) {
  (insert_.process << run_ << p.id.tgid << p.id.start_ticks << p.comm).blob(p.cmdline.bytes());
  insert_.process << as_number(p.cmdline_source) << p.cmdline_truncated << p.uid << p.ppid << p.ns_pid
                  << group;
  run(insert_.process);
  return sqlite3_last_insert_rowid(db_);
}

Tables::ProcessRow Tables::row_of(const ProcessRef& p, std::optional<std::int64_t> group) {
  std::size_t out = std::hash<std::string_view>()(p.comm);
  auto mix = [&out](const auto& value) {
    using T = std::decay_t<decltype(value)>;
    out = (out ^ std::hash<T>()(value)) * 0x9e37'79b9'7f4a'7c15;
    out ^= out >> 29;
  };
  mix(p.cmdline.bytes());
  mix(p.cmdline_source ? static_cast<int>(*p.cmdline_source) : -1);
  mix(p.cmdline_truncated);
  mix(p.uid);
  mix(p.ppid);
  mix(p.ns_pid);
  mix(group);
  return out;
}

std::int64_t Tables::id_of(const ProcessRef& p) {
  auto group = id_of(p.cgroup);
  ProcessRow row = row_of(p, group);
  if (processes_.size() >= kMaxKnown && !processes_.contains(p.id)) processes_.clear();
  auto& known = processes_[p.id];
  if (known.id && known.row == row) return known.id;
  known = {add(p, group), row, MonoTime{}};
  fresh_processes_.push_back(p.id);
  return known.id;
}

std::int64_t Tables::id_of_passing(const ProcessRef& p, Passing& last) {
  if (processes_.contains(p.id)) return id_of(p);
  auto group = id_of(p.cgroup);
  ProcessRow row = row_of(p, group);
  if (last.of != p.id || last.known.row != row) last = {p.id, {add(p, group), row, MonoTime{}}};
  return last.known.id;
}

std::int64_t Tables::id_of(const ProcessRef& p, MonoTime when) {
  if (auto at = processes_.find(p.id); !ordered_ && at != processes_.end() && at->second.id &&
                                       when - at->second.made < kRenamedEvery && when >= at->second.made)
    return at->second.id;
  std::int64_t before = processes_.contains(p.id) ? processes_[p.id].id : 0, id = id_of(p);
  if (id != before) processes_[p.id].made = when;
  return id;
}

std::optional<std::int64_t> Tables::list_in_use() {
  for (const char* table : {"cgroups_in_use", "processes_in_use"})
    if (!execute(db_, fmt::format("CREATE TEMP TABLE IF NOT EXISTS {0}(id INTEGER PRIMARY KEY);"
                                  "DELETE FROM temp.{0}",
                                  table)))
      return std::nullopt;
  Statement group(db_, "INSERT OR IGNORE INTO temp.cgroups_in_use VALUES(?)");
  for (const auto& [inode, known] : cgroups_)
    if (!(group << known.id).run()) return std::nullopt;
  Statement process(db_, "INSERT OR IGNORE INTO temp.processes_in_use VALUES(?)");
  for (const auto& [id, known] : processes_)
    if (!(process << known.id).run()) return std::nullopt;
  for (const Passing* passing : {&killed_, &killer_})
    if (passing->known.id && !(process << passing->known.id).run()) return std::nullopt;
  return run_;
}

void Tables::write(const Sample& s) {
  auto group = id_of(s.cgroup), limit_group = id_of(s.limit_cgroup);
  // The second name may have emptied the table.
  if (auto at = s.cgroup ? cgroups_.find(s.cgroup->id.inode) : cgroups_.end(); at != cgroups_.end())
    at->second.usage = s.usage;
  insert_.sample << next_seq() << wall(s.time) << group << s.usage << s.limit << limit_group << s.stat.anon
                 << s.stat.file << s.stat.shmem << s.stat.kernel << s.stat.swap << s.pinned
                 << s.headroom_limit << s.peak;
  run(insert_.sample);
  auto whose = [](const CgroupPtr& owner) { return owner ? owner->id : CgroupId{}; };
  if (!ordered_ || !s.pinned) return;
  std::int64_t sample = sqlite3_last_insert_rowid(db_);
  if (s.throttle) {
    insert_.throttle << sample << s.throttle->limit << id_of(s.throttle->owner);
    run(insert_.throttle);
  }
  if (whose(s.headroom_cgroup) == whose(s.limit_cgroup)) return;
  auto owner = s.headroom_cgroup ? id_of(s.headroom_cgroup) : kOfTheMachine;
  insert_.headroom << sample << owner;
  run(insert_.headroom);
}

void Tables::write(const ProcessSampleFact& s) {
  auto id = id_of(s.process, s.time);
  insert_.process_sample << next_seq() << wall(s.time) << id << s.rss << s.anon << s.file << s.shmem << s.swap
                         << s.private_bytes << s.rss_error;
  run(insert_.process_sample);
}

void Tables::write(const ExitFact& e) {
  auto id = id_of(e.process);
  insert_.exit << next_seq() << wall(e.time) << id;
  run(insert_.exit);
  processes_.erase(e.process.id);
}

void Tables::write(const ForgottenFact& f) {
  auto at = cgroups_.find(f.cgroup.inode);
  if (at == cgroups_.end()) return;
  if (ordered_) {
    insert_.removal << next_seq() << wall(f.time) << at->second.id;
    run(insert_.removal);
  }
  cgroups_.erase(at);
}

std::int64_t Tables::write_forecast(const ForecastFact& f, bool told) {
  auto group = id_of(f.cgroup), limit_group = id_of(f.limit_cgroup);
  auto process = id_of(f.process);
  const Forecast& c = f.forecast;
  std::optional<BytesPerSec> rate, low, high;
  std::optional<Seconds> span;
  std::optional<std::uint64_t> samples;
  if (c.growth) {
    rate = c.growth->rate;
    low = c.growth->low;
    high = c.growth->high;
    span = c.growth->span;
    samples = c.growth->samples;
  }
  const Evidence& e = c.evidence;
  std::optional<std::uint64_t> peaks;
  if (e.peaks) peaks = *e.peaks;
  insert_.forecast << next_seq() << wall(f.time) << group << process << to_string(c.verdict) << rate << low
                   << high << span << samples << c.limit << limit_group << c.eta << c.eta_low << c.eta_high
                   << c.alert << c.why << e.floor << e.peak_above << e.period << peaks << e.regime
                   << e.stepped << e.step_ago << e.shared << told;
  run(insert_.forecast);
  std::int64_t id = sqlite3_last_insert_rowid(db_);
  if (f.device) {
    Statement device(db_, "INSERT INTO forecast_devices VALUES(?,?)");
    device << id << to_string(*f.device);
    run(device);
  }
  if (c.limit_kind == LimitKind::high) {
    Statement throttled(db_, "INSERT INTO throttled_forecasts VALUES(?)");
    throttled << id;
    run(throttled);
  }
  if (e.near_limit || e.thrashing) {
    Statement evidence(db_, "INSERT INTO forecast_evidence VALUES(?,?,?,?,?,?,?)");
    std::optional<Bytes> left, moved;
    std::optional<Seconds> within, lasts;
    std::optional<double> waiting;
    std::optional<BytesPerSec> reclaimed;
    if (const auto& n = e.near_limit) left = n->left, moved = n->moved, within = n->within;
    if (const auto& t = e.thrashing) lasts = t->lasts, waiting = t->waiting, reclaimed = t->reclaimed;
    evidence << id << left << moved << within << lasts << waiting << reclaimed;
    run(evidence);
  }
  return id;
}

void Tables::write(const TickFact& t) {
  auto killed = id_of(t.killed);
  insert_.tick << next_seq() << wall(t.time) << killed;
  run(insert_.tick);
}

void Tables::write(const UserKillFact& k) {
  auto victim = id_of_passing(k.victim, killed_), sender = id_of_passing(k.sender, killer_);
  insert_.kill << next_seq() << wall(k.time) << victim << sender << k.cause;
  run(insert_.kill);
}

void Tables::write(const ReclaimFact& r) {
  auto group = id_of(r.cgroup);
  insert_.reclaim << next_seq() << wall(r.time) << group << r.stalls << r.stalled << r.reclaimed;
  run(insert_.reclaim);
}

void Tables::write(const PressureFact& p) {
  auto group = id_of(p.cgroup);
  insert_.pressure << next_seq() << wall(p.time) << run_ << group;
  bind(insert_.pressure, p.pressure.some);
  bind(insert_.pressure, p.pressure.full);
  run(insert_.pressure);
}

void Tables::write(const GpuFact& g) {
  using Op = GpuEvent::Op;
  const GpuEvent& e = g.event;
  if (!is_news(e.op) && e.op != Op::context && e.op != Op::close) return;
  auto process = id_of(g.process);
  std::optional<std::int64_t> first;
  if (e.first) first = wall(*e.first);
  insert_.gpu_event << next_seq() << wall(g.time) << process << to_string(e.op) << to_string(e.kind)
                    << name_of(e.device) << e.bytes << e.status << first << e.managed << e.pinned;
  run(insert_.gpu_event);
  std::int64_t event{sqlite3_last_insert_rowid(db_)};
  int nr = 0;
  for (const CodePlace& place : e.code) {
    insert_.gpu_code << event << nr++ << place.function << place.file << place.line;
    run(insert_.gpu_code);
  }
  if (e.op != Op::xid) return;
  insert_.gpu_error << event << e.bus << e.message;
  run(insert_.gpu_error);
}

void Tables::write(const GpuSample& s) {
  auto process = id_of(s.process);
  insert_.gpu_sample << next_seq() << wall(s.time) << run_ << process << name_of(s.device) << s.held
                     << s.overhead << s.managed << s.pinned << s.limit << s.free << s.moved_in << s.moved_out
                     << s.faults << s.since_before << s.ended;
  run(insert_.gpu_sample);
  if (!s.evicted && !s.cpu_faults) return;
  insert_.gpu_eviction << std::int64_t{sqlite3_last_insert_rowid(db_)} << s.evicted << s.cpu_faults;
  run(insert_.gpu_eviction);
}

void Tables::write(const AlertFact& a) {
  auto group = id_of(a.cgroup);
  std::optional<std::int64_t> forecast;
  if (a.forecast) forecast = write_forecast(*a.forecast, false);
  // It is told again when its actions have ended. Of several cards and trees the message has the name.
  for (const char* sql :
       {"DELETE FROM alert_actions WHERE alert IN (SELECT seq FROM alerts WHERE time_ns=? AND run=?"
        " AND rule=? AND cgroup IS ? AND message=?)",
        "DELETE FROM alerts WHERE time_ns=? AND run=? AND rule=? AND cgroup IS ? AND message=?"}) {
    Statement before(db_, sql);
    before << wall(a.time) << run_ << a.rule << group << a.message;
    run(before);
  }
  Statement alert(db_, "INSERT INTO alerts VALUES(?,?,?,?,?,?,?)");
  alert << next_seq() << wall(a.time) << run_ << a.rule << group << a.message << forecast;
  run(alert);
  std::int64_t id = sqlite3_last_insert_rowid(db_);
  Statement action(db_, "INSERT INTO alert_actions VALUES(?,?,?,?,?,?,?,?,?,?)");
  int nr = 0;
  for (const ActionRun& r : a.actions) {
    auto process = id_of(r.process);
    action << id << nr++ << to_string(r.kind) << r.what << to_string(r.result) << r.exit_code << r.signal
           << r.error << process << r.took;
    run(action);
  }
}

void Tables::write(const LostFact& l) {
  insert_.loss << next_seq() << wall(l.time) << run_ << l.reason << l.count;
  run(insert_.loss);
}

void Tables::write(const RecordedEvent& e) {
  insert_.event << next_seq() << wall(e.time) << e.type << e.json << e.text;
  run(insert_.event);
}

// ---- kills

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
