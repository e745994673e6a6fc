#include "app/event_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/unix_address.h"
#include "stream/json.h"

namespace oomcast {
namespace {

constexpr int kBacklog = 16;
constexpr int kAcceptsAtOnce = 16;  // the loop has more to do

bool anybody_listens(const UnixAddress& at) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A listener with a full backlog gives EAGAIN.
  return fd && (connect(fd.get(), at.get(), at.length) == 0 || errno == EAGAIN);
}

}  // namespace

Result<UniqueFd> EventSocket::listen_at(const std::string& path) {
  auto at = unix_address(path);
  if (!at || path[0] == '@')
    return Error::failed(
        fmt::format("{}: a socket's path has at most {} bytes", path, sizeof(at->address.sun_path) - 1));
  std::string folder = path.substr(0, path.find_last_of('/') + 1);
  if (!folder.empty() && mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return Error::from_errno("making " + folder);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Error::from_errno("opening a socket");
  auto bind_it = [&] {
    // With a chmod() after bind(), anybody could connect between the two.
    mode_t before = umask(0117);
    int failed = bind(fd.get(), at->get(), at->length) != 0 ? errno : 0;
    umask(before);
    return failed;
  };
  int failed = bind_it();
  if (failed == EADDRINUSE) {
    if (anybody_listens(*at)) return Error::failed(fmt::format("{}: an oomcast daemon runs already", path));
    struct stat there {};
    if (lstat(path.c_str(), &there) != 0 || !S_ISSOCK(there.st_mode))
      return Error::failed(fmt::format("{} is there and is no socket: name another path", path));
    unlink(path.c_str());  // left by a daemon that was killed
    failed = bind_it();
  }
  if (failed) return Error::from_errno(path, failed);
  if (listen(fd.get(), kBacklog) != 0) return Error::from_errno(path);
  return fd;
}

EventSocket::EventSocket(EventLoop& loop, UniqueFd listening, Now now, const ClockMap& clock)
    : loop_(loop),
      listening_(std::move(listening)),
      now_(std::move(now)),
      clock_(clock),
      totals_(mono_now()) {
  (void)loop_.on_readable(listening_.get(), [this] { accept_all(); });
  each_15_s();
}

EventSocket::~EventSocket() {
  loop_.forget(listening_.get());
  for (const auto& [fd, reader] : readers_) loop_.forget(fd);
  sockaddr_un at{};
  socklen_t length = sizeof(at);
  if (getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0 && at.sun_path[0])
    unlink(at.sun_path);
}

void EventSocket::on(const Fact& fact) {
  if (auto* start = std::get_if<StartFact>(&fact)) start_ = *start;
  totals_.on(fact);
  send_all(fact);
}

EventSocket::Line EventSocket::render(const Fact& fact) const {
  return std::make_shared<const std::string>(to_json(fact, clock_) + "\n");
}

void EventSocket::send_all(const Fact& fact) {
  if (readers_.empty() || kind_of(fact) == FactKind::internal) return;
  Line line = render(fact);
  for (auto next = readers_.begin(); next != readers_.end();) {
    int fd = next->first;
    if (!push(next->second, line)) drop(fd);
    next = readers_.upper_bound(fd);
  }
}

void EventSocket::accept_all() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;
    int number = fd.get();
    if (readers_.size() >= kMaxReaders || !loop_.on_readable(number, [this, number] { on_input(number); })) {
      ++refused_;
      continue;
    }
    Reader& reader = readers_[number];
    reader.fd = std::move(fd);
    bool lives = !start_ || push(reader, render(*start_));
    lives = lives && push(reader, render(totals_.now(mono_now())));
    reader.state = now_.cgroups();
    std::reverse(reader.state.begin(), reader.state.end());
    lives = lives && go_on(reader);
    if (!lives) drop(number);
  }
}

// The reader hung up, or sent data, which it must not.
void EventSocket::on_input(int fd) {
  char byte = 0;
  ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
  if (n >= 0 || (errno != EAGAIN && errno != EINTR)) drop(fd);
}

bool EventSocket::push(Reader& reader, Line line) {
  if (!reader.waiting.empty() && reader.bytes + line->size() > kMaxWaiting) {
    ++slow_;
    return false;
  }
  reader.bytes += line->size();
  reader.waiting.push_back(std::move(line));
  return reader.awaits_room || go_on(reader);
}

bool EventSocket::go_on(Reader& reader) {
  int fd = reader.fd.get();
  reader.awaits_room = false;
  while (reader.bytes < kMaxAhead && !reader.state.empty()) {
    for (const Fact& fact : now_.newest(reader.state.back())) {
      reader.waiting.push_back(render(fact));
      reader.bytes += reader.waiting.back()->size();
    }
    reader.state.pop_back();
  }
  while (!reader.waiting.empty()) {
    const std::string& line = *reader.waiting.front();
    ssize_t n = send(fd, line.data() + reader.sent, line.size() - reader.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) return false;
    if (n < 0) break;
    reader.sent += static_cast<std::size_t>(n);
    if (reader.sent < line.size()) continue;
    reader.bytes -= line.size();
    reader.sent = 0;
    reader.waiting.pop_front();
  }
  if (reader.waiting.empty() && reader.state.empty()) return true;
  // Even if it took all of this part: the state of 10,000 cgroups must not be rendered in one go.
  reader.awaits_room = true;
  return static_cast<bool>(loop_.on_writable(fd, [this, fd] {
    auto known = readers_.find(fd);
    if (known != readers_.end() && !go_on(known->second)) drop(fd);
  }));
}

void EventSocket::drop(int fd) {
  loop_.forget(fd);
  readers_.erase(fd);
}

void EventSocket::each_15_s() {
  loop_.at(mono_now() + kTotalsEvery, [this] {
    send_all(totals_.now(mono_now()));
    each_15_s();
  });
}

}  // namespace oomcast
