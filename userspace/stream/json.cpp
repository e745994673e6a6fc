#include "stream/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stream/code_text.h"
#include "stream/gpu_proxy.h"
#include "stream/json_parts.h"
#include "stream/names.h"

namespace oomcast {

Json machine_at_kill_json(const std::optional<MachineAtKill>& m) {
  if (!m) return nullptr;
  Json out = {{"cpuset", maybe(m->cpuset)},
              {"mems_allowed", maybe(m->mems_allowed)},
              {"nodemask", maybe(m->nodemask)},
              {"ram_bytes", maybe(m->ram)},
              {"free_bytes", maybe(m->free)},
              {"swap_total_bytes", maybe(m->swap_total)},
              {"swap_free_bytes", maybe(m->swap_free)},
              {"zones", Json::array()},
              {"slabs", Json::array()}};
  for (const ZoneLine& z : m->zones)
    out["zones"].push_back({{"node", maybe(z.node)},
                            {"zone", text(z.zone)},
                            {"free_bytes", maybe(z.free)},
                            {"min_bytes", maybe(z.min)},
                            {"low_bytes", maybe(z.low)},
                            {"high_bytes", maybe(z.high)},
                            {"present_bytes", maybe(z.present)},
                            {"managed_bytes", maybe(z.managed)}});
  for (const SlabRow& slab : m->slabs)
    out["slabs"].push_back(
        {{"name", text(slab.name)}, {"used_bytes", slab.used.count}, {"total_bytes", slab.total.count}});
  return out;
}

Json cgroup_json(const CgroupPtr& cgroup) {
  if (!cgroup) return nullptr;
  const CgroupName& name = cgroup->name;
  return {{"id", cgroup->id.inode ? Json(cgroup->id.inode) : Json(nullptr)},
          {"hierarchy", cgroup->id.hierarchy == Hierarchy::v1 ? "v1" : "v2"},
          {"path", text(cgroup->path)},
          {"name", text(name.name)},
          {"kind", to_string(name.kind)},
          {"container", maybe(name.container)},
          {"pod", maybe(name.pod)},
          {"unit", maybe(name.unit)},
          {"slurm_job", maybe(name.slurm_job)},
          {"slurm_step", maybe(name.slurm_step)}};
}

bool log_shows_hierarchy(const Episode& e) {
  const CgroupPtr& limit = e.limit_cgroup;
  return limit && (limit->id.hierarchy == Hierarchy::v1 || (e.memory && e.memory->swap));
}

void leave_hierarchy_open(Json& in) {
  if (in.is_object() && in.contains("hierarchy")) in["hierarchy"] = nullptr;
  if (in.is_structured())
    for (Json& member : in) leave_hierarchy_open(member);
}

namespace {

Json cmdline_source(const std::optional<CmdlineSource>& source) {
  if (!source) return nullptr;
  return *source == CmdlineSource::shown ? "shown" : "exec";
}

class JsonRenderer {
 public:
  explicit JsonRenderer(const ClockMap& clock) : clock_(clock) {}

  Json line(std::string_view type, MonoTime time, std::optional<double> time_s = std::nullopt) const {
    if (time_s) return {{"type", type}, {"time_s", *time_s}};
    return {{"type", type}, {"time", format_rfc3339(clock_.wall(time))}};
  }

  Json process(const ProcessRef& p) const {
    Json args = Json::array();
    for (std::string_view arg : p.cmdline) args.push_back(text(arg));
    return {
        {"pid", p.id.tgid ? Json(p.id.tgid) : Json(nullptr)},
        {"start_time", p.id.start_ticks ? Json(format_rfc3339(clock_.wall_of_start(p.id))) : Json(nullptr)},
        {"comm", p.comm.empty() ? Json(nullptr) : text(p.comm)},
        {"cmdline", p.cmdline_source ? args : Json(nullptr)},
        {"cmdline_source", cmdline_source(p.cmdline_source)},
        {"cmdline_truncated", p.cmdline_truncated},
        {"uid", maybe(p.uid)},
        {"ppid", maybe(p.ppid)},
        {"ns_pid", maybe(p.ns_pid)},
        {"cgroup", cgroup_json(p.cgroup)}};
  }

