// GPU memory held by each process, from the calls that programs make to the NVIDIA driver. State as plain values;
// pure: the same calls at the same times give the same state.
//
// Bytes are what the driver reserved for the program, so a little more than it asked for: CUDA takes 2 MiB
// and more at a time and hands it out itself. They are counted once, where the resource manager gives them
// (mappings of them are address space), by (client, object), until the last handle to them is freed: by
// itself, by the free of what it lies below, or by the end of its process, which frees nothing one by one.
//
// A call's arguments are read from the program's own memory, so a program can lie in them. What it says is of
// its own, or of those that it was forked from, whose descriptors it has: no process frees, takes over or
// uses up what another holds. Its own figures, the sum of a card and what a card has free, where the driver's
// own counters do not tell, are as true as the programs are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/task_id.h"
#include "base/units.h"
#include "collect/gpu_driver.h"
#include "model/code_place.h"
#include "parse/gpu_calls.h"
#include "parse/gpu_page_events.h"
#include "wire/records.h"

namespace oomcast {

struct GpuEvent {
  enum class Op : std::uint8_t {
    context,
    alloc,
    free,
    reserve,
    map,
    unmap,
    migrate,
    advise,
    free_seen,
    oom,             // the driver had none left; a program may try again with less
    recovered,       // and got as much within a second
    oversubscribed,  // a card pushes managed memory out to make room; of who lost most, or has most of it
    again,           // as much as was allocated at `first`, and is still held, was allocated once more
    close,           // the process ended: what it held
    xid,             // the driver reports an error of a card: `status` is its code
  };
  MonoTime time;
  TaskId task;  // 0: of an xid that blames nobody
  Op op = Op::alloc;
  GpuMemoryKind kind = GpuMemoryKind::device;
  std::optional<Bytes> bytes;
  std::optional<Bytes> free_bytes;  // of free_seen
  std::optional<std::uint64_t> address;
  std::optional<GpuUuid> device;
  GpuStatus status;
  bool overhead = false;  // of a context, not the program's own
  std::optional<MonoTime> first;
  std::optional<Bytes> managed, pinned;  // of close
  std::string bus, message;              // of an xid; bytes of the driver's
  std::vector<CodePlace> code;  // where is_asked_for(op): the Python lines that asked for it, innermost first
};
std::string_view to_string(GpuEvent::Op op);
/// Whether a call that asks for memory brings it about.
constexpr bool is_asked_for(GpuEvent::Op op) {
  using enum GpuEvent::Op;
  return op == alloc || op == oom || op == recovered || op == again;
}
/// What is worth publishing among thousands of allocations.
bool is_news(GpuEvent::Op op);
std::string_view to_string(GpuMemoryKind kind);

/// What one process holds.
struct GpuHeld {
  Bytes device, managed, pinned;
  Bytes overhead;  // of `device` and `pinned`: what contexts took before the program asked for anything
  std::size_t contexts = 0;
  /// The process used the driver before it was followed: it holds more than is known.
  bool since_before = false;
  /// What its pages did since the last look, on all cards together; nullopt: not followed.
  std::optional<GpuActivity> activity = {};
  /// Device memory by card; what is not mapped yet is on none of them.
  std::map<GpuUuid, Bytes> by_device;
  /// It allocated memory, or has a context. Processes that only query the driver, as nvidia-smi does, are ignored.
  bool took = false;
  bool is_of_interest() const { return took || since_before; }
};

/// What is known of a card beside its allocations.
struct GpuCardState {
  std::optional<Bytes> memory;
  /// As the driver told a program last, and what was known to be held then.
  std::optional<Bytes> free;
  Bytes held_then;
  /// The driver's counters now, and when the last look() was.
  GpuCard counters = {}, counters_before = {};
  std::optional<MonoTime> oversubscribed;  // when it was last
};

class GpuMemory {
 public:
  static constexpr std::size_t kMaxObjects = 1 << 16;       // handles, of some 300 bytes
  static constexpr std::size_t kMaxObjectsOfOne = 3 << 14;  // process: 2 MiB each on a card of 96 GiB
  static constexpr Bytes kMaxOfOne = GiB(1 << 17);          // its address space, of each kind of memory
  static constexpr std::size_t kMaxProcesses = 4096;
  static constexpr std::size_t kMaxCards = 64;
  static constexpr std::size_t kMaxRanges = 1 << 14;  // managed, of one process
  static constexpr Nanos kRecovered = std::chrono::seconds(1);
  static constexpr Nanos kOversubscribed = std::chrono::seconds(30);  // without it: the next time is news
  static constexpr Nanos kContextQuiet = std::chrono::milliseconds(100);
  static constexpr Nanos kMakesRoom = std::chrono::milliseconds(10);
  static constexpr Bytes kMinCopy = MiB(256);  // a copy is looked for from here on

  /// Sets the fraction of the bounds that may be used from now on: any excess stays, and nothing is added to it.
  void set_room(double part) {
    most_objects_ = static_cast<std::size_t>(part * static_cast<double>(kMaxObjects));
  }

  /// All cards, with their counters as of now. One that is alone has everything that is on a device.
  void on_cards(MonoTime time, const std::vector<GpuCard>& cards, Bytes page);
  const std::map<GpuUuid, GpuCardState>& cards() const { return cards_; }
  /// Device memory of all processes that is known to be on a card, by card: those that are known, and some of
  /// those that programs alone speak of.
  struct OnCard {
    Bytes held;
    std::optional<Bytes> free;  // as the driver told last, less what was taken since
    bool since_before = false;  // some hold more than is known
  };
  std::map<GpuUuid, OnCard> held_by_card() const;

