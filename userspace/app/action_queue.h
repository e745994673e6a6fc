// Commands of alerts for which there was no room when they came true.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "forecast/alerts.h"
#include "stream/facts.h"

namespace oomcast {

/// Bounded, and fair to the parts of the tree, which are the directories that the alerts' cgroups are in:
/// whoever has thousands of cgroups come true keeps nobody else's command from being run. Of a full one the
/// newest goes of the part that has most.
class ActionQueue {
 public:
  static constexpr std::size_t kMaxWaiting = 64;
  struct Waiting {
    Alert alert;
    AlertFact fact;  // without actions
  };

  void add(Waiting waiting);
  /// The oldest of another part than the last one, if there is any, of those that are still true; the rest of
  /// those that are asked about is forgotten.
  std::optional<Waiting> next(const std::function<bool(const Alert&)>& still_true);
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }

 private:
  std::deque<Waiting> waiting_;
  std::optional<std::string> last_part_;
};

}  // namespace oomcast
