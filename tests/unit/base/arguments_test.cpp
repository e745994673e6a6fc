#include "base/arguments.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using Words = std::vector<std::string>;

Words words_of(const Arguments& arguments) {
  return {arguments.begin(), arguments.end()};
}

TEST(Arguments, end_at_nul_and_the_last_may_lack_it) {
  auto split = [](const char* text, std::size_t size) {
    return words_of(Arguments::from_bytes({text, size}));
  };
  EXPECT_EQ(split("", 0), Words{});
  EXPECT_EQ(split("a\0", 2), Words{"a"});
  EXPECT_EQ(split("a\0b", 3), (Words{"a", "b"}));
  EXPECT_EQ(split("a\0\0b\0", 5), (Words{"a", "", "b"}));
  EXPECT_EQ(split("\0", 1), Words{""});
  EXPECT_EQ(split("\0\0", 2), (Words{"", ""}));
}

TEST(Arguments, are_the_words_that_they_were_made_of) {
  Arguments some{"python3", "", "train.py"};
  EXPECT_EQ(words_of(some), (Words{"python3", "", "train.py"}));
  EXPECT_EQ(some.size(), 3u);
  EXPECT_EQ(some[2], "train.py");
  EXPECT_EQ(some.front(), "python3");
  EXPECT_EQ(some.bytes(), std::string_view("python3\0\0train.py\0", 18));
  EXPECT_EQ(Arguments::from_bytes(std::string(some.bytes())), some);
  EXPECT_TRUE(Arguments().empty());
  EXPECT_EQ(Arguments(Words{}), Arguments());
  EXPECT_FALSE(Arguments(Words{""}).empty()) << "one word, which is empty";
}

TEST(Arguments, are_shared_by_their_copies) {
  Arguments some(Words(2000));
  Arguments copy = some;
  EXPECT_EQ(copy.bytes().data(), some.bytes().data());
  EXPECT_EQ(copy.size(), 2000u);
}

}  // namespace
}  // namespace oomcast
