// Alert commands waiting for a free slot.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "forecast/alerts.h"
#include "stream/facts.h"

namespace oomcast {

/// Bounded, and fair between subtrees (the parent directories of the alerts' cgroups): a tenant with
/// thousands of alerts cannot keep another tenant's command from running. When full, the newest entry of the
/// subtree with most entries is dropped.
class ActionQueue {
 public:
  static constexpr std::size_t kMaxWaiting = 64;
  struct Waiting {
    Alert alert;
    AlertFact fact;  // without actions
  };

  void add(Waiting waiting);
  /// The oldest entry whose alert is still true, from another subtree than the last one if possible. Entries
  /// found no longer true on the way are dropped.
  std::optional<Waiting> next(const std::function<bool(const Alert&)>& still_true);
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }

 private:
  std::deque<Waiting> waiting_;
  std::optional<std::string> last_part_;
};

}  // namespace oomcast
