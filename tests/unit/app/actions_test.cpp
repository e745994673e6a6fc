#include "app/actions.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace oomcast {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using RunResult = ActionRun::Result;

class Actions : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "oomcast-actions-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Its clock is ours; what is awaited is a process of this machine.
  ActionRunner::Ended end(MonoTime now = {}) {
    for (;;) {
      auto ended = runner_.reap(now);
      if (!ended.empty()) return ended.front();
      usleep(1000);
    }
  }
  ActionRunner::Ended exec(const std::string& command, const std::vector<std::string>& variables = {}) {
    EXPECT_TRUE(runner_.exec(command, variables, {}).ok());
    return end();
  }
  ActionRunner::Ended touch(const fs::path& path) {
    EXPECT_TRUE(runner_.touch(path, {}).ok());
    return end();
  }
  std::string contents(const std::string& name) {
    std::ifstream file(folder_ / name);
    std::stringstream out;
    out << file.rdbuf();
    return out.str();
  }

  fs::path folder_;
  ActionRunner runner_{ChildLimits{}};
};

TEST_F(Actions, tell_how_a_command_ended) {
  auto ok = exec("exit 0");
  EXPECT_EQ(ok.result, RunResult::ok);
  EXPECT_EQ(ok.exit_code, 0);
  auto failed = exec("exit 3");
  EXPECT_EQ(failed.result, RunResult::failed);
  EXPECT_EQ(failed.exit_code, 3);
  auto killed = exec("kill -TERM $$");
  EXPECT_EQ(killed.result, RunResult::failed);
  EXPECT_EQ(killed.signal, SIGTERM);
  EXPECT_EQ(killed.exit_code, std::nullopt);
  EXPECT_EQ(exec("/nonexistent/command").exit_code, 127);
}

TEST_F(Actions, hand_over_strings_that_no_shell_reads) {
  std::string hostile = "$(touch " + (folder_ / "injected").string() + ")`id`;\"'\n\x1b\xff";
  exec("printf %s \"$OOMCAST_CGROUP\" > " + (folder_ / "out").string(), {"OOMCAST_CGROUP=" + hostile});
  EXPECT_EQ(contents("out"), hostile);
  EXPECT_FALSE(fs::exists(folder_ / "injected"));
}

TEST_F(Actions, give_a_command_nothing_of_our_own) {
  int kept = open("/dev/null", O_RDONLY);  // not closed on exec
  sigset_t usr1, old;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, &old);
  auto pipes = std::signal(SIGPIPE, SIG_IGN);
  setenv("OOMCAST_OLD", "x", 1);
  exec("exec > " + (folder_ / "out").string() +
       "; readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; grep -E 'SigBlk|SigIgn' /proc/self/status; "
       "cat /proc/self/oom_score_adj; [ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo session; echo "
       "\"old=$OOMCAST_OLD\"");
  unsetenv("OOMCAST_OLD");
  std::signal(SIGPIPE, pipes);
  sigprocmask(SIG_SETMASK, &old, nullptr);
  close(kept);
  EXPECT_EQ(contents("out"),
            "/dev/null\n4\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n0\nsession\nold=\n");
}

TEST_F(Actions, are_killed_with_their_group_when_they_take_too_long) {
  std::string pid = (folder_ / "pid").string();
  ASSERT_TRUE(runner_.exec("sleep 1000 & echo $! > " + pid + "; wait", {}, {}).ok());
  while (contents("pid").empty()) usleep(1000);
  EXPECT_TRUE(runner_.reap(MonoTime(29s)).empty());
  auto ended = end(MonoTime(30s));
  EXPECT_EQ(ended.result, RunResult::timed_out);
  EXPECT_EQ(ended.took, 30s);
  EXPECT_FALSE(runner_.busy());
  pid_t child = std::stoi(contents("pid"));
  auto is_dead = [&] {
    std::ifstream status("/proc/" + std::to_string(child) + "/stat");
    std::string word, state;
    return !(status >> word >> word >> state) || state == "Z";
  };
  for (int tries = 0; !is_dead() && tries < 5000; ++tries) usleep(1000);
  EXPECT_TRUE(is_dead());
}

