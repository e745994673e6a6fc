#include "app/leftovers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "fixture_tree.h"

namespace oomcast {
namespace {

namespace fs = std::filesystem;

// A folder as /tmp, with one of a run that is gone (7) and one of a run that goes on (8).
struct LeftFolders {
  FixtureTree tree;
  std::string in = tree.path("tmp");
  LeftFolders() {
    make("oomcast-run-7-abcdef");
    make("oomcast-run-8-abcdef");
  }
  void make(const std::string& name) {
    tree.write("tmp/" + name + "/oomcast.db", "kills");
    chmod((in + "/" + name).c_str(), 0700);
  }
  bool has(const std::string& name) const { return fs::exists(fs::symlink_status(in + "/" + name)); }
  std::size_t sweep() const {
    return sweep_folders(in, [](std::uint32_t pid) { return pid == 8; });
  }
};

TEST(Leftovers, are_folders_of_runs_that_are_gone_with_their_files) {
  LeftFolders f;
  EXPECT_EQ(f.sweep(), 1u);
  EXPECT_FALSE(f.has("oomcast-run-7-abcdef"));
  EXPECT_TRUE(f.has("oomcast-run-8-abcdef"));
}

TEST(Leftovers, are_no_links_and_what_a_link_names_stays) {
  LeftFolders f;
  f.tree.write("tmp/precious/file", "x");
  fs::create_directory_symlink(f.in + "/precious", f.in + "/oomcast-run-9-abcdef");
  fs::create_symlink(f.in + "/precious/file", f.in + "/oomcast-run-7-abcdef/link");
  EXPECT_EQ(f.sweep(), 1u);
  EXPECT_TRUE(f.has("precious/file"));
  EXPECT_TRUE(f.has("oomcast-run-9-abcdef"));
}

TEST(Leftovers, are_nothing_that_others_may_write_to_that_has_folders_or_another_name) {
  LeftFolders f;
  f.make("oomcast-run-10-abcdef");
  chmod((f.in + "/oomcast-run-10-abcdef").c_str(), 0777);
  f.make("oomcast-run-11-abcdef/folder");
  for (const char* name :
       {"oomcast-run-12", "oomcast-run-12-abcdefg", "oomcast-run-x-abcdef", "oomcast-run-0-abcdef",
        "oomcast-run--1-abcdef", "oomcast-run-99999999999-abcdef", "oomcast-abcdef"})
    f.make(name);
  EXPECT_EQ(f.sweep(), 1u);
  EXPECT_TRUE(f.has("oomcast-run-10-abcdef"));
  EXPECT_TRUE(f.has("oomcast-run-11-abcdef/folder/oomcast.db"));
  EXPECT_TRUE(f.has("oomcast-run-12-abcdefg/oomcast.db"));
  EXPECT_TRUE(f.has("oomcast-abcdef/oomcast.db"));
}

TEST(Leftovers, are_swept_a_bounded_number_at_a_time) {
  LeftFolders f;
  for (std::size_t i = 0; i < kMaxSwept + 10; ++i)
    f.make("oomcast-run-" + std::to_string(100 + i) + "-abcdef");
  EXPECT_EQ(f.sweep(), kMaxSwept);
  EXPECT_EQ(f.sweep(), 11u);
}

}  // namespace
}  // namespace oomcast
