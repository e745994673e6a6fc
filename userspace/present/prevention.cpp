// What would have prevented a kill.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/escape.h"
#include "present/findings_parts.h"
#include "present/rows.h"
#include "present/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMinWorkers = 3;
constexpr double kOneOfAKind = 0.4;  // how far workers may differ in size

/// Since when, before the kill, the level was at or above `part` of the limit; s.
double above_for(const StoredEpisode& e, double part) {
  double since = 0;
  for (auto s = e.samples.rbegin(); s != e.samples.rend(); ++s) {
    double at = from_kill(e, s->time);
    auto limit = s->headroom_limit ? s->headroom_limit : limit_of(e);
    if (!is_owner(e, s->cgroup) || at > 0 || !s->pinned || !limit) continue;
    if (s->pinned->as_double() < part * limit->as_double()) break;
    since = -at;
  }
  return since;
}

/// For how long before the kill the deadline was nearer than `eta`; s.
double nearer_for(const StoredEpisode& e, double eta) {
  double since = 0;
  auto all = foretold(e);
  for (auto f = all.rbegin(); f != all.rend(); ++f) {
    if (!(*f)->forecast.eta || (*f)->forecast.eta->count() >= eta) break;
    since = -from_kill(e, (*f)->time);
  }
  return since;
}

std::string command(const StoredEpisode& e, const std::string& rule) {
  std::string scope;
  if (const CgroupPtr& owner = e.told.episode.limit_cgroup) {
    bool plain = std::all_of(owner->path.begin(), owner->path.end(), [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("/._:@-").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (owner->name.name.starts_with("oomcast-run-"))
      return fmt::format(
          "oomcast run --memory {} --alert '{}' --signal USR1 -- …",
          e.told.episode.limit ? fmt::format("{}M", e.told.episode.limit->count >> 20) : "SIZE", rule);
    if (plain) scope = " --cgroup " + owner->path;
  }
  return fmt::format("oomcast watch{} --alert '{}' --touch .stop", scope, rule);
}

std::optional<Finding> an_alert(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  if (!r.rise) return std::nullopt;
  struct Rule {
    std::string text;
    double lead;
  };
  std::optional<Rule> best;
  for (auto [text, eta] : {std::pair("eta<30s", 30.0), std::pair("eta<1m", 60.0), std::pair("eta<5m", 300.0),
                           std::pair("eta<20m", 1200.0), std::pair("eta<1h", 3600.0)}) {
    double lead = nearer_for(e, eta);
    if (!best || lead > best->lead) best = Rule{text, lead};
    if (best->lead >= 60) break;  // more is only noise
  }
  for (auto [text, part] :
       {std::pair("level>90%", 0.9), std::pair("level>80%", 0.8), std::pair("level>60%", 0.6)}) {
    double lead = above_for(e, part);
    // A level that always was is no sign.
    if (lead < 0.8 * r.rise->seen.count() && (!best || lead > 1.5 * best->lead) && (!best || best->lead < 60))
      best = Rule{text, lead};
  }
  if (!best || best->lead < 1)
    return Finding{"No alert would have left time to act: make room, or make the step smaller.",
                   {fmt::format("the limit was met {} after the rise began", format_duration(r.rise->took))}};
  return Finding{fmt::format("An alert would have left {}{} to save the work:", best->lead < 5 ? "only " : "",
                             format_duration(Seconds(best->lead))),
                 {command(e, best->text)}};
}

std::optional<Finding> a_limit(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  auto limit = limit_of(e);
  if (!r.rise || !limit) return std::nullopt;
  const Rise& rise = *r.rise;
  std::string owner = owner_name(e.told.episode);
  if (rise.cause == Verdict::leak) {
    double rate = rise.before && rise.before->growth
                      ? rise.before->growth->rate.value
                      : (rise.to - rise.from).as_double() / std::max(0.1, rise.took.count());
    if (rate <= 0) return std::nullopt;
    Bytes twice{limit->count * 2};
    return Finding{
        fmt::format("A higher limit only delays a leak: at {} one of {} lasts {} longer.", speed({rate}),
                    format_size(twice), format_duration(Seconds(limit->as_double() / rate))),
        {}};
  }
  if (!rise.sudden && rise.cause != Verdict::spikes) return std::nullopt;
  Bytes more = rise.to - rise.from;
  Finding out;
  out.text = fmt::format(
      "Look at what ran at {}: it took {} on top of {}, and wanted more than a limit of {} has room for.",
      clock_at(e, -rise.took.count()), format_size(more), format_size(rise.from), format_size(*limit));
  out.evidence.push_back("how much it wanted in all is not known: it was killed while it took it");
  return out;
}

/// Processes of one command and one parent that hold about the same.
std::optional<Finding> fewer_workers(const PostMortem& r) {
  auto limit = limit_of(r.episode);
  std::map<std::pair<std::string, std::uint32_t>, std::vector<Bytes>> groups;
  for (const PostMortemProcess& p : r.processes)
    if (!p.ended_before && p.process.ppid && p.anon && !p.process.comm.empty())
      groups[{p.process.comm, *p.process.ppid}].push_back(*p.anon + known(p.shmem));
  for (auto& [who, sizes] : groups) {
    if (sizes.size() < kMinWorkers || !limit) continue;
    Bytes sum;
    for (Bytes size : sizes) sum += size;
    double each = sum.as_double() / static_cast<double>(sizes.size());
    bool alike = std::all_of(sizes.begin(), sizes.end(),
                             [&](Bytes b) { return std::fabs(b.as_double() - each) < kOneOfAKind * each; });
    if (!alike || sum.as_double() < 0.3 * limit->as_double()) continue;
    double rest = std::max(0.0, r.rise ? r.rise->to.as_double() - sum.as_double() : 0.0);
    auto fit = static_cast<long long>(std::max(0.0, (0.9 * limit->as_double() - rest) / each));
    if (fit < 1 || fit >= static_cast<long long>(sizes.size())) continue;
    return Finding{fmt::format("{} instead of {} processes of {} would have fitted.", fit, sizes.size(),
                               cut_end(displayable(who.first), 20)),
                   {fmt::format("each of them held about {}, all else {}; a tenth of the limit is left free",
                                format_size({std::llround(each)}), format_size({std::llround(rest)}))}};
  }
  return std::nullopt;
}

std::optional<Finding> a_limit_of_its_own(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  const Victim* victim = first_victim(told);
  if (!r.culprit || culprit_is_victim(r) || !victim) return std::nullopt;
  const CgroupPtr &its = r.culprit->process.cgroup, &theirs = victim->process.cgroup;
  bool apart = its && theirs && !same_cgroup(its, theirs);
  return Finding{apart ? fmt::format("A limit on {} of its own would have kept {} alive.",
                                     cut_middle(path_of(its), 60), short_name_of(victim->process))
                       : fmt::format("{} in a cgroup with a limit of its own would die alone.",
                                     short_name_of(r.culprit->process)),
                 {}};
}

}  // namespace

std::vector<Finding> make_prevention(const PostMortem& r) {
  std::vector<Finding> out;
  for (auto* find : {an_alert, a_limit, fewer_workers, a_limit_of_its_own})
    if (auto found = find(r)) out.push_back(*std::move(found));
  return out;
}

}  // namespace oomcast