  Json operator()(const StartFact& f) const {
    Json out = line("start", f.time, f.time_s);
    out["schema"] = 1;
    out["version"] = f.version;
    out["kernel"] = f.kernel.empty() ? Json(nullptr) : Json(f.kernel);
    out["host"] = f.host.empty() ? Json(nullptr) : text(f.host);
    out["boot_id"] = f.boot_id.empty() ? Json(nullptr) : text(f.boot_id);
    out["sources"] = f.sources;
    if (!f.read_as.empty()) out["read_as"] = to_valid_utf8(f.read_as);
    return out;
  }

  Json operator()(const Sample& f) const {
    Json out = line("sample", f.time);
    out["cgroup"] = cgroup_json(f.cgroup);
    out["usage_bytes"] = maybe(f.usage);
    out["limit_bytes"] = maybe(f.limit);
    out["limit_cgroup"] = cgroup_json(f.limit_cgroup);
    out["anon_bytes"] = maybe(f.stat.anon);
    out["file_bytes"] = maybe(f.stat.file);
    out["shmem_bytes"] = maybe(f.stat.shmem);
    out["kernel_bytes"] = maybe(f.stat.kernel);
    out["swap_bytes"] = maybe(f.stat.swap);
    out["pinned_bytes"] = maybe(f.pinned);
    out["peak_bytes"] = maybe(f.peak);
    return out;
  }

  Json operator()(const LimitChangedFact& f) const {
    Json out = line("limit_changed", f.time);
    out["cgroup"] = cgroup_json(f.cgroup);
    out["limit_cgroup"] = cgroup_json(f.limit_cgroup);
    out["limit_kind"] = to_string(f.kind);
    out["before_bytes"] = maybe(f.before);
    out["limit_bytes"] = maybe(f.limit);
    return out;
  }

  Json operator()(const ProcessSampleFact& f) const {
    Json out = line("process", f.time);
    out["process"] = process(f.process);
    out["rss_bytes"] = f.rss.count;
    out["anon_bytes"] = f.anon.count;
    out["file_bytes"] = f.file.count;
    out["shmem_bytes"] = f.shmem.count;
    out["swap_bytes"] = f.swap.count;
    out["private_bytes"] = maybe(f.private_bytes);
    out["growth_bytes_per_s"] = maybe(f.growth);
    out["rss_error_bytes"] = f.rss_error.count;
    return out;
  }

  Json operator()(const ExitFact& f) const {
    Json out = line("exit", f.time);
    out["process"] = process(f.process);
    return out;
  }

