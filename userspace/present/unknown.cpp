// What is unknown about a kill, and why.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/escape.h"
#include "present/findings_parts.h"
#include "present/rows.h"
#include "stream/loss_words.h"
#include "stream/text.h"

namespace oomcast {

namespace {

// The first process started below the limit, and how long before the kill. nullopt: a global OOM kill, or no
// start time is known.
std::optional<std::pair<const ProcessRef*, Seconds>> oldest_below_limit(const PostMortem& r) {
  const Episode& told = r.episode.told.episode;
  if (!told.limit_cgroup) return std::nullopt;
  ClockMap clock = clock_of(r.episode.run);
  std::optional<std::pair<const ProcessRef*, Seconds>> out;
  for (const PostMortemProcess& p : r.processes) {
    const ProcessRef& process = p.process;
    if (!process.id.start_ticks || !process.cgroup || !is_within(*process.cgroup, *told.limit_cgroup))
      continue;
    Seconds ran(clock.wall(told.time) - clock.wall_of_start(process.id));
    if (!out || ran > out->second) out = {&process, ran};
  }
  return out;
}

// The curve is complete for processes that started with it or later.
void before_the_curve(const PostMortem& r, std::vector<std::string>& out) {
  constexpr double kFirstSample = 2;  // s, in which a new process is sampled
  // After an earlier kill the cgroup begins a new life.
  auto is_in_window = [&](const Episode& before) { return before.time >= r.episode.from; };
  if (std::ranges::any_of(r.episode.before.at_limit, is_in_window)) return;
  std::string more;
  if (auto oldest = oldest_below_limit(r)) {
    double ran = oldest->second.count(), seen = r.rise->seen.count();
    if (ran <= seen + kFirstSample + Seconds(r.episode.run.interval).count()) return;
    more = fmt::format("; {} had run for {} by then", short_name_of(*oldest->first),
                       format_duration(Seconds(ran - seen)));
  }
  out.push_back(fmt::format("What was before: the curve begins {}{}.", ago(r.rise->seen), more));
}

void before_the_kill(const PostMortem& r, std::vector<std::string>& out) {
  const StoredEpisode& e = r.episode;
  if (!e.logged.dated)
    out.push_back(
        "The time of day: the log only counts from a boot. dmesg -T, dmesg --time-format iso and journalctl "
        "tell it.");
  if (e.source != EpisodeSource::live)
    out.push_back(fmt::format("What led to it: oomcast did not run; all of this is from {}.",
                              e.source == EpisodeSource::kmsg      ? "the kernel log"
                              : e.source == EpisodeSource::journal ? "the journal"
                                                                   : "a log file"));
  else if (!r.rise && e.unread.empty())
    out.push_back(
        fmt::format("What led to it: no sample of {} before the kill was kept.", owner_name(e.told.episode)));
  else if (r.rise && r.rise->seen < Seconds(30))
    before_the_curve(r, out);
}

void at_the_kill(const PostMortem& r, std::vector<std::string>& out) {
  const StoredEpisode& e = r.episode;
  const Episode& told = e.told.episode;
  if (e.source == EpisodeSource::live && !told.memory)
    out.push_back(
        "Where the memory was exactly at the kill: the kernel log has no statistics of it (it prints 10 "
        "reports in 5 s at most).");
  if (!e.unread.empty()) {
    std::string parts;
    for (const std::string& part : e.unread) parts += (parts.empty() ? "" : "; ") + displayable(part);
    out.push_back(fmt::format("What of the store could not be read: {}.", parts));
  }
  if (told.tasks.rows.empty())
    out.push_back("The kernel's table of processes: the log has none of this kill.");
  else if (told.tasks.listed > told.tasks.rows.size())
    out.push_back(fmt::format("{} smaller processes of the kernel's table of {}: only the largest are kept.",
                              told.tasks.listed - told.tasks.rows.size(), told.tasks.listed));
  if (!r.culprit)
    out.push_back(e.unread.empty() ? "Who grew: no process was seen to grow before the kill." : "Who grew.");
  if (told.victims.empty()) out.push_back("Who was killed: the log names no victim.");
  if (!told.trigger) out.push_back("Whose request could not be met.");
  if (!told.request.order && !told.request.gfp)
    out.push_back("What was asked for (order, gfp): the kernel log does not tell.");
  if (told.scope && *told.scope != OomScope::memcg && !told.machine)
    out.push_back("Which zone or NUMA node ran out: the kernel log does not tell.");
}

void after_the_kill(const StoredEpisode& e, std::vector<std::string>& out) {
  const Episode& told = e.told.episode;
  std::size_t unseen = 0;
  for (const Victim& v : told.victims) unseen += !v.killed;
  if (e.source == EpisodeSource::live && unseen)
    out.push_back(fmt::format("Whether {} ended: the exit was not seen.",
                              told.victims.size() == 1 ? "the victim"
                              : unseen == told.victims.size()
                                  ? "the victims"
                                  : fmt::format("{} of {} victims", unseen, told.victims.size())));
  if (!e.complete)
    out.push_back("What came after the kill: oomcast ended with it, or has not written it yet.");
}

}  // namespace

std::vector<std::string> make_unknown(const PostMortem& r) {
  const StoredEpisode& e = r.episode;
  std::vector<std::string> out;
  before_the_kill(r, out);
  at_the_kill(r, out);
  after_the_kill(e, out);
  const EpisodeChecks& c = e.told.episode.checks;
  if (c.mark_victim && c.kmsg && *c.mark_victim != *c.kmsg)
    out.push_back(fmt::format("Why the sources differ: the kernel's event counts {} victims, its log {}.",
                              *c.mark_victim, *c.kmsg));
  if (e.left_out.cgroups)
    out.push_back(fmt::format("The curves of {}{} smaller cgroups: those of the largest are read.",
                              e.left_out.cgroups, e.left_out.more ? " or more" : ""));
  for (const auto& [reason, count] : e.lost)
    if (count) out.push_back(fmt::format("Lost in this run: {}.", describe_loss(reason, count)));
  if (e.run.lost)
    out.push_back(fmt::format("Lost in this run: {}.", describe_loss("not_stored", e.run.lost)));
  return out;
}

}  // namespace oomcast