TEST_F(Actions, know_when_there_are_too_many_of_them) {
  for (std::size_t i = 0; i < ActionRunner::kMaxRunning; ++i) {
    EXPECT_FALSE(runner_.full(ActionRun::Kind::exec));
    ASSERT_TRUE(runner_.exec("sleep 1000", {}, {}).ok());
  }
  EXPECT_TRUE(runner_.full(ActionRun::Kind::exec));
  EXPECT_FALSE(runner_.full(ActionRun::Kind::touch));
  while (runner_.busy()) runner_.reap(MonoTime(31s));
}

TEST_F(Actions, flood_nobody) {
  EXPECT_EQ(exec("head -c 100000000 /dev/zero; head -c 100000000 /dev/zero >&2").result, RunResult::ok);
}

TEST_F(Actions, make_a_file_or_give_it_the_present_time) {
  fs::path file = folder_ / ".stop";
  ActionRunner::Ended ended = touch(file);
  EXPECT_EQ(ended.result, RunResult::ok);
  EXPECT_FALSE(ended.exit_code) << "no command was run";
  struct stat made {};
  ASSERT_EQ(stat(file.c_str(), &made), 0);
  EXPECT_EQ(
      made.st_mode & 0777, 0640u & ~[] {
        mode_t mask = umask(0);
        umask(mask);
        return mask;
      }());
  std::ofstream(file) << "kept";
  timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), old, 0), 0);
  EXPECT_EQ(touch(file).result, RunResult::ok);
  ASSERT_EQ(stat(file.c_str(), &made), 0);
  EXPECT_GT(made.st_mtim.tv_sec, 1000);
  EXPECT_EQ(contents(".stop"), "kept");
}

TEST_F(Actions, touch_no_symlink_fifo_or_folder) {
  fs::path target = folder_ / "target", link = folder_ / "link", fifo = folder_ / "fifo";
  fs::create_symlink(target, link);
  auto dangling = touch(link);
  EXPECT_EQ(dangling.result, RunResult::failed);
  EXPECT_NE(dangling.error.value_or("").find("symlink"), std::string::npos) << dangling.error.value_or("");
  EXPECT_FALSE(fs::exists(target));
  std::ofstream(target) << "x";
  timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, target.c_str(), old, 0), 0);
  EXPECT_EQ(touch(link).result, RunResult::failed);
  struct stat seen {};
  ASSERT_EQ(stat(target.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mtim.tv_sec, 1000);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(touch(fifo).result, RunResult::failed);
  EXPECT_EQ(touch(folder_).result, RunResult::failed);
  EXPECT_EQ(touch(folder_ / "missing" / "file").error,
            (folder_ / "missing").string() + ": No such file or directory");
  fs::create_hard_link(target, folder_ / "name");
  EXPECT_NE(touch(folder_ / "name").error.value_or("").find("another name"), std::string::npos);
}

TEST_F(Actions, touch_through_links_of_their_own_and_of_root_and_no_other_users) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes links of other users";
  fs::create_directories(folder_ / "run" / "job");
  fs::create_directory_symlink("run", folder_ / "relative");
  fs::create_directory_symlink(folder_ / "relative", folder_ / "var");
  EXPECT_EQ(touch(folder_ / "var" / "job" / ".." / ".stop").result, RunResult::ok);
  EXPECT_TRUE(fs::exists(folder_ / "run" / ".stop"));

  fs::path theirs = folder_ / "theirs";
  fs::create_directory_symlink(folder_ / "run", theirs);
  ASSERT_EQ(lchown(theirs.c_str(), 65534, 65534), 0);
  auto led = touch(theirs / "led");
  EXPECT_EQ(led.result, RunResult::failed);
  EXPECT_EQ(led.error,
            theirs.string() + " is a link that uid 65534 made: it is not followed; name what it leads to");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "led"));
  fs::create_directory_symlink(folder_ / "endless", folder_ / "endless");
  EXPECT_EQ(touch(folder_ / "endless" / "x").result, RunResult::failed);
}

}  // namespace
}  // namespace oomcast