  Json operator()(const ForecastFact& f) const {
    const Forecast& c = f.forecast;
    Json out = line("forecast", f.time, f.time_s);
    out["cgroup"] = cgroup_json(f.cgroup);
    out["process"] = f.process && !f.device ? process(*f.process) : Json(nullptr);
    out["device"] = f.device ? Json(to_string(*f.device)) : Json(nullptr);
    if (!f.series.empty()) out["series"] = to_valid_utf8(f.series);
    if (f.device) out["device_process"] = f.process ? process(*f.process) : Json(nullptr);
    out["verdict"] = to_string(c.verdict);
    out["growth_bytes_per_s"] = c.growth ? Json(c.growth->rate.value) : Json(nullptr);
    out["growth_low_bytes_per_s"] = c.growth ? Json(c.growth->low.value) : Json(nullptr);
    out["growth_high_bytes_per_s"] = c.growth ? Json(c.growth->high.value) : Json(nullptr);
    out["limit_bytes"] = maybe(c.limit);
    out["limit_cgroup"] = cgroup_json(f.limit_cgroup);
    out["limit_kind"] = c.limit_kind ? Json(to_string(*c.limit_kind)) : Json(nullptr);
    out["eta_s"] = maybe(c.eta);
    out["eta_low_s"] = maybe(c.eta_low);
    out["eta_high_s"] = maybe(c.eta_high);
    out["alert"] = c.alert;
    out["why"] = c.why;
    const Evidence& e = c.evidence;
    out["evidence"] = {{"samples", c.growth ? Json(c.growth->samples) : Json(nullptr)},
                       {"span_s", c.growth ? Json(c.growth->span.count()) : Json(nullptr)},
                       {"floor_bytes", maybe(e.floor)},
                       {"peak_above_bytes", maybe(e.peak_above)},
                       {"period_s", maybe(e.period)},
                       {"peaks", maybe(e.peaks)},
                       {"regime_s", maybe(e.regime)},
                       {"stepped_bytes", maybe(e.stepped)},
                       {"step_ago_s", maybe(e.step_ago)},
                       {"shared_bytes", maybe(e.shared)},
                       {"near_limit", nullptr},
                       {"thrashing", nullptr}};
    if (const auto& n = e.near_limit)
      out["evidence"]["near_limit"] = {
          {"left_bytes", n->left.count}, {"moved_bytes", n->moved.count}, {"within_s", n->within.count()}};
    if (const auto& t = e.thrashing)
      out["evidence"]["thrashing"] = {{"lasts_s", t->lasts.count()},
                                      {"waiting_share", t->waiting},
                                      {"reclaimed_bytes_per_s", t->reclaimed.value}};
    return out;
  }

  Json victim(const Victim& v) const {
    Json out = process(v.process);
    out["tid"] = v.tid ? Json(v.tid) : Json(nullptr);
    out["time"] = v.time ? Json(format_rfc3339(clock_.wall(*v.time))) : Json(nullptr);
    out["anon_bytes"] = maybe(v.anon);
    out["file_bytes"] = maybe(v.file);
    out["shmem_bytes"] = maybe(v.shmem);
    out["swap_bytes"] = maybe(v.swap);
    out["pgtables_bytes"] = maybe(v.pgtables);
    out["total_vm_bytes"] = maybe(v.total_vm);
    out["oom_score_adj"] = maybe(v.oom_score_adj);
    out["killed"] = maybe(v.killed);
    out["freed_after_s"] = maybe(v.freed_after);
    Json stack = Json::array();
    for (std::uint64_t address : v.stack) stack.push_back(fmt::format("{:#x}", address));
    out["stack"] = std::move(stack);
    out["python"] = v.code.empty() ? Json(nullptr) : places_json(v.code);
    const CodePlace* at = culprit(v.code);
    out["was_at"] = at ? Json(to_valid_utf8(to_text(*at))) : Json(nullptr);
    return out;
  }

  Json operator()(const OomEvent& f) const {
    const Episode& e = f.episode;
    Json out = line("oom", e.time);
    out["id"] = e.id;
    out["message"] = text(oom_message(e));
    out["scope"] = e.scope ? Json(to_string(*e.scope)) : Json(nullptr);
    out["limit_cgroup"] = cgroup_json(e.limit_cgroup);
    out["usage_bytes"] = maybe(e.usage);
    out["limit_bytes"] = maybe(e.limit);
    out["trigger"] = e.trigger ? process(*e.trigger) : Json(nullptr);
    out["order"] = maybe(e.request.order);
    out["gfp"] = maybe(e.request.gfp);
    out["group_kill"] = maybe(e.group_kill);
    out["series"] = nullptr;
    if (e.series)
      out["series"] = {{"kills", e.series->kills}, {"since", format_rfc3339(clock_.wall(e.series->since))}};
    out["machine"] = machine_at_kill_json(e.machine);
    out["victims"] = Json::array();
    for (const Victim& v : e.victims) out["victims"].push_back(victim(v));
    out["also_killed"] = Json::array();
    for (const ProcessRef& p : e.also_killed) out["also_killed"].push_back(process(p));
    out["grew_most"] = Json::array();
    for (const GrewProcess& g : e.grew_most)
      out["grew_most"].push_back(
          {{"process", process(g.process)}, {"grew_bytes", g.grew.count}, {"over_s", g.over.count()}});
    out["grew_from"] = Json::array();
    for (const GrewFrom& g : e.grew_from.sites) out["grew_from"].push_back(growth_json(g, clock_));
    out["holders"] = Json::array();
    for (const GrownHolder& h : e.grew_from.holders) out["holders"].push_back(growth_json(h, clock_));
    out["ancestors"] = Json::array();
    for (const ChainLevel& level : e.chain)
      out["ancestors"].push_back({{"cgroup", cgroup_json(level.cgroup)},
                                  {"usage_bytes", level.usage.count},
                                  {"limit_bytes", maybe(level.limit)}});
    Json before = nullptr;
    if (f.forecast_before) {
      before = (*this)(*f.forecast_before);
      before.erase("type");
      before["first_time"] =
          f.first_forecast ? Json(format_rfc3339(clock_.wall(*f.first_forecast))) : Json(nullptr);
    }
    out["forecast_before"] = std::move(before);
    out["checks"] = {{"mark_victim", maybe(e.checks.mark_victim)},
                     {"kmsg", maybe(e.checks.kmsg)},
                     {"vmstat", maybe(e.checks.vmstat)}};
    return out;
  }

