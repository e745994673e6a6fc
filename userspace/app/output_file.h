// The output file of -o.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "collect/safe_path.h"

namespace oomcast {

/// A new file that replaces the old one when it is complete; until then the old one is untouched. If the path
/// leads to a terminal, a pipe or a device that root or the user owns, writes to that instead.
class OutputFile {
 public:
  /// Creates it next to the old one; before privileges are dropped. Error: see resolve(): another user could
  /// make root write to any file.
  static Result<OutputFile> open(const std::string& path);
  OutputFile(OutputFile&&) noexcept = default;
  ~OutputFile();
  /// Call once.
  Status write(const std::string& text);
  /// Whether root needs CAP_DAC_OVERRIDE for it: another user owns the directory.
  bool is_beside_others_files() const;

 private:
  OutputFile() = default;
  std::string shown_, new_name_;
  SafePath place_;
  UniqueFd fd_;  // without new_name_: the existing file
};

}  // namespace oomcast
