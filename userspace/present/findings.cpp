// The conclusions of a post-mortem: sentences for a user who has never seen oomcast, each with its evidence.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/escape.h"
#include "model/workload.h"
#include "present/blame.h"
#include "present/findings_parts.h"
#include "present/gpu_at_kill.h"
#include "present/memory_table.h"
#include "present/rows.h"
#include "stream/growth.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr double kLookBack = 300;  // s, for reclaim
constexpr double kMinLead = 1;     // s; a later forecast is useless
constexpr double kTimeToAct = 10;  // s
constexpr double kSlow = 0.05;     // of the time: less is not noticeable

const PostMortemProcess* row_of(const PostMortem& r, const ProcessRef& p) {
  for (const PostMortemProcess& row : r.processes)
    if (row.process.id.tgid == p.id.tgid) return &row;
  return nullptr;
}

/// The last limit decrease shortly before the kill: from, to.
std::optional<std::pair<Bytes, Bytes>> lowered(const StoredEpisode& e) {
  std::optional<Bytes> limit;
  std::optional<std::pair<Bytes, Bytes>> out;
  for (const Sample& s : e.samples) {
    if (!is_owner(e, s.cgroup) || !s.limit || s.time > e.told.episode.time) continue;
    if (limit && *s.limit < *limit && from_kill(e, s.time) > -5) out = {*limit, *s.limit};
    limit = s.limit;
  }
  if (limit && e.told.episode.limit && *e.told.episode.limit < *limit) out = {*limit, *e.told.episode.limit};
  return out;
}

Finding a_leak(const Rise& rise, const std::string& owner, std::vector<std::string> evidence) {
  const auto& growth = rise.before ? rise.before->growth : std::nullopt;
  if (growth)
    evidence.insert(evidence.begin() + 1, fmt::format("between {} and {} with 90 % confidence",
                                                      speed(growth->low), speed(growth->high)));
  double mean = (rise.to - rise.from).as_double() / std::max(0.1, rise.took.count());
  return {fmt::format("A leak: {} grew by {} for {} and gave nothing back.", owner,
                      speed(growth ? growth->rate : BytesPerSec{mean}), format_duration(rise.took)),
          std::move(evidence)};
}

std::optional<Finding> how_it_rose(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  std::string owner = owner_name(e.told.episode);
  if (auto change = lowered(e))
    return Finding{fmt::format("The limit of {} was lowered from {} to {}, below what was in use.", owner,
                               format_size(change->first), format_size(change->second)),
                   {}};
  if (!r.rise) return std::nullopt;
  const Rise& rise = *r.rise;
  std::string path =
      fmt::format("{} at {}, {} at the kill {} later (without what could be dropped)", format_size(rise.from),
                  clock_at(e, -rise.took.count()), format_size(rise.to), format_duration(rise.took));
  std::vector<std::string> evidence{path};
  std::string came = format_size(rise.to - rise.from);
  // "leak" next to a step would give two causes for one kill.
  if (rise.before && rise.before->verdict == Verdict::leak && rise.cause != Verdict::leak &&
      rise.before->growth)
    evidence.push_back(fmt::format("{} it grew by {}, too slowly to matter here", ago(rise.before_age),
                                   speed(rise.before->growth->rate)));
  else if (rise.before && rise.before->verdict != Verdict::unknown && rise.before->verdict != Verdict::leak &&
           rise.cause != Verdict::leak && !rise.before->why.empty())
    evidence.push_back(fmt::format("{}, the forecast said {}: {}", ago(rise.before_age),
                                   to_string(rise.before->verdict), displayable(rise.before->why)));
  switch (rise.cause) {
    case Verdict::leak:
      return a_leak(rise, owner, std::move(evidence));
    case Verdict::step:
      return Finding{
          fmt::format("A step: {} more came at once, within {}{}.", came, format_duration(rise.took),
                      e.told.first_forecast ? "" : "; until then nothing pointed there"),
          std::move(evidence)};
    case Verdict::spikes: {
      auto peak =
          rise.before && rise.before->evidence.peak_above ? rise.before->evidence.peak_above : rise.came_back;
      std::string earlier =
          peak ? fmt::format(", where earlier ones took {} and came back", format_size(*peak)) : "";
      return Finding{fmt::format("A spike: {} came within {}{}.", came, format_duration(rise.took), earlier),
                     std::move(evidence)};
    }
    case Verdict::cow:
      return Finding{
          fmt::format("Copy-on-write: forked processes wrote to pages they had shared; {} became their own.",
                      came),
          std::move(evidence)};
    case Verdict::ramp:
      return Finding{fmt::format("A start-up: {} was still coming up, by {} in {}.", owner, came,
                                 format_duration(rise.took)),
                     std::move(evidence)};
    default:
      break;
  }
  if (rise.from.as_double() >= kNearlyFull * rise.to.as_double())
    return Finding{fmt::format("{} was nearly full all along: {} of {} for {}.", owner,
                               format_size(rise.from), format_size(rise.to), format_duration(rise.took)),
                   {}};
  return Finding{fmt::format("{} grew by {} in {}: too short a time to tell a leak from a start-up.", owner,
                             came, format_duration(rise.took)),
                 std::move(evidence)};
}

