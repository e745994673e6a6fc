// Messages between two processes of ours, with one open file beside them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace oomcast {

/// As send(): bytes sent, -1: see errno. The file stays open here.
ssize_t send_with_file(int socket, std::span<const std::byte> bytes, int file);

/// As recv(), with the file that came along, closed on exec; `file` stays as it is where none did.
ssize_t receive_with_file(int socket, std::span<std::byte> to, UniqueFd& file);

}  // namespace oomcast
