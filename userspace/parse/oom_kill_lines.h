// The lines of the OOM report that name a victim: for oom_lines.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "parse/oom_lines.h"

namespace oomcast {

/// "[scope: ]Killed process N (COMM) total-vm:…", and OpenVZ's "[Out of memory in UB N: ]OOM killed process N
/// (COMM) score N vm:…". `cut`: its end is missing
std::optional<ParsedLine> parse_victim(std::string_view text, bool cut);
/// "[scope: ]Kill process N (COMM) score N or sacrifice child", "Kill process N (COMM) sharing same memory"
std::optional<ParsedLine> parse_kill_announcement(std::string_view text);
/// "oom_reaper: reaped process N (COMM), now anon-rss:NkB, file-rss:NkB, shmem-rss:NkB"
std::optional<ParsedLine> parse_reaped(std::string_view text);

/// Takes the first sentence off a text that may hold several that name who is killed: consoles leave out
/// newlines, and collectors of events put spaces for them. A comm has no room for such a sentence's
/// beginning.
std::string_view take_kill_sentence(std::string_view& text);

/// The first sentence of a kill in a line that has its number, and its scope or its sizes: a comm has no room
/// for one.
struct WholeSentence {
  std::size_t at = 0;
  bool scoped = false;
};
/// nullopt: there is none.
std::optional<WholeSentence> whole_sentence_in(std::string_view text);

/// Whether `text` can be the rest of `begun`, which tells of a kill: its name, its sizes or its score.
bool continues_kill(std::string_view begun, std::string_view text);

}  // namespace oomcast
