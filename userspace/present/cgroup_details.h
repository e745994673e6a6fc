// All that is known of one cgroup, as the live screen's page of it.
#pragma once

#include <cstddef>
#include <vector>

#include "present/cells.h"
#include "present/overview.h"

namespace oomcast {

std::vector<Line> details_of(const Overview& overview, const OverviewRow& row, std::size_t width);

}  // namespace oomcast
