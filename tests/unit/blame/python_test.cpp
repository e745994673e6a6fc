#include "blame/python.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using Lines = PythonObjects::Lines;

std::vector<std::byte> table(std::initializer_list<unsigned> values) {
  std::vector<std::byte> out;
  for (unsigned v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

// co_linetable of Debian's 3.11 for
//   def f(a):            # line 1
//       b = a + 1        # 2
//       return g(b,      # 3
//                a)      # 4
const auto kLocations = table({0x80, 0x00, 0xd8, 0x08, 0x09, 0x88, 0x41, 0x89, 0x05, 0x80, 0x41, 0xdd,
                               0x0b, 0x0c, 0x88, 0x51, 0xd8, 0x0d, 0x0e, 0xf1, 0x03, 0x01, 0x0c, 0x10,
                               0xf4, 0x00, 0x01, 0x0c, 0x10, 0xf0, 0x00, 0x01, 0x05, 0x10});

TEST(LineOfLocations, follows_the_compilers_table) {
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 0), 1u);
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 1), 2u);
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 5), 2u);
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 12), 3u);
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 13), 4u);
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 21), 3u);
}

TEST(LineOfLocations, of_an_instruction_past_the_table_is_unknown) {
  EXPECT_EQ(line_of(Lines::locations, kLocations, 1, 10000), std::nullopt);
  EXPECT_EQ(line_of(Lines::locations, {}, 1, 0), std::nullopt);
}

TEST(LineOfLocations, of_an_instruction_without_a_location_is_unknown) {
  EXPECT_EQ(line_of(Lines::locations, table({0xf8}), 7, 0), std::nullopt);
}

TEST(LineOfLocations, survives_a_table_that_ends_in_the_middle_of_an_entry) {
  for (unsigned first = 0; first < 256; ++first)
    EXPECT_NO_FATAL_FAILURE((void)line_of(Lines::locations, table({first, 0xff}), 1, 100));
}

TEST(LineOfRanges, reads_lines_that_begin_with_their_range) {
  auto lines =
      table({4, 1, 6, 2, 2, 0x80, 8, 0xff});  // 2 instructions of line 11, 3 of 13, 1 without, 4 of 12
  EXPECT_EQ(line_of(Lines::ranges, lines, 10, 0), 11u);
  EXPECT_EQ(line_of(Lines::ranges, lines, 10, 2), 13u);
  EXPECT_EQ(line_of(Lines::ranges, lines, 10, 5), std::nullopt);
  EXPECT_EQ(line_of(Lines::ranges, lines, 10, 6), 12u);
}

TEST(LineOfNumbers, counts_offsets_in_bytes) {
  auto lines = table({0, 1, 8, 1, 10, 0xfe});
  EXPECT_EQ(line_of(Lines::numbered, lines, 5, 0), 6u);
  EXPECT_EQ(line_of(Lines::numbered, lines, 5, 8), 7u);
  EXPECT_EQ(line_of(Lines::numbered, lines, 5, 40), 5u);
}

TEST(DyingCode, has_lines_and_names_and_leaves_out_what_could_not_be_read) {
  auto text = [](std::string_view value, bool cut = false) {
    wire::DyingCode::Text out;
    for (char c : value) out.data.push_back(static_cast<std::byte>(c));
    out.cut = cut;
    return out;
  };
  wire::DyingCode code;
  code.lines = static_cast<unsigned>(Lines::locations);
  code.code_instructions = 184;
  code.frames.push_back({0x1000, 0x1000 + 184 + 2 * 12, 1, text("/train.py", true), text("f"), kLocations});
  code.frames.push_back({0x2000, 0x2000, 1, std::nullopt, text("g"), kLocations});
  code.frames.push_back({0x3000, 0x3000 + 184 + 2 * 500, 1, text("a.py"), text("h"), kLocations});
  auto places = places_of(code);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0], (CodePlace{"f", "…/train.py", 3}));
  EXPECT_EQ(places[1], (CodePlace{"h", "a.py", std::nullopt}));
  code.lines = 77;
  EXPECT_TRUE(places_of(code).empty());
}

}  // namespace
}  // namespace oomcast
