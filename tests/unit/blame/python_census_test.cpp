#include "blame/python_census.h"

#include <gtest/gtest.h>

#include "blame/fake_interpreter.h"

namespace oomcast {
namespace {

struct Counted {
  Interpreter py;
  std::uint64_t tensor = py.make_type("Tensor", 64, 0, Interpreter::kCollected);
  std::optional<PythonCensus::Counts> count(std::size_t limit = 10'000) {
    PythonReader reader(py.memory, py.python);
    return PythonCensus(reader, {limit, std::chrono::seconds(5)}).count();
  }
};

TEST(PythonCensus, objects_of_each_type_are_counted_in_all_lists) {
  Counted c;
  for (int list : {0, 1, 1, 2}) c.py.tracked(c.tensor, list);
  for (int n = 0; n < 50; ++n) c.py.tracked(c.py.dict, 2);
  auto counts = c.count();
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->size(), 2u);
  EXPECT_EQ(counts->at("Tensor").objects, 4u);
  EXPECT_EQ(counts->at("Tensor").each, 64u + 16u) << "with the collector's own";
  EXPECT_EQ(counts->at("dict").objects, 50u);
}

TEST(PythonCensus, marks_in_the_links_lead_nowhere_else) {
  Counted c;
  std::uint64_t first = c.py.tracked(c.tensor, 2) - 16;
  c.py.tracked(c.tensor, 2);
  c.py.word(first, 0) |= 1;
  c.py.word(first, 8) |= 3;
  ASSERT_TRUE(c.count());
  EXPECT_EQ(c.count()->at("Tensor").objects, 2u);
}

TEST(PythonCensus, of_lists_that_change_under_the_walk_nothing_is_said) {
  Counted c;
  for (int n = 0; n < 3; ++n) c.py.tracked(c.tensor, 2);
  std::uint64_t gone = c.py.tracked(c.tensor, 2);
  c.py.tracked(c.tensor, 2);
  c.py.word(gone - 8, 0) = 0;
  EXPECT_FALSE(c.count());
}

TEST(PythonCensus, the_youngest_list_may_change) {
  Counted c;
  c.py.tracked(c.tensor, 2);
  c.py.tracked(c.tensor, 0);
  std::uint64_t gone = c.py.tracked(c.tensor, 0);
  c.py.word(gone - 8, 0) = 0;
  c.py.tracked(c.tensor, 0);
  ASSERT_TRUE(c.count());
  EXPECT_EQ(c.count()->at("Tensor").objects, 2u) << "as far as it could be followed";
}

TEST(PythonCensus, an_object_whose_type_cannot_be_read_is_passed_over) {
  Counted c;
  c.py.tracked(c.tensor, 2);
  c.py.tracked(c.py.memory_of(160), 2);
  c.py.tracked(c.tensor, 2);
  ASSERT_TRUE(c.count());
  EXPECT_EQ(c.count()->at("Tensor").objects, 2u);
}

TEST(PythonCensus, an_object_that_was_moved_to_an_older_list_leads_to_its_end) {
  Counted c;
  std::uint64_t moved = c.py.tracked(c.tensor, 1) - 16;
  c.py.tracked(c.tensor, 1);
  c.py.word(moved, 0) = c.py.list_head(2);
  ASSERT_TRUE(c.count());
  EXPECT_EQ(c.count()->at("Tensor").objects, 1u);
}

TEST(PythonCensus, a_list_that_never_ends_and_one_that_is_too_long_are_left) {
  Counted c;
  std::uint64_t first = c.py.tracked(c.tensor, 2) - 16, second = c.py.tracked(c.tensor, 2) - 16;
  EXPECT_TRUE(c.count(2));
  EXPECT_FALSE(c.count(1));
  c.py.tracked(c.tensor, 2);
  c.py.word(second, 0) = first;
  EXPECT_FALSE(c.count());
}

TEST(PythonCensus, lists_that_are_not_there_are_not_guessed) {
  Counted c;
  for (int list = 0; list < 3; ++list) c.py.word(c.py.list_head(list), 8) = 0;
  EXPECT_FALSE(c.count());
}

TEST(PythonCensus, types_whose_objects_became_clearly_more_are_told_by_what_these_take) {
  PythonCensus::Counts before = {
      {"dict", {10'000, 80}}, {"Node", {5, 64}}, {"tuple", {400, 40}}, {"set", {900, 216}}};
  PythonCensus::Counts after = {{"dict", {10'300, 80}},
                                {"Node", {905, 64}},
                                {"tuple", {499, 40}},
                                {"set", {100, 216}},
                                {"Tensor", {2000, 100}}};
  EXPECT_EQ(grown_types(before, after), (std::vector<GrownType>{{"Tensor", 2000, 2000, Bytes{200'000}},
                                                                {"Node", 905, 900, Bytes{57'600}}}));
}

}  // namespace
}  // namespace oomcast
