// Programs other than the kernel that kill when memory runs out, or report that it did. Each is recognised by
// its own sentences in a log; one row each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "parse/oom_log.h"

namespace oomcast {

enum class Killing : std::uint8_t {
  by_it,      ///< user space: the kernel has no record of it
  by_kernel,  ///< its record is in the kernel log of that machine
  unknown,    ///< its SIGKILL may be the kernel's or a user's
  none,       ///< a request was refused, or a program ended itself
};

struct OtherKiller {
  std::string_view name;
  Killing killing;
  std::string_view meaning;  ///< what happened, as a sentence's end: "systemd-oomd …"
  std::string_view next;     ///< what to run, and where
  std::string_view source;   ///< which prints it
};

/// A process that one of them killed, with what its sentence says.
struct OtherKill {
  const OtherKiller* killer = nullptr;
  std::uint32_t pid = 0;
  std::optional<std::string> comm;
  std::optional<std::uint32_t> uid;
  std::string signal;  // "SIGKILL", "SIGTERM"
  std::optional<WallStamp> wall;
  std::optional<Nanos> since_boot;
  std::string host;
};

/// What a log says of one of them.
struct OtherSaid {
  const OtherKiller* killer = nullptr;
  std::uint64_t lines = 0;
  std::string first;  // line
};

std::span<const OtherKiller> other_killers();

/// The program whose sentence is in the line; nullptr: none is. Cost: a search for eight short words in most
/// lines.
const OtherKiller* other_killer_in(std::string_view line);
/// The process that the sentence of `killer` in this line says it has killed; nullopt: it names none.
std::optional<OtherKill> other_kill_in(std::string_view line, const OtherKiller& killer);

/// For a person: "systemd-oomd killed, not the kernel's OOM killer (2 lines, the first: …): … Next: …"
std::string describe(const OtherSaid& said);

}  // namespace oomcast
