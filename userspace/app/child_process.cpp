#include "app/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/clock.h"

namespace oomcast {

void become_child(const std::string& oom_score_adj, int output, StartedAs child) {
  setsid();
  take_limits(child);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // Nobody else's memory is worth less because oomcast's own is protected: better no child than one that
  // cannot be killed. Where the file may not be written, oomcast is not protected either.
  int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score < 0 && (errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EINTR)) _exit(126);
  if (score >= 0 && write(score, oom_score_adj.data(), oom_score_adj.size()) < 0) _exit(126);
  int null = open("/dev/null", O_RDWR);
  if (null < 0) _exit(126);
  if (dup2(output >= 0 ? output : null, STDOUT_FILENO) < 0) _exit(126);
  for (int fd : {STDIN_FILENO, STDERR_FILENO})
    if (dup2(null, fd) < 0) _exit(126);
  close_range(3, ~0U, 0);
}

bool reap_within(pid_t pid, Nanos patience, rusage* used, int* status) {
  for (MonoTime until = mono_now() + patience;;) {
    pid_t gone = wait4(pid, status, WNOHANG, used);
    if (gone != 0 || mono_now() >= until) return gone != 0;
    usleep(1000);
  }
}

}  // namespace oomcast
