#include "app/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace oomcast {
namespace {

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() {
    char name[] = "/tmp/oomcast-output-XXXXXX";
    dir_ = mkdtemp(name);
    std::ofstream(dir_ + "/target") << "as it was";
    std::filesystem::create_symlink(dir_ + "/target", dir_ + "/link");
  }
  ~OutputFileTest() override { std::filesystem::remove_all(dir_); }
  std::string target() const {
    std::ifstream file(dir_ + "/target");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(dir_), std::filesystem::directory_iterator());
  }
  std::string dir_;
};

TEST_F(OutputFileTest, takes_the_place_of_what_is_there) {
  auto file = OutputFile::open(dir_ + "/target");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(target(), "new");
}

TEST_F(OutputFileTest, goes_through_a_link_of_ones_own) {
  auto file = OutputFile::open(dir_ + "/link");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(target(), "new");
}

TEST_F(OutputFileTest, never_goes_through_a_link_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes links of others";
  ASSERT_EQ(lchown((dir_ + "/link").c_str(), 65534, 65534), 0);
  auto file = OutputFile::open(dir_ + "/link");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("is a link that uid 65534 made"), std::string::npos)
      << file.error().message;
  EXPECT_EQ(target(), "as it was");
}

TEST_F(OutputFileTest, never_goes_through_a_link_to_a_directory_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes links of others";
  std::filesystem::create_directory(dir_ + "/theirs");
  std::filesystem::create_symlink(dir_, dir_ + "/theirs/up");
  ASSERT_EQ(chown((dir_ + "/theirs").c_str(), 65534, 65534), 0);
  for (uid_t owner : {uid_t{0}, uid_t{65534}}) {
    ASSERT_EQ(lchown((dir_ + "/theirs/up").c_str(), owner, owner), 0);
    auto file = OutputFile::open(dir_ + "/theirs/up/target");
    ASSERT_FALSE(file);
    EXPECT_NE(file.error().message.find(dir_ + "/theirs/up is a link"), std::string::npos)
        << file.error().message;
  }
  EXPECT_EQ(target(), "as it was");
}

TEST_F(OutputFileTest, leaves_what_is_there_until_the_new_one_is_whole) {
  {
    auto file = OutputFile::open(dir_ + "/target");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(target(), "as it was");
  }
  EXPECT_EQ(target(), "as it was");
  EXPECT_EQ(files(), 2) << "nothing is left of one that was not written";
  auto file = OutputFile::open(dir_ + "/new");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/new"));
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(files(), 3);
}

TEST_F(OutputFileTest, is_another_file_than_what_has_a_second_name) {
  std::filesystem::create_hard_link(dir_ + "/target", dir_ + "/name");
  auto file = OutputFile::open(dir_ + "/name");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write("new"));
  EXPECT_EQ(target(), "as it was");
}

TEST_F(OutputFileTest, can_be_read_by_who_could_read_the_one_before) {
  struct stat what {};
  auto written = [&] {
    auto file = OutputFile::open(dir_ + "/target");
    EXPECT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->write("new"));
    EXPECT_EQ(stat((dir_ + "/target").c_str(), &what), 0);
  };
  ASSERT_EQ(chmod((dir_ + "/target").c_str(), 0604), 0);
  written();
  EXPECT_EQ(what.st_mode & 07777, 0604u);
  if (geteuid() != 0) return;
  // But for a stranger who made it where anybody may.
  ASSERT_EQ(chown((dir_ + "/target").c_str(), 65534, 65534), 0);
  written();
  EXPECT_EQ(what.st_uid, 0u);
  EXPECT_EQ(what.st_mode & 0777, 0640u);
  ASSERT_EQ(chown((dir_ + "/target").c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(dir_.c_str(), 01777), 0);
  auto refused = OutputFile::open(dir_ + "/target");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("belongs to uid 65534"), std::string::npos)
      << refused.error().message;
  // In his own directory it stays his.
  ASSERT_EQ(chown(dir_.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  written();
  EXPECT_EQ(what.st_uid, 65534u);
}

TEST_F(OutputFileTest, writes_to_a_pipe_that_is_named) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  auto file = OutputFile::open("/dev/fd/" + std::to_string(ends[1]));
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->write("new"));
  char text[8] = {};
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 3);
  for (int end : ends) close(end);
  EXPECT_TRUE(OutputFile::open("/dev/null"));
  EXPECT_FALSE(OutputFile::open(dir_));
}

}  // namespace
}  // namespace oomcast
