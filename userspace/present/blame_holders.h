// The holders of a process's retained memory, as text of a blame report.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "blame/blame.h"

namespace oomcast {

/// "held by trainer.history['loss'] in __main__, list of 9120: +1480 Tensor", and the line that adds to it,
/// if known and different from `line`, which is printed above. `number`: index of the holder in the process.
std::string holder_text(const BlameProcess& p, std::size_t number, std::string_view line);
/// Lines for holders without a site; may be empty.
std::string other_holders(const BlameProcess& p);
/// The line "objects: +1480 Tensor of 2100, +1480 AccumulateGrad of 1480", for any holder; may be empty.
std::string grown_types_text(const BlameProcess& p);

}  // namespace oomcast
