#include "app/reader.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "collect/process_memory.h"
#include "collect/procfs.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

TEST(Look, ends_its_process_when_it_lasts_too_long) {
  pid_t pid = fork();
  if (pid == 0) {
    limit_looks(20ms);
    Look look;
    for (;;) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) << status;
}

TEST(Look, leaves_its_process_alone_when_it_is_over) {
  pid_t pid = fork();
  if (pid == 0) {
    limit_looks(20ms);
    { Look look; }
    std::this_thread::sleep_for(60ms);
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

bool nobody_is_near(const TaskId&) {
  return false;
}

int never_answers() {
  for (;;) pause();
}

// Of a kernel without no_new_privs. No library: the child has as little memory as a reader.
int serve_without_no_new_privs() {
  std::array program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_prctl, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_NO_NEW_PRIVS, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{program.size(), program.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 2;
  return serve_reader("");
}

TEST(Reader, that_cannot_drop_its_privileges_serves_nothing_and_is_not_started_again) {
  if (geteuid() != 0) GTEST_SKIP() << "takes a filter without no_new_privs";
  Reader reader("", {}, nobody_is_near, serve_without_no_new_privs);
  MonoTime begin = mono_now();
  ASSERT_TRUE(reader.ask(Reader::What::private_memory, {1, 1}, begin));
  std::vector<Reader::Answer> answers;
  while (answers.empty() && mono_now() - begin < 20s) {
    std::this_thread::sleep_for(5ms);
    answers = reader.advance(mono_now());
  }
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].dropped && !answers[0].private_bytes);
  ASSERT_TRUE(reader.refusal());
  EXPECT_STREQ(reader.refusal(), "could not set no_new_privs");
  EXPECT_FALSE(reader.ask(Reader::What::private_memory, {1, 1}, mono_now() + 1h));
}

TEST(Reader, that_cannot_be_run_gives_up_what_it_was_asked_and_counts_it) {
  Reader reader("", {}, nobody_is_near, [] { return 126; });
  MonoTime begin = mono_now();
  ASSERT_TRUE(reader.ask(Reader::What::private_memory, {1, 1}, begin));
  std::vector<Reader::Answer> answers;
  while (answers.empty() && mono_now() - begin < 20s) {
    std::this_thread::sleep_for(5ms);
    answers = reader.advance(mono_now());
  }
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].given_up);
  EXPECT_EQ(reader.given_up(), 1u);
}

TEST(Reader, is_asked_once_more_when_somebody_else_has_killed_it) {
  auto children = [] {
    std::ifstream file("/proc/self/task/" + std::to_string(gettid()) + "/children");
    return std::set<pid_t>(std::istream_iterator<pid_t>(file), {});
  };
  const std::set<pid_t> others = children();
  auto started = [&] {
    std::set<pid_t> now = children();
    for (pid_t other : others) now.erase(other);
    return now;
  };
  Reader reader("", {}, nobody_is_near, never_answers);
  ASSERT_TRUE(reader.ask(Reader::What::private_memory, {1, 1}, mono_now()));
  ASSERT_EQ(started().size(), 1u);
  pid_t first = *started().begin();
  kill(first, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(first), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(reader.advance(mono_now()).empty());
  EXPECT_EQ(started().size(), 1u);
  EXPECT_FALSE(started().contains(first));
  EXPECT_EQ(reader.given_up(), 0u);
}

TEST(Reader, takes_nothing_while_it_rests_and_drops_what_waits) {
  Reader reader("", {}, nobody_is_near, never_answers);
  MonoTime now = mono_now();
  ASSERT_TRUE(reader.ask(Reader::What::python, {1, 1}, now));
  ASSERT_TRUE(reader.ask(Reader::What::python, {2, 2}, now));
  reader.rest(now + 2s);
  EXPECT_FALSE(reader.ask(Reader::What::python, {3, 3}, now + 1s));
  auto answers = reader.advance(now + 1s);
  ASSERT_EQ(answers.size(), 2u);
  for (const Reader::Answer& answer : answers) EXPECT_TRUE(answer.dropped && !answer.given_up);
  EXPECT_EQ(reader.given_up(), 0u);
  EXPECT_TRUE(reader.ask(Reader::What::python, {3, 3}, now + 3s));
}

TEST(Reader, keeps_away_from_who_is_near_a_kill_and_from_nobody_else) {
  std::set<std::uint32_t> near;
  Reader reader(
      "", {}, [&](const TaskId& id) { return near.contains(id.tgid); }, never_answers);
  MonoTime now = mono_now();
  for (std::uint32_t pid : {1, 2, 3}) ASSERT_TRUE(reader.ask(Reader::What::python, {pid, 1}, now));
  near = {2};
  reader.keep_away();
  EXPECT_TRUE(reader.ask(Reader::What::python, {4, 1}, now)) << "the one that is read is another";
  EXPECT_FALSE(reader.ask(Reader::What::python, {2, 1}, now));
  near = {1, 2};
  reader.keep_away();
  auto answers = reader.advance(now);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].id.tgid, 1u);
  EXPECT_TRUE(answers[0].dropped);
  answers = reader.advance(now);
  ASSERT_EQ(answers.size(), 1u) << "it waited, and is not asked for";
  EXPECT_EQ(answers[0].id.tgid, 2u);
}

TEST(Reader, hands_arguments_over_as_they_are) {
  for (const std::string& text : {std::string("python3\0train.py\0\0", 18), std::string("one"),
                                  std::string("\0", 1), std::string(4096, 'x'), std::string(5000, 'x')}) {
    ProcCmdline before = parse_cmdline(text, 4096);
    ProcCmdline after = parse_cmdline(joined(before), 4096);
    EXPECT_EQ(after.args, before.args) << text.size();
  }
}

}  // namespace
}  // namespace oomcast
