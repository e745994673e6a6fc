#include "collect/log_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <memory>

#include "base/escape.h"
#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024, kBuffer = 256 * 1024;

}  // namespace

Result<UniqueFd> open_log(const std::string& path) {
  auto fd = open_input(path);
  if (!fd)
    return Error::failed(fmt::format("cannot read {}: {}", escape_for_terminal(path), fd.error().message));
  return fd;
}

Status read_log(UniqueFd fd, const std::function<void(std::string_view, bool)>& on_line,
                const std::function<bool(std::uint64_t)>& on_bytes) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzdopen(fd.get(), "rb"), gzclose);
  if (!file) return Error::failed("out of memory for reading a log");
  (void)fd.release();
  gzbuffer(file.get(), kBuffer);
  std::string begun;  // of a line whose end is not read yet
  bool skipping = false;
  auto buffer = std::make_unique<std::array<char, kBuffer>>();
  std::uint64_t bytes = 0;
  int got = 0;
  while ((got = gzread(file.get(), buffer->data(), kBuffer)) > 0) {
    std::string_view rest(buffer->data(), static_cast<std::size_t>(got));
    bytes += rest.size();
    while (!rest.empty()) {
      std::size_t end = rest.find('\n');
      std::string_view piece = rest.substr(0, end);
      bool whole = end != std::string_view::npos;
      rest.remove_prefix(whole ? end + 1 : rest.size());
      if (skipping) {
        skipping = !whole;
      } else if (begun.size() + piece.size() > kLongestLine) {
        begun.append(piece.substr(0, kLongestLine - begun.size()));
        on_line(begun, true);
        begun.clear();
        skipping = !whole;
      } else if (!whole) {
        begun.append(piece);
      } else if (begun.empty()) {
        on_line(piece, false);
      } else {
        begun.append(piece);
        on_line(begun, false);
        begun.clear();
      }
    }
    if (on_bytes && !on_bytes(bytes)) return Ok{};
  }
  if (!begun.empty()) on_line(begun, true);
  if (got == 0) return Ok{};
  int code = 0;
  const char* why = gzerror(file.get(), &code);
  return code == Z_ERRNO ? Error::from_errno("reading stopped")
                         : Error::failed(fmt::format("reading stopped: {}", why));
}

}  // namespace oomcast
