#include "app/service_manager.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "base/unix_address.h"
#include "parse/text.h"

namespace oomcast {
namespace {

std::optional<std::string> take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::optional<std::string> out = value ? std::optional<std::string>(value) : std::nullopt;
  unsetenv(name);
  return out;
}

std::optional<std::uint64_t> number_of(const std::optional<std::string>& text) {
  return text ? parse_u64(*text) : std::nullopt;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager out;
  auto path = take_variable("NOTIFY_SOCKET");
  auto usec = number_of(take_variable("WATCHDOG_USEC"));
  auto pid = number_of(take_variable("WATCHDOG_PID"));
  auto at = path && (path->starts_with('/') || path->starts_with('@')) ? unix_address(*path) : std::nullopt;
  UniqueFd fd(at ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1);
  if (!fd || connect(fd.get(), at->get(), at->length) != 0) return out;
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
