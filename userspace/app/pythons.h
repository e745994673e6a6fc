// The CPython processes in scope, known to the kernel programs before one of them is killed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_set>

#include "app/reader.h"
#include "base/task_id.h"
#include "base/units.h"
#include "collect/bpf_source.h"
#include "model/facts.h"

namespace oomcast {

/// One look at a time, about 5 ms. Files that are made to be dear to read take up to kPythonPatience: after a
/// look its user waits 50 times as long as it took, and everybody 5 times. 64 of a user wait.
class Pythons {
 public:
  Pythons(Reader& reader, BpfSource& bpf) : reader_(reader), bpf_(bpf) {}

  /// A process that holds so much was sampled: the reader looks at it once.
  void on_sample(const ProcessRef& process, Bytes resident, MonoTime now);
  /// So is one that uses a card, however little host memory it has.
  void on_gpu_user(const TaskId& id, std::optional<std::uint32_t> uid, MonoTime now) {
    look_at(id, uid, now);
  }
  /// Asks for the next, if it is time. Call it often.
  void advance(MonoTime now);
  /// How long advance() may wait although nothing comes.
  std::optional<Nanos> wait() const {
    return waiting_.empty() ? std::nullopt : std::optional<Nanos>(std::chrono::milliseconds(50));
  }
  /// What the reader found. Who was dropped is asked for again; at whom the reader failed is not.
  void on_answer(const Reader::Answer& answer, MonoTime now);
  /// It executed something else, or ended.
  void forget(const TaskId& id);
  /// Those that the kernel programs do not know for want of room.
  std::uint64_t no_room() const { return no_room_; }

 private:
  struct Wanted {
    TaskId id;
    std::optional<std::uint32_t> uid;
    MonoTime when;
  };
  void look_at(const TaskId& id, std::optional<std::uint32_t> uid, MonoTime now);

  Reader& reader_;
  BpfSource& bpf_;
  std::unordered_set<TaskId> known_, pythons_;
  std::deque<Wanted> waiting_;
  std::optional<Wanted> asked_;
  MonoTime next_{};
  std::map<std::optional<std::uint32_t>, MonoTime> next_of_;  // by user
  std::uint64_t no_room_ = 0;
};

}  // namespace oomcast
