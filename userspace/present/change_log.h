// The live screen for a pipe.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "present/overview.h"
#include "stream/cells.h"
#include "stream/facts.h"

namespace oomcast {

/// The first call returns every cgroup; later calls those that grow, or whose values changed by more than 1 %
/// (at least 1 MiB), or whose verdict changed, since they were last returned. Events are not included: they
/// have to_text, and are printed as they come.
class ChangeLog {
 public:
  std::vector<Line> changes(const Overview& overview, const ClockMap& clock);

 private:
  struct Told {
    std::optional<Bytes> usage, limit;
    Verdict verdict = Verdict::unknown;
    bool growing = false, alert = false, thrashing = false, still_there = true;
  };
  static bool is_news(const OverviewRow& row, const Told& told);
  std::unordered_map<CgroupId, Told> told_;
};

}  // namespace oomcast
