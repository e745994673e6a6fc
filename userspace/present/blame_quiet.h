// Whether anything in a blame report grows: even an idle process ends a window with a few KiB more or less.
#pragma once

#include <string>

#include "blame/blame.h"
#include "stream/growth.h"

namespace oomcast {

/// Changes up to this size are normal without growth: counters that lag, requests in progress, pages that a
/// breakpoint copied. kUsualChange, or 1 % of the process's memory, at most 16 MiB. Independent of the
/// window: slower growth exceeds it in a longer one.
Bytes usual_change(const BlameProcess& process);

/// Grew by more than that; or, at any size, blocks were retained, or a container grew, by more than the
/// error. Huge pages and GPU memory count at any size. Also false if the growth is unknown.
bool grows(const BlameProcess& process);

/// "nothing grows: python3[123] job.py kept 8.00 KiB more in 30 s", and the lowest growth rate that would
/// have been seen. Empty: something grows, or no process's growth is known.
std::string nothing_grows(const BlameReport& report);

}  // namespace oomcast
