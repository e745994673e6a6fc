#include "app/losses.h"

#include <gtest/gtest.h>

#include <vector>

namespace oomcast {
namespace {

using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

struct Ledger {
  Counts told;
  Losses losses{[this](const std::string& reason, std::uint64_t count) { told.emplace_back(reason, count); }};
};

TEST(Losses, tell_each_loss_and_keep_the_sum_by_reason) {
  Ledger l;
  l.losses.add("output", 3);
  l.losses.add("output", 0);
  l.losses.add("output", 4);
  EXPECT_EQ(l.told, (Counts{{"output", 3}, {"output", 4}}));
  EXPECT_EQ(l.losses.totals().at("output"), 7u);
}

TEST(Losses, of_a_counter_tell_what_it_grew_by_since_it_was_read_last) {
  Ledger l;
  l.losses.track("samples_ring_full", 0);
  EXPECT_TRUE(l.losses.totals().empty()) << "what was never lost has no entry";
  l.losses.track("samples_ring_full", 10);
  l.losses.track("model_full", 10);
  l.losses.track("samples_ring_full", 10);
  l.losses.track("samples_ring_full", 12);
  EXPECT_EQ(l.told, (Counts{{"samples_ring_full", 10}, {"model_full", 10}, {"samples_ring_full", 2}}));
}

TEST(Losses, of_a_counter_that_began_anew_are_what_it_counts_from_there) {
  Ledger l;
  l.losses.track("gpu_ring_full", 100);
  l.losses.track("gpu_ring_full", 0);
  l.losses.track("gpu_ring_full", 5);
  EXPECT_EQ(l.losses.totals().at("gpu_ring_full"), 105u);
}

}  // namespace
}  // namespace oomcast
