// One record of /dev/kmsg; oom_log.h interprets it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace oomcast {

/// One record of the kernel's log.
struct KmsgRecord {
  std::uint8_t level = 0;  ///< 0 emergency … 7 debug
  std::uint8_t facility =
      0;                  ///< 0 = written by the kernel; user space can write records too, but never with 0
  std::uint64_t seq = 0;  ///< counts up by one per record since boot
  Nanos since_boot{};     ///< the kernel's log clock, printed in whole microseconds
  bool continuation =
      false;  ///< a piece of a line begun by an earlier record; a hint, as the kernel documents it
  std::optional<std::string> caller;  ///< "T123" thread or "C4" CPU; only with CONFIG_PRINTK_CALLER
  std::string text;                   ///< unescaped: any byte but NUL may be in it, '\n' included
  bool cut = false;  ///< the record did not end in a newline: its last word may be incomplete

  bool from_kernel() const { return facility == 0; }
};

/// What one read() of /dev/kmsg gave: "level,seq,usec,flags[,…];text\n" and then dictionary lines, which
/// begin with a space and are ignored. \xNN escapes are decoded; a malformed escape stays as it is. nullopt:
/// not of that form. Cost: one pass over `raw`, one copy of the text.
std::optional<KmsgRecord> parse_kmsg_record(std::string_view raw);

}  // namespace oomcast
