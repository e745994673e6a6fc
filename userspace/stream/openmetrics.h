// The present state, and counts of kills, in the format of Prometheus.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "stream/facts.h"

namespace oomcast {

/// What is unknown has no series. A cgroup that is gone loses its series; counts of kills stay. Memory: about
/// 300 bytes for each cgroup.
class Metrics {
 public:
  enum class Dialect {
    prometheus,   // text 0.0.4, which the textfile collector of node_exporter takes, too
    openmetrics,  // 1.0
  };
  /// Cgroups with series, beside the root. First those with a kill in the last hour, then those with an
  /// alert, then those that fill half of their limit, then those that hold most.
  static constexpr std::size_t kMostExported = 64;
  static constexpr std::size_t kMostKnown = 16384;
  /// With a count of kills. Of more the one goes that was killed longest ago.
  static constexpr std::size_t kMostWorkloads = 128;
  static constexpr std::size_t kLongestValue = 256;  // bytes of a label; what is longer loses its front

  /// Every fact from the start on: no later one repeats a kill.
  void on(const Fact& fact);
  std::string render(MonoTime now, const ClockMap& clock, Dialect dialect = Dialect::prometheus) const;

 private:
  static constexpr std::size_t kScopes = 6;  // the last one: unknown
  struct Outlook {
    MonoTime time;
    bool alert = false;
    std::optional<Growth> growth;  // with a verdict
    bool has_end = false;          // a verdict, and its limit is one at which the kernel kills
    std::optional<Seconds> eta, eta_low, eta_high;
  };
  struct Cgroup {
    CgroupPtr ref;
    std::uint64_t order = 0;  // of those that came since the start
    bool is_workload = false;
    std::optional<Bytes> usage, limit, pinned;
    std::optional<Outlook> outlook;
    std::optional<MonoTime> killed;
  };
  struct Workload {
    std::uint64_t kills = 0;
    MonoTime seen;  // the last kill; before the first the newest cgroup
  };
  using Exported = std::map<std::string, const Cgroup*>;  // by labels

  void take(const StartFact& start);
  void take(const Sample& sample);
  void take(const ForecastFact& forecast);
  void take(const OomEvent& kill);
  void take(const LostFact& lost);
  Cgroup* cgroup(const CgroupPtr& ref);
  void mark_killed(const CgroupPtr& ref, MonoTime time);
  void see_workload(const CgroupRef& ref, MonoTime time);
  void count_kill(const CgroupRef& ref, MonoTime time);
  Exported exported(MonoTime now) const;

  std::string version_, kernel_;
  std::map<std::string, bool> sources_;  // by labels
  std::array<std::uint64_t, kScopes> kills_{};
  std::optional<MonoTime> last_kill_;
  std::map<std::string, Workload> workloads_;          // by labels
  std::map<std::string, std::uint64_t> lost_;          // by reason, those that are known
  std::unordered_map<std::uint64_t, Cgroup> cgroups_;  // by inode
  std::uint64_t order_ = 0;
};

}  // namespace oomcast
