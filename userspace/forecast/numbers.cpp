#include "forecast/numbers.h"

#include <algorithm>

namespace oomcast {

std::pair<double, double> moments(const std::vector<double>& v) {
  double mean = 0, var = 0;
  for (double x : v) mean += x / static_cast<double>(v.size());
  for (double x : v) var += (x - mean) * (x - mean) / std::max<double>(1, static_cast<double>(v.size()) - 1);
  return {mean, std::sqrt(var)};
}

}  // namespace oomcast
