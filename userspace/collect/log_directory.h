// The files of a directory that may be logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace oomcast {

struct LogDirectory {
  static constexpr std::size_t kMaxFiles = 512;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{8} << 30;  // of all files
  std::vector<std::string> files;                                     // paths, the oldest first
  std::size_t left_out = 0;                                           // over a limit: the oldest
  bool more_names = false;  // than are read: files among the rest, the newest too, are not counted
};

/// Regular files directly in it, by when they were last written; links are not followed. Files that are
/// mostly holes (lastlog) are no logs. Cost: one stat(2) per name, of 100,000 names at most.
Result<LogDirectory> list_logs(const std::string& directory);

enum class LogContent : std::uint8_t { text, compressed, journal, binary };
/// By its first bytes; gzip is text to read_log(). What cannot be read here is text: reading it says why.
LogContent content_of(int fd);

}  // namespace oomcast
