// Walks the tree of cgroups for what the model knows of and cannot name.
#pragma once

#include "base/units.h"
#include "collect/cgroupfs.h"
#include "model/machine_model.h"

namespace oomcast {

/// At most a twentieth of the time is spent on it, however large the tree is and however often a process makes
/// it be walked: each walk and each search puts the next off by 20 times as long as it took. Both are told to
/// the model.
class TreeScanner {
 public:
  TreeScanner(MachineModel& model, const CgroupFs& cgroupfs) : model_(model), cgroupfs_(cgroupfs) {}

  /// Walks the whole tree now: 8 us per cgroup.
  void scan();
  /// What the model misses, as far as it is time: a victim's cgroup at once, the others each second at most. Of
  /// a tree of tens of thousands, which is walked every quarter of a minute, first what grows in it: by the
  /// next walk it may have been killed.
  void advance(MonoTime now);

 private:
  void find_growing();

  MachineModel& model_;
  const CgroupFs& cgroupfs_;
  MonoTime next_{}, next_urgent_{}, next_search_{};
};

}  // namespace oomcast
