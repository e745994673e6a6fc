// The file of -o.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "collect/safe_path.h"

namespace oomcast {

/// A new file that takes the place of what is there when it is whole; until then that stays as it is. Where
/// the path leads to a terminal, a pipe or a device of root's or one's own, that is written to.
class OutputFile {
 public:
  /// Makes it, beside what is there; before privileges are dropped. Error: see resolve(): another user could
  /// aim root at any file.
  static Result<OutputFile> open(const std::string& path);
  OutputFile(OutputFile&&) noexcept = default;
  ~OutputFile();
  /// Once.
  Status write(const std::string& text);
  /// Whether root needs CAP_DAC_OVERRIDE for that: another user owns the directory.
  bool is_beside_others_files() const;

 private:
  OutputFile() = default;
  std::string shown_, new_name_;
  SafePath place_;
  UniqueFd fd_;  // without a new_name_ what is there itself
};

}  // namespace oomcast
