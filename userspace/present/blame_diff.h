// Two blame reports beside each other: what grows faster, what slower. They may be of different processes, as
// of a program before and after a fix, so that processes are told apart by their names.
#pragma once

#include "present/stack_profile.h"

namespace oomcast {

/// Of each stack its growth per second, in bytes, before and after, and the difference.
StackProfile difference(const BlameReport& before, const BlameReport& after);

/// The lines that changed most, in a table.
std::string to_text(const StackProfile& difference);
/// One object, with a newline.
std::string to_json(const StackProfile& difference);

}  // namespace oomcast
