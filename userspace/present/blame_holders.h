// Who holds what a process keeps, in a blame report's text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "blame/blame.h"

namespace oomcast {

/// "held by trainer.history['loss'] in __main__, list of 9120: +1480 Tensor", and who was seen to add to it,
/// if that is another line than `line`, which stands above. `number`: of the process's holders.
std::string holder_text(const BlameProcess& p, std::size_t number, std::string_view line);
/// Lines for those that no site is held by; may be empty.
std::string other_holders(const BlameProcess& p);
/// A line, "objects: +1480 Tensor of 2100, +1480 AccumulateGrad of 1480", whoever holds them; may be empty.
std::string grown_types_text(const BlameProcess& p);

}  // namespace oomcast
