#include "collect/allocation_budget.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using wire::Allocates;

constexpr Nanos kWindow = 10s;

AllocationBudget budget() {
  AllocationBudget out;
  out.each = {1us, 9us};
  return out;
}

void calls(AllocatorRates& rates, Allocates function, double per_s, Bytes each) {
  rates.calls_per_s[static_cast<std::size_t>(function)] = per_s;
  rates.bytes_per_s[static_cast<std::size_t>(function)] = per_s * each.as_double();
}

Nanos watched(const AllocationPlan& plan, Allocates function) {
  return plan.watched[static_cast<std::size_t>(function)];
}

// Seconds of a CPU.
double cost(const AllocatorRates& rates, const AllocationPlan& plan) {
  double each = Seconds(budget().each.trap).count();
  double sum = rates.frees_per_s * each * Seconds(plan.frees_watched).count();
  for (std::size_t f = 0; f < plan.watched.size(); ++f)
    sum += 2 * rates.calls_per_s[f] * each * Seconds(plan.watched[f]).count();
  return sum;
}

TEST(AllocationBudget, a_program_that_seldom_allocates_is_watched_to_the_end) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 500, KiB(1));
  rates.frees_per_s = 500;
  AllocationPlan plan = plan_allocations(rates, budget(), kWindow);
  EXPECT_EQ(watched(plan, Allocates::malloc), kWindow);
  EXPECT_EQ(plan.frees_watched, kWindow);
  EXPECT_LE(plan.sample, KiB(4)) << "500 records a second are a few too many";
}

TEST(AllocationBudget, a_loop_of_tensors_has_the_calls_watched_that_make_them) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 18'000, Bytes{100});
  calls(rates, Allocates::posix_memalign, 330, KiB(512));
  rates.frees_per_s = 18'000;
  AllocationPlan plan = plan_allocations(rates, budget(), kWindow);
  EXPECT_EQ(watched(plan, Allocates::posix_memalign), kWindow);
  EXPECT_LT(watched(plan, Allocates::malloc), kWindow / 2);
  EXPECT_LE(cost(rates, plan), budget().share * 10 * 1.05);
  EXPECT_LE(plan.sample, MiB(1)) << "every second tensor is told of";
}

// As a PyTorch loop with small tensors: what is watched alone makes a fifth more calls than it did beside all
// the others, which slowed it.
TEST(AllocationBudget, a_program_that_was_slowed_by_the_counting_is_still_slowed_by_no_more_than_the_share) {
  constexpr double kMallocs = 15'000, kTensors = 2200, kFrees = 17'000;
  AllocationBudget some = budget();
  some.counted = 100ms;
  double each = Seconds(some.each.trap).count();
  double all = (2 * (kMallocs + kTensors) + kFrees) * each, slowed = 1 / (1 + all);
  AllocatorRates rates;
  calls(rates, Allocates::malloc, slowed * kMallocs, Bytes{100});
  calls(rates, Allocates::posix_memalign, slowed * kTensors, KiB(110));
  rates.frees_per_s = slowed * kFrees;
  AllocationPlan plan = plan_allocations(rates, some, kWindow);
  ASSERT_GT(watched(plan, Allocates::posix_memalign), 1s);
  double tensors = 2 * kTensors * each;
  double lost = Seconds(some.counted + plan.frees_watched).count() * all * slowed +
                Seconds(watched(plan, Allocates::posix_memalign) - plan.frees_watched).count() * tensors /
                    (1 + tensors);
  EXPECT_LE(lost, some.share * 10);
  EXPECT_GE(lost, 0.8 * some.share * 10) << "the budget is there to be used";
}

// As musl's calloc(): inner calls are known for such while the outer one's are told of.
TEST(AllocationBudget, malloc_is_watched_no_longer_than_who_calls_it) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 4000, KiB(4));
  calls(rates, Allocates::calloc, 4000, Bytes{100});
  rates.frees_per_s = 100;
  AllocationPlan apart = plan_allocations(rates, budget(), kWindow);
  ASSERT_GT(watched(apart, Allocates::malloc), watched(apart, Allocates::calloc));
  rates.calling_malloc = 1U << static_cast<unsigned>(Allocates::calloc);
  AllocationPlan plan = plan_allocations(rates, budget(), kWindow);
  EXPECT_EQ(watched(plan, Allocates::malloc), watched(apart, Allocates::calloc));
}

