#include "present/post_mortem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/escape.h"
#include "forecast/forecaster.h"
#include "present/past_kills.h"
#include "present/post_mortem_parts.h"
#include "present/rows.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxListed = 1024;

/// The owner's unreclaimable memory, in seconds from the kill; ends at the kill.
struct Series {
  struct Point {
    double at = 0, value = 0;
  };
  std::vector<Point> points;
  double at(double t) const { return points[index(t)].value; }
  /// The last point at or before `t`, or the first.
  std::size_t index(double t) const {
    std::size_t i = 0;
    while (i + 1 < points.size() && points[i + 1].at <= t) ++i;
    return i;
  }
};

Series owner_series(const StoredEpisode& e) {
  Series out;
  MonoTime began = life_began(e);
  for (const Sample& s : e.samples) {
    auto value = s.pinned ? s.pinned : s.usage;
    if (!is_owner(e, s.cgroup) || !value || s.time <= began || s.time > e.told.episode.time) continue;
    out.points.push_back({from_kill(e, s.time), value->as_double()});
  }
  // Memory of an earlier kill's victims is freed within moments.
  if (began > e.from) {
    auto lowest = std::min_element(out.points.begin(), out.points.end(),
                                   [](const auto& a, const auto& b) { return a.value < b.value; });
    out.points.erase(out.points.begin(), lowest);
  }
  if (out.points.empty()) return out;
  double last = out.points.back().value;
  if (e.told.episode.limit_cgroup && e.told.episode.usage)
    last = std::max(last, e.told.episode.usage->as_double());
  out.points.push_back({0, last});
  return out;
}

// The verdict in force at that time; if there is none, the one computed from the curve.
std::optional<std::pair<double, Forecast>> forecast_at(const StoredEpisode& e, double t) {
  std::optional<std::pair<double, Forecast>> out;
  double began = from_kill(e, life_began(e));
  bool any = false;
  auto take = [&](const ForecastFact& f) {
    double at = from_kill(e, f.time);
    if (f.process || !f.cgroup || !is_owner(e, f.cgroup) || at <= began) return;
    any = true;
    // An unknown verdict after others belongs to the life after the kill: its first samples were on their
    // way.
    if (out && f.forecast.verdict == Verdict::unknown) return;
    if (at <= t && (!out || at >= out->first)) out = {at, f.forecast};
  };
  for (const ForecastFact& f : e.forecasts) take(f);
  if (e.told.forecast_before) take(*e.told.forecast_before);
  if (any) return out;
  Forecaster forecaster;
  std::optional<double> newest;
  for (const Sample& s : e.samples) {
    double at = from_kill(e, s.time);
    if (!is_owner(e, s.cgroup) || !s.pinned || at <= began || at > t) continue;
    forecaster.add({s.time, *s.pinned, s.headroom_limit,
                    s.usage ? std::optional(std::max(*s.usage, *s.pinned)) : std::nullopt});
    newest = at;
  }
  if (newest) out = {*newest, forecaster.forecast()};
  return out;
}

std::string headline(const StoredEpisode& stored) {
  std::string doubt =
      is_confirmed(stored.source) ? "" : fmt::format(" It is known from a log file: {}.", kCannotShowWriter);
  if (!stored.logged.doubt.empty()) doubt += fmt::format(" It is {}.", stored.logged.doubt);
  return oom_message(stored.told.episode, stored.logged.host) + "." + doubt;
}

std::optional<GrewProcess> find_culprit(const StoredEpisode& e) {
  const Episode& told = e.told.episode;
  std::map<TaskId, GrewProcess> grew;
  std::map<TaskId, const ProcessSampleFact*> first;
  for (const ProcessSampleFact& s : e.processes) {
    if (s.time > told.time) break;
    auto [at, is_new] = first.try_emplace(s.process.id, &s);
    grew[s.process.id] = {s.process, s.rss + s.swap - at->second->rss - at->second->swap,
                          seconds_between(at->second->time, s.time)};
  }
  for (const ExitFact& x : e.exits)
    if (x.time < told.time && !is_victim(told, x.process)) grew.erase(x.process.id);
  for (const GrewProcess& g : told.grew_most)
    if (auto& known = grew[g.process.id]; g.grew >= known.grew) known = g;
  std::optional<GrewProcess> most, victim;
  for (const auto& [id, g] : grew) {
    if (!most || g.grew > most->grew) most = g;
    if (is_victim(told, g.process) && (!victim || g.grew > victim->grew)) victim = g;
  }
  // If several processes grew alike, name the one that died.
  if (most && victim && victim->grew.as_double() > 0.8 * most->grew.as_double()) most = victim;
  if (most && most->grew < MiB(1)) most.reset();
  return most;
}

