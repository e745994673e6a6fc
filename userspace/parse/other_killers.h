// Programs other than the kernel that kill when memory runs out, or report that it did: one table for logs
// and for what is seen live, one row each. In a log each is recognised by its own sentences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace oomcast {

enum class Killing : std::uint8_t {
  by_it,      ///< user space: the kernel has no record of it
  by_kernel,  ///< its record is in the kernel log of that machine
  unknown,    ///< its SIGKILL may be the kernel's or a user's
  none,       ///< a request was refused, or a program ended itself
};

struct OtherKiller {
  std::string_view name;
  std::string_view comm;  ///< of its process; empty: that has no name of its own, or sends SIGKILL for more
  Killing killing;
  std::string_view meaning;  ///< what happened, as a sentence's end: "systemd-oomd …"
  std::string_view next;     ///< what to run, and where
  std::string_view source;   ///< which prints it
};

/// What a log says of one of them.
struct OtherSaid {
  const OtherKiller* killer = nullptr;
  std::string first;  // line
};

std::span<const OtherKiller> other_killers();

/// The program whose sentence is in the line; nullptr: none is. Cost: a search for eight short words in most
/// lines.
const OtherKiller* other_killer_in(std::string_view line);
/// The one whose process has this name; nullptr: none has. Anyone can take such a name.
const OtherKiller* other_killer_named(std::string_view comm);

/// For a person: "systemd-oomd killed, not the kernel's OOM killer: … (its first line: …). Next: …"
std::string describe(const OtherSaid& said);

}  // namespace oomcast
