// The service's configuration: the flags of its command, one `key = value` a line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace oomcast {

constexpr std::size_t kMaxConfig = 64 << 10;

/// Keys and values in file order; a key with a list appears once per value. Error: missing and `must_exist`,
/// not a regular file, larger than kMaxConfig, or a line without a key and a value.
Result<std::vector<std::pair<std::string, std::string>>> read_config(const std::string& path,
                                                                     bool must_exist);

}  // namespace oomcast
