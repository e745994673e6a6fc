// Makes the kernel programs know the CPython processes in scope before one of them is killed.
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

/// One process is read at a time, in about 5 ms. Files crafted to be slow take up to kPythonPatience: after
/// each read its user waits 50 times as long as it took, and everybody 5 times. At most 64 requests per user
/// are queued.
class Pythons {
 public:
  Pythons(Reader& reader, BpfSource& bpf) : reader_(reader), bpf_(bpf) {}

  /// A process with this much memory was sampled: the reader reads it once.
  void on_sample(const ProcessRef& process, Bytes resident, MonoTime now);
  /// The same for a process that uses a card, however little host memory it has.
  void on_gpu_user(const TaskId& id, std::optional<std::uint32_t> uid, MonoTime now) {
    look_at(id, uid, now);
  }
  /// Requests the next one, if it is time. Call it often.
  void advance(MonoTime now);
  /// How long advance() may be delayed without events.
  std::optional<Nanos> wait() const {
    return waiting_.empty() ? std::nullopt : std::optional<Nanos>(std::chrono::milliseconds(50));
  }
  /// The reader's answer. Dropped requests are retried, failed ones are not.
  void on_answer(const Reader::Answer& answer, MonoTime now);
  /// It called exec, or exited.
  void forget(const TaskId& id);
  /// Processes that the kernel programs had no room for.
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
