// What would have prevented a kill.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/escape.h"
#include "present/blame.h"
#include "present/findings_parts.h"
#include "present/rows.h"
#include "stream/growth.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMinWorkers = 3;
constexpr double kOneOfAKind = 0.4;  // maximum spread in size among workers

/// For how long before the kill the level was at or above `part` of the limit; s.
double above_for(const StoredEpisode& e, double part) {
  double since = 0, began = from_kill(e, life_began(e));
  for (auto s = e.samples.rbegin(); s != e.samples.rend(); ++s) {
    double at = from_kill(e, s->time);
    auto limit = s->headroom_limit ? s->headroom_limit : limit_of(e);
    if (!is_owner(e, s->cgroup) || at > 0 || at <= began || !s->pinned || !limit) continue;
    if (s->pinned->as_double() < part * limit->as_double()) break;
    since = -at;
  }
  return since;
}

/// For how long before the kill the deadline was closer than `eta`; s.
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
  const Episode& kill = e.told.episode;
  if (kill.limit_cgroup && kill.limit_cgroup->name.name.starts_with("oomcast-run-"))
    return fmt::format("oomcast run --memory {} --alert '{}' --signal USR1 -- …",
                       kill.limit ? fmt::format("{}M", kill.limit->count >> 20) : "SIZE", rule);
  return fmt::format("oomcast watch{} --alert '{}' --touch .stop", kill.limit_cgroup ? scope_of(kill) : "",
                     rule);
}

// Only if the evidence names what retains the memory; the findings show that evidence. A line that merely
// touched the memory first may have allocated a temporary.
std::optional<Finding> a_cure(const PostMortem& r) {
  constexpr double kEnough = 0.1;  // of what the process grew by
  std::vector<GrowthSource> all = growth_sources(r.episode.told.episode.grew_from);
  if (all.empty() || all.front().sure_share() < kEnough) return std::nullopt;
  const GrowthSource& most = all.front();
  if (most.holder) {
    std::string path = displayable(most.holder->path);
    if (most.holder->adder.empty())
      return Finding{fmt::format("Bound what {} holds: nothing takes out what was added to it.", path), {}};
    return Finding{fmt::format("Stop keeping what {} adds to {}, or bound it.",
                               to_text(most.holder->adder.front()), path),
                   {}};
  }
  if (most.site->code.empty()) return std::nullopt;
  std::string at = to_text(most.site->code.front()), held_by = displayable(most.site->evidence.held_by);
  if (most.site->evidence.adds && !held_by.empty())
    return Finding{fmt::format("Stop keeping what {} adds to {}, or bound it.", at, held_by), {}};
  if (!held_by.empty()) return Finding{fmt::format("Stop keeping in {} what {} allocates.", held_by, at), {}};
  return Finding{fmt::format("Free what {} allocates: it was not freed.", at), {}};
}

// There are no samples: an alert requires oomcast to run.
std::optional<Finding> an_alert_next_time(const PostMortem& r) {
  if (r.rise || r.episode.source == EpisodeSource::live) return std::nullopt;
  return Finding{
      "A checkpoint, written when an alert warns that the limit is near, would have saved the work:",
      {"oomcast run --alert 'eta<5m' --signal USR1 -- CMD"}};
}

// Whether most of the memory in use can be swapped out; slab never can.
bool is_mostly_swappable(const PostMortem& r) {
  if (!r.memory || !r.memory->usage || !r.memory->kinds.anon) return false;
  Bytes swappable = add_saturating(*r.memory->kinds.anon, known(r.memory->kinds.shmem));
  return 2 * swappable.as_double() > r.memory->usage->as_double();
}

std::optional<Finding> some_swap(const PostMortem& r) {
  const Episode& kill = r.episode.told.episode;
  if (kill.limit_cgroup || !kill.machine || kill.machine->swap_total != Bytes{}) return std::nullopt;
  if (!is_mostly_swappable(r)) return std::nullopt;
  return Finding{"Swap would have delayed it: it had none at the kill.", {}};
}

std::optional<Finding> another_score(const PostMortem& r) {
  const Victim* victim = first_victim(r.episode.told.episode);
  if (!victim || !victim->oom_score_adj || *victim->oom_score_adj <= 0) return std::nullopt;
  return Finding{fmt::format("Its oom_score_adj of {} made {} a likelier victim than its size.",
                             *victim->oom_score_adj, short_name_of(victim->process)),
                 {"choom -n 0 -- CMD starts it without; in a systemd unit: OOMScoreAdjust=0"}};
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
    if (best->lead >= 60) break;  // longer would only add noise
  }
  for (auto [text, part] :
       {std::pair("level>90%", 0.9), std::pair("level>80%", 0.8), std::pair("level>60%", 0.6)}) {
    double lead = above_for(e, part);
    // A level that was always exceeded is no warning.
    if (lead < 0.8 * r.rise->seen.count() && (!best || lead > 1.5 * best->lead) && (!best || best->lead < 60))
      best = Rule{text, lead};
  }
  if (!best || best->lead < 1)
    return Finding{"No alert would have left time to act: make room, or make the step smaller.",
                   {fmt::format("the limit was hit {} after the rise began", format_duration(r.rise->took))}};
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
    return Finding{fmt::format("A higher limit only delays it: one of {} lasts {} longer.",
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

/// Processes with the same command and parent, and about the same size.
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
  struct Advice {
    std::string_view kind;
    std::optional<Finding> (*find)(const PostMortem& r);
  };
  // First what cures it, then what would have saved the work, then what would have delayed it.
  constexpr Advice all[] = {{"cure", a_cure},     {"save", an_alert},       {"save", an_alert_next_time},
                            {"delay", a_limit},   {"delay", fewer_workers}, {"delay", a_limit_of_its_own},
                            {"delay", some_swap}, {"delay", another_score}};
  for (const Advice& advice : all)
    if (auto found = advice.find(r)) {
      found->kind = advice.kind;
      out.push_back(*std::move(found));
    }
  return out;
}

std::vector<Finding> make_next(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  const Episode& kill = e.told.episode;
  std::vector<Finding> out;
  if (e.source != EpisodeSource::live)
    out.push_back(
        {"Its curve, what grew, and a deadline before it happens:", {"oomcast trace" + scope_of(kill)}});
  auto sources = growth_sources(kill.grew_from);
  bool line_known = !sources.empty() && sources.front().sure_share() > 0;
  if (e.source == EpisodeSource::live && r.rise && r.rise->cause == Verdict::leak && !line_known)
    out.push_back({"Which line keeps the memory, while it grows:",
                   {fmt::format("oomcast blame{} --for 30s", scope_of(kill))}});
  return out;
}

}  // namespace oomcast
