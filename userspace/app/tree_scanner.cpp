#include "app/tree_scanner.h"

#include <algorithm>

#include "base/clock.h"

namespace oomcast {
namespace {

constexpr int kShare = 20;  // at most 1/kShare of the time
constexpr Nanos kApart = std::chrono::seconds(1);

}  // namespace

void TreeScanner::scan() {
  MonoTime began = mono_now();
  auto tree = cgroupfs_.list();
  if (!tree) return;
  MonoTime now = mono_now();
  model_.on_tree(*tree, now);
  next_urgent_ = now + kShare * (mono_now() - began);
  next_ = std::max(next_urgent_, mono_now() + kApart);
}

void TreeScanner::advance(MonoTime now) {
  if (now >= next_search_) find_growing();
  bool urgent = now >= next_urgent_ && model_.take_urgent_scan();
  if (urgent || (now >= next_ && model_.take_unknown_cgroups())) scan();
}

void TreeScanner::find_growing() {
  MonoTime began = mono_now();
  for (auto [inode, parent] : model_.take_growing_unknown())
    if (CgroupPtr above = model_.cgroups().ref(parent))
      if (auto found = cgroupfs_.find_below(above->path, inode)) model_.on_cgroup(*found);
  MonoTime now = mono_now();
  next_search_ = now + kShare * (now - began);
}

}  // namespace oomcast
