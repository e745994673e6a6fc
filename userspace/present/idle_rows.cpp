#include "present/idle_rows.h"

#include <algorithm>
#include <cmath>

#include "present/rows.h"

namespace oomcast {
namespace {

bool went_elsewhere(const std::optional<Bytes>& now, const std::optional<Bytes>& before) {
  if (now.has_value() != before.has_value()) return true;
  if (!now) return false;
  return std::abs((*now - *before).as_double()) > std::max(MiB(1).as_double(), before->as_double() * 0.01);
}

bool has_news(const OverviewRow& row) {
  const Forecast& f = row.forecast;
  return f.alert || f.eta || f.eta_low || f.evidence.thrashing || grows(row);
}

}  // namespace

void IdleRows::mark(Overview& o) {
  for (auto& [id, seen] : seen_) seen.still_there = false;
  for (OverviewRow& row : o.rows) {
    if (!row.cgroup) continue;
    auto [at, is_new] = seen_.try_emplace(key(row));
    Seen& seen = at->second;
    seen.still_there = true;
    // A thousand new empty cgroups a minute are not news.
    bool moved = is_new ? began_ && row.usage && went_elsewhere(row.usage, Bytes{})
                        : row.limit != seen.limit || went_elsewhere(row.usage, seen.usage);
    if (moved) seen.moved = o.time;
    if (is_new || moved) seen.usage = row.usage, seen.limit = row.limit;
    bool quiet = !seen.moved || seconds_between(*seen.moved, o.time) > kQuiet;
    row.idle = quiet && !has_news(row);
  }
  std::erase_if(seen_, [](const auto& entry) { return !entry.second.still_there; });
  began_ = true;
}

}  // namespace oomcast