/// If no process was seen to grow: the one that held most.
std::optional<Finding> who_held(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  auto own = [](const PostMortemProcess& p) { return known(p.anon) + known(p.shmem); };
  const PostMortemProcess* most = nullptr;
  for (const PostMortemProcess& p : r.processes)
    if (!p.ended_before && (!most || own(p) > own(*most))) most = &p;
  std::optional<Bytes> usage = told.usage;
  if (!usage && r.memory) usage = r.memory->usage;
  if (!most || !usage || own(*most).as_double() < 0.3 * usage->as_double()) return std::nullopt;
  return Finding{fmt::format("Most was held by {}, which was {}.", short_name_of(most->process),
                             most->victim ? "killed" : "NOT killed"),
                 {fmt::format("{} of its own of the {}", format_size(own(*most)), format_size(*usage))}};
}

std::optional<Finding> who_grew(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  const Victim* victim = first_victim(told);
  if (!r.culprit) return who_held(r);
  const GrewProcess& culprit = *r.culprit;
  std::string who = short_name_of(culprit.process);
  std::string grew =
      fmt::format("its RSS grew by {} in {}", format_size(culprit.grew), format_duration(culprit.over));
  const PostMortemProcess* row = row_of(r, culprit.process);
  // Mapped files are not its own, and may be charged to others.
  if (row && row->anon)
    grew += fmt::format("; it held {} of its own", format_size(*row->anon + known(row->shmem)));
  if (culprit_is_victim(r))
    return Finding{fmt::format("The memory was taken by {}, which was killed.", who), {grew}};
  std::vector<std::string> evidence{grew};
  if (victim) {
    std::string held;
    if (victim->anon)
      held = fmt::format("{} held only {}", short_name_of(victim->process),
                         format_size(*victim->anon + known(victim->file) + known(victim->shmem)));
    if (victim->oom_score_adj && *victim->oom_score_adj > 0)
      held += fmt::format("{}its oom_score_adj of {} made it the kernel's first choice",
                          held.empty() ? "" : "; ", *victim->oom_score_adj);
    if (!held.empty()) evidence.push_back(held);
  }
  if (row && row->oom_score_adj && *row->oom_score_adj < 0)
    evidence.push_back(fmt::format("its own oom_score_adj of {} protects it", *row->oom_score_adj));
  return Finding{fmt::format("The memory was taken by {}, which was NOT killed: {} died in its place.", who,
                             victim ? short_name_of(victim->process) : "another"),
                 std::move(evidence)};
}

