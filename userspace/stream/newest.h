// What a reader needs that comes late: how everything is now.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/task_id.h"
#include "stream/facts.h"

namespace oomcast {

/// Keeps the start, the losses so far, and of each cgroup, process and card the newest fact of each type that is
/// a level (a sample, a forecast, pressure), until it is gone. Memory: about 1 KiB for each of them, kMost at most; those over it are
/// counted, and a late reader hears of them with their next fact.
class NewestFacts {
 public:
  static constexpr std::size_t kMost = 32768;

  void on(const Fact& fact);
  /// The start, losses, then states by type in the order of Fact, so that a sample comes before the forecast
  /// that was made of it.
  std::vector<Fact> all() const;
  std::uint64_t left_out() const { return left_out_; }

 private:
  // The inode of a cgroup, a process, a card, and the index in Fact.
  using Subject = std::tuple<std::uint64_t, TaskId, std::optional<GpuUuid>, std::size_t>;
  static std::optional<Subject> subject_of(const Fact& fact);
  void forget(std::uint64_t inode, TaskId id);

  std::optional<StartFact> start_;
  std::map<std::string, LostFact> lost_;  // sums
  std::map<Subject, Fact> states_;
  std::uint64_t left_out_ = 0;
};

}  // namespace oomcast
