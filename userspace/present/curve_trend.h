// Describes a curve in a sentence, for readers who cannot see the chart.
#pragma once

#include <string>
#include <vector>

#include "present/post_mortem.h"

namespace oomcast {

/// "rose from 20.0 MiB to 200 MiB in 15 s, +12.0 MiB/s", "stayed between …", "moved between …": of the total,
/// until the kill. `at`: as in Timeline. Empty: fewer than two known values. Linear in the number of moments.
std::string describe_trend(const Curve& curve, const std::vector<double>& at);

}  // namespace oomcast
