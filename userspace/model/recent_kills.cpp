#include "model/recent_kills.h"

#include <algorithm>

#include "model/limit_owner.h"
#include "model/recent.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxKept = 512;
constexpr Nanos kAtOnce = OomDecisions::kSameMoment;

bool same_thread(const wire::Task& a, const wire::Task& b) {
  return a.id == b.id && a.tid == b.tid;
}

}  // namespace

bool RecentKills::add(const wire::KernelKill& kill) {
  bool again = std::any_of(kills_.rbegin(), kills_.rend(), [&](const wire::KernelKill& before) {
    return same_thread(before.victim, kill.victim) && before.sender.tid == kill.sender.tid &&
           kill.time - before.time < kAtOnce;
  });
  remember(kills_, kill, kMaxKept);
  return again;
}

void RecentKills::add(const wire::Exit& exit) {
  remember(exits_, exit, kMaxKept);
}

bool RecentKills::precede(const wire::OomMark& mark) const {
  return std::any_of(kills_.rbegin(), kills_.rend(), [&](const wire::KernelKill& kill) {
    return same_thread(kill.victim, mark.victim) && kill.sender.tid == mark.trigger.tid &&
           kill.time <= mark.time && mark.time - kill.time < kAtOnce;
  });
}

std::optional<bool> RecentKills::ended_by_sigkill(const TaskId& id) const {
  auto at =
      std::find_if(exits_.rbegin(), exits_.rend(), [&](const wire::Exit& e) { return e.task.id == id; });
  return at == exits_.rend() ? std::nullopt : std::optional(at->by_sigkill());
}

std::vector<wire::Task> RecentKills::with_memory(std::uint64_t mm_key, std::uint32_t killer_tid,
                                                 MonoTime when) const {
  std::vector<wire::Task> out;
  if (!mm_key) return out;
  for (const wire::KernelKill& kill : kills_)
    if (kill.memory && kill.memory->mm_key == mm_key && kill.sender.tid == killer_tid &&
        kill.time >= when - kAtOnce && kill.time <= when + kAtOnce)
      out.push_back(kill.victim);
  return out;
}

}  // namespace oomcast