std::optional<Finding> where_it_was(const PostMortem& r) {
  const Victim* victim = first_victim(r.episode.told.episode);
  const CodePlace* at = victim ? culprit(victim->code) : nullptr;
  if (!at) return std::nullopt;
  Finding out{fmt::format("{} was in {}.", short_name_of(victim->process), to_text(*at)), {}};
  std::string callers;
  for (const CodePlace& place : victim->code)
    callers += (callers.empty() ? "innermost first: " : ", ") + to_text(place);
  out.evidence.push_back(std::move(callers));
  return out;
}

std::string where_it_grew_text(const GrowthSource& most) {
  std::string who = short_name_of(most.process());
  int percent = static_cast<int>(std::lround(100 * most.sure_share()));
  if (most.holder)
    return fmt::format("{}: {} % of what it grew by, at least, is {}.", who, percent, describe(*most.holder));
  std::string at = to_text(most.site->code.front());
  if (percent > 0)
    return fmt::format("{} grew in {}: {} % of what it took while it was profiled.", who, at, percent);
  if (most.site->evidence.kind() != GrowthEvidence::Kind::touched)
    return fmt::format("{} grew in {}; which part of it was not recorded.", who, at);
  return fmt::format("{} touched new pages first in {}; whether that line keeps them is not known.", who, at);
}

std::optional<Finding> where_it_grew(const PostMortem& r) {
  constexpr double kWorthALine = 0.1;
  constexpr std::size_t kMaxSources = 4;
  const GrowthOrigins& told = r.episode.told.episode.grew_from;
  std::vector<GrowthSource> all = growth_sources(told);
  std::erase_if(all, [](const GrowthSource& s) { return s.site && s.site->code.empty(); });
  std::erase_if(all, only_varied);
  if (all.empty()) return std::nullopt;
  const GrowthSource& most = all.front();
  auto before = [&](MonoTime when) { return Seconds(std::max(0.0, -from_kill(r.episode, when))); };
  Finding out{where_it_grew_text(most), {}};
  auto add = [&](std::string text) {
    if (!text.empty()) out.evidence.push_back(std::move(text));
  };
  auto add_joined = [&](std::initializer_list<std::string> parts) {
    std::string joined;
    for (const std::string& part : parts)
      if (!part.empty()) joined += (joined.empty() ? "" : "; ") + part;
    add(std::move(joined));
  };
  std::string callers = describe_callers(most.site ? most.site->code : most.holder->adder);
  if (!callers.empty()) callers = "called by " + callers;
  auto add_when = [&](const auto& of) {
    add(fmt::format("it grew by {} in a {} profile, between {} and {} before the kill", format_size(of.of),
                    format_duration(of.watched), format_duration(before(of.from)),
                    format_duration(before(of.to))));
  };
  if (most.site) {
    add_joined({callers, describe_evidence(*most.site), describe_holder(*most.site, told.holders)});
    add(describe_doubt(*most.site));
    add_when(*most.site);
    add(doubts_of(*most.site));
  } else {
    add_joined({callers, format_size(most.holder->least) + " at least"});
    add_when(*most.holder);
  }
  for (std::size_t i = 1; i < all.size() && i < kMaxSources; ++i) {
    double share = all[i].site ? all[i].site->share() : all[i].sure_share();
    if (share >= kWorthALine) add(describe(all[i], told.holders));
  }
  return out;
}

std::string breakdown(const PostMortemMemory& m) {
  std::string out;
  auto add = [&](std::string_view name, const std::optional<Bytes>& size) {
    if (size && size->count) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, format_size(*size));
  };
  add("anon", m.kinds.anon);
  add("file", m.kinds.file);
  add("shmem", m.kinds.shmem);
  add("kernel", m.kinds.kernel);
  add("swap", m.kinds.swap);
  add("unattributed", m.unattributed);
  return out;
}

std::string source_of(const PostMortemMemory& m) {
  return m.exact ? "by the kernel's report at the kill"
                 : fmt::format("by the newest sample, {}; such figures lag by up to 2 s", ago(m.age));
}

