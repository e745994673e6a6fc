// The forecasts of everything that is followed. They depend on the facts and ticks alone, so that the replay of a
// recording gives what the live run gave.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/task_id.h"
#include "base/units.h"
#include "forecast/forecast_fact.h"
#include "forecast/forecaster.h"
#include "model/facts.h"

namespace oomcast {

/// A reading of a series of another tool, or of one of the processes in it.
struct SeriesReading {
  std::uint32_t series;  // its number: they are in this order
  Reading reading;
  double time_s;        // as it stands in the file
  bool turned = false;  // the readings before it were of another series
  Surplus surplus = Surplus::droppable;
  std::string name = {};  // of one of several
  std::optional<ProcessRef> process = std::nullopt;
};

class ForecastRegistry {
 public:
  struct Config {
    Nanos interval = std::chrono::seconds(1);
    /// With --pid: the processes in scope are one tree, followed as a whole under this process. It holds the
    /// sum of their memory, what forked workers share counted once, and no more than nothing can take back
    /// around it; its limit is what their cgroup leaves to them (not known if they are in several).
    std::optional<TaskId> tree;
    std::size_t most_processes = 4096;
    /// Of all series together. From 7/8 on, what is new is followed only in the place of one that does
    /// nothing of note and holds less than half as much; beyond, those go that do nothing of note, the
    /// smallest first, and if need be the smallest of the others. Counted, and the same in a replay.
    std::size_t most_bytes = 16 << 20;
    /// Of series of other tools the forecast of every tick is news.
    bool every_forecast = false;
  };
  explicit ForecastRegistry(Config config) : config_(config) {}

  void on(const Sample& sample);
  /// Fills in the process's growth. Processes that hold less than 16 MiB when first met are not followed.
  void on(ProcessSampleFact& sample);
  void on(const ExitFact& exit);
  /// A cgroup that thrashes at its limit alerts, whatever its level does.
  void on(const ReclaimFact& reclaim);
  /// A card's limit is its memory; that of a process on it, what the others leave.
  void on(const GpuSample& sample);
  void on(const ForgottenFact& forgotten);
  /// Its rows are all that there is: a gap is not filled, and what is followed is not bounded here.
  void on(const SeriesReading& reading);
  /// `owner` hit its limit: what grew below it is being freed, and what follows is a new life.
  void on_kill(const CgroupRef& owner);
  /// Once per interval: what has given no sample has not changed. Of series of other tools those that have a
  /// reading of this very moment are looked at.
  void tick(MonoTime now);
  /// News since the last call: another verdict, an alert's rise or fall, a deadline that moved by 2 %,
  /// thrashing that has lasted a tenth longer.
  std::vector<ForecastFact> take() { return std::exchange(news_, {}); }

  /// The newest of a cgroup (the host's is that of the root cgroup); nullptr: there is none yet.
  const Forecast* of(const CgroupId& cgroup) const;
  /// The same as it was published, or would be.
  const ForecastFact* newest(const CgroupId& cgroup) const;
  std::optional<Bytes> pinned(const CgroupId& cgroup) const;
  /// Of the tree; nullptr: none yet, or all of it ended.
  const ForecastFact* tree() const { return tree_ && !members_.empty() ? &tree_->newest : nullptr; }
  std::optional<Bytes> tree_holds() const { return tree() ? std::optional(tree_->last.value) : std::nullopt; }
  /// Of a card; nullptr: none yet.
  const Forecast* of(const GpuUuid& card) const;
  /// For the cgroup whose limit was hit at `kill`.
  std::optional<ForecastBefore> before(const CgroupId& limit_cgroup, MonoTime kill) const;
  /// Cgroups and processes refused or evicted because there were too many.
  std::uint64_t not_followed() const { return not_followed_; }
  /// Of the series of other tools, in the order of their numbers, each as of its newest reading.
  std::vector<ForecastFact> series();
  /// Of all series together, but for those of other tools.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    explicit Entry(Surplus surplus) : forecaster(surplus) {}
    Forecaster forecaster;
    std::size_t bytes = 0;  // as they are counted in bytes_
    /// Of a forked worker: what of its memory was its parent's too when last measured. nullopt: no worker, or
    /// not measured yet.
    std::optional<Bytes> shared;
    Reading last;
    ForecastFact newest;
    bool quiet() const {
      const Forecast& f = newest.forecast;
      return (f.verdict == Verdict::stable || f.verdict == Verdict::unknown) && !f.eta && !f.alert;
    }
    // Last published.
    bool told = false, told_alert = false;
    Verdict told_verdict = Verdict::unknown;
    std::optional<Seconds> told_eta, told_thrashing;
    // Since a deadline came in sight.
    std::shared_ptr<const ForecastFact> deadline, deadline_before;
    MonoTime first_deadline{};
    /// Of the last reading before a kill: what it frees is going.
    std::optional<MonoTime> killed_at;
  };
  void learn_shared(Entry& entry, const ProcessSampleFact& sample) const;
  static bool still_frees(Entry& entry, const Reading& reading);
  void add(Entry& entry, const Reading& reading);
  bool has_room_for(Bytes held);
  void find_spare();
  template <typename Map>
  void drop(Map& from, typename Map::iterator at);
  void make_room();
  void analyse(Entry& entry, MonoTime now);
  void tell_thrashing(Entry& entry, MonoTime now) const;
  void add_tree(MonoTime now);
  const Entry* of(const CgroupPtr& cgroup) const;
  static bool is_of_note(Entry& entry);
  static std::optional<Bytes> room_beside(const Entry* cgroup);

  struct Member {
    Bytes held;
    ProcessRef process;
    bool measured;  // what of it is private, or too small for that
  };
  Config config_;
  std::map<std::uint64_t, Entry> cgroups_;  // by inode, in an order that a replay has too
  std::set<std::uint64_t> unsettled_;  // of cgroups_: those whose forecast changes while nothing else does
  std::map<TaskId, Entry> processes_;
  std::map<std::pair<GpuUuid, TaskId>, Entry> gpu_;  // task 0: the card
  std::map<std::uint32_t, Entry> series_;            // of other tools
  std::map<TaskId, Member> members_;                 // of the tree
  std::optional<Entry> tree_;
  ThrashingFinder thrashing_;
  // Quiet series that would go for a larger one, the smallest last. As of the last tick, if any asked since.
  struct Spare {
    Bytes held;
    std::optional<std::uint64_t> cgroup;  // otherwise a process
    TaskId process;
  };
  std::vector<Spare> spare_;
  bool spare_known_ = false;
  std::vector<ForecastFact> news_;
  std::uint64_t not_followed_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace oomcast
