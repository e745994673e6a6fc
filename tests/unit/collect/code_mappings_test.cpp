#include "collect/code_mappings.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

using Count = CodeMappings::Count;

TEST(CodeMappings, of_an_ordinary_program_are_few_enough_for_a_breakpoint) {
  EXPECT_EQ(why_too_many({.all = 900, .of_process = 1, .in_process = 1500}), "");
  EXPECT_EQ(why_too_many({CodeMappings::kMaxAll, CodeMappings::kMaxOfProcess, CodeMappings::kMaxInProcess}),
            "");
}

TEST(CodeMappings, beyond_any_of_the_bounds_are_a_reason_against_one) {
  const Count most{CodeMappings::kMaxAll, CodeMappings::kMaxOfProcess, CodeMappings::kMaxInProcess};
  for (auto part : {&Count::all, &Count::of_process, &Count::in_process}) {
    Count more = most;
    ++(more.*part);
    EXPECT_NE(why_too_many(more), "") << more.all << " " << more.of_process << " " << more.in_process;
  }
}

TEST(CodeMappings, that_the_process_is_not_found_among_are_not_taken_for_none) {
  EXPECT_NE(why_too_many({.all = 900, .of_process = 0, .in_process = 0}), "");
}

/// A walk that counts `each` mappings a run, and ends after `runs` of them.
struct Walked {
  unsigned long long address = 0, node = 0, all = 0, of_process = 0, in_process = 0;
  unsigned tgid = 0, from = 7;
  int runs = 1, begins = 0, fails_first = 0;
  unsigned each = 1;
  CodeMappings mappings{{[this] {
                           node = 1;
                           return begins++ >= fails_first;
                         },
                         [this] {
                           all += each;
                           of_process = 1;
                           in_process = 100;
                           if (--runs == 0) node = 0;
                           return true;
                         },
                         &address, &node, &tgid, &from, &all, &of_process, &in_process}};
  std::string why() { return mappings.why_not(file.get(), 5000, 42); }
  UniqueFd file{open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
};

TEST(CodeMappings, are_counted_from_a_mapping_of_the_page_until_the_walk_ends) {
  Walked walk;
  walk.runs = 3;
  auto count = walk.mappings.count(walk.file.get(), 5000, 42);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->all, 2u) << "without the one that was made for it";
  EXPECT_EQ(walk.tgid, 42u);
  EXPECT_EQ(walk.from, 0u);
  EXPECT_NE(walk.address, 0u);
}

TEST(CodeMappings, are_asked_for_again_while_this_process_changes_its_own) {
  Walked once, always;
  once.fails_first = 1;
  always.fails_first = 1000;
  EXPECT_EQ(once.why(), "");
  EXPECT_NE(always.why(), "");
}

TEST(CodeMappings, without_an_end_are_too_many) {
  Walked counting, standing;
  counting.runs = standing.runs = 1 << 30;
  counting.each = 64;
  standing.each = 0;
  EXPECT_NE(counting.why(), "");
  EXPECT_NE(standing.why(), "") << "a tree that leads nowhere";
}

}  // namespace
}  // namespace oomcast