  Json operator()(const UserKillFact& f) const {
    Json out = line("kill", f.time);
    out["victim"] = process(f.victim);
    out["sender"] = process(f.sender);
    out["cause"] = maybe(f.cause);
    return out;
  }

  Json operator()(const ReclaimFact& f) const {
    Json out = line("reclaim", f.time);
    out["cgroup"] = cgroup_json(f.cgroup);
    out["stalls"] = f.stalls;
    out["stall_s"] = f.stalled.count();
    out["reclaimed_bytes"] = f.reclaimed.count;
    return out;
  }

  static Json pressure_line(const std::optional<PressureLine>& p) {
    if (!p) return nullptr;
    return {{"avg10", p->avg10},
            {"avg60", p->avg60},
            {"avg300", p->avg300},
            {"total_s", double(p->total_us) * 1e-6}};
  }
  Json operator()(const PressureFact& f) const {
    Json out = line("pressure", f.time);
    out["cgroup"] = cgroup_json(f.cgroup);
    out["some"] = pressure_line(f.pressure.some);
    out["full"] = pressure_line(f.pressure.full);
    return out;
  }

  Json action(const ActionRun& run) const {
    constexpr std::array<std::string_view, 3> names = {"command", "file", "name"};
    Json out = {{names[static_cast<std::size_t>(run.kind)], text(run.what)},
                {"result", to_string(run.result)},
                {"error", maybe(run.error)}};
    if (run.kind == ActionRun::Kind::exec) {
      out["exit_code"] = maybe(run.exit_code);
      out["signal"] = maybe(run.signal);
      out["took_s"] = maybe(run.took);
    }
    if (run.kind == ActionRun::Kind::signal)
      out["process"] = run.process ? process(*run.process) : Json(nullptr);
    return out;
  }

  Json operator()(const GpuFact& f) const {
    const GpuEvent& e = f.event;
    Json out = line("gpu", f.time);
    out["process"] = f.process ? process(*f.process) : Json(nullptr);
    out["device"] = e.device ? Json(to_string(*e.device)) : Json(nullptr);
    out["op"] = to_string(e.op);
    out["bytes"] = maybe(e.bytes);
    out["address"] = e.address ? Json(fmt::format("{:#x}", *e.address)) : Json(nullptr);
    out["kind"] = to_string(e.kind);
    out["status"] = maybe(e.status);
    out["overhead"] = e.overhead;
    if (is_asked_for(e.op)) out["python"] = e.code.empty() ? Json(nullptr) : places_json(e.code);
    if (e.op == GpuEvent::Op::free_seen) out["free_bytes"] = maybe(e.free_bytes);
    if (e.op == GpuEvent::Op::close) {
      out["managed_bytes"] = maybe(e.managed);
      out["pinned_bytes"] = maybe(e.pinned);
    }
    if (e.op == GpuEvent::Op::xid) {
      out["bus"] = e.bus.empty() ? Json(nullptr) : text(e.bus);
      out["message"] = e.message.empty() ? Json(nullptr) : text(e.message);
    }
    if (e.first) out["first_time"] = format_rfc3339(clock_.wall(*e.first));
    return out;
  }

