// The results of all profiles of growing processes, summed up for the post-mortem.
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

/// Per process. Bounded to the 64 processes profiled last.
class GrowthFound {
 public:
  /// Adds the processes known to `tasks`, by pid and start time.
  void add(const BlameReport& report, const TaskTable& tasks, MonoTime from, MonoTime to);
  /// Results for these processes, in their order: places that certainly caused growth first, then the largest
  /// growth; and the containers that hold most of what was added to them.
  GrowthOrigins of(const std::vector<ProcessRef>& processes) const;

 private:
  struct Process {
    Bytes grown;
    Seconds watched{};
    Seconds faults_watched{};             // of that time; for the rest the fault budget was used up
    std::uint64_t samples = 0, lost = 0;  // of those profiles, for all their processes
    MonoTime from, to;
    std::string kept_unknown;  // the reason given by the last profile that could not tell
    struct Site {
      Bytes grown;
      GrowthEvidence evidence;
    };
    std::map<std::vector<CodePlace>, Site> sites;
    struct Container {
      GrownHolder sum;
      std::map<std::vector<CodePlace>, std::uint64_t> adders;  // how often each was seen
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
