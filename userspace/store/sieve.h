// Filters what a store keeps: changes, and processes that hold much memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "store/tables.h"

namespace oomcast {

/// A sample that moved by less than a 1/1024 of the limit is left out, the last of those before a move not: a
/// curve stays true within that, corners included. That of a cgroup that is gone ends with a sample of which
/// only the time is known. Reclaim is summed and pressure told once per 10 s. Memory:
/// two samples per cgroup, bounded.
class Sieve {
 public:
  using Out = std::function<void(StoreItem)>;
  Sieve(Nanos interval, Out out) : interval_(interval), out_(std::move(out)) {}

  void pass(StoreItem item);
  /// All that was left out and is not older than what is there: the end, or an episode.
  void flush();

 private:
  template <typename Fact>
  struct Series {
    std::optional<Fact> written;
    std::unique_ptr<Fact> skipped;  // of an idle cgroup there is none
  };
  template <typename Fact>
  void pass_series(Series<Fact>& series, Fact fact, bool moved);
  template <typename Fact>
  void flush_series(Series<Fact>& series);
  void sift(Sample s);
  void sift(ProcessSampleFact s);
  void sift(GpuSample s);
  void sift(ReclaimFact r);
  void sift(PressureFact p);
  void flush_sums();

  Nanos interval_;
  Out out_;
  MonoTime tick_{};
  std::unordered_map<std::uint64_t, Series<Sample>> cgroups_;
  std::unordered_map<TaskId, Series<ProcessSampleFact>> processes_;
  std::map<std::pair<TaskId, std::optional<GpuUuid>>, Series<GpuSample>> gpu_;  // task 0: a card
  std::unordered_map<std::uint64_t, ReclaimFact> reclaim_;                      // since `begun_`
  std::unordered_map<std::uint64_t, PressureFact> pressure_;
  std::optional<MonoTime> begun_;
};

}  // namespace oomcast
