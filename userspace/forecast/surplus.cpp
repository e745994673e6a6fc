#include "forecast/surplus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "forecast/numbers.h"
#include "leak/shape.h"

namespace oomcast {
namespace {

constexpr std::size_t kMinBuckets = 4;
constexpr double kSameRss = 0.1;        // of it
constexpr double kMinCopied = 1 << 20;  // bytes
constexpr double kRssMoved = 0.4;       // of what was copied
constexpr double kMinCache = 0.05;      // of the highest total
constexpr double kNotCache = 0.35;      // of what the cache grew by

// Since the RSS last changed: a fork adds all of the child's at once.
bool tell_copies(std::span<const Bucket> value, std::span<const Bucket> total, double least_change,
                 Forecast& out) {
  double v0 = value.front().mean, v1 = value.back().mean, t1 = total.back().mean;
  std::size_t from = total.size() - 1;
  while (from > 0 && std::abs(total[from - 1].mean - t1) < kSameRss * t1) --from;
  if (total.size() - from < kMinBuckets) return false;
  for (const Bucket& b : value)
    if (b.time <= total[from].time) v0 = b.mean;
  double rise = v1 - v0, noise = describe(value).noise;
  if (rise < std::max({5 * noise, least_change, kMinCopied})) return false;
  if (std::abs(t1 - total[from].mean) > kRssMoved * rise) return false;
  out.verdict = Verdict::cow;
  out.evidence.shared = whole_bytes(std::max(0.0, t1 - v1));
  out.why = fmt::format(
      "{} became private while the RSS stayed at {}: pages shared since the fork are written to; at most {} "
      "more",
      format_size(whole_bytes(rise)), format_size(whole_bytes(t1)), format_size(*out.evidence.shared));
  return true;
}

bool tell_cache(std::span<const Bucket> value, std::span<const Bucket> total, Forecast& out) {
  double v0 = value.front().mean, v1 = value.back().mean;
  double t0 = total.front().mean, t1 = total.back().mean;
  double highest = 0;
  for (const Bucket& b : total) highest = std::max<double>(highest, b.mean);
  double surplus_rise = (t1 - v1) - (t0 - v0), value_rise = v1 - v0;
  if (surplus_rise < kMinCache * highest || value_rise > kNotCache * surplus_rise) return false;
  out.verdict = Verdict::cache;
  out.why = fmt::format("{} of what grew can be dropped (page cache); what cannot stands at {}",
                        format_size(whole_bytes(surplus_rise)), format_size(whole_bytes(v1)));
  return true;
}

}  // namespace

bool tell_surplus(Surplus kind, const History& value, const History& total, double least_change,
                  Forecast& out) {
  if (total.empty()) return false;
  auto values = value.all(), totals = total.all();
  if (values.size() < kMinBuckets || totals.size() < kMinBuckets) return false;
  return kind == Surplus::shared ? tell_copies(values, totals, least_change, out)
                                 : tell_cache(values, totals, out);
}

}  // namespace oomcast
