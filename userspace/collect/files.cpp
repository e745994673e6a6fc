#include "collect/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

// Reads until `want` bytes, the end of the file or an error.
ssize_t read_all(int fd, char* to, std::size_t want) {
  std::size_t got = 0;
  while (got < want) {
    ssize_t n = ::read(fd, to + got, want - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(got);
}

UniqueFd open_file(int dirfd, const char* path) {
  // O_NONBLOCK: a fifo in a tree that is not the kernel's must not hang us.
  return UniqueFd(::openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

}  // namespace

std::optional<std::string> read_file(int fd, std::size_t max) {
  std::string text;
  while (text.size() < max) {
    std::size_t had = text.size();
    std::size_t want = std::min<std::size_t>(max - had, 4096);
    text.resize(had + want);
    ssize_t got = read_all(fd, text.data() + had, want);
    if (got < 0) return std::nullopt;
    text.resize(had + static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < want) break;
  }
  return text;
}

std::optional<std::string> read_file_at(int dirfd, const char* path, std::size_t max) {
  UniqueFd fd = open_file(dirfd, path);
  return fd ? read_file(fd.get(), max) : std::nullopt;
}

std::optional<std::string_view> read_file_at(int dirfd, const char* path, std::span<char> buffer) {
  UniqueFd fd = open_file(dirfd, path);
  if (!fd) return std::nullopt;
  ssize_t got = read_all(fd.get(), buffer.data(), buffer.size());
  if (got < 0) return std::nullopt;
  return std::string_view(buffer.data(), static_cast<std::size_t>(got));
}

}  // namespace oomcast
