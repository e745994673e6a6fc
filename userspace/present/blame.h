// A blame report as text and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "blame/blame.h"
#include "model/facts.h"
#include "stream/code_text.h"
#include "stream/facts.h"

namespace oomcast {

/// The frame that the user should look at: the innermost Python line, outside of libraries if possible, or
/// the innermost native function that is not in the C or C++ library. nullptr: the stack is empty.
const Frame* culprit(const Stack& stack);

/// "load (train.py:31)", "grow (libfoo.so)", "? (libfoo.so)". Safe for a terminal.
std::string to_text(const Frame& frame);

/// Processes by growth, each with a tree of its stacks, outermost first, in bytes, growth per second and
/// share.
std::string to_text(const BlameReport& report);
/// One object, with a newline.
std::string to_json(const BlameReport& report, const ClockMap& clock, MonoTime now);
/// What distorts the numbers, and what they are based on: one sentence each.
std::vector<std::string> doubts_of(const BlameReport& report);
/// The stack without frames that only show that Python runs: the interpreter's own functions, and unnamed
/// ones.
std::vector<const Frame*> readable(const Stack& stack);
/// Replaces the stack for growth without sampled page faults.
constexpr std::string_view kUnseenByFaults = "unseen by faults";
/// BlameProcess::free_in_heap.
constexpr std::string_view kFreeInHeap = "free within the heap, not given back";

}  // namespace oomcast
