// What a post-mortem concludes: sentences for a person who has never seen oomcast, each with what it rests
// on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/escape.h"
#include "present/blame.h"
#include "present/post_mortem_parts.h"
#include "present/rows.h"
#include "present/text.h"

namespace oomcast {
namespace {

constexpr double kLookBack = 300;  // s, of reclaim
constexpr double kLeastLead = 1;   // s; a later forecast is of no use to anybody
constexpr std::size_t kLeastWorkers = 3;
constexpr double kOneOfAKind = 0.4;  // how far workers may differ in size

std::string ago(double s) {
  return format_duration(Seconds(s)) + " before the kill";
}
std::string ago(Seconds s) {
  return ago(s.count());
}

std::string short_name_of(const ProcessRef& p) {
  return cut_middle(name_of(p), 60);
}

std::string clock_at(const StoredEpisode& e, double at) {
  return format_clock(
             clock_of(e.run).wall(e.told.episode.time + std::chrono::duration_cast<Nanos>(Seconds(at))))
      .substr(0, 8);
}

std::string share_of(Bytes part, Bytes whole) {
  return whole.count > 0 ? fmt::format(" ({:.0f} %)", 100 * part.as_double() / whole.as_double()) : "";
}

/// The forecasts for the limit's cgroup before the kill, without those that say that it is too early to say.
std::vector<const ForecastFact*> foretold(const StoredEpisode& e) {
  std::vector<const ForecastFact*> out;
  for (const ForecastFact& f : e.forecasts)
    if (f.cgroup && !f.process && is_owner(e, f.cgroup) && f.time < e.told.episode.time &&
        f.forecast.verdict != Verdict::unknown)
      out.push_back(&f);
  return out;
}

std::optional<Bytes> limit_of(const StoredEpisode& e) {
  if (e.told.episode.limit) return e.told.episode.limit;
  std::optional<Bytes> out;
  for (const Sample& s : e.samples)
    if (is_owner(e, s.cgroup) && s.time <= e.told.episode.time && s.limit) out = s.limit;
  return out;
}

const Victim* first_victim(const Episode& e) {
  return e.victims.empty() ? nullptr : &e.victims.front();
}

bool culprit_is_victim(const PostMortem& r) {
  return r.culprit && is_victim(r.episode.told.episode, r.culprit->process);
}

const PostMortemProcess* row_of(const PostMortem& r, const ProcessRef& p) {
  for (const PostMortemProcess& row : r.processes)
    if (row.process.id.tgid == p.id.tgid) return &row;
  return nullptr;
}

/// A limit that was lowered shortly before the kill, from and to.
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

// ---- findings
// -----------------------------------------------------------------------------------------------

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
      fmt::format("{} at {}, {} at the kill {} later (what cannot be dropped)", format_size(rise.from),
                  clock_at(e, -rise.took.count()), format_size(rise.to), format_duration(rise.took));
  std::vector<std::string> evidence{path};
  std::string came = format_size(rise.to - rise.from);
  if (rise.before && rise.before->verdict != Verdict::unknown && rise.cause != Verdict::leak &&
      !rise.before->why.empty())
    evidence.push_back(fmt::format("{}, the forecast said {}: {}", ago(rise.before_age),
                                   to_string(rise.before->verdict), displayable(rise.before->why)));
  switch (rise.cause) {
    case Verdict::leak: {
      std::string rate =
          rise.before && rise.before->growth
              ? format_rate(rise.before->growth->rate)
              : format_rate({(rise.to - rise.from).as_double() / std::max(0.1, rise.took.count())});
      if (rise.before && rise.before->growth)
        evidence.insert(evidence.begin() + 1, fmt::format("between {} and {} with 90 % confidence",
                                                          format_rate(rise.before->growth->low),
                                                          format_rate(rise.before->growth->high)));
      return Finding{fmt::format("A leak: {} grew by {} for {} and gave nothing back.", owner, rate,
                                 format_duration(rise.took)),
                     std::move(evidence)};
    }
    case Verdict::step:
      return Finding{fmt::format("A step: {} more came at once, within {}; until then nothing pointed there.",
                                 came, format_duration(rise.took)),
                     std::move(evidence)};
    case Verdict::spikes: {
      std::string earlier = rise.before && rise.before->evidence.peak_above
                                ? fmt::format(", where earlier ones took {} and came back",
                                              format_size(*rise.before->evidence.peak_above))
                                : "";
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
  if ((rise.to - rise.from).as_double() < 0.1 * rise.to.as_double())
    return Finding{fmt::format("{} was nearly full all along: {} of {} for {}.", owner,
                               format_size(rise.from), format_size(rise.to), format_duration(rise.seen)),
                   {}};
  return Finding{fmt::format("{} grew by {} in {}: too short a time to tell a leak from a start-up.", owner,
                             came, format_duration(rise.took)),
                 std::move(evidence)};
}

/// Where nobody was seen to grow: who had most of it.
std::optional<Finding> who_held(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  auto own = [](const PostMortemProcess& p) { return known(p.anon) + known(p.shmem); };
  const PostMortemProcess* most = nullptr;
  for (const PostMortemProcess& p : r.processes)
    if (!p.ended_before && (!most || own(p) > own(*most))) most = &p;
  if (!most || !told.usage || own(*most).as_double() < 0.3 * told.usage->as_double()) return std::nullopt;
  return Finding{fmt::format("Most was held by {}, which was {}.", short_name_of(most->process),
                             most->victim ? "killed" : "NOT killed"),
                 {fmt::format("{} of its own of the {}", format_size(own(*most)), format_size(*told.usage))}};
}

std::optional<Finding> who_grew(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  const Victim* victim = first_victim(told);
  if (!r.culprit) return who_held(r);
  const GrewProcess& culprit = *r.culprit;
  std::string who = short_name_of(culprit.process);
  std::string grew =
      fmt::format("it grew by {} in {}", format_size(culprit.grew), format_duration(culprit.over));
  const PostMortemProcess* row = row_of(r, culprit.process);
  // Mapped files are not its own, and may be charged to others.
  if (row && row->anon)
    grew += fmt::format(" and held {} of its own", format_size(*row->anon + known(row->shmem)));
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
  Finding out{fmt::format("{} was at {}.", short_name_of(victim->process), to_text(*at)), {}};
  std::string callers;
  for (const CodePlace& place : victim->code)
    callers += (callers.empty() ? "innermost first: " : ", ") + to_text(place);
  out.evidence.push_back(std::move(callers));
  return out;
}

std::string breakdown(const PostMortemMemory& m) {
  std::string out;
  auto add = [&](std::string_view name, const std::optional<Bytes>& size) {
    if (size) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, format_size(*size));
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
  Finding out{fmt::format("{} of the {}{} is {}.", format_size(*most->size), format_size(whole),
                          share_of(*most->size, whole), most->words),
              {fmt::format("{}; {}", breakdown(m), source_of(m))}};
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

std::optional<Finding> was_foreseen(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  std::vector<const ForecastFact*> all = foretold(e);
  Finding out;
  const ForecastFact *first = nullptr, *last = nullptr, *act = nullptr;
  for (const ForecastFact* f : all) {
    if (e.told.first_forecast && f->time < *e.told.first_forecast) continue;
    if (f->forecast.eta && !first) first = f;
    if (f->forecast.eta && from_kill(e, f->time) <= -kLeastLead) last = f;
    if (f->forecast.alert && !act) act = f;
  }
  auto right = [&](const ForecastFact& f) {
    double left = -from_kill(e, f.time), low = f.forecast.eta_low.value_or(*f.forecast.eta).count();
    bool within = left >= low && (!f.forecast.eta_high || left <= f.forecast.eta_high->count());
    return fmt::format("{} it said: {}; {}", ago(left), describe_deadline(f.forecast),
                       within       ? "right"
                       : left < low ? "it came sooner"
                                    : "it came later");
  };
  if (e.told.first_forecast) {
    double lead = -from_kill(e, *e.told.first_forecast);
    out.text =
        fmt::format("It was foreseen: the deadline was first told {}, at {}.", ago(lead), clock_at(e, -lead));
    if (first) out.evidence.push_back(right(*first));
    if (last && last != first) out.evidence.push_back(right(*last));
    if (first == nullptr && e.told.forecast_before && e.told.forecast_before->forecast.eta)
      out.evidence.push_back(right(*e.told.forecast_before));
    if (act) out.evidence.push_back("\"act now\" was told " + ago(-from_kill(e, act->time)));
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
  const AlertFact* alert = nullptr;
  for (const AlertFact& a : e.alerts)
    if (a.time < e.told.episode.time && !alert) alert = &a;
  if (alert) {
    std::string done;
    for (const ActionRun& run : alert->actions)
      done += fmt::format("; {} '{}': {}", to_string(run.kind), cut_end(displayable(run.what), 40),
                          to_string(run.result));
    out.evidence.push_back(
        fmt::format("alert {} {}{}", displayable(alert->rule), ago(-from_kill(e, alert->time)), done));
  }
  return out;
}

std::optional<Finding> how_it_stalled(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  Seconds stalled{};
  Bytes reclaimed;
  std::uint64_t stalls = 0;
  double first = 0;
  for (const ReclaimFact& f : e.reclaim) {
    double at = from_kill(e, f.time);
    const CgroupPtr& owner = e.told.episode.limit_cgroup;
    if (at < -kLookBack || at > 1.5 || (owner && f.cgroup && !is_within(*f.cgroup, *owner))) continue;
    first = std::min(first, at);
    stalled += f.stalled;
    stalls += f.stalls;
    reclaimed += f.reclaimed;
  }
  const PressureFact* pressure = nullptr;
  for (const PressureFact& p : e.pressure)
    if (p.time <= e.told.episode.time && (p.cgroup ? is_owner(e, p.cgroup) : !e.told.episode.limit_cgroup))
      pressure = &p;
  if (stalled < Seconds(0.05) &&
      !(pressure && pressure->pressure.some && pressure->pressure.some->avg10 >= 5))
    return std::nullopt;
  Finding out;
  out.text =
      fmt::format("Before it died it was slow: its tasks stood still for {} in all, waiting for memory.",
                  format_duration(stalled));
  if (stalls)
    out.evidence.push_back(fmt::format("{} waits in the last {}, {} reclaimed", stalls,
                                       format_duration(Seconds(std::max(1.0, -first))),
                                       format_size(reclaimed)));
  if (pressure && pressure->pressure.some)
    out.evidence.push_back(fmt::format("memory pressure {:.0f} % of the 10 s to {}",
                                       pressure->pressure.some->avg10, ago(-from_kill(e, pressure->time))));
  if (stalled < Seconds(0.05)) out.text = "Before it died it was slow: its tasks waited for memory.";
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
  if (e.earlier.empty()) return std::nullopt;
  std::size_t n = e.earlier.size();
  const Episode& last = e.earlier.back();
  double since = -from_kill(e, last.time);
  Finding out;
  out.text =
      fmt::format("It is not the first time: {} earlier kill{} of this limit or command, the last {} before.",
                  n, n == 1 ? "" : "s", format_duration(Seconds(since)));
  for (std::size_t i = n > 3 ? n - 3 : 0; i < n; ++i) {
    const Episode& before = e.earlier[i];
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

// ---- prevention
// ---------------------------------------------------------------------------------------------

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
  return Finding{
      fmt::format("An alert would have left {} to save the work:", format_duration(Seconds(best->lead))),
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
    return Finding{fmt::format("A higher limit only delays a leak: at {} one of {} lasts {} longer.",
                               format_rate({rate}), format_size(twice),
                               format_duration(Seconds(limit->as_double() / rate))),
                   {}};
  }
  if (!rise.sudden && rise.cause != Verdict::spikes) return std::nullopt;
  Bytes more = rise.to - rise.from;
  Finding out;
  out.text =
      fmt::format("Look at what ran at {}: it took {} and wanted more. {} leaves room for {} above {}.",
                  clock_at(e, -rise.took.count()), format_size(more), format_size(*limit),
                  format_size(std::max(Bytes{}, *limit - rise.from)), format_size(rise.from));
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
    if (sizes.size() < kLeastWorkers || !limit) continue;
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

std::vector<Finding> make_findings(const PostMortem& r) {
  std::vector<Finding> out;
  for (auto* find : {how_it_rose, who_grew, where_it_was, what_kind, whose_limit, group_kill, was_foreseen,
                     how_it_stalled, who_asked, how_often})
    if (auto found = find(r)) out.push_back(*std::move(found));
  return out;
}

std::vector<Finding> make_prevention(const PostMortem& r) {
  std::vector<Finding> out;
  for (auto* find : {an_alert, a_limit, fewer_workers, a_limit_of_its_own})
    if (auto found = find(r)) out.push_back(*std::move(found));
  return out;
}

std::vector<std::string> make_unknown(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  const Episode& told = e.told.episode;
  std::vector<std::string> out;
  if (e.source != EpisodeSource::live)
    out.push_back(fmt::format("What led to it: oomcast did not run; all of this is from {}.",
                              e.source == EpisodeSource::kmsg      ? "the kernel log"
                              : e.source == EpisodeSource::journal ? "the journal"
                                                                   : "a log file"));
  else if (!r.rise)
    out.push_back(fmt::format("What led to it: no sample of {} before the kill was kept.", owner_name(told)));
  else if (r.rise->seen < Seconds(30))
    out.push_back(fmt::format("What was before: the curve begins {}.", ago(r.rise->seen)));
  if (e.source == EpisodeSource::live && !told.memory)
    out.push_back(
        "Where the memory was exactly at the kill: the kernel log has no statistics of it (it prints 10 "
        "reports in "
        "5 s at most).");
  if (told.tasks.empty())
    out.push_back("The kernel's table of processes: the log has none of this kill.");
  else if (told.tasks_listed > told.tasks.size())
    out.push_back(fmt::format("{} smaller processes of the kernel's table of {}: only the largest are kept.",
                              told.tasks_listed - told.tasks.size(), told.tasks_listed));
  if (!r.culprit) out.push_back("Who grew: no process was seen to grow before the kill.");
  if (told.victims.empty()) out.push_back("Who was killed: the log names no victim.");
  if (!told.trigger) out.push_back("Whose request could not be met.");
  std::size_t unseen = 0;
  for (const Victim& v : told.victims) unseen += !v.killed;
  if (e.source == EpisodeSource::live && unseen)
    out.push_back(
        fmt::format("Whether {} ended: the exit was not seen.", unseen == 1 ? "the victim" : "all victims"));
  if (!e.complete)
    out.push_back("What came after the kill: oomcast ended with it, or has not written it yet.");
  const EpisodeChecks& c = told.checks;
  if (c.mark_victim && c.kmsg && *c.mark_victim != *c.kmsg)
    out.push_back(fmt::format("Why the sources differ: the kernel's event counts {} victims, its log {}.",
                              *c.mark_victim, *c.kmsg));
  std::uint64_t lost = 0;
  std::string reasons;
  for (const auto& [reason, count] : e.lost) {
    lost += count;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, displayable(reason));
  }
  if (lost) out.push_back(fmt::format("What was lost in this run: {}.", reasons));
  if (e.run.lost) out.push_back(fmt::format("{} lines that the disk was too slow for.", e.run.lost));
  return out;
}

}  // namespace oomcast
