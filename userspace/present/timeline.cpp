// All curves of a post-mortem on a common time axis.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/escape.h"
#include "present/curve_trend.h"
#include "present/post_mortem_parts.h"
#include "present/rows.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxMoments = 2000;
constexpr std::size_t kMaxCgroups = 16, kMaxMembers = 16;
constexpr std::size_t kMaxEvents = 200;

struct CgroupSeries {
  CgroupPtr cgroup;
  std::vector<const Sample*> samples;
  Bytes largest;
};
struct ProcessSeries {
  ProcessRef process;
  std::vector<const ProcessSampleFact*> samples;
  Bytes largest;
  std::optional<MonoTime> exited;
};

// If there are too many moments: the extremes of the first series in each of equal intervals, the last one,
// and the kill's.
std::vector<MonoTime> choose_moments(const std::set<MonoTime>& all, const std::vector<const Sample*>& first,
                                     MonoTime kill) {
  if (all.size() <= kMaxMoments) return {all.begin(), all.end()};
  std::set<MonoTime> out;
  std::size_t parts = kMaxMoments / 4;
  Nanos width = (*all.rbegin() - *all.begin()) / static_cast<std::int64_t>(parts) + Nanos(1);
  std::map<std::int64_t, std::pair<const Sample*, const Sample*>> extremes;
  for (const Sample* s : first) {
    auto [at, is_new] = extremes.try_emplace((s->time - *all.begin()) / width, s, s);
    if (s->usage && at->second.first->usage && *s->usage < *at->second.first->usage) at->second.first = s;
    if (s->usage && at->second.second->usage && *s->usage > *at->second.second->usage) at->second.second = s;
  }
  for (const auto& [part, pair] : extremes) out.insert({pair.first->time, pair.second->time});
  std::int64_t last = -1;
  for (MonoTime t : all)
    if (std::int64_t part = (t - *all.begin()) / width; std::exchange(last, part) != part) out.insert(t);
  out.insert({*all.rbegin(), kill});
  return {out.begin(), out.end()};
}

// For each moment the last sample at or before it.
template <typename Fact, typename Take>
void fill(const std::vector<MonoTime>& moments, const std::vector<const Fact*>& samples, Take take) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    while (next < samples.size() && samples[next]->time <= moments[i]) ++next;
    if (next > 0) take(i, *samples[next - 1]);
  }
}

Curve curve_of(const CgroupSeries& series, const std::vector<MonoTime>& moments, const StoredEpisode& e) {
  Curve out;
  out.limit_owner = is_owner(e, series.cgroup);
  bool host = series.cgroup->name.kind == CgroupKind::root;
  out.name = host ? "the machine" : label(series.cgroup);
  for (const Victim& v : e.told.episode.victims) out.victim |= same_cgroup(v.process.cgroup, series.cgroup);
  out.kinds = {{"anon", {}}, {"file", {}}, {"shmem", {}}, {"kernel", {}}, {"swap", {}}, {"unattributed", {}}};
  for (auto& kind : out.kinds) kind.values.resize(moments.size());
  out.total.resize(moments.size());
  out.pinned.resize(moments.size());
  out.limit.resize(moments.size());
  fill(moments, series.samples, [&](std::size_t i, const Sample& s) {
    const std::optional<Bytes>* values[] = {&s.stat.anon, &s.stat.file, &s.stat.shmem, &s.stat.kernel,
                                            &s.stat.swap};
    Bytes known;
    for (std::size_t k = 0; k < 5; ++k) {
      out.kinds[k].values[i] = *values[k];
      if (k < 4 && *values[k]) known += **values[k];
    }
    if (s.usage && s.stat.anon && s.stat.file) out.kinds[5].values[i] = std::max(Bytes{}, *s.usage - known);
    out.total[i] = s.usage;
    out.pinned[i] = s.pinned;
    // Only its own limit: an ancestor's is drawn with the ancestor.
    if (host || same_cgroup(s.limit_cgroup, s.cgroup)) out.limit[i] = s.limit;
  });
  std::erase_if(out.kinds, [](const Curve::Kind& kind) {
    return std::none_of(kind.values.begin(), kind.values.end(), [](auto v) { return v && v->count > 0; });
  });
  return out;
}

Curve curve_of(const ProcessSeries& series, const std::vector<MonoTime>& moments, const PostMortem& report) {
  Curve out;
  out.process = true;
  out.name = name_of(series.process);
  out.victim = is_victim(report.episode.told.episode, series.process);
  out.culprit = report.culprit && report.culprit->process.id == series.process.id;
  out.kinds = {{"anon", {}}, {"file", {}}, {"shmem", {}}, {"swap", {}}};
  for (auto& kind : out.kinds) kind.values.resize(moments.size());
  out.total.resize(moments.size());
  fill(moments, series.samples, [&](std::size_t i, const ProcessSampleFact& s) {
    if (series.exited && *series.exited <= moments[i]) return;
    const Bytes values[] = {s.anon, s.file, s.shmem, s.swap};
    for (std::size_t k = 0; k < 4; ++k) out.kinds[k].values[i] = values[k];
    out.total[i] = s.rss;
  });
  std::erase_if(out.kinds, [](const Curve::Kind& kind) {
    return std::none_of(kind.values.begin(), kind.values.end(), [](auto v) { return v && v->count > 0; });
  });
  return out;
}