  /// `ancestors`: the nearest first.
  void on(MonoTime time, TaskId task, const GpuOp& op, std::span<const TaskId> ancestors = {});
  /// Of a process that was met with the driver's files already open.
  void on_known_user(TaskId task) { process(task).held.since_before = true; }
  /// What the process's pages did since they are followed; nullopt: they are not.
  void on_activity(TaskId task, const std::optional<GpuActivity>& total);
  /// `blamed`: the tgid that the driver names, which counts only if that process uses a card.
  void on_xid(const wire::GpuXid& xid, std::optional<GpuUuid> card, std::optional<std::uint32_t> blamed);
  void on_exit(MonoTime time, TaskId task);

  /// Sets the code place of everything that the last call of on() brought about.
  void set_code(const std::vector<CodePlace>& code) {
    for (std::size_t i = first_of_call_; i < events_.size() && !code.empty(); ++i)
      if (is_asked_for(events_[i].op)) events_[i].code = code;
  }

  std::vector<GpuEvent> take() {
    first_of_call_ = 0;
    return std::exchange(events_, {});
  }
  /// nullptr: it does not use a GPU.
  const GpuHeld* of(TaskId task) const;
  /// Whether it has this handle to memory.
  bool holds(TaskId task, const GpuObject& object) const;
  template <typename F>
  void for_each(F f) const {
    for (const auto& [task, process] : processes_) f(task, process.held);
  }
  /// Calls that were not followed because there were too many objects, processes, ranges or bytes.
  std::uint64_t dropped() const { return dropped_; }

 private:
  // What several handles may stand for, of several processes. The owner is charged; when it has none any
  // more, another that has.
  struct Memory {
    TaskId owner;
    GpuMemoryKind kind;
    Bytes bytes;
    bool overhead = false;
    std::optional<GpuUuid> device;
    bool assumed = false;                        // the device: no map has said it yet
    std::map<TaskId, std::size_t> handles = {};  // of the owner, and of whom it was given to
  };
  struct Handle {
    std::shared_ptr<Memory> memory;
    std::uint32_t parent = 0;
  };
  // Allocations that follow each other closely: a model that is copied to the card.
  struct Burst {
    MonoTime first, last;
    Bytes bytes;
  };
  struct Process {
    GpuHeld held;
    std::map<GpuObject, Handle> handles;
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> below;  // client, parent, object
    std::map<std::uint64_t, std::uint64_t> managed;                           // address, length
    std::optional<MonoTime> context_at;  // while a context is being made: its last call
    std::optional<MonoTime> makes_room;  // since a context gave memory back, for more of it
    std::optional<GpuEvent> refused;
    bool refused_last = false;           // nothing was allocated since
    std::vector<Burst> bursts;           // the newest is last; at most kMaxBursts
    std::map<GpuObject, GpuUuid> cards;  // what it says its objects stand for; at most kMaxCards
    std::optional<MonoTime> told_again;
    std::optional<GpuActivity> activity;  // the total at the last look
    Bytes evicted_before;                 // between the two looks before it
  };
  static constexpr std::size_t kMaxBursts = 64;
  static constexpr std::size_t kMaxOfClient = 64;  // processes, that are asked for what another duplicates
  static constexpr Nanos kBurstGap = std::chrono::seconds(2);

  Process& process(TaskId task);
  std::optional<GpuUuid> card_of(const Process& process) const;
  void forget_counters_of_others(const std::vector<GpuCard>& cards);
  bool has_room_for_card(const GpuUuid& uuid);
  GpuEvent& add_event(MonoTime time, TaskId task, GpuEvent::Op op, const GpuOp& from);
  void allocate(MonoTime time, TaskId task, const GpuOp& op);
  void succeeded(MonoTime time, TaskId task, const GpuOp& op, std::span<const TaskId> ancestors);
  void on_refused(MonoTime time, TaskId task, const GpuOp& op);
  void on_own_memory(MonoTime time, TaskId task, const GpuOp& op);
  void on_free_seen(const Process& process, const GpuOp& op);
  void count(const Memory& memory, std::int64_t sign);
  bool has_room(const Process& process) const;
  void add(TaskId task, Process& process, const GpuObject& object, Handle handle);
  std::optional<Memory> release(TaskId task, Process& process, std::map<GpuObject, Handle>::iterator at);
  void charge_another(Memory& memory);
  std::shared_ptr<Memory> find(const Process& process, const GpuObject& object) const;
  void free(MonoTime time, TaskId task, const GpuOp& op, std::span<const TaskId> ancestors);
  bool free_of(MonoTime time, TaskId holder, const GpuOp& op);
  void map(TaskId holder, const GpuOp& op);
  TaskId holder_of(const GpuObject& object, TaskId task, std::span<const TaskId> ancestors) const;
  void map_managed(MonoTime time, TaskId task, const GpuOp& op);
  void unmap_managed(MonoTime time, TaskId task, const GpuOp& op);
  void look_for_copies(MonoTime time, TaskId task, Process& process, Bytes bytes);
  void look_for_oversubscription(MonoTime time, const GpuUuid& uuid, GpuCardState& card, Bytes page);

  std::unordered_map<TaskId, Process> processes_;
  std::unordered_map<std::uint32_t, std::set<TaskId>> by_client_;  // who has handles of it
  Process nobody_;  // of one process too many: what is written to it is not read
  std::size_t most_objects_ = kMaxObjects, objects_ = 0;  // handles of all
  std::vector<GpuEvent> events_;
  std::size_t first_of_call_ = 0;  // among them, that the last call brought about
  std::map<GpuUuid, GpuCardState> cards_;
  std::optional<GpuUuid> only_device_;
  std::uint64_t dropped_ = 0;
};

}  // namespace oomcast
