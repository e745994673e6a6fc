// Messages between two of our processes, with one open file attached.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace oomcast {

/// Like send(): bytes sent, or -1 and errno. The file stays open here.
ssize_t send_with_file(int socket, std::span<const std::byte> bytes, int file);

/// Like recv(), with the attached file, close-on-exec; `file` is unchanged if none was attached.
ssize_t receive_with_file(int socket, std::span<std::byte> to, UniqueFd& file);

}  // namespace oomcast
