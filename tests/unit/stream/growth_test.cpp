#include "stream/growth.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

GrewFrom grew(const std::string& function, std::uint32_t line, Bytes grown, GrowthEvidence evidence = {}) {
  return {test::process(7, "python3", {"python3", "train.py"}, nullptr),
          {{function, "/job/train.py", line}, {"step", "/job/train.py", 50}},
          grown,
          MiB(60),
          Seconds(10),
          MonoTime(1s),
          MonoTime(11s),
          std::move(evidence)};
}

GrewFrom kept(Bytes bytes) {
  return grew("hook", 15, bytes,
              {.sure = bytes, .kept = bytes, .kept_error = MiB(1), .touched = MiB(90), .held_by = "cache"});
}

GrownHolder container(const std::string& path, Bytes least) {
  return {test::process(7, "python3", {"python3", "train.py"}, nullptr),
          path,
          "list",
          "Tensor",
          1,
          55,
          36,
          least,
          MiB(60),
          Seconds(10),
          MonoTime(1s),
          MonoTime(11s)};
}

std::vector<std::string> told(const std::vector<GrewFrom>& sites, const std::vector<GrownHolder>& holders) {
  std::vector<std::string> out;
  GrowthOrigins origins{sites, holders};
  for (const GrowthSource& source : growth_sources(origins)) out.push_back(describe(source, holders));
  return out;
}

const std::string kOf = " of the 60.0 MiB that python3[7] train.py grew by in a 10 s profile";

TEST(Growth, of_what_was_kept_has_its_error_and_its_part) {
  EXPECT_EQ(told({kept(MiB(57))}, {}),
            std::vector{"kept by hook (train.py:15): 57.0 MiB ± 1.00 MiB, 95 %" + kOf + ", held by cache"});
}

TEST(Growth, of_a_line_that_only_touched_has_no_part_and_says_why) {
  GrewFrom site = grew("hook", 15, MiB(60), {.kept_unknown = "no breakpoints\033[2J", .touched = MiB(90)});
  auto lines = told({site}, {});
  EXPECT_EQ(lines, std::vector{"first touched by hook (train.py:15): 60.0 MiB" + kOf +
                               " (that line may be a temporary's; what stays was not traced: no "
                               "breakpoints\\x1b[2J)"});
  EXPECT_EQ(lines[0].find('%'), std::string::npos);
}

TEST(Growth, of_a_line_that_touched_while_allocations_were_traced_says_that_nothing_of_it_stays) {
  GrewFrom site = grew("hook", 15, MiB(60), {.kept = Bytes{}, .kept_error = Bytes{}});
  EXPECT_EQ(told({site}, {}), std::vector{"first touched by hook (train.py:15): 60.0 MiB" + kOf +
                                          " (nothing that was allocated there is known to stay)"});
}

TEST(Growth, of_a_line_that_keeps_a_part_says_what_it_touched_beside_it) {
  GrewFrom site = kept(MiB(12));
  site.grown = MiB(40);
  site.evidence.held_by.clear();
  EXPECT_EQ(told({site}, {}), std::vector{"kept by hook (train.py:15): 12.0 MiB ± 1.00 MiB, 20 %" + kOf +
                                          "; 28.0 MiB more were touched first there"});
}

TEST(Growth, names_a_container_once_with_the_place_that_it_holds) {
  EXPECT_EQ(told({kept(MiB(57))}, {container("cache", MiB(50))}),
            std::vector{"kept by hook (train.py:15): 57.0 MiB ± 1.00 MiB, 95 %" + kOf +
                        ", held by cache, list of 55: +36 Tensor"});
}

TEST(Growth, tells_of_a_container_that_holds_more_than_the_place_that_it_is_named_with) {
  auto lines = told({kept(MiB(4))}, {container("cache", MiB(50))});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("held by cache, list of 55: +36 Tensor: at least 50.0 MiB, 83 %"),
            std::string::npos)
      << lines[0];
}

TEST(Growth, tells_of_a_container_before_a_line_that_only_touched_more) {
  GrownHolder held = container("cache in __main__", MiB(30));
  held.adder = {{"note", "/job/train.py", 20}};
  held.adder_seen = 3;
  held.adds_seen = 4;
  EXPECT_EQ(
      told({grew("temporary", 12, MiB(60))}, {held}),
      (std::vector{"held by cache in __main__, list of 55: +36 Tensor, added by note (train.py:20) (3 of "
                   "4 seen): at least 30.0 MiB, 50 %" +
                       kOf,
                   "first touched by temporary (train.py:12): 60.0 MiB" + kOf +
                       " (that line may be a temporary's; what stays was not traced)"}));
}

TEST(Growth, of_little_that_is_certain_stands_behind_what_most_was_touched_by) {
  auto lines = told({kept(MiB(5)), grew("load", 12, MiB(50))}, {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("first touched by load"), std::string::npos);
}

TEST(Growth, of_a_store_that_did_not_record_what_it_rests_on_has_no_part) {
  GrewFrom site = grew("hook", 15, MiB(60), {.held_by = "cache"});
  std::string line = told({site}, {}).at(0);
  EXPECT_EQ(line, "held by cache; made by hook (train.py:15): 60.0 MiB" + kOf);
}

}  // namespace
}  // namespace oomcast
