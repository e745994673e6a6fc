#include "collect/log_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/escape.h"
#include "collect/safe_path.h"
#include "parse/utf16.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024, kBuffer = 256 * 1024;

// Splits bytes into lines, and lines of more than kLongestLine into pieces.
class LineCutter {
 public:
  explicit LineCutter(const std::function<void(std::string_view, bool)>& on_line) : on_line_(on_line) {}

  void feed(std::string_view rest) {
    while (!rest.empty()) {
      std::size_t end = rest.find('\n');
      std::string_view piece = rest.substr(0, end);
      bool whole = end != std::string_view::npos;
      rest.remove_prefix(whole ? end + 1 : rest.size());
      while (begun_.size() + piece.size() > kLongestLine) {
        std::size_t room = kLongestLine - begun_.size();
        begun_.append(piece.substr(0, room));
        piece.remove_prefix(room);
        on_line_(begun_, true);
        begun_.clear();
      }
      if (whole && begun_.empty()) {
        on_line_(piece, false);
        continue;
      }
      begun_.append(piece);
      if (!whole) continue;
      on_line_(begun_, false);
      begun_.clear();
    }
  }
  void finish() {
    if (!begun_.empty()) on_line_(begun_, true);
  }

 private:
  const std::function<void(std::string_view, bool)>& on_line_;
  std::string begun_;  // an incomplete line
};

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
  LineCutter lines(on_line);
  std::optional<Utf16Decoder> utf16;
  std::string decoded;
  auto buffer = std::make_unique<std::array<char, kBuffer>>();
  std::uint64_t bytes = 0;
  int got = 0;
  while ((got = gzread(file.get(), buffer->data(), kBuffer)) > 0) {
    std::string_view piece(buffer->data(), static_cast<std::size_t>(got));
    if (bytes == 0) utf16 = Utf16Decoder::of(piece);
    bytes += piece.size();
    if (utf16) {
      decoded.clear();
      utf16->decode(piece, decoded);
    }
    lines.feed(utf16 ? std::string_view(decoded) : piece);
    if (on_bytes && !on_bytes(bytes)) return Ok{};
  }
  lines.finish();
  if (got == 0) return Ok{};
  int code = 0;
  const char* why = gzerror(file.get(), &code);
  return code == Z_ERRNO ? Error::from_errno("reading stopped")
                         : Error::failed(fmt::format("reading stopped: {}", why));
}

}  // namespace oomcast
