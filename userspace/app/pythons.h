// The CPython processes in scope, known to the kernel programs before one of them is killed.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "app/reader.h"
#include "base/task_id.h"
#include "base/units.h"
#include "collect/bpf_source.h"

namespace oomcast {

class Pythons {
 public:
  Pythons(Reader& reader, BpfSource& bpf) : reader_(reader), bpf_(bpf) {}

  /// A process that holds so much was sampled: the reader looks at it once, about 5 ms, at most ten processes
  /// a second.
  void on_sample(const TaskId& id, Bytes resident, MonoTime now);
  /// So is one that uses a card, however little host memory it has.
  void on_gpu_user(const TaskId& id, MonoTime now) { look_at(id, now); }
  /// What the reader found. Who was dropped is asked for again; at whom the reader failed is not.
  void on_answer(const Reader::Answer& answer);
  /// It executed something else, or ended.
  void forget(const TaskId& id);
  /// Those that the kernel programs do not know for want of room.
  std::uint64_t no_room() const { return no_room_; }

 private:
  void look_at(const TaskId& id, MonoTime now);

  Reader& reader_;
  BpfSource& bpf_;
  std::unordered_set<TaskId> known_, pythons_;
  MonoTime second_{};
  int looked_ = 0;
  std::uint64_t no_room_ = 0;
};

}  // namespace oomcast