using ProcessesByPid = std::map<std::uint32_t, PostMortemProcess>;  // one process per pid at a time

PostMortemProcess& process_at(ProcessesByPid& all, const ProcessRef& p) {
  PostMortemProcess& known = all[p.id.tgid];
  // The newest identity: before exec a process has its parent's name and command line.
  bool better = known.process.comm.empty() || !p.cmdline.empty();
  if (better || (p.id.start_ticks && p.id.start_ticks > known.process.id.start_ticks)) known.process = p;
  return known;
}

// Processes as sampled before the kill.
ProcessesByPid sampled_processes(const StoredEpisode& e) {
  const Episode& told = e.told.episode;
  ProcessesByPid all;
  std::map<TaskId, Bytes> first;
  for (const ProcessSampleFact& s : e.processes) {
    if (s.time > told.time) break;
    PostMortemProcess& p = process_at(all, s.process);
    if (p.process.id != s.process.id) p = {}, p.process = s.process;
    auto [began, is_new] = first.try_emplace(s.process.id, s.rss);
    p.rss = s.rss, p.anon = s.anon, p.file = s.file, p.shmem = s.shmem, p.swap = s.swap;
    p.grew = s.rss - began->second;
    p.growth = s.growth;
  }
  for (const ExitFact& x : e.exits)
    if (auto known = all.find(x.process.id.tgid);
        x.time < told.time && known != all.end() && known->second.process.id == x.process.id)
      known->second.ended_before = true;
  for (const GrewProcess& g : told.grew_most) {
    PostMortemProcess& p = process_at(all, g.process);
    p.grew = std::max(p.grew.value_or(g.grew), g.grew);
  }
  return all;
}

// The kernel's task table and log lines are exact at the kill.
void take_kernels_word(const Episode& told, ProcessesByPid& all) {
  for (const TaskAtKill& t : told.tasks.rows) {
    PostMortemProcess& p = process_at(all, t.process);
    p.ended_before = false;
    auto take = [](auto& to, const auto& from) {
      if (from) to = from;
    };
    take(p.rss, t.rss), take(p.anon, t.anon), take(p.file, t.file), take(p.shmem, t.shmem);
    take(p.swap, t.swap), take(p.oom_score_adj, t.oom_score_adj);
  }
  for (const Victim& v : told.victims) {
    PostMortemProcess& p = process_at(all, v.process);
    p.victim = true;
    p.ended_before = false;
    if (v.anon) p.anon = v.anon;
    if (v.file) p.file = v.file;
    if (v.shmem) p.shmem = v.shmem;
    if (v.swap) p.swap = v.swap;
    if (v.anon && v.file) p.rss = *v.anon + *v.file + known(v.shmem);
    if (v.oom_score_adj) p.oom_score_adj = v.oom_score_adj;
  }
}

std::vector<PostMortemProcess> find_processes(const PostMortem& report) {
  const Episode& told = report.episode.told.episode;
  ProcessesByPid all = sampled_processes(report.episode);
  take_kernels_word(told, all);
  if (told.trigger) process_at(all, *told.trigger).trigger = true;
  if (report.culprit) process_at(all, report.culprit->process).culprit = true;
  std::vector<PostMortemProcess> out;
  for (auto& [pid, p] : all) out.push_back(std::move(p));
  auto role = [](const PostMortemProcess& p) { return p.victim || p.culprit || p.trigger; };
  auto held = [](const PostMortemProcess& p) { return known(p.rss) + known(p.swap); };
  std::stable_sort(out.begin(), out.end(), [&](const PostMortemProcess& a, const PostMortemProcess& b) {
    if (a.ended_before != b.ended_before) return b.ended_before;
    return held(a) > held(b);
  });
  // Victim, culprit and trigger stay in the list, however small.
  if (out.size() > kMaxListed) {
    std::stable_partition(out.begin(), out.end(), role);
    out.resize(kMaxListed);
    std::stable_sort(out.begin(), out.end(), [&](const PostMortemProcess& a, const PostMortemProcess& b) {
      return held(a) > held(b);
    });
  }
  return out;
}

