// The part of a blame report that a post-mortem shows.
#pragma once

#include <cstddef>
#include <vector>

#include "blame/blame.h"

namespace oomcast {

/// The culprit's frame, then its callers, at most `most` frames in all, without those that every program
/// starts with.
std::vector<const Frame*> from_culprit(const Stack& stack, std::size_t most);

/// The report of a profile started by `trace`: the first 16 processes by growth, the first 8 sites of each,
/// of their stacks the culprit and seven callers, names of 256 bytes; for each of the first 8 containers two
/// lines that add to it, with callers. That bounds what programs control: 5 MiB as JSON; real programs take
/// some 100 KiB.
BlameReport in_brief(BlameReport report);

}  // namespace oomcast
