// A blame report for a person and for other programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "blame/blame.h"
#include "model/facts.h"
#include "stream/code_text.h"
#include "stream/facts.h"

namespace oomcast {

/// The frame that a person should look at: the innermost Python line, outside of libraries if there is one,
/// or the innermost native function that is not the C or C++ library's. nullptr: the stack is empty.
const Frame* culprit(const Stack& stack);

/// "load (train.py:31)", "grow (libfoo.so)", "? (libfoo.so)". Safe on a terminal.
std::string to_text(const Frame& frame);

/// Processes by growth, each with a tree of its stacks, outermost first, in bytes, growth per second and
/// share.
std::string to_text(const BlameReport& report);
/// One object, with a newline.
std::string to_json(const BlameReport& report, const ClockMap& clock, MonoTime now);
/// What spoils the numbers, and what they rest on: a sentence each.
std::vector<std::string> doubts_of(const BlameReport& report);
/// The stack without what only says that Python runs: the interpreter's own functions and those without a
/// name.
std::vector<const Frame*> readable(const Stack& stack);
/// Stands where a stack would, for growth without page faults that could be sampled.
constexpr std::string_view kUnseenByFaults = "unseen by faults";
/// BlameProcess::free_in_heap.
constexpr std::string_view kFreeInHeap = "free within the heap, not given back";

}  // namespace oomcast