std::optional<Finding> what_kind(const PostMortem& r) {
  if (!r.memory) return std::nullopt;
  if (auto machine = where_the_machines_memory_was(r)) return machine;
  const PostMortemMemory& m = *r.memory;
  struct Kind {
    std::optional<Bytes> size;
    std::string_view words;
  };
  const Kind kinds[] = {
      {m.kinds.anon, "anonymous memory: heap, stacks, tensors in RAM"},
      {m.kinds.shmem, "shared memory: /dev/shm, tmpfs, shared tensors; it stays until it is deleted"},
      {m.kinds.file, "page cache that could not be dropped in time: dirty, locked or mapped"},
      {m.kinds.kernel,
       m.kinds.slab && m.kinds.kernel && m.kinds.slab->as_double() > 0.5 * m.kinds.kernel->as_double()
           ? "the kernel's own memory, mostly slab: dentries, inodes, socket buffers"
           : "the kernel's own memory: page tables, stacks, slab, buffers"},
      {m.unattributed,
       "memory that the kernel's statistics give no name: page tables, buffers, pinned pages"}};
  const Kind* most = nullptr;
  Bytes sum;
  for (const Kind& k : kinds) {
    if (!k.size) continue;
    sum += *k.size;
    if (!most || *k.size > *most->size) most = &k;
  }
  if (!most || most->size->count == 0) return std::nullopt;
  Bytes whole = m.usage.value_or(sum);
  bool of_machine = !r.episode.told.episode.limit_cgroup && m.usage;
  Finding out{fmt::format("{} of the {}{} ({}) is {}.", format_size(*most->size), format_size(whole),
                          of_machine ? " in use on the machine" : "", percent_of_whole(*most->size, whole),
                          most->words),
              {fmt::format("{}; {}", breakdown(m), source_of(m))}};
  if (std::string slabs = largest_slabs(r.episode.told.episode); most == &kinds[3] && !slabs.empty())
    out.evidence.push_back(slabs);
  if (auto pinned = pinned_for_gpus(r.episode); pinned && m.kinds.shmem)
    out.evidence.push_back(fmt::format("of the shmem {} is pinned for GPUs: it is in use until it is freed",
                                       format_size(std::min(*pinned, *m.kinds.shmem))));
  if (m.exact && m.kinds.file && most->size != m.kinds.file &&
      m.kinds.file->as_double() > 0.05 * whole.as_double())
    out.evidence.push_back(
        fmt::format("{} of page cache was left: in use, dirty or locked", format_size(*m.kinds.file)));
  return out;
}

std::optional<Finding> whose_limit(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  const Victim* victim = first_victim(told);
  if (!told.limit_cgroup || !victim || !victim->process.cgroup) return std::nullopt;
  Finding out;
  bool own = same_cgroup(victim->process.cgroup, told.limit_cgroup);
  if (!own)
    out.text = fmt::format("The limit is that of {}, above the victim's own cgroup {}.", owner_name(told),
                           cut_middle(path_of(victim->process.cgroup), 60));
  std::size_t limits = 0;
  for (const ChainLevel& level : told.chain) {
    if (!level.limit && !same_cgroup(level.cgroup, told.limit_cgroup)) continue;
    ++limits;
    out.evidence.push_back(fmt::format("{}: {} of {}", cut_middle(path_of(level.cgroup), 60),
                                       format_size(level.usage),
                                       level.limit ? format_size(*level.limit) : "no limit"));
  }
  if (own && limits < 2) return std::nullopt;
  if (own) out.text = fmt::format("The limit is the cgroup's own; those above it had room.");
  return out;
}

