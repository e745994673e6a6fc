// The service's configuration: the flags of its command, one `key = value` a line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace oomcast {

constexpr std::size_t kMaxConfig = 64 << 10;

/// Keys and their values, in the order of the file: a key with a list comes once for each of its values. Error: it
/// is missing and `must_exist`, is no regular file, is larger than kMaxConfig, or a line is no key with a value.
Result<std::vector<std::pair<std::string, std::string>>> read_config(const std::string& path,
                                                                     bool must_exist);

}  // namespace oomcast
