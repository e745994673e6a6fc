#include "forecast/alerts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/escape.h"
#include "model/scope.h"

namespace oomcast {
namespace {

enum class Truth { unknown, no, between, yes };

Truth above(double value, double threshold, double clear) {
  return value > threshold ? Truth::yes : value < clear * threshold ? Truth::no : Truth::between;
}

Truth test(const AlertRule& rule, const AlertInput& in) {
  // A forecast without the requested number means no, unless it is too early for a verdict.
  auto absent = [&] { return in.forecast->verdict == Verdict::unknown ? Truth::unknown : Truth::no; };
  switch (rule.quantity) {
    case Quantity::level:
      if (in.device) return Truth::unknown;
      return in.level ? above(in.level->as_double(), rule.threshold, 0.95) : Truth::unknown;
    case Quantity::share:
      if (!in.level || !in.limit || in.limit->count <= 0) return Truth::unknown;
      return above(in.level->as_double() / in.limit->as_double(), rule.threshold, 0.95);
    case Quantity::growth:
      if (!in.forecast) return Truth::unknown;
      return in.forecast->growth ? above(in.forecast->growth->rate.value, rule.threshold, 0.8) : absent();
    case Quantity::eta:
      if (!in.forecast) return Truth::unknown;
      if (in.forecast->evidence.thrashing) return Truth::yes;  // it is at its limit
      if (!in.forecast->eta) return absent();
      if (in.forecast->eta->count() < rule.threshold) return Truth::yes;
      return in.forecast->eta->count() > 1.2 * rule.threshold ? Truth::no : Truth::between;
    case Quantity::forecast:
      if (!in.forecast) return Truth::unknown;
      return in.forecast->alert ? Truth::yes : absent();
  }
  return Truth::unknown;
}

// 0 for the host, which contains everything.
std::size_t depth(const AlertInput& in) {
  if (in.host) return 0;
  return (in.cgroup ? in.cgroup->path.size() : 0) + 1 + in.process.has_value();
}

bool is_inside(const AlertInput& inner, const AlertInput& outer) {
  if (inner.device || outer.device || outer.process || inner.host || depth(inner) <= depth(outer))
    return false;
  return outer.host || (inner.cgroup && outer.cgroup && in_scope(inner.cgroup->path, outer.cgroup->path));
}

// Subjects by their place in the cgroup tree: if thousands come true at once, each is compared only with
// those above and below it. A card has no place.
template <typename Subject>
class ByPlace {
 public:
  void add(std::size_t rule, const AlertInput& in, Subject* subject) {
    if (in.device) return;
    if (in.host)
      hosts_.emplace(rule, subject);
    else if (in.cgroup)
      by_path_.emplace(std::pair(rule, place(*in.cgroup)), subject);
    else
      without_cgroup_.emplace(rule, subject);
  }
  /// Whether `f` is true for a subject at, above or below its place.
  template <typename F>
  bool any_near(std::size_t rule, const AlertInput& in, F f) const {
    if (in.host)
      return any(by_path_.lower_bound({rule, ""}), by_path_.lower_bound({rule + 1, ""}), f) ||
             any(without_cgroup_.lower_bound(rule), without_cgroup_.upper_bound(rule), f);
    if (any(hosts_.lower_bound(rule), hosts_.upper_bound(rule), f)) return true;
    if (!in.cgroup) return false;
    std::string path = place(*in.cgroup);
    // '0' follows '/'.
    if (any(by_path_.lower_bound({rule, path + "/"}), by_path_.lower_bound({rule, path + "0"}), f))
      return true;
    for (;;) {
      auto [from, to] = by_path_.equal_range({rule, path});
      if (any(from, to, f)) return true;
      if (path.empty()) return false;
      std::size_t parent = path.rfind('/');
      path.resize(parent == std::string::npos ? 0 : parent);
    }
  }

