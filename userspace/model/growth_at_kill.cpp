#include "model/growth_at_kill.h"

#include <algorithm>
#include <cmath>

#include "model/process_ref.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxGrew = 5;
constexpr Nanos kGrowthWindow = std::chrono::seconds(60);
constexpr Nanos kOneMoment = std::chrono::milliseconds(50);

}  // namespace

std::vector<GrewProcess> GrowthAtKill::grew_most(std::optional<std::uint64_t> limit_inode, MonoTime at) {
  if (!moment_ || std::chrono::abs(at - *moment_) > kOneMoment) {
    moment_ = at;
    sampled_.clear();
    tasks_.for_each([&](const TaskState& task) {
      if (task.rss.points().size() >= 2) sampled_.push_back(task.id);
    });
  }
  std::vector<GrewProcess> out;
  for (const TaskId& id : sampled_) {
    const TaskState* task = tasks_.find(id);
    if (!task || (task->died && *task->died < at)) continue;  // the dead have given theirs back
    if (limit_inode && !(task->cgroup && cgroups_.is_below(*task->cgroup, *limit_inode))) continue;
    auto points = task->rss.since(at - kGrowthWindow);
    while (!points.empty() && points.back().time > at) points = points.first(points.size() - 1);
    if (points.size() < 2) continue;
    Bytes grew = points.back().value - points.front().value;
    if (grew > Bytes{})
      out.push_back({process_ref(tasks_, cgroups_, id), grew,
                     seconds_between(points.front().time, points.back().time)});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.grew > b.grew; });
  std::erase_if(out, [&](const GrewProcess& g) { return g.grew.count < out.front().grew.count / 20; });
  if (out.size() > kMaxGrew) out.resize(kMaxGrew);
  return out;
}

}  // namespace oomcast
