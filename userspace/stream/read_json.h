// Parses lines written by `--json` back into facts, for programs that follow a stream from outside the tracer.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "stream/facts.h"

namespace oomcast {

/// A line may be this long, and nested this deep.
constexpr std::size_t kMaxJsonLine = 4 << 20;
constexpr int kMaxJsonDepth = 32;

/// The clocks of the facts that read_fact() gives: MonoTime counts from the epoch of wall time, and so does
/// TaskId::start_ticks, in nanoseconds.
ClockMap clocks_of_read_facts();

/// One line, without its newline. What a line does not say is unknown in the fact; fields that this version
/// does not know are passed over. nullopt: a type that it does not know. Error: no JSON object with a type and
/// a time, a field of another kind than the manual has, too long or too deep.
/// to_json() of what it gives is the line again, for every type; but for the `message` of a kill whose names
/// are not UTF-8.
Result<std::optional<Fact>> read_fact(std::string_view line);

}  // namespace oomcast