  Json operator()(const GpuSample& f) const {
    Json out = line("gpu_sample", f.time);
    out["process"] = f.process ? process(*f.process) : Json(nullptr);
    out["device"] = f.device ? Json(to_string(*f.device)) : Json(nullptr);
    out["device_bytes"] = f.since_before && f.held.count == 0 ? Json(nullptr) : Json(f.held.count);
    out["limit_bytes"] = maybe(f.limit);
    out["since_before"] = f.since_before;
    if (f.process) {
      auto proxy = gpu_proxy(*f.process);
      out["proxy"] = proxy ? Json(*proxy) : Json(nullptr);
      out["overhead_bytes"] = f.overhead.count;
      out["managed_bytes"] = maybe(f.managed);
      out["pinned_bytes"] = maybe(f.pinned);
      out["ended"] = f.ended;
    } else {
      out["free_bytes"] = maybe(f.free);
    }
    out["moved_in_bytes"] = maybe(f.moved_in);
    out["moved_out_bytes"] = maybe(f.moved_out);
    if (f.process) out["evicted_bytes"] = maybe(f.evicted);
    out["faults"] = maybe(f.faults);
    if (f.process) out["cpu_faults"] = maybe(f.cpu_faults);
    return out;
  }

  Json operator()(const AlertFact& f) const {
    Json out = line("alert", f.time);
    out["rule"] = text(f.rule);
    out["cgroup"] = cgroup_json(f.cgroup);
    out["message"] = text(f.message);
    out["forecast"] = nullptr;
    if (f.forecast) {
      out["forecast"] = (*this)(*f.forecast);
      out["forecast"].erase("type");
    }
    out["action"] = nullptr;
    if (!f.actions.empty()) {
      // The worst of them, in the order of the enumeration but for `running`, which is not the end.
      auto worst = ActionRun::Result::ok;
      for (const ActionRun& run : f.actions)
        if (run.result == ActionRun::Result::running || worst == ActionRun::Result::running)
          worst = ActionRun::Result::running;
        else
          worst = std::max(worst, run.result);
      out["action"] = {{"result", to_string(worst)}};
      for (const ActionRun& run : f.actions) out["action"][to_string(run.kind)] = action(run);
    }
    return out;
  }

  Json operator()(const LostFact& f) const {
    Json out = line("lost", f.time);
    out["reason"] = f.reason;
    out["count"] = f.count;
    return out;
  }

  Json operator()(const TotalsFact& f) const {
    Json out = line("totals", f.time);
    out["since"] = format_rfc3339(clock_.wall(f.since));
    out["kills"] = f.kills;
    out["episodes"] = f.episodes;
    out["group_kills"] = f.group_kills;
    out["user_kills"] = f.user_kills;
    out["alerts"] = f.alerts;
    out["lost"] = f.lost;
    return out;
  }

  Json operator()(const TickFact&) const { return nullptr; }
  Json operator()(const ForgottenFact&) const { return nullptr; }

  Json operator()(const EndFact& f) const {
    Json out = line("end", f.time, f.time_s);
    out["records"] = f.records;
    out["lost"] = Json::object();
    for (const auto& [reason, count] : f.lost) out["lost"][reason] = count;
    return out;
  }

 private:
  const ClockMap& clock_;
};

}  // namespace

Json process_json(const ProcessRef& process, const ClockMap& clock) {
  return JsonRenderer(clock).process(process);
}

Json fact_json(const Fact& fact, const ClockMap& clock) {
  return std::visit(JsonRenderer(clock), fact);
}

std::string to_json(const Fact& fact, const ClockMap& clock) {
  if (kind_of(fact) == FactKind::internal) return "";
  return dump(fact_json(fact, clock));
}

}  // namespace oomcast