 private:
  static std::string place(const CgroupRef& cgroup) { return cgroup.path == "/" ? "" : cgroup.path; }
  template <typename At, typename F>
  static bool any(At from, At to, F f) {
    return std::any_of(from, to, [&](const auto& entry) { return f(*entry.second); });
  }
  std::multimap<std::pair<std::size_t, std::string>, Subject*> by_path_;
  std::multimap<std::size_t, Subject*> hosts_, without_cgroup_;
};

// The share of the outer subject's memory that is the inner one's. Incomparable values count as all of it.
double part(const AlertRule& rule, const AlertInput& inner, const AlertInput& outer) {
  auto value = [&](const AlertInput& in) -> std::optional<double> {
    if (rule.quantity == Quantity::level || rule.quantity == Quantity::share)
      return in.level ? std::optional(in.level->as_double()) : std::nullopt;
    return in.forecast && in.forecast->growth ? std::optional(in.forecast->growth->rate.value) : std::nullopt;
  };
  auto of_inner = value(inner), of_outer = value(outer);
  return of_inner && of_outer && *of_outer > 0 ? *of_inner / *of_outer : 1;
}

bool same_limit(const AlertInput& a, const AlertInput& b) {
  if (!a.limit_cgroup || !b.limit_cgroup) return a.limit_cgroup == b.limit_cgroup;
  return a.limit_cgroup->id == b.limit_cgroup->id;
}

std::string message_of(const AlertRule& rule, const AlertInput& in) {
  std::string who = in.device    ? to_string(*in.device)
                    : in.process ? fmt::format("{}[{}] with its descendants",
                                               escape_for_terminal(in.process->comm), in.process->id.tgid)
                    : in.host    ? "the host"
                    : in.cgroup  ? escape_for_terminal(in.cgroup->path)
                                 : "an unknown cgroup";
  std::string out = who;
  if (in.level) {
    out += fmt::format(" holds {}", format_size(*in.level));
    if (in.limit) out += fmt::format(" of {}", format_size(*in.limit));
    out += in.device ? " of GPU memory" : " that nothing can take back";
  }
  if (!in.forecast) return out;
  const Forecast& f = *in.forecast;
  if (f.evidence.thrashing) return out + "; " + escape_for_terminal(f.why);
  if (f.growth) out += fmt::format("{} grows {}", in.level ? "," : "", format_rate(f.growth->rate));
  if (f.eta) {
    bool high = f.limit_kind == LimitKind::high, there = high && f.eta->count() <= 0;
    out += fmt::format(": {}", high ? "throttled at its memory.high" : "OOM");
    if (!there) out += fmt::format(" in {}", format_duration(*f.eta));
    if (f.eta_low && !there)
      out += fmt::format(" ({} to {})", format_duration(*f.eta_low),
                         f.eta_high ? format_duration(*f.eta_high) : "never");
  } else if (rule.quantity == Quantity::forecast && !f.why.empty()) {
    out += ": " + escape_for_terminal(f.why);
  }
  return out;
}

}  // namespace

AlertEngine::Key AlertEngine::key_of(std::size_t rule, const AlertInput& input) {
  Key key{rule, input.host, input.cgroup && !input.host ? input.cgroup->id.inode : 0, {}, input.device};
  if (input.process) key.process = input.process->id;
  return key;
}

void AlertEngine::observe(MonoTime now, std::size_t rule, const AlertInput& input,
                          std::vector<States::iterator>& due) {
  Truth truth = test(rules_[rule], input);
  Key key = key_of(rule, input);
  auto at = states_.find(key);
  if (at == states_.end()) {
    if (truth != Truth::yes) return;
    at = states_.try_emplace(key).first;
    at->second.true_since = now;
  }
  State& state = at->second;
  state.newest = input;
  state.looked = looks_;
  if (!state.active) {
    if (truth != Truth::yes)
      states_.erase(at);
    else if (now - state.true_since >= rules_[rule].hold)
      due.push_back(at);
    return;
  }
  if (truth != Truth::no) {
    state.false_since.reset();
    return;
  }
  if (!state.false_since) state.false_since = now;
  if (now - *state.false_since >= std::max(kClearFor, rules_[rule].hold)) states_.erase(at);
}

bool AlertEngine::is_of_outer(std::size_t rule, const State& inner, const State& outer) const {
  double share = part(rules_[rule], inner.newest, outer.newest);
  Nanos apart = std::chrono::abs(inner.active_since - outer.active_since);
  return (share >= 0.5 && apart <= kSameStory) || (share >= 0.9 && same_limit(inner.newest, outer.newest));
}

// Innermost first, so that the most specific alert is published.
std::vector<Alert> AlertEngine::publish(MonoTime now, std::vector<States::iterator> due) {
  if (due.empty()) return {};
  std::stable_sort(due.begin(), due.end(), [](const auto& a, const auto& b) {
    return depth(a->second.newest) > depth(b->second.newest);
  });
  ByPlace<State> active;
  for (auto& [key, state] : states_)
    if (state.active) active.add(key.rule, state.newest, &state);
  std::vector<Alert> out;
  for (auto& it : due) {
    State& state = it->second;
    std::size_t rule = it->first.rule;
    state.active_since = now;
    bool told_inside = active.any_near(rule, state.newest, [&](const State& other) {
      return is_inside(other.newest, state.newest) && is_of_outer(rule, other, state);
    });
    bool acted_outside = active.any_near(rule, state.newest, [&](const State& other) {
      return other.acted && is_inside(state.newest, other.newest) && is_of_outer(rule, state, other);
    });
    state.active = true;
    state.acted = !told_inside && !acted_outside;
    active.add(rule, state.newest, &state);
    if (told_inside) continue;
    out.push_back({rules_[rule], state.newest, message_of(rules_[rule], state.newest), state.acted});
  }
  return out;
}

std::vector<Alert> AlertEngine::check(MonoTime now, std::span<const AlertInput> all) {
  ++looks_;
  std::vector<States::iterator> due;
  for (const AlertInput& input : all)
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) observe(now, rule, input, due);
  std::erase_if(states_, [&](const auto& entry) { return entry.second.looked != looks_; });
  return publish(now, std::move(due));
}

std::vector<Alert> AlertEngine::check_one(MonoTime now, const AlertInput& one) {
  std::vector<States::iterator> due;
  for (std::size_t rule = 0; rule < rules_.size(); ++rule)
    if (rules_[rule].quantity == Quantity::level || rules_[rule].quantity == Quantity::share)
      observe(now, rule, one, due);
  return publish(now, std::move(due));
}

void AlertEngine::on_kill(const CgroupRef& owner) {
  std::erase_if(states_, [&](const auto& entry) {
    const AlertInput& in = entry.second.newest;
    Quantity quantity = rules_[entry.first.rule].quantity;
    if (in.host || in.device || in.process || !in.cgroup) return false;
    if (quantity == Quantity::level || quantity == Quantity::share) return false;
    return in_scope(in.cgroup->path, owner.path);
  });
}

bool AlertEngine::is_still_true(const Alert& alert) const {
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    if (rules_[rule].text != alert.rule.text) continue;
    auto at = states_.find(key_of(rule, alert.of));
    if (at != states_.end() && at->second.active && !at->second.false_since) return true;
  }
  return false;
}

}  // namespace oomcast