TEST(AllocationBudget, what_frees_leave_goes_to_the_calls_with_most_bytes) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 3000, Bytes{100});
  calls(rates, Allocates::calloc, 400, KiB(64));
  rates.frees_per_s = 1400;
  AllocationPlan plan = plan_allocations(rates, budget(), kWindow);
  EXPECT_EQ(plan.frees_watched, kWindow);
  EXPECT_EQ(watched(plan, Allocates::calloc), kWindow);
  EXPECT_GT(watched(plan, Allocates::malloc), 0s);
  EXPECT_LE(cost(rates, plan), budget().share * 10 * 1.05);
}

TEST(AllocationBudget, of_a_long_look_what_slows_a_program_is_no_longer_than_of_ten_seconds) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 100'000, Bytes{100});
  rates.frees_per_s = 100'000;
  AllocationPlan shorter = plan_allocations(rates, budget(), 10s),
                 day = plan_allocations(rates, budget(), 24h);
  EXPECT_EQ(day.frees_watched, shorter.frees_watched);
  EXPECT_EQ(watched(day, Allocates::malloc), watched(shorter, Allocates::malloc));
  calls(rates, Allocates::malloc, 100, Bytes{100});
  rates.frees_per_s = 100;
  EXPECT_EQ(watched(plan_allocations(rates, budget(), 24h), Allocates::malloc), 24h)
      << "what costs nothing goes on";
}

TEST(AllocationBudget, where_fewer_records_come_than_was_planned_a_block_stands_for_less) {
  AllocatorRates rates;
  calls(rates, Allocates::posix_memalign, 2000, KiB(100));
  AllocationBudget some = budget();
  AllocationPlan plan = plan_allocations(rates, some, kWindow);
  ASSERT_EQ(watched(plan, Allocates::posix_memalign), kWindow);
  double planned = planned_records(plan, rates, plan.sample, 0s, kWindow);
  EXPECT_LE(planned, some.records_per_s * 10);
  EXPECT_DOUBLE_EQ(planned_records(plan, rates, Bytes{16}, 2s, 3s), 2000) << "there is one of each at most";
  some.told = 0.25;
  RecordsSoFar few{2s, static_cast<std::uint64_t>(planned / 5 * some.told)};
  EXPECT_EQ(plan_sample(plan, rates, some, kWindow, few).count, plan.sample.count / 4);
  some.told = 1;
  EXPECT_EQ(plan_sample(plan, rates, some, kWindow, {5s, 4000}), MiB(64)) << "all were made already";
}

TEST(AllocationBudget, no_function_goes_without_a_look) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 3000, Bytes{100});
  calls(rates, Allocates::realloc, 3000, KiB(64));
  rates.frees_per_s = 1600;
  AllocationPlan plan = plan_allocations(rates, budget(), kWindow);
  EXPECT_EQ(plan.frees_watched, kWindow);
  EXPECT_GT(watched(plan, Allocates::malloc), 100ms);
  EXPECT_GT(watched(plan, Allocates::realloc), watched(plan, Allocates::malloc));
  EXPECT_LE(cost(rates, plan), budget().share * 10 * 1.05);
}

TEST(Allocator, functions_that_do_the_same_are_one_and_have_several_places) {
  Allocator a;
  a.free = 10;
  a.allocates[0] = 20;
  a.others[0] = {30, 0};
  a.others[1] = {40, wire::kAllocates};
  EXPECT_EQ(a.places(0), (std::vector<std::uint64_t>{20, 30}));
  EXPECT_EQ(a.places(wire::kAllocates), (std::vector<std::uint64_t>{10, 40}));
  EXPECT_TRUE(a.places(1).empty());
}

TEST(AllocationBudget, a_program_that_only_allocates_is_held_for_a_moment) {
  AllocatorRates rates;
  calls(rates, Allocates::malloc, 300'000, Bytes{100});
  rates.frees_per_s = 300'000;
  AllocationPlan plan = plan_allocations(rates, budget(), kWindow);
  EXPECT_LT(plan.frees_watched, 300ms);
  EXPECT_GE(plan.frees_watched, 20ms) << "less would tell nothing";
  EXPECT_LE(cost(rates, plan), 2 * budget().share * 10 * 1.05);
  double records = 300'000 * Seconds(watched(plan, Allocates::malloc)).count() *
                   std::min(1.0, (100 + plan.extra.as_double()) / plan.sample.as_double());
  EXPECT_GT(records, 500);
  EXPECT_LT(records, 4000 + 10);
}

TEST(AllocationBudget, one_that_does_nothing_is_watched_all_the_same) {
  AllocationPlan plan = plan_allocations({}, budget(), kWindow);
  EXPECT_EQ(plan.frees_watched, kWindow);
  EXPECT_EQ(watched(plan, Allocates::malloc), kWindow);
  EXPECT_GT(plan.sample, Bytes{});
}

}  // namespace
}  // namespace oomcast
