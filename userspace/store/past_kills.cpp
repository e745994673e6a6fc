#include "store/past_kills.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/logged_kill.h"

namespace oomcast {
namespace {

using std::chrono::milliseconds;

// The clock of the kernel's log is near CLOCK_MONOTONIC, but not disciplined: it runs away from it by up to
// this part of the time since the boot.
constexpr std::int64_t kLogDrift = 10'000;

bool same_name(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || a == b;
}

bool same_sizes(const Victim& a, const Victim& b) {
  return a.anon && a.total_vm && a.anon == b.anon && a.file == b.file && a.total_vm == b.total_vm;
}

// Who cites a kill, below its log or above it, shortens the line to the process.
bool cites(const PastKill& kill, const Victim& named) {
  bool has_size = named.anon || named.file || named.total_vm;
  return !kill.time && !kill.since_boot && kill.host.empty() && !has_size && !named.process.comm.empty();
}

bool within(Nanos apart, Nanos allowed) {
  return apart <= allowed && apart >= -allowed;
}

bool on_one_clock(const PastKill& live, const PastKill& logged) {
  return live.mono && logged.since_boot &&
         within(*live.mono - *logged.since_boot, kSameKill + *logged.since_boot / kLogDrift);
}

// Within a boot its clocks decide: the time of day that was told moves when the clock is set and while the
// machine is suspended.
bool same_time(const PastKill& a, const PastKill& b, bool sizes_agree) {
  bool boots_known = a.boot_id && b.boot_id, same_boot = boots_known && *a.boot_id == *b.boot_id;
  if (boots_known && !same_boot) return false;
  if (a.since_boot && b.since_boot) {
    if (!within(*a.since_boot - *b.since_boot, milliseconds(1))) return false;
    if (same_boot || !a.time || !b.time) return true;
  }
  if (same_boot && (on_one_clock(a, b) || on_one_clock(b, a))) return true;
  if (a.time && b.time) return within(*a.time - *b.time, kSameKill + a.error + b.error);
  return sizes_agree;
}

bool same_kill(const PastKill& a, const PastKill& b) {
  if (are_different_hosts(a.host, b.host)) return false;
  for (const Victim& v : a.episode.victims)
    for (const Victim& w : b.episode.victims)
      if (v.tid == w.tid && same_name(v.process.comm, w.process.comm) &&
          (cites(a, v) || cites(b, w) || same_time(a, b, same_sizes(v, w))))
        return true;
  const auto &s = a.episode.trigger, &t = b.episode.trigger;
  bool victimless = a.episode.victims.empty() || b.episode.victims.empty();
  bool numbered = s && t && (s->id.tgid != 0 || (a.since_boot && b.since_boot));
  return victimless && numbered && s->id.tgid == t->id.tgid && same_name(s->comm, t->comm) &&
         same_time(a, b, false);
}

template <typename T>
void fill(std::optional<T>& to, const std::optional<T>& from) {
  if (!to) to = from;
}

void fill(Victim& to, const Victim& from) {
  fill(to.anon, from.anon);
  fill(to.file, from.file);
  fill(to.shmem, from.shmem);
  fill(to.swap, from.swap);
  fill(to.pgtables, from.pgtables);
  fill(to.total_vm, from.total_vm);
  fill(to.oom_score_adj, from.oom_score_adj);
  fill(to.process.uid, from.process.uid);
  if (to.process.comm.empty()) to.process.comm = from.process.comm;
  if (!to.process.cgroup) to.process.cgroup = from.process.cgroup;
  to.logged = to.logged || from.logged;
}

// A store keeps fewer rows of the table than a log has, but knows command lines and cgroups of them.
void fill(Episode::Tasks& to, const Episode::Tasks& from) {
  fill(to.rss, from.rss);
  fill(to.swap, from.swap);
  if (to.rows.size() >= from.rows.size()) return;
  std::vector<TaskAtKill> kept = std::exchange(to.rows, from.rows);
  to.listed = std::max(to.listed, from.listed);
  for (TaskAtKill& task : kept) {
    auto row = std::ranges::find(to.rows, task.process.id.tgid,
                                 [](const TaskAtKill& t) { return t.process.id.tgid; });
    if (row != to.rows.end()) row->process = std::move(task.process);
  }
}

void fill_episode(Episode& to, const Episode& from) {
  fill(to.scope, from.scope);
  if (!to.limit_cgroup) to.limit_cgroup = from.limit_cgroup;
  fill(to.usage, from.usage);
  fill(to.limit, from.limit);
  fill(to.trigger, from.trigger);
  fill(to.request.order, from.request.order);
  fill(to.request.gfp, from.request.gfp);
  fill(to.group_kill, from.group_kill);
  fill(to.checks.kmsg, from.checks.kmsg);
  fill(to.memory, from.memory);
  if (to.memory && from.memory && to.memory->parts.empty()) to.memory->parts = from.memory->parts;
  fill(to.machine, from.machine);
  fill(to.tasks, from.tasks);
  for (const Victim& v : from.victims) {
    auto known = std::ranges::find(to.victims, v.tid, &Victim::tid);
    if (known != to.victims.end())
      fill(*known, v);
    else
      to.victims.push_back(v);
  }
  if (to.also_killed.empty()) to.also_killed = from.also_killed;
}

void join(PastKill& to, PastKill from) {
  to.sources.insert(to.sources.end(), from.sources.begin(), from.sources.end());
  std::ranges::sort(to.sources);
  to.sources.erase(std::unique(to.sources.begin(), to.sources.end()), to.sources.end());
  for (std::string& file : from.files)
    if (std::ranges::find(to.files, file) == to.files.end()) to.files.push_back(std::move(file));
  to.kept = to.kept || from.kept;
  to.kept_confirmed = to.kept_confirmed || from.kept_confirmed;
  if (to.episode.id.empty()) to.episode.id = from.episode.id;
  // Who wrote a line of a text log can add a victim to a kill that was.
  if (to.confirmed && !from.confirmed) return;
  fill_episode(to.episode, from.episode);
  if (!to.time || (from.time && !to.run && from.error < to.error)) {
    to.time = from.time;
    to.error = from.error;
  }
  fill(to.since_boot, from.since_boot);
  fill(to.mono, from.mono);
  fill(to.boot_id, from.boot_id);
  if (to.host.empty()) to.host = std::move(from.host);
  to.no_victim = to.no_victim && from.no_victim;
}

}  // namespace

void complete(Episode& to, const Episode& from) {
  fill_episode(to, from);
}

std::optional<PastKill> past_kill(const LoggedOom& oom, EpisodeSource source) {
  auto episode = logged_kill(oom.dump);
  if (!episode) return std::nullopt;
  PastKill out;
  out.episode = *std::move(episode);
  out.sources = {source};
  out.confirmed = is_confirmed(source);
  out.since_boot = oom.since_boot;
  out.boot_id = oom.boot_id;
  out.host = oom.host;
  out.no_victim = oom.dump.no_victim.has_value() && out.episode.victims.empty();
  if (oom.wall && !oom.wall->yearless) set_time(out, *oom.wall);
  return out;
}

void set_time(PastKill& kill, const WallStamp& stamp) {
  kill.time = WallTime(stamp.since_epoch);
  kill.error = stamp.error;
  kill.episode.time = MonoTime(stamp.since_epoch);
  if (kill.episode.victims.size() == 1) kill.episode.victims[0].time = kill.episode.time;
}

std::string name_of(const PastKill& kill) {
  if (kill.time) return episode_id(*kill.time, kill.episode);
  std::uint32_t pid = kill.episode.victims.empty() ? 0 : kill.episode.victims.front().process.id.tgid;
  return kill.since_boot ? fmt::format("boot+{:.3f}s-{}", Seconds(*kill.since_boot).count(), pid)
                         : fmt::format("unknown-{}", pid);
}

std::vector<PastKill> each_once(std::vector<PastKill> kills) {
  // The best comes first, and takes the others in.
  std::ranges::stable_sort(kills, {}, [](const PastKill& kill) {
    return std::tuple(kill.sources.empty() ? EpisodeSource::file : kill.sources.front(), !kill.confirmed,
                      !kill.kept);
  });
  std::vector<PastKill> out;
  std::multimap<std::uint32_t, std::size_t> by_task;  // → index in `out`
  auto tasks = [](const PastKill& kill) {
    std::vector<std::uint32_t> ids;
    for (const Victim& v : kill.episode.victims) ids.push_back(v.tid);
    if (kill.episode.trigger) ids.push_back(kill.episode.trigger->id.tgid);
    return ids;
  };
  for (PastKill& kill : kills) {
    std::optional<std::size_t> same;
    constexpr int most_alike = 64;  // a log of one pid over and over is not worth more
    for (std::uint32_t id : tasks(kill)) {
      int alike = 0;
      for (auto [at, end] = by_task.equal_range(id); at != end && !same && alike < most_alike; ++at, ++alike)
        if (same_kill(out[at->second], kill)) same = at->second;
    }
    std::size_t index = same.value_or(out.size());
    std::vector<std::uint32_t> ids = tasks(kill);
    if (same)
      join(out[index], std::move(kill));
    else
      out.push_back(std::move(kill));
    for (std::uint32_t id : ids) {
      auto [at, end] = by_task.equal_range(id);
      if (std::none_of(at, end, [&](const auto& known) { return known.second == index; }))
        by_task.emplace(id, index);
    }
  }
  // Many logs have whole seconds only: of kills in one second the newest stands last in its log.
  std::ranges::reverse(out);
  std::ranges::stable_sort(out, [](const PastKill& a, const PastKill& b) {
    if (a.time != b.time) return a.time > b.time;  // nullopt is the least
    return a.since_boot > b.since_boot;
  });
  return out;
}

bool are_different_hosts(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == b) return false;
  std::size_t of_a = a.find('.'), of_b = b.find('.');
  bool both_whole = of_a != std::string::npos && of_b != std::string::npos;
  return both_whole || a.substr(0, of_a) != b.substr(0, of_b);
}

bool is_of_another_host(const PastKill& kill, const std::string& own) {
  return are_different_hosts(kill.host, own);
}

bool are_of_one_host(const PastKill& a, const PastKill& b, const std::string& own) {
  return !are_different_hosts(a.host.empty() ? own : a.host, b.host.empty() ? own : b.host);
}

std::optional<Bytes> own_memory(const Victim& victim) {
  if (!victim.anon || !victim.shmem) return victim.anon;  // before 4.5 shared memory is in the file pages
  return *victim.anon + *victim.shmem;
}

const Victim* largest_victim(const Episode& episode) {
  auto largest = std::ranges::max_element(episode.victims, {}, [](const Victim& v) { return own_memory(v); });
  return largest == episode.victims.end() ? nullptr : &*largest;
}

}  // namespace oomcast
