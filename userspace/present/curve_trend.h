// What a curve does, in a sentence: for who cannot see the chart, and under it for who can.
#pragma once

#include <string>
#include <vector>

#include "present/post_mortem.h"

namespace oomcast {

/// "rose from 20.0 MiB to 200 MiB in 15 s, +12.0 MiB/s", "stayed between …", "moved between …": of its total
/// until the kill. `at`: as in Timeline. Empty: fewer than two values are known. Linear in the moments.
std::string describe_trend(const Curve& curve, const std::vector<double>& at);

}  // namespace oomcast
