#include "app/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
  std::string dir_;
};

TEST_F(OutputFileTest, empties_what_is_there) {
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
  EXPECT_NE(file.error().message.find("somebody else made"), std::string::npos) << file.error().message;
  EXPECT_EQ(target(), "as it was");
}

}  // namespace
}  // namespace oomcast