// Where a sudden rise began that was already in progress at `since`: as far back as it gained more than a
// quarter as fast, including pauses. A step between two samples took no longer than the window: an unchanging
// cgroup is not sampled for a while.
std::size_t rise_began(const Series& series, std::size_t since, double jump, double window, double rate) {
  const auto& points = series.points;
  // A level held for as long as a step may take is a level of its own.
  std::size_t up = since, stood = since;
  while (up + 1 < points.size() && points[up].value <= points[since].value + 0.1 * jump) ++up;
  while (stood > 0 && std::abs(points[stood - 1].value - points[since].value) <= 0.1 * jump) --stood;
  if (points[up].at - points[stood].at > window) return since;
  double fast = 0.25 * jump / window, gained = 0, most = 0;
  std::size_t began = since;
  for (std::size_t i = since; i > 0; --i) {
    double step = points[i].value - points[i - 1].value, took = points[i].at - points[i - 1].at;
    if (step > 0.25 * jump && step > 2.5 * rate * took) took = std::min(took, window);
    gained += step - fast * took;
    if (gained > most) most = gained, began = i - 1;
  }
  return began;
}

// The peak of earlier rises before `since` that were at least a third of this one and came down again;
// nullopt: there were not several. The forecast's analysis may be older than the last of them.
std::optional<double> earlier_peak(const Series& series, std::size_t since, double jump) {
  constexpr int kSeveral = 3;
  int came_back = 0;
  double base = series.points[since].value, top = 0, highest = 0;
  for (std::size_t i = 0; i < since; ++i) {
    double above = series.points[i].value - base;
    if (above >= jump / 3) {
      top = std::max(top, above);
    } else if (top > 0 && above < jump / 6) {
      ++came_back;
      highest = std::max(highest, std::exchange(top, 0));
    }
  }
  return came_back < kSeveral ? std::nullopt : std::optional(highest);
}

// When it began to rise, in seconds from the kill, and from which level.
struct RiseFrom {
  double began, base;
};

// The rate of the rise, in bytes/s, before its newest part.
double rate_before(const std::optional<std::pair<double, Forecast>>& known, const Series& series,
                   std::size_t since, double window) {
  double span = -series.points.front().at;
  double gained = series.points[since].value - series.points.front().value;
  double rate = span > window ? gained / (span - window) : 0;
  // A leak younger than the window, or begun moments ago in a long life, is the beginning of the rise in the
  // window.
  double young = std::max(window, std::min(span / 20, 10.0));
  if (known && known->second.growth && known->second.verdict == Verdict::leak &&
      known->second.evidence.regime.value_or(Seconds(span)).count() >= young)
    rate = std::max(rate, known->second.growth->rate.value);
  return rate;
}

RiseFrom sudden_rise(const Series& series, std::size_t since, double window, double rate, Verdict verdict,
                     Rise& out) {
  const auto& points = series.points;
  double final = points.back().value, first = points.front().value;
  since = rise_began(series, since, final - points[since].value, window, rate);
  double before = points[since].value, jump = final - before, elapsed = -points[since].at;
  // Starts when a tenth of the rise had come.
  RiseFrom from{-window, before};
  for (std::size_t i = since; i < points.size(); ++i)
    if (points[i].value <= before + 0.1 * jump) from.began = std::max(-elapsed, points[i].at);
  if (auto peak = earlier_peak(series, since, jump)) out.came_back = Bytes{std::llround(*peak)};
  bool spiky = verdict == Verdict::spikes || out.came_back;
  double crept = verdict == Verdict::leak ? before - first : 0;
  out.cause = spiky ? Verdict::spikes : crept > jump ? Verdict::leak : Verdict::step;
  if (out.cause == Verdict::leak) from = {points.front().at, first};
  return from;
}

RiseFrom slow_rise(const Series& series, const std::optional<std::pair<double, Forecast>>& known, Rise& out) {
  const auto& points = series.points;
  double span = -points.front().at, final = points.back().value;
  RiseFrom from{-span, points.front().value};
  Verdict verdict = known ? known->second.verdict : Verdict::unknown;
  out.cause = verdict == Verdict::stable || verdict == Verdict::cache ? Verdict::unknown : verdict;
  // A start-up that ended longer ago than it took.
  std::size_t full = points.size() - 1;
  while (full > 0 && points[full - 1].value >= kNearlyFull * final) --full;
  if (verdict == Verdict::ramp && -points[full].at > span / 2) {
    out.cause = Verdict::unknown;
    from = {points[full].at, points[full].value};
  }
  if (known && out.cause == Verdict::leak) {
    double length = known->second.evidence.regime
                        .value_or(known->second.growth ? known->second.growth->span : Seconds(span))
                        .count();
    from.began = std::max(-span, known->first - length);
    from.base = series.at(from.began);
  }
  return from;
}

}  // namespace

