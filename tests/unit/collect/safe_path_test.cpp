#include "collect/safe_path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "fixture_tree.h"

namespace oomcast {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kOther = 65534;
constexpr PathRules kWrites{.writes = true};

class SafePathTest : public testing::Test {
 protected:
  std::string path(std::string_view relative) const { return tree_.path(relative); }
  // Skips the test where no other user's files can be made.
  void give_away(std::string_view relative) {
    if (lchown(path(relative).c_str(), kOther, kOther) != 0)
      GTEST_SKIP() << "only root gives files to others";
  }
  std::string refusal(std::string_view relative, const PathRules& rules = {}) const {
    auto found = resolve(path(relative), rules);
    return found ? "" : found.error().message;
  }
  bool says(const std::string& text, const std::string& part) const {
    return text.find(part) != std::string::npos;
  }

  FixtureTree tree_;
};

TEST_F(SafePathTest, is_the_directory_and_the_name_in_it) {
  tree_.write("a/file", "x");
  for (const char* same : {"a/file", "a//file", "./a/./file", "a/../a/file"}) {
    auto found = resolve(path(same), {});
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->name, "file");
    EXPECT_TRUE(found->is_regular());
    EXPECT_TRUE(found->only_ours) << found->doubt;
  }
  auto absent = resolve(path("a/none"), {});
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->found);
  for (const char* directory : {"a", "a/", "a/.", "a/.."}) {
    auto found = resolve(path(directory), {});
    ASSERT_TRUE(found) << directory;
    EXPECT_TRUE(found->is_directory()) << directory;
  }
  EXPECT_EQ(refusal("none/file"), path("none") + ": No such file or directory");
  EXPECT_EQ(refusal("a/file/x"), path("a/file") + ": Not a directory");
  EXPECT_FALSE(resolve("", {}));
}

TEST_F(SafePathTest, follows_ones_own_links) {
  tree_.write("run/job/file", "x");
  tree_.link("relative", "run");
  tree_.link("absolute", path("relative"));
  tree_.link("last", "absolute/job/file");
  EXPECT_TRUE(resolve(path("absolute/job/../job/file"), kWrites)->is_regular());
  EXPECT_TRUE(resolve(path("last"), kWrites)->is_regular());
  auto kept = resolve(path("last"), {.last_link = false});
  ASSERT_TRUE(kept);
  EXPECT_TRUE(S_ISLNK(kept->found->st_mode));
  tree_.link("endless", "endless");
  EXPECT_EQ(refusal("endless/x"), path("endless") + ": Too many levels of symbolic links");
}

TEST_F(SafePathTest, follows_no_link_that_another_user_made) {
  tree_.write("precious/file", "x");
  tree_.link("link", "precious");
  tree_.link("last", "precious/file");
  give_away("link");
  give_away("last");
  for (const PathRules& rules : {PathRules{}, kWrites}) {
    EXPECT_TRUE(says(refusal("link/file", rules), path("link") + " is a link that uid 65534 made"))
        << refusal("link/file", rules);
    EXPECT_TRUE(says(refusal("last", rules), "is a link that uid 65534 made"));
    EXPECT_EQ(errno, ELOOP);
  }
}

TEST_F(SafePathTest, follows_no_link_that_another_user_could_replace) {
  tree_.write("precious/file", "x");
  tree_.make_dir("theirs");
  tree_.link("theirs/link", path("precious"));
  give_away("theirs");
  std::string why = refusal("theirs/link/file");
  EXPECT_TRUE(says(why, path("theirs/link") + " is a link, and " + path("theirs") + " belongs to uid 65534"))
      << why;
  ASSERT_EQ(chown(path("theirs").c_str(), 0, 0), 0);
  EXPECT_EQ(refusal("theirs/link/file"), "");
  ASSERT_EQ(chmod(path("theirs").c_str(), 0777), 0);
  EXPECT_TRUE(says(refusal("theirs/link/file"), "anybody may write to " + path("theirs")));
  ASSERT_EQ(chmod(path("theirs").c_str(), 01777), 0);
  EXPECT_EQ(refusal("theirs/link/file"), "") << "as in /tmp, where nobody may take away another's";
}

