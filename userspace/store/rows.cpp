#include "store/rows.h"

#include <charconv>

namespace oomcast {
namespace {

constexpr std::size_t kMaxActions = 16;
constexpr std::size_t kMaxFrames = 256;

template <typename Enum>
Enum from_name(const std::string& name, Enum last, Enum otherwise) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (to_string(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  return otherwise;
}

std::optional<PressureLine> pressure_line(const Statement& row, int c) {
  if (row.null(c + 3)) return std::nullopt;
  return PressureLine{row.real(c), row.real(c + 1), row.real(c + 2),
                      static_cast<std::uint64_t>(row.integer(c + 3))};
}

std::optional<GpuUuid> device_of(const Statement& row, int c) {
  return row.null(c) ? std::nullopt : parse_gpu_uuid(row.text(c));
}

std::vector<std::uint64_t> stack_of(const std::string& text) {
  std::vector<std::uint64_t> out;
  for (std::size_t at = 0; at < text.size() && out.size() < kMaxFrames;) {
    std::size_t end = std::min(text.find(' ', at), text.size());
    std::size_t begin = at + (text.compare(at, 2, "0x") == 0 ? 2 : 0);
    std::uint64_t address = 0;
    if (std::from_chars(text.data() + begin, text.data() + end, address, 16).ec == std::errc{})
      out.push_back(address);
    at = end + 1;
  }
  return out;
}

}  // namespace

Rows::Rows(sqlite3* db, const RunInfo& run)
    : db_(db),
      hierarchy_(run.hierarchy),
      offset_(run.wall_of_mono_zero),
      cgroup_(db, "SELECT inode, path FROM cgroups WHERE id=?"),
      process_(db,
               "SELECT pid, start_ticks, comm, cmdline, cmdline_source, cmdline_truncated, uid, ppid, "
               "ns_pid, cgroup"
               " FROM processes WHERE id=?"),
      gpu_code_(db, "SELECT function, file, line FROM gpu_event_code WHERE event=? AND nr<8 ORDER BY nr") {}

CgroupPtr Rows::cgroup(const Statement& row, int c) {
  if (row.null(c)) return nullptr;
  std::int64_t id = row.integer(c);
  if (auto at = cgroups_.find(id); at != cgroups_.end()) return at->second;
  if (cgroups_.size() >= kMaxNames) cgroups_.clear();
  CgroupPtr out;
  if (cgroup_ && (cgroup_ << id).row()) {
    auto ref = std::make_shared<CgroupRef>();
    ref->id = {hierarchy_, static_cast<std::uint64_t>(cgroup_.integer(0))};
    ref->path = cgroup_.text(1);
    ref->name = name_cgroup(ref->path);
    // In a cgroup namespace; the machine's root is 1, or 0 where it was not seen.
    if (ref->name.kind == CgroupKind::root && ref->id.inode > 1) ref->name.kind = CgroupKind::plain;
    out = std::move(ref);
  }
  note(cgroup_);
  cgroup_.again();
  cgroups_[id] = out;
  return out;
}

ProcessRef Rows::process(const Statement& row, int c) {
  std::int64_t id = row.integer(c);
  if (auto at = processes_.find(id); at != processes_.end()) return at->second;
  if (processes_.size() >= kMaxNames) processes_.clear();
  ProcessRef out;
  if (process_ && (process_ << id).row()) {
    out.id = {static_cast<std::uint32_t>(process_.integer(0)),
              static_cast<std::uint64_t>(process_.integer(1))};
    out.comm = process_.text(2);
    out.cmdline = Arguments::from_bytes(process_.text(3));
    if (!process_.null(4))
      out.cmdline_source = process_.integer(4) == 0 ? CmdlineSource::shown : CmdlineSource::exec;
    out.cmdline_truncated = process_.integer(5) != 0;
    out.uid = process_.number(6);
    out.ppid = process_.number(7);
    out.ns_pid = process_.number(8);
    out.cgroup = cgroup(process_, 9);
  }
  note(process_);
  process_.again();
  processes_[id] = out;
  return out;
}

Sample Rows::sample(const Statement& r, int c) {
  Sample s;
  s.time = time(r, c);
  s.cgroup = cgroup(r, c + 1);
  s.usage = r.bytes(c + 2);
  s.limit = r.bytes(c + 3);
  s.limit_cgroup = cgroup(r, c + 4);
  s.stat.anon = r.bytes(c + 5);
  s.stat.file = r.bytes(c + 6);
  s.stat.shmem = r.bytes(c + 7);
  s.stat.kernel = r.bytes(c + 8);
  s.stat.swap = r.bytes(c + 9);
  s.pinned = r.bytes(c + 10);
  s.headroom_limit = r.bytes(c + 11);
  s.peak = r.bytes(c + 12);
  s.headroom_cgroup = r.null(c + 13)                       ? s.limit_cgroup
                      : r.integer(c + 13) == kOfTheMachine ? nullptr
                                                           : cgroup(r, c + 13);
  if (!r.null(c + 14)) s.throttle = Throttle{r.size(c + 14), cgroup(r, c + 15)};
  return s;
}

ProcessSampleFact Rows::process_sample(const Statement& r, int c) {
  return {time(r, c),    process(r, c + 1), r.size(c + 2),  r.size(c + 3), r.size(c + 4),
          r.size(c + 5), r.size(c + 6),     r.bytes(c + 7), std::nullopt,  r.size(c + 8)};
}

ForecastFact Rows::forecast(const Statement& r, int c) {
  ForecastFact f;
  f.time = time(r, c);
  f.cgroup = cgroup(r, c + 1);
  if (!r.null(c + 2)) f.process = process(r, c + 2);
  f.limit_cgroup = cgroup(r, c + 10);
  Forecast& said = f.forecast;
  said.verdict = from_name(r.text(c + 3), Verdict::unknown, Verdict::unknown);
  if (!r.null(c + 4) && !r.null(c + 7)) {  // schema 1 has no span: a rate over nothing would mislead
    Growth growth{{r.real(c + 4)}, {r.real(c + 5)}, {r.real(c + 6)}, r.duration(c + 7), 0};
    growth.samples = static_cast<std::size_t>(r.integer(c + 8));
    said.growth = growth;
  }
  said.limit = r.bytes(c + 9);
  said.eta = r.seconds(c + 11);
  said.eta_low = r.seconds(c + 12);
  said.eta_high = r.seconds(c + 13);
  said.alert = r.integer(c + 14) != 0;
  said.why = r.text(c + 15);
  Evidence& e = said.evidence;
  e.floor = r.bytes(c + 16);
  e.peak_above = r.bytes(c + 17);
  e.period = r.seconds(c + 18);
  if (auto peaks = r.count(c + 19)) e.peaks = static_cast<std::size_t>(*peaks);
  e.regime = r.seconds(c + 20);
  e.stepped = r.bytes(c + 21);
  e.step_ago = r.seconds(c + 22);
  e.shared = r.bytes(c + 23);
  f.device = device_of(r, c + 24);
  if (!r.null(c + 25)) e.near_limit = NearLimit{r.size(c + 25), r.size(c + 26), r.duration(c + 27)};
  if (!r.null(c + 28)) {
    Seconds lasts = r.duration(c + 28);
    e.thrashing =
        Thrashing{f.time - std::chrono::round<Nanos>(lasts), lasts, r.real(c + 29), {r.real(c + 30)}};
  }
  if (said.limit && !f.device)
    said.limit_kind = !r.null(c + 31) ? LimitKind::high : f.limit_cgroup ? LimitKind::max : LimitKind::host;
  return f;
}

std::optional<ForecastFact> Rows::forecast_of(const Statement& row, int c) {
  if (row.null(c)) return std::nullopt;
  Statement f(db_, "SELECT " + columns::forecast + " FROM forecasts WHERE seq=?");
  bool there = (f << row.integer(c)).row();
  note(f);
  if (!there) return std::nullopt;
  return forecast(f);
}

GpuSample Rows::gpu_sample(const Statement& r, int c) {
  GpuSample s;
  s.time = time(r, c);
  if (!r.null(c + 1)) s.process = process(r, c + 1);
  s.device = device_of(r, c + 2);
  s.held = r.size(c + 3);
  s.overhead = r.size(c + 4);
  s.managed = r.bytes(c + 5);
  s.pinned = r.bytes(c + 6);
  s.limit = r.bytes(c + 7);
  s.free = r.bytes(c + 8);
  s.moved_in = r.bytes(c + 9);
  s.moved_out = r.bytes(c + 10);
  s.faults = r.count(c + 11);
  s.since_before = r.integer(c + 12) != 0;
  s.ended = r.integer(c + 13) != 0;
  s.evicted = r.bytes(c + 14);
  s.cpu_faults = r.count(c + 15);
  return s;
}

GpuFact Rows::gpu_event(const Statement& r) {
  GpuFact f{time(r, 0), std::nullopt, {}};
  if (!r.null(1)) f.process = process(r, 1);
  GpuEvent& e = f.event;
  e.time = f.time;
  if (f.process) e.task = f.process->id;
  e.op = from_name(r.text(2), GpuEvent::Op::xid, GpuEvent::Op::advise);
  e.kind = from_name(r.text(3), GpuMemoryKind::external, GpuMemoryKind::device);
  e.device = device_of(r, 4);
  e.bytes = r.bytes(5);
  e.status = r.number(6);
  if (!r.null(7)) e.first = time(r, 7);
  e.managed = r.bytes(8);
  e.pinned = r.bytes(9);
  if (!r.null(10)) e.bus = r.text(10);
  if (!r.null(11)) e.message = r.text(11);
  if (!gpu_code_) return f;
  gpu_code_ << r.integer(12);
  while (gpu_code_.row()) e.code.push_back({gpu_code_.text(0), gpu_code_.text(1), gpu_code_.number(2)});
  note(gpu_code_);
  gpu_code_.again();
  return f;
}

ReclaimFact Rows::reclaim(const Statement& r, int c) {
  return {time(r, c), cgroup(r, c + 1), static_cast<std::uint64_t>(r.integer(c + 2)), r.duration(c + 3),
          r.size(c + 4)};
}

PressureFact Rows::pressure(const Statement& r) {
  return {time(r, 0), cgroup(r, 1), {pressure_line(r, 2), pressure_line(r, 6)}};
}

UserKillFact Rows::kill(const Statement& r) {
  UserKillFact f{time(r, 0), process(r, 1), process(r, 2), std::nullopt};
  if (!r.null(3)) f.cause = r.text(3);
  return f;
}

GrewFrom Rows::growth_site(const Statement& r) {
  return {process(r, 0), {}, r.size(1), r.size(2), r.duration(3), time(r, 4), time(r, 5)};
}

AlertFact Rows::alert(const Statement& r) {
  AlertFact f{time(r, 0), r.text(1), cgroup(r, 2), r.text(3), forecast_of(r, 4), {}};
  Statement action(db_,
                   "SELECT kind, what, result, exit_code, signal, error, process, took_s FROM alert_actions"
                   " WHERE alert=? ORDER BY nr");
  action << r.integer(5);
  while (f.actions.size() < kMaxActions && action.row()) {
    ActionRun run;
    run.kind = from_name(action.text(0), ActionRun::Kind::signal, ActionRun::Kind::exec);
    run.what = action.text(1);
    run.result = from_name(action.text(2), ActionRun::Result::lost, ActionRun::Result::lost);
    if (!action.null(3)) run.exit_code = static_cast<int>(action.integer(3));
    if (!action.null(4)) run.signal = static_cast<int>(action.integer(4));
    if (!action.null(5)) run.error = action.text(5);
    if (!action.null(6)) run.process = process(action, 6);
    run.took = action.seconds(7);
    f.actions.push_back(std::move(run));
  }
  note(action);
  return f;
}

Victim Rows::victim(const Statement& r) {
  Victim v;
  v.process = process(r, 0);
  v.tid = static_cast<std::uint32_t>(r.integer(1));
  v.anon = r.bytes(2);
  v.file = r.bytes(3);
  v.shmem = r.bytes(4);
  v.swap = r.bytes(5);
  v.pgtables = r.bytes(6);
  v.total_vm = r.bytes(7);
  if (!r.null(8)) v.oom_score_adj = static_cast<int>(r.integer(8));
  if (!r.null(9)) v.killed = r.integer(9) != 0;
  v.freed_after = r.seconds(10);
  v.stack = stack_of(r.text(11));
  v.marked = r.integer(12) != 0;
  v.logged = r.integer(13) != 0;
  if (!r.null(14)) v.time = time(r, 14);
  return v;
}

}  // namespace oomcast