ClockMap clock_of(const RunInfo& run) {
  return {run.wall_of_mono_zero, run.wall_of_boot_zero, run.tick};
}

MonoTime life_began(const StoredEpisode& e) {
  MonoTime began = e.from;
  for (const Episode& before : e.before.at_limit) began = std::max(began, before.time);
  return began;
}

double from_kill(const StoredEpisode& e, MonoTime t) {
  return seconds_between(e.told.episode.time, t).count();
}

bool same_cgroup(const CgroupPtr& a, const CgroupPtr& b) {
  if (!a || !b) return false;
  if (a->id.inode && b->id.inode) return a->id == b->id;
  return a->path == b->path;
}

bool is_owner(const StoredEpisode& e, const CgroupPtr& cgroup) {
  const CgroupPtr& owner = e.told.episode.limit_cgroup;
  if (!cgroup) return false;
  return owner ? same_cgroup(owner, cgroup) : cgroup->name.kind == CgroupKind::root;
}

bool is_victim(const Episode& e, const ProcessRef& process) {
  return std::any_of(e.victims.begin(), e.victims.end(), [&](const Victim& v) {
    const TaskId &a = v.process.id, &b = process.id;
    return a.tgid == b.tgid && (a.start_ticks == b.start_ticks || !a.start_ticks || !b.start_ticks);
  });
}

std::optional<PostMortemMemory> find_memory(const StoredEpisode& e) {
  const Episode& told = e.told.episode;
  PostMortemMemory out;
  out.usage = told.usage;
  if (!told.limit_cgroup && told.machine && told.machine->ram && told.machine->free)
    out.usage = std::max(Bytes{}, *told.machine->ram - *told.machine->free);
  if (told.memory) {
    out.kinds = *told.memory;
    out.exact = true;
  } else {
    const Sample* newest = nullptr;
    for (const Sample& s : e.samples)
      if (is_owner(e, s.cgroup) && s.time <= told.time && s.stat.anon) newest = &s;
    if (!newest) return std::nullopt;
    const MemoryStat& stat = newest->stat;
    out.kinds = {stat.anon, stat.file, stat.shmem, stat.kernel, std::nullopt, stat.swap};
    out.age = Seconds(-from_kill(e, newest->time));
    out.usage = newest->usage;
  }
  // Unreported memory cannot be distinguished from absent memory.
  if (out.usage && out.kinds.anon && out.kinds.file) {
    Bytes known;
    for (const auto& part : {out.kinds.anon, out.kinds.file, out.kinds.shmem, out.kinds.kernel})
      if (part) known += *part;
    out.unattributed = std::max(Bytes{}, *out.usage - known);
  }
  return out;
}

std::optional<Rise> find_rise(const StoredEpisode& e) {
  Series series = owner_series(e);
  if (series.points.size() < 2) return std::nullopt;
  double span = -series.points.front().at, final = series.points.back().value;
  Rise out;
  out.seen = Seconds(span);
  out.to = {std::llround(final)};
  // The newest part, short enough to leave something for comparison.
  double window = std::clamp(span / 4, 0.1, 3.0);
  std::size_t since = series.index(-window);
  double jump = final - series.points[since].value, elapsed = -series.points[since].at;
  auto known = forecast_at(e, -window);
  double rate = rate_before(known, series, since, window);
  double expected = std::max(0.0, rate) * std::min(elapsed, window * 1.5);
  out.sudden = span > 0.5 && jump > 2.5 * expected && jump > 0.04 * final && jump > 1 << 20;
  if (!out.sudden) known = forecast_at(e, 0);
  if (known) {
    out.before = known->second;
    out.before_age = Seconds(-known->first);
  }
  Verdict verdict = known ? known->second.verdict : Verdict::unknown;
  RiseFrom from =
      out.sudden ? sudden_rise(series, since, window, rate, verdict, out) : slow_rise(series, known, out);
  out.from = {std::llround(from.base)};
  out.took = Seconds(-from.began);
  return out;
}

PostMortem make_post_mortem(StoredEpisode episode) {
  PostMortem out;
  out.episode = std::move(episode);
  out.headline = headline(out.episode);
  out.memory = find_memory(out.episode);
  out.rise = find_rise(out.episode);
  out.culprit = find_culprit(out.episode);
  out.processes = find_processes(out);
  out.timeline = make_timeline(out);
  out.findings = make_findings(out);
  out.prevention = make_prevention(out);
  out.unknown = make_unknown(out);
  out.next = make_next(out);
  return out;
}

}  // namespace oomcast
