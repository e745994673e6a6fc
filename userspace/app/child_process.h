// A child process on the side of its own, whatever oomcast protects itself with.
#pragma once

#include <string>

namespace oomcast {

/// Between fork and exec: a session of its own, default signals, `oom_score_adj` as given, /dev/null as
/// standard input, output (unless `output` is to be it) and error, and no other descriptor. System calls
/// only. Ends the child when it cannot be done.
void become_child(const std::string& oom_score_adj, int output = -1);

}  // namespace oomcast
