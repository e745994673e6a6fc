// The live screen for a pipe.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "present/overview.h"
#include "stream/cells.h"
#include "stream/facts.h"

namespace oomcast {

/// The first call tells of every cgroup, later ones of those that grow, or that changed by more than 1 % (at
/// least 1 MiB) or in their verdict since they were last told. Events are not in it: they have to_text, and
/// are told as they come.
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
