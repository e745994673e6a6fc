#include "app/metrics_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <sstream>
#include <vector>

#include "base/unique_fd.h"
#include "fixture_tree.h"
#include "stream/facts_of_each_type.h"
#include "stream/openmetrics.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kLong = 60s;  // until a write has ended, which takes no time

class MetricsFileTest : public ::testing::Test {
 protected:
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(dir_), std::filesystem::directory_iterator());
  }
  static std::optional<std::string> error_of(MetricsFile& file, const std::string& text) {
    file.write(text);
    EXPECT_TRUE(file.flush(kLong));
    return file.take_error();
  }
  FixtureTree tree_;
  std::string dir_ = tree_.path(), path_ = tree_.path("oomcast.prom");
};

TEST_F(MetricsFileTest, takes_the_place_of_the_one_before_and_leaves_nothing_beside_it) {
  MetricsFile file(path_);
  EXPECT_EQ(error_of(file, "one\n"), std::nullopt);
  struct stat before {};
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  UniqueFd reader(open(path_.c_str(), O_RDONLY));
  EXPECT_EQ(error_of(file, "two\n"), std::nullopt);
  EXPECT_EQ(content(path_), "two\n");
  EXPECT_EQ(files(), 1);
  char had[5] = {};
  EXPECT_EQ(read(reader.get(), had, 4), 4);
  EXPECT_STREQ(had, "one\n") << "who reads it has all of it";
}

TEST_F(MetricsFileTest, can_be_read_by_another_user_whatever_the_umask) {
  mode_t before = umask(0077);
  MetricsFile file(path_);
  EXPECT_EQ(error_of(file, "one\n"), std::nullopt);
  umask(before);
  struct stat about {};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, mode_t{0644});
}

TEST_F(MetricsFileTest, never_goes_through_a_link) {
  std::ofstream(dir_ + "/target") << "as it was";
  std::filesystem::create_symlink(dir_ + "/target", path_);
  {
    MetricsFile file(path_);
    auto error = error_of(file, "one\n");
    ASSERT_TRUE(error);
    EXPECT_NE(error->find("it is a link"), std::string::npos) << *error;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(content(dir_ + "/target"), "as it was");
}

TEST_F(MetricsFileTest, never_writes_through_a_link_that_waits_where_its_new_file_is_made) {
  std::ofstream(dir_ + "/target") << "as it was";
  std::filesystem::create_symlink(dir_ + "/target", dir_ + "/.oomcast.prom.new");
  MetricsFile file(path_);
  EXPECT_EQ(error_of(file, "one\n"), std::nullopt);
  EXPECT_EQ(content(path_), "one\n");
  EXPECT_EQ(content(dir_ + "/target"), "as it was");
}

TEST_F(MetricsFileTest, is_no_pipe_that_nobody_reads) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  MetricsFile file(path_);
  auto error = error_of(file, "one\n");
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("no regular file"), std::string::npos) << *error;
}

TEST_F(MetricsFileTest, tells_an_error_once_until_it_could_be_written_again) {
  std::string inner = dir_ + "/later";
  MetricsFile file(inner + "/oomcast.prom");
  auto error = error_of(file, "one\n");
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("No such file"), std::string::npos) << *error;
  EXPECT_EQ(error_of(file, "two\n"), std::nullopt);
  std::filesystem::create_directory(inner);
  EXPECT_EQ(error_of(file, "three\n"), std::nullopt);
  EXPECT_EQ(content(inner + "/oomcast.prom"), "three\n");
  std::filesystem::remove_all(inner);
  EXPECT_TRUE(error_of(file, "four\n"));
}

TEST_F(MetricsFileTest, is_gone_when_nobody_keeps_it_true_any_more) {
  {
    MetricsFile file(path_);
    EXPECT_EQ(error_of(file, "one\n"), std::nullopt);
  }
  EXPECT_EQ(files(), 0);
}

TEST_F(MetricsFileTest, holds_up_nothing_while_the_disk_stands_still_and_skips_what_comes_then) {
  std::promise<void> disk;
  std::shared_future<void> goes_on = disk.get_future().share();
  std::vector<std::string> written;
  MetricsFile file(path_, [&](const std::string&, const std::string& text) -> Status {
    goes_on.wait();
    written.push_back(text);
    return Ok{};
  });
  EXPECT_TRUE(file.write("one"));
  EXPECT_FALSE(file.write("two"));
  EXPECT_FALSE(file.write("three"));
  EXPECT_EQ(file.skipped(), 2u);
  EXPECT_FALSE(file.flush(Nanos{}));
  disk.set_value();
  EXPECT_TRUE(file.flush(kLong));
  EXPECT_TRUE(file.write("four"));
  EXPECT_TRUE(file.flush(kLong));
  EXPECT_EQ(written, (std::vector<std::string>{"one", "four"}));
}

TEST_F(MetricsFileTest, on_a_disk_that_stands_still_does_not_hold_up_the_end) {
  std::promise<void> disk, ended;
  std::shared_future<void> goes_on = disk.get_future().share();
  {
    MetricsFile file(path_, [&, goes_on](const std::string&, const std::string&) -> Status {
      goes_on.wait();
      ended.set_value();
      return Error::failed("no disk");
    });
    EXPECT_TRUE(file.write("one"));
  }  // would never return
  disk.set_value();
  ended.get_future().wait();
}

TEST(Metrics, are_all_in_the_manual) {
  Metrics metrics;
  for (const Fact& fact : test::known_facts()) metrics.on(fact);
  CgroupPtr job = test::cgroup(10, "/job");
  metrics.on(ForecastFact{{}, job, std::nullopt, job, test::known_forecast()});
  std::ifstream file(OOMCAST_TESTS "/../packaging/oomcast.8");
  std::string manual(std::istreambuf_iterator<char>(file), {});
  std::istringstream page(metrics.render({}, ClockMap{}));
  std::size_t families = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_NE(manual.find(name), std::string::npos) << name;
    ++families;
  }
  EXPECT_EQ(families, 14u);
}

}  // namespace
}  // namespace oomcast
