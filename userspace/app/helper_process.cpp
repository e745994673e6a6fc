#include "app/helper_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/clock.h"

namespace oomcast {
namespace {

// Returns whether it is gone.
bool reap_within(pid_t pid, Nanos patience, int* status = nullptr, rusage* used = nullptr) {
  for (MonoTime until = mono_now() + patience;;) {
    pid_t gone = wait4(pid, status, WNOHANG, used);
    if (gone != 0 || mono_now() >= until) return gone != 0;
    usleep(1000);
  }
}

}  // namespace

void become_child(const ChildLimits& limits, int output) {
  setsid();
  take_limits(limits);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The child must not inherit oomcast's protection: better no child than one that the OOM killer cannot
  // choose. If the file is not writable, oomcast is not protected either.
  int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score < 0 && (errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EINTR)) _exit(126);
  if (score >= 0 && write(score, limits.oom_score_adj.data(), limits.oom_score_adj.size()) < 0) _exit(126);
  int null = open("/dev/null", O_RDWR);
  if (null < 0) _exit(126);
  if (dup2(output >= 0 ? output : null, STDOUT_FILENO) < 0) _exit(126);
  for (int fd : {STDIN_FILENO, STDERR_FILENO})
    if (dup2(null, fd) < 0) _exit(126);
  close_range(3, ~0U, 0);
}

HelperProcess::~HelperProcess() {
  end();
  // In many containers pid 1 reaps nothing: without this wait a helper stays a zombie. The wait is short, as
  // a helper stuck in the kernel may never exit.
  for (pid_t pid : left_) (void)reap_within(pid, kReapWait);
}

Status HelperProcess::start(std::vector<std::string> words, const ChildLimits& limits, int output,
                            const Body& body) {
  end();
  words.insert(words.begin(), "oomcast");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // cleared by an exec that changes capabilities: main() sets it again
    if (getppid() != parent) _exit(0);
    become_child(limits, output);
    if (body) _exit(body());
    execv("/proc/self/exe", argv.data());
    _exit(126);
  }
  if (pid_ < 0) return Error::from_errno("starting a process");
  return Ok{};
}

void HelperProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

bool HelperProcess::expire(MonoTime now) {
  if (!deadline_ || now < *deadline_) return false;
  deadline_.reset();
  signal(SIGKILL);
  return true;
}

std::optional<HelperProcess::Ended> HelperProcess::reap(Nanos patience) {
  Ended ended;
  if (pid_ <= 0 || !reap_within(pid_, patience, &ended.status, &ended.used)) return std::nullopt;
  pid_ = -1;
  deadline_.reset();
  return ended;
}

// Reading or waiting for a lock, it dies on the next return to user space.
void HelperProcess::end() {
  signal(SIGKILL);
  leave();
}

void HelperProcess::leave() {
  if (pid_ > 0 && !reap_within(pid_, {})) left_.push_back(pid_);
  pid_ = -1;
  deadline_.reset();
}

std::size_t HelperProcess::unreaped() {
  std::erase_if(left_, [](pid_t pid) { return reap_within(pid, {}); });
  return left_.size();
}

}  // namespace oomcast
