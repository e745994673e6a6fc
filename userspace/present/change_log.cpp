#include "present/change_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "present/rows.h"
#include "present/table.h"

namespace oomcast {
namespace {

Line line_of(const OverviewRow& row, WallTime time) {
  std::string size = row.usage ? format_size(*row.usage) : "unknown";
  if (row.limit) size += fmt::format(" of {} ({})", format_size(*row.limit), percent(row));
  std::string pinned = row.pinned ? format_size(*row.pinned) : "unknown";
  std::string growth = rate(row) ? format_rate(*rate(row)) : "growth unknown";
  Line line;
  line.add(format_clock(time), Style::dim);
  line.add(row.cgroup ? " cgroup    " : " host      ");
  line.add(fmt::format("{}{}, not reclaimable {}, {}, {}, {}",
                       row.cgroup ? path_of(row.cgroup) + "  " : std::string(), size, pinned, growth,
                       to_string(row.forecast.verdict), describe_deadline(row.forecast)),
           urgency(row));
  return line;
}

bool moved(const std::optional<Bytes>& usage, const std::optional<Bytes>& told) {
  if (usage.has_value() != told.has_value()) return true;
  if (!usage) return false;
  double by = std::abs((*usage - *told).as_double());
  return by > std::max(MiB(1).as_double(), told->as_double() * 0.01);
}

}  // namespace

bool ChangeLog::is_news(const OverviewRow& row, const Told& told) {
  const Forecast& f = row.forecast;
  return f.verdict != told.verdict || f.alert != told.alert ||
         f.evidence.thrashing.has_value() != told.thrashing || grows(row) != told.growing ||
         row.limit != told.limit || moved(row.usage, told.usage);
}

std::vector<Line> ChangeLog::changes(const Overview& overview, const ClockMap& clock) {
  for (auto& [id, told] : told_) told.still_there = false;
  std::vector<Line> out;
  for (const OverviewRow* row : arrange(overview, {})) {
    const Forecast& f = row->forecast;
    auto [at, is_new] = told_.try_emplace(key(*row));
    Told& told = at->second;
    told.still_there = true;
    if (!is_new && !is_news(*row, told) && !grows(*row)) continue;
    told = {row->usage, row->limit, f.verdict, grows(*row), f.alert, f.evidence.thrashing.has_value(), true};
    out.push_back(line_of(*row, clock.wall(overview.time)));
  }
  std::erase_if(told_, [](const auto& entry) { return !entry.second.still_there; });
  return out;
}

}  // namespace oomcast
