#include "collect/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "fixture_tree.h"

namespace oomcast {
namespace {

TEST(ReadFile, stops_at_its_bound) {
  FixtureTree tree;
  tree.write("big", std::string(10000, 'x'));
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("big").c_str(), 5000)->size(), 5000u);
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("big").c_str(), 20000)->size(), 10000u);
  std::array<char, 8> buffer;
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("big").c_str(), buffer), "xxxxxxxx");
}

TEST(ReadFile, follows_no_symlink_and_does_not_hang_on_a_fifo) {
  FixtureTree tree;
  tree.write("secret", "x");
  tree.link("alias", "secret");
  EXPECT_FALSE(read_file_at(AT_FDCWD, tree.path("alias").c_str(), 10));
  ASSERT_EQ(::mkfifo(tree.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_file_at(AT_FDCWD, tree.path("fifo").c_str(), 10), "");
}

}  // namespace
}  // namespace oomcast
