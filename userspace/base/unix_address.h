// The address of a socket in the file system.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace oomcast {

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// Of a path, or of an abstract name with '@' in place of its first byte. nullopt: empty, or longer than the 107
/// bytes that an address has room for.
inline std::optional<UnixAddress> unix_address(std::string_view path) {
  UnixAddress out;
  if (path.empty() || path.size() >= sizeof(out.address.sun_path)) return std::nullopt;
  out.address.sun_family = AF_UNIX;
  std::memcpy(out.address.sun_path, path.data(), path.size());
  if (path[0] == '@') out.address.sun_path[0] = '\0';
  // An abstract name ends with its length, a path with its zero.
  out.length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (path[0] == '@' ? 0 : 1));
  return out;
}

}  // namespace oomcast
