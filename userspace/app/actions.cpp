#include "app/actions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "app/child_process.h"
#include "base/unique_fd.h"

namespace oomcast {
namespace {

// The directory that the file is in. Only root's links and our own are followed: in a directory of another
// user's a link could lead to any other. Error: errno.
UniqueFd open_directory_of(const std::string& path) {
  constexpr int kLook = O_PATH | O_NOFOLLOW | O_CLOEXEC, kMaxLinks = 40;
  auto from = [](const std::string& at) { return open(at.starts_with('/') ? "/" : ".", kLook); };
  std::string rest = path.substr(0, path.find_last_of('/') + 1);
  UniqueFd at(from(rest));
  for (int links = 0; at && !rest.empty();) {
    std::string name = rest.substr(0, rest.find('/'));
    rest.erase(0, name.size() + 1);
    if (name.empty()) continue;
    UniqueFd next(openat(at.get(), name.c_str(), kLook));
    struct stat found {};
    if (!next || fstat(next.get(), &found) != 0) return {};
    if (!S_ISLNK(found.st_mode)) {
      at = std::move(next);
      continue;
    }
    std::array<char, PATH_MAX> target{};
    bool trusted = found.st_uid == 0 || found.st_uid == geteuid();
    if (!trusted || ++links > kMaxLinks) return errno = ELOOP, UniqueFd();
    ssize_t size = readlinkat(next.get(), "", target.data(), target.size() - 1);
    if (size < 0) return {};
    rest.insert(0, std::string(target.data(), static_cast<std::size_t>(size)) + '/');
    if (rest.starts_with('/')) at.reset(from(rest));
  }
  return at;
}

// 0, or an errno.
int touch_file(const std::string& path) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd directory = open_directory_of(path);
  if (!directory) return errno;
  std::string name = path.substr(path.find_last_of('/') + 1);
  int dir = directory.get();
  for (int tries = 0; tries < 3; ++tries) {
    if (int fd = openat(dir, name.c_str(), kNew, 0640); fd >= 0) return close(fd) == 0 ? 0 : errno;
    if (errno != EEXIST) return errno;
    struct stat found {};
    if (fstatat(dir, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0) {
      if (S_ISLNK(found.st_mode)) return ELOOP;
      if (!S_ISREG(found.st_mode)) return EINVAL;
      if (utimensat(dir, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) == 0) return 0;
    }
    if (errno != ENOENT) return errno;  // it was removed meanwhile: make it
  }
  return EBUSY;
}

std::string touch_error(int err) {
  if (err == ELOOP) return "it is a symlink, or another user's leads to it: not followed";
  if (err == EINVAL) return "it is no regular file: left alone";
  return std::strerror(err);
}

}  // namespace

bool ActionRunner::full(ActionRun::Kind kind) const {
  bool touches = kind == ActionRun::Kind::touch;
  auto running = std::count_if(running_.begin(), running_.end(),
                               [touches](const Running& r) { return r.touches == touches; });
  return static_cast<std::size_t>(running) >= kMaxRunning;
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
    _exit(touch_file(path));
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
