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
  /// Goes back to the first line. What was read is kept from open() until the first call; after it only with
  /// `keeps`.
  void rewind(bool keeps = false);
  /// The whole file, with what next() has given; nullopt: it is larger than `most`.
  Result<std::optional<std::string_view>> all(std::size_t most);
  /// The file's first `count` bytes, or all of a shorter one.
  Result<std::string_view> begin(std::size_t count);

  /// No whole line has come, and the file's writer has not closed it: next() would wait.
  bool would_wait() const;
  int fd() const { return fd_; }
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