// If there are too many events, keep those that explain the kill, then the newest: a job torn down after its
// kill ends hundreds of processes.
void keep_what_matters(Timeline& out) {
  auto weight = [](const TimelineEvent& e) {
    using Kind = TimelineEvent::Kind;
    if (e.kind == Kind::kill) return e.at == 0 ? 0 : 1;
    return e.kind == Kind::alert || e.kind == Kind::verdict || e.kind == Kind::limit ? 1 : 2;
  };
  auto in_time = [](const TimelineEvent& a, const TimelineEvent& b) { return a.at < b.at; };
  if (out.events.size() > kMaxEvents) {
    std::stable_sort(out.events.begin(), out.events.end(),
                     [&](const TimelineEvent& a, const TimelineEvent& b) {
                       return weight(a) != weight(b) ? weight(a) < weight(b) : a.at > b.at;
                     });
    out.events_left_out = out.events.size() - kMaxEvents;
    out.events.resize(kMaxEvents);
  }
  std::stable_sort(out.events.begin(), out.events.end(), in_time);
}

void add_events(const StoredEpisode& e, const std::set<TaskId>& shown, Timeline& out) {
  auto add = [&](TimelineEvent::Kind kind, MonoTime at, std::string text) {
    out.events.push_back({kind, from_kill(e, at), std::move(text)});
  };
  const Episode& told = e.told.episode;
  for (const Victim& v : told.victims)
    add(TimelineEvent::Kind::kill, told.time, "OOM kill of " + name_of(v.process));
  auto killed_before = [&](const Episode& before) {
    if (before.time >= e.from && !before.victims.empty())
      add(TimelineEvent::Kind::kill, before.time, "OOM kill of " + name_of(before.victims.front().process));
  };
  for (const Episode& before : e.before.at_limit) killed_before(before);
  for (const Episode& before : e.before.of_workload)
    if (std::ranges::find(e.before.at_limit, before.id, &Episode::id) == e.before.at_limit.end())
      killed_before(before);
  for (const UserKillFact& k : e.kills)
    add(TimelineEvent::Kind::user_kill, k.time, name_of(k.victim) + " got SIGKILL from " + name_of(k.sender));
  for (const AlertFact& a : e.alerts)
    add(TimelineEvent::Kind::alert, a.time, displayable(a.rule) + ": " + displayable(a.message));
  std::map<std::uint64_t, Verdict> verdicts;
  for (const ForecastFact& f : e.forecasts) {
    // Later verdicts are about another life, or the remains of this one.
    if (!f.cgroup || f.process || !is_owner(e, f.cgroup) || f.time > told.time) continue;
    auto [at, is_new] = verdicts.try_emplace(f.cgroup->id.inode, Verdict::unknown);
    if (std::exchange(at->second, f.forecast.verdict) != f.forecast.verdict)
      add(TimelineEvent::Kind::verdict, f.time,
          fmt::format("{}: {}", to_string(f.forecast.verdict), displayable(f.forecast.why)));
  }
  for (const ExitFact& x : e.exits)
    if (shown.contains(x.process.id) && !is_victim(told, x.process))
      add(TimelineEvent::Kind::exit, x.time, name_of(x.process) + " ended");
  for (const ReclaimFact& r : e.reclaim)
    if (is_owner(e, r.cgroup) && r.stalled > Seconds(0.1))
      add(TimelineEvent::Kind::reclaim, r.time,
          fmt::format("{} of waiting for memory, {} reclaimed", format_duration(r.stalled),
                      format_size(r.reclaimed)));
  std::optional<Bytes> limit;
  for (const Sample& s : e.samples) {
    if (!is_owner(e, s.cgroup) || !s.limit) continue;
    if (limit && *limit != *s.limit)
      add(TimelineEvent::Kind::limit, s.time,
          fmt::format("the limit changed from {} to {}", format_size(*limit), format_size(*s.limit)));
    limit = s.limit;
  }
  keep_what_matters(out);
}

void set_kernels_word(const PostMortem& report, std::size_t i, Curve& owner) {
  if (report.episode.told.episode.usage) owner.total[i] = report.episode.told.episode.usage;
  if (!report.memory || !report.memory->exact) return;
  const MemoryAtKill& kernel = report.memory->kinds;
  for (auto [name, bytes] : {std::pair("anon", kernel.anon),
                             {"file", kernel.file},
                             {"shmem", kernel.shmem},
                             {"kernel", kernel.kernel},
                             {"swap", kernel.swap},
                             {"unattributed", report.memory->unattributed}})
    for (Curve::Kind& kind : owner.kinds)
      if (kind.name == name && bytes) kind.values[i] = bytes;
}

