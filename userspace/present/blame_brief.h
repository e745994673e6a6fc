// Of a blame report what a post-mortem tells.
#pragma once

#include <cstddef>
#include <vector>

#include "blame/blame.h"

namespace oomcast {

/// The frame that a person should look at, then who called it, without what every program begins with; at
/// most `most`.
std::vector<const Frame*> from_culprit(const Stack& stack, std::size_t most);

/// The report of a look that `trace` takes: by growth the first 16 processes, of each the first 8 sites, of
/// their stacks the culprit and seven callers, names of 256 bytes; of what adds to each of the first 8
/// containers two lines and their callers. That bounds what programs can choose: 5
/// MiB as JSON, of which programs as they are take some 100 KiB.
BlameReport in_brief(BlameReport report);

}  // namespace oomcast
