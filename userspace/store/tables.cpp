#include "store/tables.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <type_traits>

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

}  // namespace oomcast