TEST_F(SafePathTest, knows_whose_hand_may_be_on_a_directory) {
  tree_.make_dir("a/b");
  auto of = [&](mode_t mode, gid_t group) {
    EXPECT_EQ(chown(path("a").c_str(), static_cast<uid_t>(-1), group), 0);
    EXPECT_EQ(chmod(path("a").c_str(), mode), 0);
    auto found = resolve(path("a/file"), kWrites);
    EXPECT_TRUE(found);
    return std::tuple(found->only_ours, found->keeps_ours, found->doubt);
  };
  EXPECT_EQ(of(0755, getegid()), std::tuple(true, true, ""));
  EXPECT_EQ(of(0775, getegid()), std::tuple(true, true, "")) << "a group of one's own";
  EXPECT_EQ(of(0777, getegid()), std::tuple(false, false, "anybody may write to " + path("a")));
  EXPECT_EQ(of(01777, getegid()), std::tuple(false, true, "anybody may write to " + path("a")));
  if (geteuid() != 0) return;
  EXPECT_EQ(of(0775, kOther), std::tuple(false, false, "group 65534 may write to " + path("a")));
  EXPECT_EQ(of(0755, kOther), std::tuple(true, true, ""));
}

TEST_F(SafePathTest, writes_into_another_users_directory_but_not_where_he_may_have_moved_ours) {
  tree_.make_dir("home/own");
  tree_.make_dir("home/ours");
  give_away("home");
  give_away("home/own");
  EXPECT_EQ(refusal("home/own/file", kWrites), "");
  EXPECT_EQ(refusal("home/own/../file", kWrites), "");
  auto theirs = resolve(path("home/own/file"), kWrites);
  EXPECT_FALSE(theirs->only_ours);
  EXPECT_FALSE(theirs->keeps_ours);
  EXPECT_EQ(theirs->doubt, path("home") + " belongs to uid 65534");
  std::string why = refusal("home/ours/file", kWrites);
  EXPECT_TRUE(says(why, path("home") + " belongs to uid 65534, so " + path("home/ours") + " may be another"))
      << why;
  EXPECT_EQ(refusal("home/ours/file"), "") << "it is read";
  auto read = resolve(path("home/ours/file"), {});
  EXPECT_FALSE(read->only_ours) << "what is above it counts";
}

TEST_F(SafePathTest, makes_directories_where_nobody_else_could) {
  constexpr PathRules makes{.writes = true, .makes_directories = true};
  umask(0);
  auto made = resolve(path("a/b/file"), makes);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->only_ours);
  EXPECT_FALSE(made->found);
  for (const char* directory : {"a", "a/b"})
    EXPECT_EQ(fs::status(path(directory)).permissions(), fs::perms(0750)) << directory;
  tree_.make_dir("theirs");
  give_away("theirs");
  EXPECT_FALSE(resolve(path("theirs/new/file"), makes));
  EXPECT_FALSE(fs::exists(path("theirs/new")));
}

TEST_F(SafePathTest, that_leads_to_a_descriptor_is_read_by_it) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "word", 4), 4);
  close(ends[1]);
  auto found = resolve("/dev/fd/" + std::to_string(ends[0]), {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->is_descriptor);
  auto fd = open_input(*found);
  ASSERT_TRUE(fd) << fd.error().message;
  char text[8] = {};
  EXPECT_EQ(read(fd->get(), text, sizeof(text)), 4);
  close(ends[0]);
}

TEST_F(SafePathTest, behind_a_link_of_a_process_is_that_processs_file) {
  tree_.write("a/file", "x");
  UniqueFd directory(open(path("a").c_str(), O_PATH | O_CLOEXEC));
  auto found = resolve("/proc/self/fd/" + std::to_string(directory.get()) + "/file", {});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->is_regular());
  EXPECT_FALSE(found->only_ours) << "where it is cannot be known";
}

TEST_F(SafePathTest, of_a_fifo_is_waited_for_only_where_it_is_ones_own) {
  tree_.write("file", "x");
  ASSERT_EQ(mkfifo(path("own").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(path("theirs").c_str(), 0600), 0);
  UniqueFd other_end(open(path("own").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(open_input(path("own")));
  EXPECT_TRUE(open_input(path("file")));
  EXPECT_EQ(open_input(tree_.path()).error().message, "it is a directory");
  EXPECT_EQ(open_input(path("none")).error().message, "No such file or directory");
  give_away("theirs");
  auto refused = open_input(path("theirs"));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(says(refused.error().message, "no regular file")) << refused.error().message;
}

}  // namespace
}  // namespace oomcast