// What a forecast predicted, and its error.
std::string as_it_came(const StoredEpisode& e, const ForecastFact& f) {
  double left = -from_kill(e, f.time), low = f.forecast.eta_low.value_or(*f.forecast.eta).count();
  bool within = left >= low && (!f.forecast.eta_high || left <= f.forecast.eta_high->count());
  double off = left - f.forecast.eta->count();
  std::string true_was = within ? "right"
                                : fmt::format("it came {} {}", format_duration(Seconds(std::abs(off))),
                                              off < 0 ? "sooner" : "later");
  return fmt::format("{} it said: {}; {}", ago(left), describe_deadline(f.forecast), true_was);
}

std::string how_early(const StoredEpisode& e, double lead) {
  if (lead >= kTimeToAct)
    return fmt::format("It was foreseen: the deadline was first forecast {}, at {}.", ago(lead),
                       clock_at(e, -lead));
  if (lead >= kMinLead)
    return fmt::format("It was foreseen, but late: the deadline was first forecast {}.", ago(lead));
  return fmt::format("It was not foreseen in time: the deadline was first forecast {}.", ago(lead));
}

// For a kill forecast since `since`.
Finding foreseen_since(MonoTime since, const StoredEpisode& e) {
  const ForecastFact *first = nullptr, *last = nullptr, *act = nullptr;
  for (const ForecastFact* f : foretold(e)) {
    if (f->time < since) continue;
    if (f->forecast.eta && !first) first = f;
    if (f->forecast.eta && from_kill(e, f->time) <= -kMinLead) last = f;
    if (f->forecast.alert && !act) act = f;
  }
  Finding out{how_early(e, -from_kill(e, since)), {}};
  if (first) out.evidence.push_back(as_it_came(e, *first));
  if (last && last != first) out.evidence.push_back(as_it_came(e, *last));
  if (first == nullptr && e.told.forecast_before && e.told.forecast_before->forecast.eta)
    out.evidence.push_back(as_it_came(e, *e.told.forecast_before));
  if (act) out.evidence.push_back("\"act now\" was said " + ago(-from_kill(e, act->time)));
  return out;
}

std::optional<Finding> was_foreseen(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  Finding out;
  if (e.told.first_forecast) {
    out = foreseen_since(*e.told.first_forecast, e);
  } else if (r.rise && r.rise->sudden) {
    out.text = fmt::format("No curve could foretell it: {} before, {} was at {}{}.",
                           format_duration(r.rise->took), owner_name(e.told.episode),
                           format_size(r.rise->from), limit_of(e) ? " of " + format_size(*limit_of(e)) : "");
  } else if (r.rise) {
    out.text = fmt::format("It was not foreseen: the curve before the kill is {} long.",
                           format_duration(r.rise->seen));
  } else {
    return std::nullopt;
  }
  auto alert =
      std::ranges::find_if(e.alerts, [&](const AlertFact& a) { return a.time < e.told.episode.time; });
  if (alert == e.alerts.end()) return out;
  std::string done;
  for (const ActionRun& run : alert->actions)
    done +=
        fmt::format("; {} '{}': {}", to_string(run.kind), cut_end(displayable(run.what), 40), result_of(run));
  out.evidence.push_back(
      fmt::format("alert {} {}{}", displayable(alert->rule), ago(-from_kill(e, alert->time)), done));
  return out;
}

