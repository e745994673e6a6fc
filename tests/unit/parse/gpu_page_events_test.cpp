#include "parse/gpu_page_events.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace oomcast {
namespace {

using PageWhat = wire::GpuPageEvents::What;

std::optional<GpuPageLayout> of(const std::string& version) {
  return gpu_page_layout(*parse_gpu_driver_version(version));
}

TEST(GpuPageLayout, is_that_of_the_release_where_it_changed_and_of_all_until_the_next_change) {
  struct Row {
    std::vector<std::string> drivers;
    GpuPageLayout layout;
  };
  // Ids of fault and move; who faulted; to, from, bytes, cause of a move; tag of the file.
  const std::vector<Row> rows = {
      {{"515.43.04", "520.56.06", "525.147.05"}, {5, 6, 16, 16, 20, 32, 44, 0}},
      {{"530.30.02", "535.43.02", "545.29.06"}, {6, 7, 16, 16, 20, 32, 44, 2}},
      {{"550.40.07", "560.35.05", "565.57.01", "575.64.05"}, {6, 7, 16, 16, 20, 40, 52, 2}},
      {{"580.65.06", "590.44.01", "595.45.04"}, {6, 7, 8, 16, 20, 40, 56, 2}},
  };
  for (const Row& row : rows)
    for (const std::string& driver : row.drivers) EXPECT_EQ(of(driver), row.layout) << driver;
}

TEST(GpuPageLayout, of_a_driver_older_or_newer_than_those_whose_events_are_known_is_unknown) {
  for (const char* driver : {"390.157", "470.256.02", "510.108.03", "596.01", "610.43.02", "640.10.01"})
    EXPECT_FALSE(of(driver)) << driver;
}

wire::GpuPageEvents events(PageWhat what, std::uint64_t count, std::uint64_t bytes, std::uint16_t cause = 0) {
  wire::GpuPageEvents out;
  out.what = what;
  out.count = count;
  out.bytes = bytes;
  out.cause = cause;
  return out;
}

TEST(GpuActivity, adds_up_faults_by_who_missed_the_page_and_moves_by_direction) {
  GpuActivity sum;
  EXPECT_FALSE(sum.any());
  sum.add(events(PageWhat::cpu_fault, 3, 0));
  sum.add(events(PageWhat::card_fault, 1000, 0));
  sum.add(events(PageWhat::to_card, 2, 8192));
  sum.add(events(PageWhat::from_card, 1, 4096, 3));
  EXPECT_EQ(sum, (GpuActivity{KiB(8), KiB(4), Bytes{}, 1000, 3}));
  EXPECT_TRUE(sum.any());
}

TEST(GpuActivity, counts_as_evicted_what_left_a_card_because_it_was_full_and_nothing_else) {
  GpuActivity sum;
  for (std::uint16_t cause = 0; cause < 9; ++cause)
    sum.add(events(PageWhat::from_card, 1, 1 << cause, cause));
  EXPECT_EQ(sum.evicted, Bytes{1 << 4});
  EXPECT_EQ(sum.moved_out, Bytes{(1 << 9) - 1});
  sum.add(events(PageWhat::to_card, 1, 4096, 4));
  EXPECT_EQ(sum.evicted, Bytes{1 << 4}) << "what comes in is not evicted";
}

TEST(GpuActivity, counts_what_moves_between_two_cards_as_leaving_the_one_and_coming_to_the_other) {
  GpuActivity sum;
  sum.add(events(PageWhat::between_cards, 1, 4096, 6));
  EXPECT_EQ(sum, (GpuActivity{KiB(4), KiB(4), Bytes{}, 0, 0}));
}

TEST(GpuActivity, of_a_while_is_the_difference_of_two_sums) {
  GpuActivity before{KiB(4), KiB(8), KiB(8), 7, 2}, now{KiB(12), KiB(8), KiB(8), 10, 2};
  EXPECT_EQ(now - before, (GpuActivity{KiB(8), Bytes{}, Bytes{}, 3, 0}));
}

TEST(GpuActivity, does_not_believe_more_bytes_than_any_machine_moves) {
  GpuActivity sum;
  sum.add(events(PageWhat::to_card, 1, ~0ull));
  EXPECT_FALSE(sum.any());
}

}  // namespace
}  // namespace oomcast
