// Values with a line for each, again and again: /proc/meminfo or a process's status in a loop, sadf -x.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace oomcast {

struct BlockLine {
  std::string name;
  std::string value;
};
/// "MemTotal:       16358744 kB", "<memfree>1473304</memfree>". nullopt: it is none.
std::optional<BlockLine> block_line(std::string_view line);

/// The columns of sar -r as sadf -j and -x call them: "kbmemfree" for "memfree"; any other as it is.
std::string sar_name(std::string_view name);

}  // namespace oomcast
