// What `watch` shows at one moment: every cgroup in scope with its forecast, and recent events.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stream/facts.h"

namespace oomcast {

/// One cgroup, or the host (`cgroup` null).
struct OverviewRow {
  CgroupPtr cgroup;
  std::optional<Bytes> usage, limit, pinned;
  CgroupPtr limit_cgroup;  // null: the host's
  Forecast forecast;
  bool idle = false;  // unchanged lately, and no deadline: see IdleRows
};

/// A card, and the processes that hold most on it.
struct OverviewCard {
  GpuSample now;
  std::vector<GpuSample> holders;  // the largest first
  Forecast forecast;
};

/// Duration of a profile started by Screen::Action::look.
inline constexpr std::chrono::seconds kLookLasts{5};

struct Overview {
  MonoTime time;
  std::string scope;  // "whole machine", "--cgroup /train"
  std::vector<std::string> sources;
  std::vector<OverviewRow> rows;              // unordered; the screen sorts
  std::vector<ProcessSampleFact> processes;   // those in scope that were sampled recently, unordered
  std::vector<OverviewCard> cards;            // those in use; empty: no GPU, or not followed
  GrowthOrigins grew_from;                    // of `processes`, as far as they were profiled
  bool can_look = false;                      // Screen::Action::look has an effect
  std::string looking_at;                     // path of the cgroup being profiled; empty: none
  std::string gpu;                            // how GPUs are followed; empty: they are not
  std::deque<Fact> events;                    // OOM kills, SIGKILLs, alerts; newest last, at most 100
  std::map<std::string, std::uint64_t> lost;  // by reason, since the start
};

}  // namespace oomcast
