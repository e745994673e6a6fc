#include "app/actions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "app/child_process.h"

namespace oomcast {
namespace {

// 0, or an errno.
int touch_file(const char* path) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  for (int tries = 0; tries < 3; ++tries) {
    if (int fd = open(path, kNew, 0640); fd >= 0) return close(fd) == 0 ? 0 : errno;
    if (errno != EEXIST) return errno;
    struct stat found {};
    if (fstatat(AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) == 0) {
      if (S_ISLNK(found.st_mode)) return ELOOP;
      if (!S_ISREG(found.st_mode)) return EINVAL;
      if (utimensat(AT_FDCWD, path, nullptr, AT_SYMLINK_NOFOLLOW) == 0) return 0;
    }
    if (errno != ENOENT) return errno;  // it was removed meanwhile: make it
  }
  return EBUSY;
}

std::string touch_error(int err) {
  if (err == ELOOP) return "it is a symlink (or a loop of them): not followed";
  if (err == EINVAL) return "it is no regular file: left alone";
  return std::strerror(err);
}

}  // namespace

bool ActionRunner::full(ActionRun::Kind kind) const {
  bool touches = kind == ActionRun::Kind::touch;
  auto running = std::count_if(running_.begin(), running_.end(),
                               [touches](const Running& r) { return r.touches == touches; });
  return static_cast<std::size_t>(running) >= kMostRunning;
}

Result<ActionRunner::Id> ActionRunner::started(pid_t pid, bool touches, MonoTime now) {
  if (pid < 0) return Error::from_errno("starting a process");
  running_.push_back({++last_, pid, touches, false, now});
  return last_;
}

Result<ActionRunner::Id> ActionRunner::exec(const std::string& command,
                                            const std::vector<std::string>& variables, MonoTime now) {
  std::vector<char*> environment;
  for (char** at = environ; *at; ++at)
    if (!std::string_view(*at).starts_with("OOMCAST_")) environment.push_back(*at);
  for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  const char* argv[] = {"/bin/sh", "-c", command.c_str(), nullptr};
  pid_t pid = fork();
  if (pid == 0) {
    become_child(oom_score_adj_);
    execve(argv[0], const_cast<char**>(argv), environment.data());
    _exit(126);
  }
  return started(pid, false, now);
}

Result<ActionRunner::Id> ActionRunner::touch(const std::string& path, MonoTime now) {
  pid_t pid = fork();
  if (pid == 0) {
    become_child(oom_score_adj_);
    _exit(touch_file(path.c_str()));
  }
  return started(pid, true, now);
}

std::vector<ActionRunner::Ended> ActionRunner::reap(MonoTime now) {
  std::vector<Ended> out;
  std::erase_if(running_, [&](Running& r) {
    int status = 0;
    pid_t got = waitpid(r.pid, &status, WNOHANG);
    if (got == 0) {
      // Not reaped yet, so the number is still its own; once, for what hangs in the kernel cannot be killed.
      if (now - r.since >= kTimeout && !std::exchange(r.killed, true) && kill(-r.pid, SIGKILL) != 0)
        kill(r.pid, SIGKILL);  // it has not come to its own session yet
      return false;
    }
    Ended ended{r.id, ActionRun::Result::failed, {}, {}, {}, now - r.since};
    if (got < 0)
      ended.error = std::strerror(errno);
    else if (WIFSIGNALED(status))
      ended.signal = WTERMSIG(status);
    else if (WEXITSTATUS(status) == 0)
      ended.result = ActionRun::Result::ok;
    else if (r.touches)
      ended.error = touch_error(WEXITSTATUS(status));
    if (WIFEXITED(status) && got > 0 && !r.touches) ended.exit_code = WEXITSTATUS(status);
    if (r.killed && ended.signal == SIGKILL) ended.result = ActionRun::Result::timed_out;
    out.push_back(std::move(ended));
    return true;
  });
  return out;
}

}  // namespace oomcast
