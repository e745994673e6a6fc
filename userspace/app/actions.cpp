#include "app/actions.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "app/helper_process.h"
#include "base/unique_fd.h"
#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestWord = 1024;

// The message of a child that has exited.
std::string what_was_said(int pipe) {
  std::string text(kLongestWord, '\0');
  ssize_t n = read(pipe, text.data(), text.size());
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return n > 0 ? text : "its process failed";
}

// "": done; otherwise why not. An existing file is never opened: opening a FIFO or a device has side effects.
std::string touch_file(const std::string& path) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  constexpr const char* kNoFile = "it is no regular file: left alone";
  auto place = resolve(path, {.writes = true, .last_link = false});
  if (!place) return place.error().message;
  int dir = place->directory.get();
  const char* name = place->name.c_str();
  for (int tries = 0; tries < 3; ++tries) {
    if (int fd = openat(dir, name, kNew, 0640); fd >= 0) return close(fd) == 0 ? "" : std::strerror(errno);
    if (errno != EEXIST) return std::strerror(errno);
    struct stat found {};
    if (fstatat(dir, name, &found, AT_SYMLINK_NOFOLLOW) == 0) {
      if (S_ISLNK(found.st_mode)) return "it is a symlink: not followed";
      if (!S_ISREG(found.st_mode)) return kNoFile;
      if (found.st_nlink > 1) return "it has another name, which may be any file's: left alone";
      if (utimensat(dir, name, nullptr, AT_SYMLINK_NOFOLLOW) == 0) return "";
    }
    if (errno != ENOENT) return std::strerror(errno);  // removed meanwhile: create it
  }
  return "it is made and removed all the time";
}

}  // namespace

bool ActionRunner::full(ActionRun::Kind kind) const {
  bool touches = kind == ActionRun::Kind::touch;
  auto running = std::count_if(running_.begin(), running_.end(),
                               [touches](const Running& r) { return static_cast<bool>(r.said) == touches; });
  return static_cast<std::size_t>(running) >= kMaxRunning;
}

Result<ActionRunner::Id> ActionRunner::started(pid_t pid, UniqueFd said, MonoTime now) {
  if (pid < 0) return Error::from_errno("starting a process");
  running_.push_back({++last_, pid, std::move(said), false, now});
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
    become_child(limits_);
    execve(argv[0], const_cast<char**>(argv), environment.data());
    _exit(126);
  }
  return started(pid, UniqueFd(), now);
}

Result<ActionRunner::Id> ActionRunner::touch(const std::string& path, MonoTime now) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("making a pipe");
  UniqueFd said(ends[0]), says(ends[1]);
  pid_t pid = fork();
  if (pid == 0) {
    become_child(limits_, says.get());
    std::string why = touch_file(path);
    bool said_all = why.empty() || write(STDOUT_FILENO, why.data(), std::min(why.size(), kLongestWord)) > 0;
    _exit(why.empty() ? 0 : said_all ? 1 : 2);
  }
  return started(pid, std::move(said), now);
}

std::vector<ActionRunner::Ended> ActionRunner::reap(MonoTime now) {
  std::vector<Ended> out;
  std::erase_if(running_, [&](Running& r) {
    int status = 0;
    pid_t got = waitpid(r.pid, &status, WNOHANG);
    if (got == 0) {
      // Not reaped yet, so the pid is still its own. Only once: a child stuck in the kernel cannot be killed.
      if (now - r.since >= kTimeout && !std::exchange(r.killed, true) && kill(-r.pid, SIGKILL) != 0)
        kill(r.pid, SIGKILL);  // it has not called setsid() yet
      return false;
    }
    Ended ended{r.id, ActionRun::Result::failed, {}, {}, {}, now - r.since};
    if (got < 0)
      ended.error = std::strerror(errno);
    else if (WIFSIGNALED(status))
      ended.signal = WTERMSIG(status);
    else if (WEXITSTATUS(status) == 0)
      ended.result = ActionRun::Result::ok;
    else if (r.said)
      ended.error = what_was_said(r.said.get());
    if (WIFEXITED(status) && got > 0 && !r.said) ended.exit_code = WEXITSTATUS(status);
    if (r.killed && ended.signal == SIGKILL) ended.result = ActionRun::Result::timed_out;
    out.push_back(std::move(ended));
    return true;
  });
  return out;
}

}  // namespace oomcast
