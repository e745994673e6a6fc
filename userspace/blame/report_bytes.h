// A blame report between two processes of one binary.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "blame/blame.h"

namespace oomcast {

std::string encode_report(BlameReport report);
/// The bytes may be anybody's: what is made of them takes ten times as much at most. nullopt: they are no
/// report.
std::optional<BlameReport> decode_report(std::string_view bytes);

}  // namespace oomcast
