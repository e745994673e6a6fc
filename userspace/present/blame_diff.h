// Compares two blame reports: what grows faster, what slower. They may be of different processes, as before
// and after a fix, so processes are matched by name.
#pragma once

#include "present/stack_profile.h"

namespace oomcast {

/// For each stack, growth in bytes per second before and after, and the difference.
StackProfile difference(const BlameReport& before, const BlameReport& after);

/// The lines that changed most, in a table.
std::string to_text(const StackProfile& difference);
/// One object, with a newline.
std::string to_json(const StackProfile& difference);

}  // namespace oomcast
