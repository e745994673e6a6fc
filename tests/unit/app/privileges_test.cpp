#include "app/privileges.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

// What errno a call leaves in a process that only reads; 0: it worked; −1: it died.
int as_reader(const std::function<bool()>& works) {
  constexpr int kErrno = 100;  // what ends a program by itself does so with small numbers
  pid_t pid = fork();
  if (pid == 0) {
    bool only_reads = !keep_reader_privileges();
    errno = 0;
    int code = !only_reads ? 1 : works() ? 0 : kErrno + errno;
    syscall(SYS_exit_group, code);  // _exit() makes system calls of its own under a sanitizer
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 0 ? 0 : WEXITSTATUS(status) > kErrno ? WEXITSTATUS(status) - kErrno : -1;
}

TEST(ReaderPrivileges, let_it_read) {
  EXPECT_EQ(as_reader([] { return UniqueFd(open("/proc/self/status", O_RDONLY | O_CLOEXEC)).get() >= 0; }),
            0);
  EXPECT_EQ(as_reader([] { return UniqueFd(open("/", O_PATH | O_CLOEXEC)).get() >= 0; }), 0);
}

TEST(ReaderPrivileges, are_refused_where_the_kernel_has_no_system_call_filters) {
  pid_t pid = fork();
  if (pid == 0) {
    scmp_filter_ctx none = seccomp_init(SCMP_ACT_ALLOW);
    seccomp_rule_add(none, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(seccomp), 0);
    seccomp_rule_add(none, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1,
                     SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP, 0));
    int code = seccomp_load(none) != 0 ? 2 : keep_reader_privileges().value_or(1);
    syscall(SYS_exit_group, code);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this kernel takes no filter";
  ASSERT_TRUE(lacking_privilege(status));
  EXPECT_NE(std::string_view(lacking_privilege(status)).find("system call filter"), std::string_view::npos);
}

// The word behind a name in /proc/self/status.
std::string status_word(const char* name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(std::string(name) + ":\t")) return line.substr(line.find('\t') + 1);
  return "";
}

TEST(ReaderPrivileges, have_a_bounding_set_of_three) {
  if (cap_get_bound(CAP_SETPCAP) <= 0 || geteuid() != 0) GTEST_SKIP() << "needs root with CAP_SETPCAP";
  EXPECT_EQ(as_reader([] { return status_word("CapBnd") == status_word("CapEff"); }), 0);
  EXPECT_EQ(as_reader([] { return status_word("NoNewPrivs") == "1"; }), 0);
  EXPECT_EQ(as_reader([] { return status_word("Seccomp") == "2"; }), 0);
}

TEST(ReaderPrivileges, let_it_write_nothing_not_even_what_is_its_own) {
  std::string path = testing::TempDir() + "oomcast-privileges-" + std::to_string(getpid());
  UniqueFd made(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(made);
  EXPECT_EQ(as_reader([&] { return open(path.c_str(), O_WRONLY) >= 0; }), EPERM);
  EXPECT_EQ(as_reader([&] { return open(path.c_str(), O_RDWR) >= 0; }), EPERM);
  EXPECT_EQ(as_reader([&] { return open((path + "2").c_str(), O_RDONLY | O_CREAT, 0600) >= 0; }), EPERM);
  EXPECT_EQ(as_reader([&] {
              open_how how{};
              how.flags = O_WRONLY;
              return syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how)) >= 0;
            }),
            EPERM);
  EXPECT_EQ(as_reader([&] { return unlink(path.c_str()) == 0; }), EPERM);
  unlink(path.c_str());
}

TEST(ReaderPrivileges, let_it_make_no_memory_executable) {
  auto mapped = [](int protection) {
    return mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  EXPECT_EQ(as_reader([&] { return mapped(PROT_READ | PROT_WRITE) != MAP_FAILED; }), 0);
  EXPECT_EQ(as_reader([&] { return mapped(PROT_READ | PROT_EXEC) != MAP_FAILED; }), EPERM);
  EXPECT_EQ(as_reader([&] {
              void* at = mapped(PROT_READ | PROT_WRITE);
              return at == MAP_FAILED || mprotect(at, 4096, PROT_READ | PROT_EXEC) == 0;
            }),
            EPERM);
  EXPECT_EQ(as_reader([&] { return mprotect(mapped(PROT_NONE), 4096, PROT_READ) == 0; }), 0);
}

TEST(ReaderPrivileges, let_it_do_nothing_to_others) {
  EXPECT_EQ(as_reader([] { return kill(getppid(), 0) == 0; }), EPERM);
  EXPECT_EQ(as_reader([] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }), EPERM);
  EXPECT_EQ(as_reader([] { return syscall(SYS_fork) >= 0; }), EPERM);
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  pid_t self = getpid();
  EXPECT_EQ(as_reader([&] { return prlimit(self, RLIMIT_NOFILE, &now, nullptr) == 0; }), EPERM);
  EXPECT_EQ(as_reader([&] { return fcntl(STDERR_FILENO, F_SETOWN, self) == 0; }), EPERM);
}

}  // namespace
}  // namespace oomcast
