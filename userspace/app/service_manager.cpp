#include "app/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace oomcast {
namespace {

std::optional<std::string> take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::optional<std::string> out = value ? std::optional<std::string>(value) : std::nullopt;
  unsetenv(name);
  return out;
}

std::optional<std::uint64_t> number_of(const std::optional<std::string>& text) {
  std::uint64_t out = 0;
  if (!text) return std::nullopt;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), out);
  return error == std::errc() && end == text->data() + text->size() ? std::optional(out) : std::nullopt;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager out;
  auto path = take_variable("NOTIFY_SOCKET");
  auto usec = number_of(take_variable("WATCHDOG_USEC"));
  auto pid = number_of(take_variable("WATCHDOG_PID"));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (!path || path->size() < 2 || path->size() >= sizeof(at.sun_path)) return out;
  if ((*path)[0] != '/' && (*path)[0] != '@') return out;
  std::memcpy(at.sun_path, path->data(), path->size());
  if (at.sun_path[0] == '@') at.sun_path[0] = '\0';  // an abstract one
  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path->size());
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), length) != 0) return out;
  out.fd_ = std::move(fd);
  constexpr std::uint64_t kMaxUsec = 86'400'000'000;
  if (usec && *usec > 0 && *usec <= kMaxUsec && (!pid || *pid == static_cast<std::uint64_t>(getpid())))
    out.watchdog_ = Nanos(static_cast<std::int64_t>(*usec) * 1000);
  return out;
}

void ServiceManager::send(std::string_view state) {
  if (is_there()) (void)::send(fd_.get(), state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ServiceManager::progress(MonoTime now) {
  if (!watchdog_ || now < next_) return;
  next_ = now + *watchdog_ / 4;
  send("WATCHDOG=1");
}

}  // namespace oomcast
