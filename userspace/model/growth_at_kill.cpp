#include "model/growth_at_kill.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "model/process_ref.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxGrew = 5;
constexpr std::size_t kMaxFound = 32;  // the order may have changed meanwhile
constexpr Nanos kGrowthWindow = std::chrono::seconds(60);
constexpr Nanos kOneMoment = std::chrono::milliseconds(50);

// How a process reached its last sample before `at`; none: it did not grow, or it is unknown.
struct Growth {
  Bytes grew;
  Seconds over{};
};
std::optional<Growth> growth_of(const TaskState& task, MonoTime at) {
  auto points = task.rss.since(at - kGrowthWindow);
  while (!points.empty() && points.back().time > at) points = points.first(points.size() - 1);
  if (points.size() < 2 || points.back().value <= points.front().value) return std::nullopt;
  return Growth{points.back().value - points.front().value,
                seconds_between(points.front().time, points.back().time)};
}

}  // namespace

void GrowthAtKill::collect(MonoTime at) {
  moment_ = at;
  std::vector<std::pair<Bytes, TaskId>> all;
  tasks_.for_each([&](const TaskState& task) {
    if (auto growth = growth_of(task, at)) all.emplace_back(growth->grew, task.id);
  });
  std::sort(all.begin(), all.end(), std::greater<>());
  grown_.clear();
  for (const auto& [grew, id] : all) grown_.push_back(id);
}

std::vector<GrewProcess> GrowthAtKill::grew_most(std::optional<std::uint64_t> limit_inode, MonoTime at) {
  if (!moment_ || std::chrono::abs(at - *moment_) > kOneMoment) collect(at);
  std::optional<CgroupTree::Below> below;
  if (limit_inode) below.emplace(cgroups_, *limit_inode);
  std::vector<std::pair<Growth, TaskId>> found;
  for (const TaskId& id : grown_) {
    if (found.size() >= kMaxFound) break;
    const TaskState* task = tasks_.find(id);
    if (!task || (task->died && *task->died < at)) continue;  // freed already
    if (below && !(task->cgroup && (*below)(*task->cgroup))) continue;
    if (auto growth = growth_of(*task, at)) found.emplace_back(*growth, id);
  }
  std::ranges::sort(found, std::greater<>(), [](const auto& f) { return f.first.grew; });
  std::vector<GrewProcess> out;
  for (const auto& [growth, id] : found) {
    if (out.size() >= kMaxGrew || growth.grew.count < found.front().first.grew.count / 20) break;
    out.push_back({process_ref(tasks_, cgroups_, id), growth.grew, growth.over});
  }
  return out;
}

}  // namespace oomcast
