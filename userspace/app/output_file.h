// The file of -o.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace oomcast {

class OutputFile {
 public:
  /// Makes it, or empties what is there; before privileges are dropped. Not through another user's link: he
  /// could aim root at any file.
  static Result<OutputFile> open(const std::string& path);
  /// Once.
  Status write(const std::string& text);

 private:
  std::string shown_;
  UniqueFd fd_;
};

}  // namespace oomcast
