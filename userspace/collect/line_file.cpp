#include "collect/line_file.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/escape.h"
#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr std::size_t kReadAtOnce = 1 << 18;

}  // namespace

Error LineFile::wrong_at(std::uint64_t line, std::string_view what) const {
  return Error::usage(fmt::format("{}:{}: {}", escape_for_terminal(path_), line, what));
}

Result<LineFile> LineFile::open(const std::string& path) {
  LineFile out;
  out.path_ = path == "-" ? "stdin" : path;
  if (path == "-") {
    out.fd_ = STDIN_FILENO;
    return out;
  }
  auto file = open_input(path);
  if (!file) {
    bool forbidden = errno == EACCES;
    std::string why = fmt::format("{}: {}", escape_for_terminal(path), file.error().message);
    return forbidden ? Error::forbidden(std::move(why)) : Error::usage(std::move(why));
  }
  out.file_ = *std::move(file);
  out.fd_ = out.file_.get();
  return out;
}

bool LineFile::would_wait() const {
  if (ended_ || buffer_.find('\n', begin_) != std::string::npos) return false;
  pollfd readable = {fd_, POLLIN, 0};
  return poll(&readable, 1, 0) == 0;
}

Status LineFile::read_more() {
  std::size_t have = buffer_.size();
  buffer_.resize(have + kReadAtOnce);
  ssize_t got;
  do got = read(fd_, buffer_.data() + have, kReadAtOnce);
  while (got < 0 && errno == EINTR);
  if (got < 0) return Error::from_errno("reading " + escape_for_terminal(path_));
  buffer_.resize(have + static_cast<std::size_t>(got));
  ended_ = got == 0;
  return Ok{};
}

Result<std::optional<std::string_view>> LineFile::next() {
  std::size_t scanned = begin_;
  for (;;) {
    std::size_t end = buffer_.find('\n', scanned);
    if (end == std::string::npos && !ended_) {
      scanned = buffer_.size();
      if (!keeps_) {
        buffer_.erase(0, begin_);
        scanned -= begin_;
        begin_ = 0;
      }
      if (buffer_.size() - begin_ > kLongestLine) {
        ++line_;
        return wrong("the line is longer than 1 MiB: this is no CSV series");
      }
      if (auto ok = read_more(); !ok) return ok.error();
      continue;
    }
    if (end == std::string::npos && begin_ == buffer_.size()) return std::optional<std::string_view>();
    std::string_view line(buffer_.data() + begin_,
                          (end == std::string::npos ? buffer_.size() : end) - begin_);
    begin_ = end == std::string::npos ? buffer_.size() : end + 1;
    ++line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
    return std::optional(line);
  }
}

void LineFile::rewind(bool keeps) {
  begin_ = 0;
  line_ = 0;
  keeps_ = keeps;
}

Result<std::optional<std::string_view>> LineFile::all(std::size_t most) {
  while (!ended_ && buffer_.size() <= most)
    if (auto ok = read_more(); !ok) return ok.error();
  if (buffer_.size() > most) return std::optional<std::string_view>();
  return std::optional(std::string_view(buffer_));
}

Result<std::string_view> LineFile::begin(std::size_t count) {
  while (!ended_ && buffer_.size() < count)
    if (auto ok = read_more(); !ok) return ok.error();
  return std::string_view(buffer_).substr(0, count);
}

}  // namespace oomcast
