// The live screen's page for one cgroup: everything known about it.
#pragma once

#include <cstddef>
#include <vector>

#include "present/overview.h"
#include "stream/cells.h"

namespace oomcast {

std::vector<Line> details_of(const Overview& overview, const OverviewRow& row, std::size_t width);

}  // namespace oomcast
