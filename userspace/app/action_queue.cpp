#include "app/action_queue.h"

#include <algorithm>
#include <map>
#include <utility>

namespace oomcast {
namespace {

std::string part_of_tree(const Alert& alert) {
  return alert.of.cgroup ? alert.of.cgroup->path.substr(0, alert.of.cgroup->path.rfind('/')) : std::string();
}

}  // namespace

void ActionQueue::add(Waiting waiting) {
  waiting_.push_back(std::move(waiting));
  if (waiting_.size() <= kMaxWaiting) return;
  std::map<std::string, std::ptrdiff_t> parts;
  for (const Waiting& w : waiting_) ++parts[part_of_tree(w.alert)];
  auto most = std::ranges::max_element(parts, {}, [](const auto& part) { return part.second; });
  auto newest = std::find_if(waiting_.rbegin(), waiting_.rend(),
                             [&](const Waiting& w) { return part_of_tree(w.alert) == most->first; });
  waiting_.erase(std::next(newest).base());
}

std::optional<ActionQueue::Waiting> ActionQueue::next(const std::function<bool(const Alert&)>& still_true) {
  while (!waiting_.empty()) {
    auto at =
        std::ranges::find_if(waiting_, [&](const Waiting& w) { return part_of_tree(w.alert) != last_part_; });
    if (at == waiting_.end()) at = waiting_.begin();
    Waiting chosen = std::move(*at);
    waiting_.erase(at);
    if (!still_true(chosen.alert)) continue;
    last_part_ = part_of_tree(chosen.alert);
    return chosen;
  }
  return std::nullopt;
}

}  // namespace oomcast
