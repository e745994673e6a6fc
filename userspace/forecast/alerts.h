// Rules against what is known of every cgroup: when one comes true, and when it has been over long enough to
// come true again. Pure: the same looks at the same times give the same alerts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "forecast/alert_rule.h"
#include "forecast/forecast.h"
#include "model/facts.h"

namespace oomcast {

/// What is known of a cgroup, of a process with its descendants, of the host, or of a card. Sizes as levels
/// are meant of the host's memory: of a card, rules on parts, growth and deadlines are looked at.
struct AlertInput {
  bool host = false;
  CgroupPtr cgroup;                   // of the host: the root; null: not known
  std::optional<ProcessRef> process;  // the first of a process tree
  std::optional<Bytes> level;         // what nothing can take back
  std::optional<Bytes> limit;         // what `level` runs against
  CgroupPtr limit_cgroup;
  std::optional<Forecast> forecast;
  std::optional<GpuUuid> device = {};  // a card
};

/// A rule came true.
struct Alert {
  AlertRule rule;
  AlertInput of;
  std::string message;  // one sentence, safe to show
  /// false: the action was run for a cgroup above because of the same memory.
  bool acts = true;
};

/// A rule is told once per subject and episode: it ends when the value has been below 95 % of a level, 80 %
/// of a growth, above 120 % of an eta or out of sight, or the forecast's own alert has been off, for
/// kClearFor and at least as long as the rule's `for`. What is not known neither fires nor ends anything.
///
/// Memory counts in every cgroup above, so a rule comes true for several because of the same memory. It is
/// the same if the inner one stands for half of the outer one (of its level; for growth, eta and forecast of
/// its growth) and both come true within kSameStory, or for nine tenths at the same limit, whenever. Then the
/// outer is not told after the inner; the inner, being the more exact news, is told after the outer but does
/// not act again; at the same look the inner comes first.
class AlertEngine {
 public:
  static constexpr Nanos kClearFor = std::chrono::seconds(30);
  static constexpr Nanos kSameStory = std::chrono::minutes(10);

  explicit AlertEngine(std::vector<AlertRule> rules) : rules_(std::move(rules)) {}

  /// Everything in scope as of `now`; what was there before and is not now is forgotten.
  std::vector<Alert> check(MonoTime now, std::span<const AlertInput> all);
  /// One subject between two looks: for rules on levels only.
  std::vector<Alert> check_one(MonoTime now, const AlertInput& one);
  /// The limit of `owner` was met: what was foreseen below it has happened, and comes true anew. A level may
  /// stand where it was.
  void on_kill(const CgroupRef& owner);
  /// It came true, and is not over or about to be.
  bool is_still_true(const Alert& alert) const;

 private:
  struct Key {
    std::size_t rule;
    bool host;
    std::uint64_t cgroup;  // inode
    TaskId process;
    std::optional<GpuUuid> device;
    auto operator<=>(const Key&) const = default;
  };
  struct State {
    MonoTime true_since{}, active_since{};
    std::optional<MonoTime> false_since;
    bool active = false, acted = false;
    AlertInput newest;
    std::uint64_t looked = 0;
  };
  using States = std::map<Key, State>;

  static Key key_of(std::size_t rule, const AlertInput& input);
  void observe(MonoTime now, std::size_t rule, const AlertInput& input, std::vector<States::iterator>& due);
  bool is_of_outer(std::size_t rule, const State& inner, const State& outer) const;
  std::vector<Alert> publish(MonoTime now, std::vector<States::iterator> due);

  std::vector<AlertRule> rules_;
  States states_;  // only what is true, or was true and is not over
  std::uint64_t looks_ = 0;
};

}  // namespace oomcast