// The limit's owner first, then the largest.
std::vector<const CgroupSeries*> choose_cgroups(const std::map<std::uint64_t, CgroupSeries>& all,
                                                const StoredEpisode& e) {
  std::vector<const CgroupSeries*> out;
  for (const auto& [inode, series] : all) out.push_back(&series);
  std::sort(out.begin(), out.end(), [&](const CgroupSeries* a, const CgroupSeries* b) {
    bool first = is_owner(e, a->cgroup), second = is_owner(e, b->cgroup);
    return first != second ? first : a->largest > b->largest;
  });
  if (out.size() > kMaxCgroups) out.resize(kMaxCgroups);
  return out;
}

// Victims and the fastest growing process first, then the largest.
std::vector<const ProcessSeries*> choose_processes(const std::map<TaskId, ProcessSeries>& all,
                                                   const PostMortem& report) {
  auto matters = [&](const ProcessRef& p) {
    return is_victim(report.episode.told.episode, p) ||
           (report.culprit && report.culprit->process.id == p.id);
  };
  std::vector<const ProcessSeries*> out;
  for (const auto& [id, series] : all) out.push_back(&series);
  std::sort(out.begin(), out.end(), [&](const ProcessSeries* a, const ProcessSeries* b) {
    bool first = matters(a->process), second = matters(b->process);
    return first != second ? first : a->largest > b->largest;
  });
  if (out.size() > kMaxMembers) out.resize(kMaxMembers);
  return out;
}

std::map<std::uint64_t, CgroupSeries> cgroup_series(const StoredEpisode& e) {
  std::map<std::uint64_t, CgroupSeries> out;
  for (const Sample& s : e.samples) {
    if (!s.cgroup) continue;
    CgroupSeries& series = out[s.cgroup->id.inode];
    series.cgroup = s.cgroup;
    series.samples.push_back(&s);
    if (s.usage && s.time <= e.told.episode.time) series.largest = std::max(series.largest, *s.usage);
  }
  return out;
}

std::map<TaskId, ProcessSeries> process_series(const StoredEpisode& e) {
  std::map<TaskId, ProcessSeries> out;
  for (const ProcessSampleFact& s : e.processes) {
    ProcessSeries& series = out[s.process.id];
    series.process = s.process;
    series.samples.push_back(&s);
    series.largest = std::max(series.largest, s.rss);
  }
  for (const ExitFact& x : e.exits)
    if (auto at = out.find(x.process.id); at != out.end()) at->second.exited = x.time;
  return out;
}

// Deadlines that held until the kill: a withdrawn one was not a prediction.
std::vector<ForetoldDeadline> deadlines_of(const StoredEpisode& e) {
  std::vector<ForetoldDeadline> out;
  if (!e.told.first_forecast) return out;
  for (const ForecastFact& f : e.forecasts) {
    if (!f.cgroup || f.process || !is_owner(e, f.cgroup) || !f.forecast.eta) continue;
    if (f.time < *e.told.first_forecast) continue;
    double at = from_kill(e, f.time);
    if (at > 0) break;
    out.push_back({at, at + f.forecast.eta->count(),
                   at + f.forecast.eta_low.value_or(*f.forecast.eta).count(),
                   f.forecast.eta_high ? std::optional(at + f.forecast.eta_high->count()) : std::nullopt});
  }
  return out;
}

}  // namespace

Timeline make_timeline(const PostMortem& report) {
  const StoredEpisode& e = report.episode;
  auto cgroups = cgroup_series(e);
  auto processes = process_series(e);
  auto groups = choose_cgroups(cgroups, e);
  auto members = choose_processes(processes, report);
  Timeline out;
  std::set<MonoTime> all;
  std::set<TaskId> shown;
  for (const CgroupSeries* g : groups)
    for (const Sample* s : g->samples) all.insert(s->time);
  for (const ProcessSeries* p : members) {
    for (const ProcessSampleFact* s : p->samples) all.insert(s->time);
    shown.insert(p->process.id);
  }
  add_events(e, shown, out);
  out.forecasts = deadlines_of(e);
  if (all.empty()) return out;
  all.insert(e.told.episode.time);
  std::vector<MonoTime> moments = choose_moments(
      all, groups.empty() ? std::vector<const Sample*>() : groups.front()->samples, e.told.episode.time);
  out.moments_left_out = all.size() - moments.size();
  for (MonoTime t : moments) out.at.push_back(from_kill(e, t));
  for (const CgroupSeries* g : groups) out.curves.push_back(curve_of(*g, moments, e));
  for (const ProcessSeries* p : members) out.curves.push_back(curve_of(*p, moments, report));
  // At the kill itself use the kernel's values.
  if (!out.curves.empty() && out.curves.front().limit_owner)
    for (std::size_t i = 0; i < moments.size(); ++i)
      if (moments[i] == e.told.episode.time) set_kernels_word(report, i, out.curves.front());
  for (Curve& curve : out.curves) curve.trend = describe_trend(curve, out.at);
  return out;
}

}  // namespace oomcast
