// Whether anything in a blame report grows: a process that does its work, or nothing at all, ends a window
// with a few KiB more or less than it began with.
#pragma once

#include <string>

#include "blame/blame.h"
#include "stream/growth.h"

namespace oomcast {

/// By this a process's memory may be off without any growth: counters that are behind, requests that are
/// being served, pages that a breakpoint copied. kUsualChange, or 1 % of what it has, 16 MiB at most. Does
/// not depend on the window: in a longer one a slower growth exceeds it.
Bytes usual_change(const BlameProcess& process);

/// Grew by more than that; or, however little it is, blocks were seen to stay, or a container to grow, beyond
/// the error of that. Huge pages and memory of GPUs count at any size. false: also where its growth is not
/// known.
bool grows(const BlameProcess& process);

/// "nothing grows: python3[123] job.py kept 8.00 KiB more in 30 s", and from which rate on a growth would
/// have been seen. Empty: something grows, or of no process it is known.
std::string nothing_grows(const BlameReport& report);

}  // namespace oomcast
