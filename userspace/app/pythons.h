// The CPython processes in scope, known to the kernel programs before one of them is killed.
#pragma once

#include <unordered_set>

#include "base/task_id.h"
#include "base/units.h"
#include "collect/bpf_source.h"
#include "collect/roots.h"

namespace oomcast {

class Pythons {
 public:
  Pythons(const Roots& roots, BpfSource& bpf) : roots_(roots), bpf_(bpf) {}

  /// A process that holds so much was sampled: looked at once, about 3 ms, at most ten processes a second.
  void on_sample(const TaskId& id, Bytes resident, MonoTime now);
  /// It executed something else, or ended.
  void forget(const TaskId& id);

 private:
  const Roots& roots_;
  BpfSource& bpf_;
  std::unordered_set<TaskId> known_, pythons_;
  MonoTime second_{};
  int looked_ = 0;
};

}  // namespace oomcast
