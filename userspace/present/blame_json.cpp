// A blame report as one JSON object.
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "present/blame.h"
#include "present/blame_parts.h"
#include "present/json.h"
#include "present/json_parts.h"

namespace oomcast {

Json frame_json(const Frame& frame) {
  return {{"kind", frame.kind == Frame::Kind::python ? "python" : "native"},
          {"function", frame.function.empty() ? Json(nullptr) : Json(to_valid_utf8(frame.function))},
          {"file", frame.file.empty() ? Json(nullptr) : Json(to_valid_utf8(frame.file))},
          {"line", frame.line ? Json(*frame.line) : Json(nullptr)}};
}

namespace {

Json kept_json(const Kept& kept) {
  return {{"bytes", kept.bytes.count},
          {"error_bytes", kept.error.count},
          {"blocks", kept.blocks},
          {"objects", kept.objects}};
}

Json kept_json(const KeptOfProcess& kept) {
  Json out = kept_json(kept.all);
  out["outlived_s"] = kept.outlived.count();
  out["watched_s"] = kept.all_watched.count();
  out["watched_longest_s"] = kept.watched.count();
  out["calls_per_s"] = kept.calls_per_s;
  out["without_operator_new"] = kept.without_new;
  return out;
}

Json stack_json(const Stack& stack) {
  Json out = Json::array();
  for (const Frame& frame : stack) out.push_back(frame_json(frame));
  return out;
}

Json addition_json(const BlameAddition& addition) {
  const Frame* top = culprit(addition.stack);
  return {{"seen", addition.seen},
          {"culprit", top ? frame_json(*top) : Json(nullptr)},
          {"stack", stack_json(addition.stack)}};
}

Json holder_json(const BlameHolder& h) {
  Json additions = Json::array();
  for (const BlameAddition& each : h.additions) additions.push_back(addition_json(each));
  return {{"containers", h.holder.containers},
          {"additions", std::move(additions)},
          {"path", text(h.holder.path)},
          {"type", text(h.holder.type)},
          {"length", h.holder.length},
          {"added", h.holder.added},
          {"of", h.holder.of.empty() ? Json(nullptr) : text(h.holder.of)},
          {"bytes_at_least", h.holder.least.count},
          {"small_bytes", h.holder.small.count},
          {"kept_blocks", h.blocks}};
}

Json grown_type_json(const GrownType& t) {
  return {
      {"type", text(t.type)}, {"objects", t.objects}, {"added", t.added}, {"bytes_at_least", t.least.count}};
}

Json site_json(const BlameSite& site, const BlameProcess& p, const BlameReport& report) {
  const Frame* top = culprit(site.stack);
  return {{"grown_bytes", site.grown.count},
          {"grown_bytes_per_s", rate(site.grown, report.window).value},
          {"share", share(site.grown, p.grown())},
          {"touched_bytes", site.touched.count},
          {"kept", p.kept ? kept_json(site.kept) : Json(nullptr)},
          {"held_by", site.held_by ? text(p.holders->all[*site.held_by].holder.path) : Json(nullptr)},
          {"small_objects", site.small_objects},
          {"adds", site.adds},
          {"samples", site.samples},
          {"culprit", top ? frame_json(*top) : Json(nullptr)},
          {"stack", stack_json(site.stack)}};
}

Json gpu_json(const BlameProcess& p, const BlameReport& report) {
  if (!report.gpu_followed || p.exited) return nullptr;
  Json out = Json::array();
  for (const BlameGpuSite& site : p.gpu) {
    const Frame* top = culprit(site.stack);
    out.push_back({{"taken_bytes", site.bytes.count},
                   {"calls", site.calls},
                   {"culprit", top ? frame_json(*top) : Json(nullptr)},
                   {"stack", stack_json(site.stack)}});
  }
  return out;
}

Json blamed_process_json(const BlameProcess& p, const BlameReport& report, const ClockMap& clock) {
  bool unknown = p.exited || p.growth_unknown;
  auto if_known = [&](Bytes size) { return unknown ? Json(nullptr) : Json(size.count); };
  Json sites = Json::array();
  for (const BlameSite& site : p.sites) sites.push_back(site_json(site, p, report));
  Json holders, types;  // null
  if (p.holders) {
    holders = Json::array();
    for (const BlameHolder& h : p.holders->all) holders.push_back(holder_json(h));
    if (p.holders->types) types = Json::array();
    for (const GrownType& t : p.holders->types.value_or(std::vector<GrownType>()))
      types.push_back(grown_type_json(t));
  }
  return {{"process", process_json(p.process, clock)},
          {"start_ticks", p.process.id.start_ticks},
          {"exited", p.exited},
          {"grown_bytes", if_known(p.grown())},
          {"grown_bytes_per_s", unknown ? Json(nullptr) : Json(rate(p.grown(), report.window).value)},
          {"grown_anon_bytes", if_known(p.grown_anon)},
          {"grown_shmem_bytes", unknown ? Json(nullptr) : maybe(p.grown_shmem)},
          {"grown_private_bytes", maybe(p.grown_uss)},
          {"unshared_bytes", if_known(p.unshared)},
          {"unseen_bytes", if_known(p.unseen)},
          {"free_in_heap_bytes", if_known(p.free_in_heap)},
          {"kept", p.kept ? kept_json(*p.kept) : Json(nullptr)},
          {"kept_unknown", p.why_not_kept.empty() ? Json(nullptr) : text(p.why_not_kept)},
          {"additions_unknown", p.why_not_added.empty() ? Json(nullptr) : text(p.why_not_added)},
          {"grown_hugetlb_bytes", maybe(p.grown_hugetlb)},
          {"role", to_string(p.role.kind)},
          {"worker_of", p.role.of ? Json(*p.role.of) : Json(nullptr)},
          {"worker_kind", p.role.what.empty() ? Json(nullptr) : Json(p.role.what)},
          {"rank", p.role.rank ? Json(*p.role.rank) : Json(nullptr)},
          {"python", p.python.empty() ? Json(nullptr) : Json(to_valid_utf8(p.python))},
          {"sites", std::move(sites)},
          {"holders", std::move(holders)},
          {"holders_cut", p.holders ? Json(p.holders->cut) : Json(nullptr)},
          {"grown_types", std::move(types)},
          {"gpu", gpu_json(p, report)}};
}

}  // namespace

std::string to_json(const BlameReport& report, const ClockMap& clock, MonoTime now) {
  Json processes = Json::array();
  for (const BlameProcess& p : report.processes) processes.push_back(blamed_process_json(p, report, clock));
  Json unread = Json::array();
  for (const std::string& who : report.unread) unread.push_back(text(who));
  Json lost = Json::object();
  for (const auto& [reason, count] : report.lost) lost[reason] = count;
  Json out = {{"type", "blame"},
              {"time", format_rfc3339(clock.wall(now))},
              {"scope", to_valid_utf8(report.scope)},
              {"window_s", report.window.count()},
              {"grown_bytes", report.grown.count},
              {"grown_bytes_per_s", rate(report.grown, report.window).value},
              {"cgroup_grown_bytes", maybe(report.cgroup_grown)},
              {"processes", std::move(processes)},
              {"no_stacks", report.no_stacks.empty() ? Json(nullptr) : text(report.no_stacks)},
              {"watched_share", report.no_stacks.empty() ? Json(report.watched_share) : Json(nullptr)},
              {"samples", report.samples},
              {"stacks_incomplete", report.incomplete_stacks},
              {"python_incomplete", report.incomplete_python},
              {"python_misplaced", report.misplaced_python},
              {"frames", report.frames},
              {"frames_unnamed", report.unnamed_frames},
              {"not_noted", report.not_noted},
              {"symbols_unread", report.symbols_unread},
              {"unread", std::move(unread)},
              {"lost", std::move(lost)}};
  return dump(out) + "\n";
}

}  // namespace oomcast
