#include "app/live_screen.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <utility>

#include "app/output_queue.h"
#include "base/unique_fd.h"

namespace oomcast {
namespace {

void ring(const UniqueFd& bell) {
  eventfd_write(bell.get(), 1);
}

bool silence(const UniqueFd& bell) {
  eventfd_t rung = 0;
  return eventfd_read(bell.get(), &rung) == 0;
}

// Signals that curses handles, which only the drawing thread may receive.
sigset_t signals_of_curses() {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGWINCH);
  sigaddset(&out, SIGTSTP);
  return out;
}

}  // namespace

void LiveScreen::leave_its_signals_alone() {
  sigset_t its = signals_of_curses();
  pthread_sigmask(SIG_BLOCK, &its, nullptr);
}

struct LiveScreen::Shared {
  std::unique_ptr<Screen> screen;  // used only by the thread
  termios before{};                // the terminal as it was
  UniqueFd news{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, asks{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Overview> next;
  Asked asked;
  bool paused = false, ending = false, ended = false;
};

Result<std::unique_ptr<LiveScreen>> LiveScreen::open(const ClockMap& clock, bool color,
                                                     Screen::PostMortemOf post_mortem) {
  auto shared = std::make_shared<Shared>();
  if (!shared->news || !shared->asks) return Error::from_errno("opening an event descriptor");
  tcgetattr(STDIN_FILENO, &shared->before);
  auto screen = Screen::open(clock, color, std::move(post_mortem));
  if (!screen) return screen.error();
  shared->screen = *std::move(screen);
  std::unique_ptr<LiveScreen> out(new LiveScreen(std::move(shared)));
  try {
    out->thread_ = std::thread([of = out->shared_] { work(of); });
  } catch (const std::system_error& e) {
    return Error::failed(std::string("starting the thread of the live screen: ") + e.what());
  }
  return out;
}

LiveScreen::LiveScreen(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

LiveScreen::~LiveScreen() {
  if (!thread_.joinable()) return;
  bool ended = false;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->ending = true;
    ring(shared_->news);
    ended = shared_->changed.wait_for(lock, OutputQueue::kPatience, [&] { return shared_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    tcsetattr(STDIN_FILENO, TCSANOW, &shared_->before);  // TCSANOW does not block
    thread_.detach();
  }
}

int LiveScreen::asked_fd() const {
  return shared_->asks.get();
}

LiveScreen::Asked LiveScreen::asked() {
  silence(shared_->asks);
  std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->asked, {});
}

void LiveScreen::show(Overview overview) {
  std::lock_guard lock(shared_->mutex);
  shared_->next = std::move(overview);
  ring(shared_->news);
}

bool LiveScreen::paused() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->paused;
}

void LiveScreen::work(const std::shared_ptr<Shared>& shared) {
  sigset_t its = signals_of_curses();
  pthread_sigmask(SIG_UNBLOCK, &its, nullptr);
  Screen& screen = *shared->screen;
  for (;;) {
    Screen::Action action = screen.on_input();
    std::optional<Overview> next;
    {
      std::lock_guard lock(shared->mutex);
      if (shared->ending) break;
      shared->asked.quit |= action == Screen::Action::quit;
      if (action == Screen::Action::look) shared->asked.look = screen.selected();
      shared->paused = screen.paused();
      if (!shared->paused) next = std::exchange(shared->next, std::nullopt);
    }
    if (action != Screen::Action::none) ring(shared->asks);
    if (action == Screen::Action::quit) break;
    if (next) screen.draw(*std::move(next));
    std::array<pollfd, 2> until{{{screen.input_fd(), POLLIN, 0}, {shared->news.get(), POLLIN, 0}}};
    poll(until.data(), until.size(), -1);
    silence(shared->news);
  }
  shared->screen.reset();
  std::lock_guard lock(shared->mutex);
  shared->ended = true;
  shared->changed.notify_all();
}

}  // namespace oomcast
