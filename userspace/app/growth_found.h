// What profiles of growing processes said of where they grow, in sum: for the post-mortem.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "blame/blame.h"
#include "model/facts.h"
#include "model/task_table.h"

namespace oomcast {

/// Per process. Bounded: 64 processes, those that were profiled last.
class GrowthFound {
 public:
  /// Of the processes that `tasks` knows, by number and start.
  void add(const BlameReport& report, const TaskTable& tasks, MonoTime from, MonoTime to);
  /// Of these processes, in their order: first what certainly came from a place, then the largest growth; and
  /// the containers that hold most of what was added to them.
  GrowthOrigins of(const std::vector<ProcessRef>& processes) const;

 private:
  struct Process {
    Bytes grown;
    Seconds watched{};
    Seconds faults_watched{};             // of these; the rest was over the budget
    std::uint64_t samples = 0, lost = 0;  // of those looks, whomever they were of
    MonoTime from, to;
    std::string kept_unknown;  // as the last look that did not know it has it
    struct Site {
      Bytes grown;
      GrowthEvidence evidence;
    };
    std::map<std::vector<CodePlace>, Site> sites;
    struct Container {
      GrownHolder sum;
      std::map<std::vector<CodePlace>, std::uint64_t> adders;  // how often they were seen
    };
    std::map<std::string, Container> holders;  // by path
  };
  static void add_sites(const BlameProcess& seen, Process& known);
  static void add_holders(const BlameProcess& seen, Process& known);
  static std::vector<GrewFrom> sites_of(const ProcessRef& process, const Process& known);
  static std::vector<GrownHolder> holders_of(const ProcessRef& process, const Process& known);
  std::unordered_map<TaskId, Process> processes_;
};

}  // namespace oomcast
