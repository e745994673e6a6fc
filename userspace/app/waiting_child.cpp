#include "app/waiting_child.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "app/privileges.h"
#include "app/tracing.h"

namespace oomcast {
namespace {

struct Pipe {
  UniqueFd read, write;
  static Result<Pipe> open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return Error::from_errno("opening a pipe");
    Pipe out;
    out.read.reset(fds[0]);
    out.write.reset(fds[1]);
    return out;
  }
};

}  // namespace

Result<WaitingChild> WaitingChild::start(const std::vector<std::string>& words, const StopSignals& stop,
                                         bool json) {
  auto go = Pipe::open(), failed = Pipe::open();
  if (!go) return go.error();
  if (!failed) return failed.error();
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const ChildLimits& limits = callers_limits();
  WaitingChild child;
  child.pid = fork();
  if (child.pid < 0) return Error::from_errno("starting a process");
  if (child.pid == 0) {
    auto give_up = [&] {
      int err = errno;
      _exit(write(failed->write.get(), &err, sizeof(err)) < 0 ? 126 : 127);
    };
    stop.restore_in_child();
    go->write.reset();
    char byte = 0;
    if (read(go->read.get(), &byte, 1) != 1) _exit(126);  // the parent exited first
    if (json && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) give_up();
    UniqueFd adj(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (adj && write(adj.get(), limits.oom_score_adj.data(), limits.oom_score_adj.size()) < 0) give_up();
    adj.reset();
    take_limits(limits);
    execvp(argv[0], argv.data());
    give_up();
  }
  child.go = std::move(go->write);
  child.failed = std::move(failed->read);
  child.pidfd.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
  return child;
}

Status WaitingChild::let_go(int& exec_error) {
  if (write(go.get(), "g", 1) != 1) return Error::from_errno("starting the command");
  int error = 0;
  exec_error = read(failed.get(), &error, sizeof(error)) == sizeof(error) ? error : 0;
  return Ok{};
}

}  // namespace oomcast
