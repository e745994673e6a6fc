// Walks the cgroup tree to find cgroups that the model has seen but cannot name.
#pragma once

#include "base/units.h"
#include "collect/cgroupfs.h"
#include "model/machine_model.h"

namespace oomcast {

/// Uses at most 5 % of the time, however large the tree and however often processes trigger a walk: each walk
/// or search delays the next by 20 times its own duration. The results go to the model.
class TreeScanner {
 public:
  TreeScanner(MachineModel& model, const CgroupFs& cgroupfs) : model_(model), cgroupfs_(cgroupfs) {}

  /// Walks the whole tree now: 8 µs per cgroup.
  void scan();
  /// Searches for what the model misses, when it is time: a victim's cgroup at once, others at most once a
  /// second. In a tree of tens of thousands, which is walked every 15 seconds, cgroups that grow come first:
  /// by the next walk they may have been killed.
  void advance(MonoTime now);

 private:
  void find_growing();

  MachineModel& model_;
  const CgroupFs& cgroupfs_;
  MonoTime next_{}, next_urgent_{}, next_search_{};
};

}  // namespace oomcast
