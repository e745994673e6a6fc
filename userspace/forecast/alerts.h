// Evaluates alert rules for every subject: when a rule fires, and when it has been clear for long enough to fire
// again. Pure: the same inputs at the same times give the same alerts.
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

/// State of a cgroup, a process with its descendants, the host, or a card. A level given as a size means host
/// memory; for a card only rules on fractions, growth and deadlines are checked.
struct AlertInput {
  bool host = false;
  CgroupPtr cgroup;                   // the root for the host; null: not known
  std::optional<ProcessRef> process;  // the first of a process tree
  std::optional<Bytes> level;         // unreclaimable
  std::optional<Bytes> limit;         // what `level` runs against
  CgroupPtr limit_cgroup;
  std::optional<Forecast> forecast;
  std::optional<GpuUuid> device = {};  // a card
};

/// A rule that fired.
struct Alert {
  AlertRule rule;
  AlertInput of;
  std::string message;  // one sentence, safe to show
  /// false: the action already ran for an ancestor cgroup because of the same memory.
  bool acts = true;
};

/// A rule fires once per subject and episode. The episode ends when, for kClearFor and at least the rule's
/// `for`, the value has been below 95 % of a level, below 80 % of a growth, above 120 % of an eta or without an
/// eta, or the forecast's own alert has been off. An unknown value neither fires nor ends anything.
///
/// Memory is charged to every ancestor, so the same memory can fire a rule in several cgroups. It counts as the
/// same if the inner cgroup makes up half of the outer one (of its level; for growth, eta and forecast: of its
/// growth) and both fire within kSameStory, or if it makes up nine tenths under the same limit, at any time. The
/// outer alert is then suppressed after the inner one; the inner one, which is more precise, is still published
/// after the outer but does not act again. In the same check the inner one comes first.
class AlertEngine {
 public:
  static constexpr Nanos kClearFor = std::chrono::seconds(30);
  static constexpr Nanos kSameStory = std::chrono::minutes(10);

  explicit AlertEngine(std::vector<AlertRule> rules) : rules_(std::move(rules)) {}

  /// `all`: everything in scope as of `now`; subjects missing from it are forgotten.
  std::vector<Alert> check(MonoTime now, std::span<const AlertInput> all);
  /// One subject between two full checks: rules on levels only.
  std::vector<Alert> check_one(MonoTime now, const AlertInput& one);
  /// `owner` hit its limit: what was forecast below it has happened, so those rules may fire again. A level rule
  /// does not, since the level may not have moved.
  void on_kill(const CgroupRef& owner);
  /// The alert fired and has not begun to clear.
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
  States states_;  // only rules that are true, or have fired and not cleared yet
  std::uint64_t looks_ = 0;
};

}  // namespace oomcast
