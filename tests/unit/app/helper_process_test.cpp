#include "app/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

int never_ends() {
  for (;;) pause();
}

struct Output {
  Output() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  // All of it, once nobody has the other end any more; nullopt: somebody still has it after 20 s.
  std::optional<std::string> all() {
    write_end.reset();
    std::string out;
    for (pollfd wait{read_end.get(), POLLIN, 0}; poll(&wait, 1, 20'000) == 1;) {
      std::array<char, 256> part{};
      ssize_t n = read(read_end.get(), part.data(), part.size());
      if (n <= 0) return out;
      out.append(part.data(), static_cast<std::size_t>(n));
    }
    return std::nullopt;
  }
  UniqueFd read_end, write_end;
};

TEST(HelperProcess, is_killed_at_its_deadline_and_not_before) {
  HelperProcess helper;
  ASSERT_TRUE(helper.start({}, {}, -1, never_ends));
  MonoTime now = mono_now();
  helper.set_deadline(now + 5s);
  EXPECT_FALSE(helper.expire(now + 5s - 1ns));
  EXPECT_FALSE(helper.reap());
  EXPECT_TRUE(helper.expire(now + 5s));
  EXPECT_FALSE(helper.expire(now + 6s)) << "once";
  auto ended = helper.reap(20s);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(WIFSIGNALED(ended->status) && WTERMSIG(ended->status) == SIGKILL) << ended->status;
  EXPECT_FALSE(helper.runs());
}

TEST(HelperProcess, is_killed_by_the_kernel_when_its_owner_ends) {
  Output output;
  pid_t owner = fork();
  if (owner == 0) {
    HelperProcess helper;
    bool started = helper
                       .start({}, {}, output.write_end.get(),
                              [] { return write(STDOUT_FILENO, "u", 1) == 1 ? never_ends() : 1; })
                       .ok();
    char up = 0;
    _exit(started && read(output.read_end.get(), &up, 1) == 1 ? 7 : 1);  // without a destructor
  }
  int status = 0;
  ASSERT_EQ(waitpid(owner, &status, 0), owner);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_TRUE(output.all()) << "it has its output open";
}

TEST(HelperProcess, that_was_ended_is_not_waited_for_and_reaped_when_it_is_gone) {
  Output go;
  HelperProcess helper;
  // What the kernel holds cannot be made here. This one is left, and ends when it is told to.
  int words = dup(go.read_end.get());
  ASSERT_TRUE(helper.start({}, {}, words, [] {
    char byte = 0;
    return read(STDOUT_FILENO, &byte, 1) == 1 ? 0 : 1;
  }));
  close(words);
  helper.leave();
  EXPECT_FALSE(helper.runs());
  EXPECT_EQ(helper.unreaped(), 1u);
  ASSERT_EQ(write(go.write_end.get(), "g", 1), 1);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(helper.unreaped(), 0u);
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(ended.si_pid), &ended, WEXITED | WNOWAIT), -1)
      << "a zombie is left";
}

TEST(HelperProcess, is_ended_by_the_next_one) {
  Output output;
  HelperProcess helper;
  ASSERT_TRUE(helper.start({}, {}, output.write_end.get(), never_ends));
  ASSERT_TRUE(helper.start({}, {}, -1, [] { return 9; }));
  EXPECT_TRUE(output.all()) << "the first one goes on";
  auto ended = helper.reap(20s);
  ASSERT_TRUE(ended);
  EXPECT_EQ(WEXITSTATUS(ended->status), 9);
}

TEST(HelperProcess, has_the_limits_that_it_is_given_and_no_descriptor_but_its_output) {
  UniqueFd secret(open("/dev/null", O_RDONLY));  // not close-on-exec
  ASSERT_GE(secret.get(), 3);
  ChildLimits limits;
  limits.files = rlimit{33, 44};
  limits.data = MiB(64);
  Output output;
  HelperProcess helper;
  ASSERT_TRUE(helper.start({}, limits, output.write_end.get(), [&] {
    rlimit files{}, data{}, core{};
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_DATA, &data);
    getrlimit(RLIMIT_CORE, &core);
    bool right = files.rlim_cur == 33 && files.rlim_max == 44 && core.rlim_cur == 0 && core.rlim_max == 0 &&
                 data.rlim_cur == static_cast<rlim_t>(MiB(64).count) && data.rlim_max == data.rlim_cur;
    bool closed = fcntl(secret.get(), F_GETFD) == -1 && errno == EBADF;
    return !right ? 1 : !closed ? 2 : write(STDOUT_FILENO, "done", 4) == 4 ? 0 : 3;
  }));
  EXPECT_EQ(output.all(), "done");
  auto ended = helper.reap(20s);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 0);
}

}  // namespace
}  // namespace oomcast
