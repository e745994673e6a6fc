#include "present/blame_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "model/cgroup_name.h"
#include "present/blame.h"
#include "present/blame_parts.h"
#include "present/json_fields.h"
#include "stream/json.h"
#include "stream/json_parts.h"

namespace oomcast {

// Each type's fields once, for reading and writing, in output order.
void fields(auto& a, Like<Frame> auto& f) {
  constexpr std::array<std::string_view, 2> kKinds{"native", "python"};
  a.one_of("kind", f.kind, kKinds);
  a.named("function", f.function);
  a.named("file", f.file);
  a("line", f.line);
}

void fields(auto& a, Like<CgroupRef> auto& c) {
  constexpr std::array<std::string_view, 2> kHierarchies{"v1", "v2"};
  a("id", c.id.inode);
  a.one_of("hierarchy", c.id.hierarchy, kHierarchies);
  a("path", c.path);
}

template <typename A>
void fields(A& a, Like<ProcessRef> auto& p) {
  constexpr std::array<std::string_view, 2> kSources{"shown", "exec"};
  a("pid", p.id.tgid);
  a.named("comm", p.comm);
  std::string words(p.cmdline.bytes());
  a.hidden("words", words);
  a.one_of("cmdline_source", p.cmdline_source, kSources);
  a("cmdline_truncated", p.cmdline_truncated);
  a("uid", p.uid);
  a("ppid", p.ppid);
  a("ns_pid", p.ns_pid);
  std::optional<CgroupRef> cgroup;
  if (p.cgroup) cgroup = *p.cgroup;
  a("cgroup", cgroup);
  if constexpr (A::kReads) {
    p.cmdline = Arguments::from_bytes(std::move(words));
    if (cgroup) cgroup->name = name_cgroup(cgroup->path);
    if (cgroup) p.cgroup = std::make_shared<const CgroupRef>(*std::move(cgroup));
  }
}

void fields(auto& a, Like<Kept> auto& k) {
  a("bytes", k.bytes);
  a("error_bytes", k.error);
  a("blocks", k.blocks);
  a("objects", k.objects);
}

void fields(auto& a, Like<KeptOfProcess> auto& k) {
  fields(a, k.all);
  a("outlived_s", k.outlived);
  a("watched_s", k.all_watched);
  a("watched_longest_s", k.watched);
  a("calls_per_s", k.calls_per_s);
  a("without_operator_new", k.without_new);
}

void stack_fields(auto& a, Like<Stack> auto& stack) {
  const Frame* top = culprit(stack);
  a.derived("culprit", top ? std::optional(*top) : std::nullopt);
  a("stack", stack);
}

void fields(auto& a, Like<BlameAddition> auto& addition) {
  a("seen", addition.seen);
  stack_fields(a, addition.stack);
}

void fields(auto& a, Like<BlameHolder> auto& h) {
  a("containers", h.holder.containers);
  a("additions", h.additions);
  a("path", h.holder.path);
  a("type", h.holder.type);
  a("length", h.holder.length);
  a("added", h.holder.added);
  a.named("of", h.holder.of);
  a("bytes_at_least", h.holder.least);
  a("small_bytes", h.holder.small);
  a("kept_blocks", h.blocks);
}

void fields(auto& a, Like<GrownType> auto& t) {
  a("type", t.type);
  a("objects", t.objects);
  a("added", t.added);
  a("bytes_at_least", t.least);
}

// Two containers may have one path: between processes the number identifies them.
template <typename A>
void fields(A& a, Like<BlameSite> auto& s, const BlameProcess& p, const BlameReport& report) {
  static const std::vector<BlameHolder> none;
  const std::vector<BlameHolder>& holders = p.holders ? p.holders->all : none;
  std::string held_by = s.held_by && *s.held_by < holders.size() ? holders[*s.held_by].holder.path : "";
  a("grown_bytes", s.grown);
  a.derived("grown_bytes_per_s", rate(s.grown, report.window).value);
  a.derived("share", share(s.grown, p.grown()));
  a("touched_bytes", s.touched);
  std::optional<Kept> kept;
  if (p.kept) kept = s.kept;
  a("kept", kept);
  a.named("held_by", held_by);
  a.hidden("holder", s.held_by);
  a("small_objects", s.small_objects);
  a("adds", s.adds);
  a("samples", s.samples);
  stack_fields(a, s.stack);
  if constexpr (A::kReads) {
    s.kept = kept.value_or(Kept());
    for (std::uint32_t i = 0; i < holders.size() && !held_by.empty() && !s.held_by; ++i)
      if (holders[i].holder.path == held_by) s.held_by = i;
    a.require(!s.held_by || *s.held_by < holders.size());
    if (s.held_by && *s.held_by >= holders.size()) s.held_by.reset();
  }
}

void fields(auto& a, Like<BlameGpuSite> auto& s) {
  a("taken_bytes", s.bytes);
  a("calls", s.calls);
  stack_fields(a, s.stack);
}

template <typename A>
void holder_fields(A& a, Like<std::optional<BlameHolders>> auto& holders) {
  if constexpr (A::kReads)
    if (a.has_list("holders")) holders.emplace();
  for (const char* key : {"holders", "holders_cut", "grown_types"}) a.place(key);
  if (!holders) return;
  a.list("holders", true, holders->all);
  a("holders_cut", holders->cut);
  a("grown_types", holders->types);
}

void fields(auto& a, Like<BlameProcess> auto& p, const BlameReport& report) {
  constexpr std::array<std::string_view, 4> kRoles{"alone", "launcher", "parent", "worker"};
  a("process", p.process);
  a("start_ticks", p.process.id.start_ticks);
  a("exited", p.exited);
  a.hidden("growth_unknown", p.growth_unknown);
  bool known = !p.exited && !p.growth_unknown;
  std::optional<double> per_s = rate(p.grown(), report.window).value;
  a.derived("grown_bytes", known ? std::optional(p.grown()) : std::nullopt);
  a.derived("grown_bytes_per_s", known ? per_s : std::nullopt);
  a.if_known(known, "grown_anon_bytes", p.grown_anon);
  a.if_known(known, "grown_shmem_bytes", p.grown_shmem);
  a("grown_private_bytes", p.grown_uss);
  a.if_known(known, "unshared_bytes", p.unshared);
  a.if_known(known, "unseen_bytes", p.unseen);
  a.if_known(known, "free_in_heap_bytes", p.free_in_heap);
  a("kept", p.kept);
  a.named("kept_unknown", p.why_not_kept);
  a.named("additions_unknown", p.why_not_added);
  a("grown_hugetlb_bytes", p.grown_hugetlb);
  a.one_of("role", p.role.kind, kRoles);
  a("worker_of", p.role.of);
  a.named("worker_kind", p.role.what);
  a.hidden("workers", p.role.workers);
  a("rank", p.role.rank);
  a.named("python", p.python);
  a.hidden("anon_bytes", p.anon);
  a.hidden("private_bytes", p.own);
  a.place("sites");
  holder_fields(a, p.holders);
  a.list("sites", true, p.sites, p, report);
  a.list("gpu", report.gpu_followed && !p.exited, p.gpu);
}

template <typename A>
void fields(A& a, Like<BlameReport> auto& r) {
  a("scope", r.scope);
  a("window_s", r.window);
  a("grown_bytes", r.grown);
  a.derived("grown_bytes_per_s", rate(r.grown, r.window).value);
  a("cgroup_grown_bytes", r.cgroup_grown);
  a.hidden("gpu_followed", r.gpu_followed);
  a.list("processes", true, r.processes, r);
  a.named("no_stacks", r.no_stacks);
  a.if_known(r.no_stacks.empty(), "watched_share", r.watched_share);
  if constexpr (A::kReads) a.require(r.watched_share <= 1);
  a("samples", r.samples);
  a("stacks_incomplete", r.incomplete_stacks);
  a("python_incomplete", r.incomplete_python);
  a("python_misplaced", r.misplaced_python);
  a("frames", r.frames);
  a("frames_unnamed", r.unnamed_frames);
  a("not_noted", r.not_noted);
  a("symbols_unread", r.symbols_unread);
  a("unread", r.unread);
  a("lost", r.lost);
}

Json frame_json(const Frame& frame) {
  static const ClockMap any;
  return JsonWriter(&any).object(frame);
}

std::string to_json(const BlameReport& report, const ClockMap& clock, MonoTime now) {
  JsonWriter writer(&clock);
  writer.out = {{"type", "blame"}, {"time", format_rfc3339(clock.wall(now))}};
  fields(writer, report);
  return dump(writer.out) + "\n";
}

Result<BlameReport> parse_blame(std::string_view text, const std::string& name) {
  Json json = Json::parse(text, nullptr, false);
  auto type = json.find("type");
  if (!json.is_object() || type == json.end() || *type != "blame")
    return Error::failed(fmt::format("{} is not what `oomcast blame --json` writes", name));
  BlameReport out;
  bool whole = true;  // ignored: an older version's report lacks fields
  JsonReader reader(json, whole);
  fields(reader, out);
  if (!(out.window > Seconds(0)))
    return Error::failed(fmt::format("{} does not say for how long it watched (window_s)", name));
  out.watched_share = std::min(out.watched_share, 1.0);
  return out;
}

void write_report(const BlameReport& report, const std::function<void(std::string_view line)>& write) {
  auto line = [&](const char* what, const auto& value, const auto&... context) {
    Json object;
    object[what] = JsonWriter(nullptr).object(value, context...);
    write(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  };
  line("report", report);
  for (const BlameProcess& p : report.processes) {
    line("process", p, report);
    if (p.holders)
      for (const BlameHolder& holder : p.holders->all) line("holder", holder);
    for (const BlameGpuSite& site : p.gpu) line("gpu", site);
    for (const BlameSite& site : p.sites) line("site", site, p, report);
  }
}

constexpr std::size_t kMaxReportLine = 1 << 20;

void ReportReader::add(std::string_view bytes) {
  too_long_ = too_long_ || bytes.size() > left_;
  if (too_long_) good_ = false;
  if (!good_) return;
  left_ -= bytes.size();
  for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    line_ += bytes.substr(0, end);
    read(line_);
    line_.clear();
  }
  line_ += bytes;
  good_ = good_ && line_.size() <= kMaxReportLine;
}

void ReportReader::read(std::string_view line) {
  Json json = good_ && line.size() <= kMaxReportLine ? Json::parse(line, nullptr, false) : Json();
  good_ = good_ && json.is_object() && json.size() == 1;
  if (!good_) return;
  const std::string& what = json.begin().key();
  JsonReader reader(json.begin().value(), good_);
  if (what == "report" && !std::exchange(begun_, true)) return fields(reader, report_);
  if (what == "process" && begun_) return fields(reader, report_.processes.emplace_back(), report_);
  good_ = !report_.processes.empty();
  if (!good_) return;
  BlameProcess& process = report_.processes.back();
  if (what == "holder" && process.holders && process.sites.empty())
    fields(reader, process.holders->all.emplace_back());
  else if (what == "gpu")
    fields(reader, process.gpu.emplace_back());
  else if (what == "site")
    fields(reader, process.sites.emplace_back(), process, report_);
  else
    good_ = false;
}

std::optional<BlameReport> ReportReader::take() {
  bool whole = good_ && begun_ && line_.empty();
  good_ = false;
  return whole ? std::optional(std::move(report_)) : std::nullopt;
}

}  // namespace oomcast
