// A text file that a person names, or stdin, line by line in constant memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace oomcast {

class LineFile {
 public:
  static constexpr std::size_t kLongestLine = 1 << 20;

  /// "-" is stdin. Error: usage (exit 2), or forbidden.
  static Result<LineFile> open(const std::string& path);

  /// The next line without its end (and the first without a byte order mark); nullopt: the end of the file.
  /// It holds until the next call. A line of more than 1 MiB is an error.
  Result<std::optional<std::string_view>> next();
  /// To the first line. All that was read since open() was kept until now; from now on it is only with
  /// `keeps`.
  void rewind(bool keeps = false);
  /// All of the file, also what next() has given; nullopt: it is larger than `most`.
  Result<std::optional<std::string_view>> all(std::size_t most);
  /// The first bytes, as far as there are any.
  Result<std::string_view> begin(std::size_t count);

  /// No whole line is there, and who writes the file has not closed it: next() would wait for them.
  bool would_wait() const;
  int fd() const { return fd_; }
  std::uint64_t line() const { return line_; }
  /// An error of the line that was read last, with the file's name and the line's number: exit 2.
  Error wrong(std::string_view what) const { return wrong_at(line_, what); }
  Error wrong_at(std::uint64_t line, std::string_view what) const;
  const std::string& path() const { return path_; }

 private:
  LineFile() = default;
  Status read_more();

  std::string path_;
  UniqueFd file_;
  int fd_ = -1;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool ended_ = false, keeps_ = true;
  std::uint64_t line_ = 0;
};

}  // namespace oomcast
