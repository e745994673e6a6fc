#include <array>

#include "present/gpu_at_kill.h"
#include "present/memory_table.h"
#include "present/post_mortem_parts.h"
#include "present/report.h"
#include "store/past_kills.h"
#include "stream/json_parts.h"

namespace oomcast {
namespace {

Json findings_json(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& f : findings) {
    Json because = Json::array();
    for (const std::string& line : f.evidence) because.push_back(text(line));
    Json one = {{"text", text(f.text)}, {"because", std::move(because)}};
    if (!f.kind.empty()) one["kind"] = f.kind;
    out.push_back(std::move(one));
  }
  return out;
}

Json column_json(const Column& values) {
  Json out = Json::array();
  for (const auto& value : values) out.push_back(maybe(value));
  return out;
}

Json curve_json(const Curve& curve) {
  Json out = {{"name", text(curve.name)},
              {"process", curve.process},
              {"limit_owner", curve.limit_owner},
              {"victim", curve.victim},
              {"culprit", curve.culprit},
              {"total_bytes", column_json(curve.total)},
              {"pinned_bytes", column_json(curve.pinned)},
              {"limit_bytes", column_json(curve.limit)}};
  for (const Curve::Kind& kind : curve.kinds) out[kind.name + "_bytes"] = column_json(kind.values);
  return out;
}

Json timeline_json(const Timeline& timeline) {
  constexpr std::array<std::string_view, 8> kinds = {"kill", "user_kill", "alert", "verdict",
                                                     "exit", "reclaim",   "limit", "lost"};
  Json out = {{"at_s", timeline.at},
              {"moments_left_out", timeline.moments_left_out},
              {"curves", Json::array()},
              {"events", Json::array()},
              {"events_left_out", timeline.events_left_out},
              {"forecasts", Json::array()}};
  for (const Curve& curve : timeline.curves) out["curves"].push_back(curve_json(curve));
  for (const TimelineEvent& event : timeline.events)
    out["events"].push_back({{"kind", kinds[static_cast<std::size_t>(event.kind)]},
                             {"at_s", event.at},
                             {"text", text(event.text)}});
  for (const ForetoldDeadline& f : timeline.forecasts)
    out["forecasts"].push_back(
        {{"at_s", f.at}, {"deadline_s", f.eta}, {"low_s", f.low}, {"high_s", maybe(f.high)}});
  return out;
}

Json memory_json(const std::optional<PostMortemMemory>& memory) {
  if (!memory) return nullptr;
  const MemoryAtKill& kinds = memory->kinds;
  return {{"source", memory->exact ? "kernel_log" : "sample"},
          {"age_s", memory->age.count()},
          {"usage_bytes", maybe(memory->usage)},
          {"anon_bytes", maybe(kinds.anon)},
          {"file_bytes", maybe(kinds.file)},
          {"shmem_bytes", maybe(kinds.shmem)},
          {"kernel_bytes", maybe(kinds.kernel)},
          {"slab_bytes", maybe(kinds.slab)},
          {"swap_bytes", maybe(kinds.swap)},
          {"unattributed_bytes", maybe(memory->unattributed)}};
}

/// Every counter of the kernel's report as a share of the whole.
Json parts_json(const Episode& e) {
  auto table = memory_table(e);
  if (!table) return nullptr;
  Json rows = Json::array();
  for (const MemoryRow& row : table->rows)
    rows.push_back({{"name", text(row.name)}, {"meaning", row.meaning}, {"bytes", row.size.count}});
  return {{"of", table->of_machine ? "machine" : "cgroup"},
          {"whole_bytes", table->whole.count},
          {"counted_bytes", table->counted.count},
          {"rows", std::move(rows)}};
}

Json tasks_json(const Episode::Tasks& tasks) {
  if (tasks.rows.empty()) return nullptr;
  Json groups = Json::array();
  for (const TaskGroup& group : task_groups(tasks))
    groups.push_back({{group.cgroup ? "cgroup_path" : "comm", text(group.name)},
                      {"processes", group.count},
                      {"rss_bytes", maybe(group.rss)},
                      {"swap_bytes", maybe(group.swap)}});
  return {{"listed", tasks.listed},
          {"kept", tasks.rows.size()},
          {"rss_bytes", maybe(tasks.rss)},
          {"swap_bytes", maybe(tasks.swap)},
          {"groups", std::move(groups)}};
}

Json rise_json(const std::optional<Rise>& rise) {
  if (!rise) return nullptr;
  return {{"from_bytes", rise->from.count},
          {"to_bytes", rise->to.count},
          {"took_s", rise->took.count()},
          {"sudden", rise->sudden},
          {"seen_s", rise->seen.count()}};
}

Json culprit_json(const PostMortem& report, const ClockMap& clock) {
  const auto& culprit = report.culprit;
  if (!culprit) return nullptr;
  return {{"process", process_json(culprit->process, clock)},
          {"grew_bytes", culprit->grew.count},
          {"over_s", culprit->over.count()},
          {"killed", is_victim(report.episode.told.episode, culprit->process)}};
}

Json gpu_json(const StoredEpisode& e, const ClockMap& clock) {
  Json out = Json::array();
  for (const GpuAtKill& g : gpu_at_kill(e)) {
    Json cards = Json::array();
    for (const GpuSample& s : g.cards)
      cards.push_back(
          {{"device", s.device ? Json(to_string(*s.device)) : Json(nullptr)},
           {"device_bytes", s.since_before && s.held.count == 0 ? Json(nullptr) : Json(s.held.count)},
           {"limit_bytes", maybe(s.limit)}});
    out.push_back({{"process", process_json(g.process, clock)},
                   {"victim", g.victim},
                   {"device_bytes", g.since_before && g.held.count == 0 ? Json(nullptr) : Json(g.held.count)},
                   {"managed_bytes", maybe(g.managed)},
                   {"pinned_bytes", maybe(g.pinned)},
                   {"since_before", g.since_before},
                   {"cards", std::move(cards)}});
  }
  return out;
}

Json processes_json(const std::vector<PostMortemProcess>& processes, const ClockMap& clock) {
  Json out = Json::array();
  for (const PostMortemProcess& p : processes)
    out.push_back({{"process", process_json(p.process, clock)},
                   {"victim", p.victim},
                   {"culprit", p.culprit},
                   {"trigger", p.trigger},
                   {"ended_before", p.ended_before},
                   {"rss_bytes", maybe(p.rss)},
                   {"anon_bytes", maybe(p.anon)},
                   {"file_bytes", maybe(p.file)},
                   {"shmem_bytes", maybe(p.shmem)},
                   {"swap_bytes", maybe(p.swap)},
                   {"grew_bytes", maybe(p.grew)},
                   {"growth_bytes_per_s", maybe(p.growth)},
                   {"oom_score_adj", maybe(p.oom_score_adj)}});
  return out;
}

Json earlier_json(const std::vector<Episode>& earlier, const ClockMap& clock) {
  Json out = Json::array();
  for (const Episode& before : earlier)
    out.push_back({{"id", text(before.id)},
                   {"time", format_rfc3339(clock.wall(before.time))},
                   {"limit_cgroup", cgroup_json(before.limit_cgroup)},
                   {"usage_bytes", maybe(before.usage)},
                   {"limit_bytes", maybe(before.limit)}});
  return out;
}

}  // namespace

