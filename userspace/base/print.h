// Output that neither throws nor kills the process when its reader is gone.
#pragma once

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

#include "base/result.h"

namespace oomcast {

/// Writes `text` to `to` and flushes it. false: it could not be written (a closed pipe, a full disk).
inline bool print(std::FILE* to, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
}

/// Of stdout; nullopt: it is no terminal.
inline std::optional<std::size_t> terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

/// After print(stdout, …), or a queue to it, has failed. Without a message, and exit code 0: the other end of
/// the pipe is closed, as by `| head -1`, which had all that it wanted.
inline Error stdout_failed() {
  pollfd out{STDOUT_FILENO, 0, 0};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR)) return Error{"", 0};
  return Error::failed("stdout was closed or is full: stopped");
}

}  // namespace oomcast
