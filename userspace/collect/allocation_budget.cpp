#include "collect/allocation_budget.h"

#include <algorithm>
#include <numeric>

namespace oomcast {
namespace {

constexpr double kMaxForFrees = 0.7;       // of the budget
constexpr double kForEachFunction = 0.25;  // of the rest: no function is to be left untraced
constexpr Nanos kMinWatched = std::chrono::milliseconds(20), kMaxAtOnce = std::chrono::seconds(10);
constexpr double kRecordsAtOnce = 2000;
constexpr double kForAll = 2.0 / 3;   // of the budget, if tracing free() would exceed that
constexpr double kDense = 0.1;        // of a program's time: the kernel's code stays in the caches
constexpr double kMaxOfOthers = 0.9;  // of a program's time; measured parts may exceed 1 in sum
constexpr Bytes kMinSample{16}, kMaxSample = MiB(64);

Nanos part_of(Nanos whole, double part) {
  return std::chrono::duration_cast<Nanos>(whole * std::clamp(part, 0.0, 1.0));
}

// Seconds per call. For an allocation its return is traced, too.
double cost_of(std::size_t function, const AllocationBudget& budget) {
  double traps = function < wire::kAllocates ? 2 : 1;
  return traps * Seconds(budget.each.trap).count() +
         (budget.stepped >> function & 1 ? Seconds(budget.each.step).count() : 0);
}

}  // namespace

std::vector<std::uint64_t> Allocator::places(std::size_t function) const {
  std::vector<std::uint64_t> out{function < allocates.size() ? allocates[function] : free};
  for (const OtherFunction& other : others)
    if (other.function == function) out.push_back(other.place);
  std::erase(out, 0);
  return out;
}

double share_taken(const AllocatorRates& rates, const AllocationBudget& budget) {
  double sum = rates.frees_per_s * cost_of(wire::kAllocates, budget);
  for (std::size_t f = 0; f < rates.calls_per_s.size(); ++f) sum += rates.calls_per_s[f] * cost_of(f, budget);
  return sum;
}

AllocationPlan plan_allocations(const AllocatorRates& rates, const AllocationBudget& budget, Nanos window) {
  double frees = rates.frees_per_s * cost_of(wire::kAllocates, budget);
  std::array<double, wire::kAllocates> cost{};
  for (std::size_t f = 0; f < cost.size(); ++f) cost[f] = rates.calls_per_s[f] * cost_of(f, budget);
  double all = share_taken(rates, budget);

  // Expensive tracing slows the program while it lasts: not for minutes in a window of an hour.
  Nanos dear = std::min(window, kMaxAtOnce);
  AllocationPlan plan;
  double left = all > kDense ? 2 * budget.share : budget.share;
  // A function that takes `part` of the program's time while all are traced takes more when traced alone: it
  // is called more often.
  auto alone = [&](double part) { return part / (1 - std::min(all - part, kMaxOfOthers)); };
  if (all <= left) {
    plan.frees_watched = window;
    plan.watched.fill(window);
    left = 0;
  } else {
    left = std::max(0.0, left - all * (Seconds(budget.counted) / dear));
    if (alone(frees) <= kMaxForFrees * left) {
      plan.frees_watched = window;
      left -= alone(frees);
      double first = kForEachFunction * left;
      plan.watched.fill(std::max(kMinWatched, part_of(dear, first / (all - frees))));
      left -= first;
    } else {
      plan.frees_watched = std::max(kMinWatched, part_of(dear, kForAll * left / all));
      plan.watched.fill(plan.frees_watched);
      left *= 1 - kForAll;
    }
    for (double& of_function : cost) of_function = alone(of_function);
  }
  std::array<std::size_t, wire::kAllocates> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto bytes_a_call = [&](std::size_t f) {
    return rates.calls_per_s[f] > 0 ? rates.bytes_per_s[f] / rates.calls_per_s[f] : 0;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes_a_call(a) > bytes_a_call(b); });
  for (std::size_t f : order) {
    double part = cost[f] <= left ? 1 : left / cost[f];
    plan.watched[f] = std::max(plan.watched[f], part < 1 ? part_of(dear, part) : window);
    left = std::max(0.0, left - cost[f] * part);
  }
  Nanos& of_malloc = plan.watched[static_cast<std::size_t>(wire::Allocates::malloc)];
  for (std::size_t f = 0; f < cost.size(); ++f)
    if (rates.calling_malloc >> f & 1) of_malloc = std::min(of_malloc, plan.watched[f]);
  double calls = std::accumulate(rates.calls_per_s.begin(), rates.calls_per_s.end(), 0.0);
  double bytes = std::accumulate(rates.bytes_per_s.begin(), rates.bytes_per_s.end(), 0.0);
  if (calls > 0) plan.extra.count = static_cast<std::int64_t>(bytes / calls / 2);
  plan.sample = plan_sample(plan, rates, budget, window, {});
  return plan;
}

// Large blocks are always reported, which costs little if there are few.
double planned_records(const AllocationPlan& plan, const AllocatorRates& rates, Bytes sample, Nanos from,
                       Nanos to) {
  double sum = 0;
  for (std::size_t f = 0; f < plan.watched.size(); ++f) {
    double bytes = rates.bytes_per_s[f] + rates.calls_per_s[f] * plan.extra.as_double();
    sum += Seconds(std::max(Nanos{}, std::min(to, plan.watched[f]) - from)).count() *
           std::min(rates.calls_per_s[f], bytes / sample.as_double());
  }
  return sum;
}

Bytes plan_sample(const AllocationPlan& plan, const AllocatorRates& rates, const AllocationBudget& budget,
                  Nanos window, const RecordsSoFar& so_far) {
  double most = std::min(budget.records_per_s * Seconds(window).count(),
                         kRecordsAtOnce + 10 * budget.records_per_s * Seconds(plan.frees_watched).count());
  double left = most - static_cast<double>(so_far.count);
  auto fits = [&](Bytes sample) {
    return budget.told * planned_records(plan, rates, sample, so_far.at, window) <= left;
  };
  Bytes out = kMaxSample;
  for (Bytes next = kMaxSample; next >= kMinSample && fits(next); next.count /= 2) out = next;
  return out;
}

}  // namespace oomcast