std::string to_json(const PostMortem& report) {
  const StoredEpisode& e = report.episode;
  const Episode& told = e.told.episode;
  ClockMap clock = clock_of(e.run);
  Json out = {
      {"type", "report"},
      {"time", e.logged.dated ? Json(format_rfc3339(clock.wall(told.time))) : Json(nullptr)},
      {"time_error_s", e.logged.dated ? Json(Seconds(e.logged.time_error).count()) : Json(nullptr)},
      {"since_boot_s", e.logged.since_boot ? Json(Seconds(*e.logged.since_boot).count()) : Json(nullptr)},
      {"host", e.logged.host.empty() ? Json(nullptr) : text(e.logged.host)},
      {"schema", 1},
      {"id", text(told.id)},
      {"source", to_string(e.source)},
      {"written_by_kernel", is_confirmed(e.source) ? Json(true) : Json(nullptr)},
      {"doubt", e.logged.doubt.empty() ? Json(nullptr) : text(e.logged.doubt)},
      {"complete", e.complete},
      {"run",
       {{"version", text(e.run.version)}, {"kernel", text(e.run.kernel)}, {"scope", text(e.run.scope)}}},
      {"headline", text(report.headline)},
      {"cause", report.rise ? Json(to_string(report.rise->cause)) : Json(nullptr)}};
  out["rise"] = rise_json(report.rise);
  out["culprit"] = culprit_json(report, clock);
  out["memory"] = memory_json(report.memory);
  out["memory_table"] = parts_json(told);
  out["machine"] = machine_at_kill_json(told.machine);
  out["tasks"] = tasks_json(told.tasks);
  out["gpu"] = gpu_json(e, clock);
  out["gpu_events"] = Json::array();
  for (const GpuFact& f : e.gpu_events) out["gpu_events"].push_back(fact_json(Fact(f), clock));
  out["findings"] = findings_json(report.findings);
  out["prevention"] = findings_json(report.prevention);
  out["next"] = findings_json(report.next);
  out["unknown"] = Json::array();
  for (const std::string& line : report.unknown) out["unknown"].push_back(text(line));
  out["oom"] = fact_json(Fact(e.told), clock);
  if (!e.logged.dated) out["oom"]["time"] = nullptr;
  out["files"] = Json::array();
  for (const std::string& file : e.logged.files) out["files"].push_back(text(file));
  out["processes"] = processes_json(report.processes, clock);
  if (e.source != EpisodeSource::live && !log_shows_hierarchy(told)) leave_hierarchy_open(out);
  out["earlier"] = earlier_json(e.before.of_workload, clock);
  out["timeline"] = timeline_json(report.timeline);
  out["lost"] = Json::object();
  for (const auto& [reason, count] : e.lost) out["lost"][std::string(to_valid_utf8(reason))] = count;
  return dump(out) + "\n";
}

}  // namespace oomcast