std::optional<Finding> how_it_stalled(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  Seconds stalled{};
  Bytes reclaimed;
  std::uint64_t stalls = 0;
  double first = 0, began = from_kill(e, life_began(e));
  for (const ReclaimFact& f : e.reclaim) {
    double at = from_kill(e, f.time);
    const CgroupPtr& owner = e.told.episode.limit_cgroup;
    if (at < -kLookBack || at <= began || at > 1.5) continue;
    if (owner && f.cgroup && !is_within(*f.cgroup, *owner)) continue;
    first = std::min(first, at);
    stalled += f.stalled;
    stalls += f.stalls;
    reclaimed += f.reclaimed;
  }
  const PressureFact* pressure = nullptr;
  for (const PressureFact& p : e.pressure)
    if (p.time <= e.told.episode.time && (p.cgroup ? is_owner(e, p.cgroup) : !e.told.episode.limit_cgroup))
      pressure = &p;
  bool slow = stalled >= Seconds(0.05) && stalled.count() >= kSlow * std::max(1.0, -first);
  if (!slow && !(pressure && pressure->pressure.some && pressure->pressure.some->avg10 >= 5))
    return std::nullopt;
  Finding out;
  out.text =
      fmt::format("Before it died it was slow: its tasks stood still for {} in all, waiting for memory.",
                  format_duration(stalled));
  if (stalls)
    out.evidence.push_back(
        fmt::format("{} wait{} in the last {}, {} reclaimed", stalls, stalls == 1 ? "" : "s",
                    format_duration(Seconds(std::max(1.0, -first))), format_size(reclaimed)));
  if (pressure && pressure->pressure.some)
    out.evidence.push_back(fmt::format("memory pressure {:.0f} % of the 10 s to {}",
                                       pressure->pressure.some->avg10, ago(-from_kill(e, pressure->time))));
  if (!slow) out.text = "Before it died it was slow: its tasks waited for memory.";
  return out;
}

std::optional<Finding> who_asked(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  if (!told.trigger || is_victim(told, *told.trigger) ||
      (r.culprit && r.culprit->process.id == told.trigger->id))
    return std::nullopt;
  return Finding{
      fmt::format("The request that could not be met came from {}; that alone makes it no culprit.",
                  short_name_of(*told.trigger)),
      {}};
}

std::optional<Finding> how_often(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  if (e.before.of_workload.empty()) return std::nullopt;
  std::size_t n = e.before.of_workload.size();
  const Episode& last = e.before.of_workload.back();
  double since = -from_kill(e, last.time);
  const Victim *victim = first_victim(e.told.episode), *then = first_victim(last);
  auto name = victim && then ? same_workload(victim->process, then->process) : std::nullopt;
  Finding out;
  out.text = fmt::format("It is not the first time: {} earlier kill{} of {}, the last {} before.", n,
                         n == 1 ? "" : "s", name ? displayable(name->words) : "the same workload",
                         format_duration(Seconds(since)));
  for (std::size_t i = n > 3 ? n - 3 : 0; i < n; ++i) {
    const Episode& before = e.before.of_workload[i];
    std::string what = format_rfc3339(clock_of(e.run).wall(before.time)).substr(0, 19) + "Z";
    if (const Victim* v = first_victim(before)) {
      what += "  " + short_name_of(v->process);
      if (v->anon) what += ", anon " + format_size(*v->anon);
    }
    out.evidence.push_back(what);
  }
  return out;
}

std::optional<Finding> group_kill(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  if (told.victims.size() < 2) return std::nullopt;
  std::string names;
  for (std::size_t i = 0; i < told.victims.size() && i < 4; ++i)
    names += (i ? ", " : "") + short_name_of(told.victims[i].process);
  if (told.victims.size() > 4) names += fmt::format(" and {} more", told.victims.size() - 4);
  return Finding{told.group_kill.value_or(false)
                     ? fmt::format("{} processes were killed together, because memory.oom.group is set.",
                                   told.victims.size())
                     : fmt::format("{} processes were killed for this one limit.", told.victims.size()),
                 {names}};
}

std::optional<Finding> who_held_gpu(const PostMortem& r) {
  return who_held_gpu_memory(r.episode);
}

}  // namespace

std::vector<Finding> make_findings(const PostMortem& r) {
  std::vector<Finding> out;
  for (auto* find :
       {how_it_rose, who_grew, where_it_grew, where_it_was, what_kind, where_it_ran_out, who_held_gpu,
        whose_limit, group_kill, was_foreseen, how_it_stalled, who_asked, how_often})
    if (auto found = find(r)) out.push_back(*std::move(found));
  return out;
}

}  // namespace oomcast
