// What the kernel programs report, as values: the sentinels of bpf/wire.h have become std::optional here,
// pages and nanoseconds have become Bytes and MonoTime. Nothing to the right of this layer knows the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/arguments.h"
#include "base/result.h"
#include "base/task_id.h"
#include "base/units.h"

namespace oomcast::wire {

/// Factors for the wire's page and clock counts.
struct Units {
  std::int64_t page_bytes = 4096;
  std::int64_t ns_per_tick = 10'000'000;  // 1e9 / sysconf(_SC_CLK_TCK)
};

struct Task {
  TaskId id;
  std::uint32_t tid = 0;  // of the thread that the record is about
  std::optional<TaskId> parent;
  std::uint32_t ns_tgid = 0;
  std::optional<std::uint64_t> cgroup;  // inode in the memory hierarchy
  std::optional<std::uint32_t> uid;
  int oom_score_adj = 0;
  bool exiting = false;
  bool workqueue = false;
  std::string comm;  // bytes, at most 15
};

struct Memory {
  Bytes anon, file, shmem, swap, total_vm, pgtables;
  std::uint64_t mm_key = 0;  // equal for tasks that share their memory
  Bytes rss() const { return anon + file + shmem; }
};

struct Memcg {
  std::uint64_t inode = 0;
  Bytes usage;
  std::optional<Bytes> limit;
  Bytes watermark;
  bool oom_lock = false;   // an OOM kill for it, or for an ancestor, is being decided
  bool oom_group = false;  // memory.oom.group
};

struct CgroupSample {
  MonoTime time;
  Memcg memcg;
  std::optional<std::uint64_t> parent;
  bool moved = false;
};
struct ProcessSample {
  MonoTime time;
  Task task;
  std::optional<Memory> memory;
};
struct Fork {
  MonoTime time;
  Task child;
};
/// argv as bytes; nullopt: it could not be read.
struct Args {
  Arguments argv;
  bool truncated = false;
};
struct Exec {
  MonoTime time;
  Task task;
  std::optional<Args> args;
};
struct Exit {
  MonoTime time;
  Task task;
  int exit_code = 0;
  bool killed_by_kernel = false;
  bool by_sigkill() const { return (exit_code & 0x7f) == 9; }
};
struct CgroupEvent {
  enum class Op { mkdir, rmdir, rename };
  MonoTime time;
  Op op = Op::mkdir;
  std::uint64_t inode = 0;
  std::optional<std::uint64_t> parent;
  std::string name;
};
struct CgroupAttach {
  MonoTime time;
  Task task;
  std::uint64_t to = 0;
};
struct OomMark {
  MonoTime time;
  Task victim;
  std::optional<Memory> memory;
  Task trigger;
  std::vector<Memcg> chain, victim_chain;  // from the task's own cgroup up, as far as they go
  std::optional<Memcg> owner;              // the topmost locked one above the trigger, at any depth
};
struct KernelKill {
  MonoTime time;
  Task victim;
  std::optional<Memory> memory;
  Task sender;
};
struct Dying {
  MonoTime time;
  Task task;
  std::optional<Memory> memory;
  std::optional<Args> args;
  std::vector<std::uint64_t> stack;
};
/// The Python code that a thread of a victim was in, as raw bytes of the process.
struct DyingCode {
  struct Text {
    std::vector<std::byte> data;  // of `width` bytes a character
    unsigned width = 1;
    bool cut = false;  // only its end
  };
  struct Frame {
    std::uint64_t code = 0, instruction = 0;
    std::uint32_t first_line = 0;
    std::optional<Text> file, name;  // nullopt: unreadable
    std::vector<std::byte> lines;
  };
  MonoTime time;
  Task task;
  unsigned lines = 0;  // the form of the tables, as PythonObjects::Lines
  std::uint32_t code_instructions = 0;
  std::vector<Frame> frames;  // innermost first
};
struct UserKill {
  MonoTime time;
  Task victim, sender;
  std::optional<int> si_code;     // nullopt: sent without siginfo, as cgroup.kill does
  bool may_kill_anybody = false;  // the sender: CAP_KILL outside of containers
  bool by_tracer = false;         // the sender traces the victim
};
struct Reaper {
  enum class Op { queued, done, skipped };
  MonoTime time;
  Op op = Op::queued;
  std::uint32_t tid = 0;
};
struct OomDecision {
  enum class Constraint { none, cpuset, mempolicy, memcg };
  MonoTime time;
  Task trigger, victim;
  std::optional<std::uint64_t> limit_cgroup;
  std::uint32_t gfp_mask = 0;
  int order = 0;
  std::optional<Constraint> constraint;
};

/// A system call on one of the NVIDIA driver's files, after it returned, with what the program's memory held.
struct GpuCall {
  enum class Call { ioctl, mmap, munmap };
  enum class Device { none, control, card, uvm };
  MonoTime time;
  Task task;
  Call call = Call::ioctl;
  Device device = Device::none;
  std::uint32_t minor = 0, command = 0;
  std::int64_t result = 0;
  std::uint64_t file = 0;
  std::uint64_t address = 0, length = 0;
  std::vector<std::byte> head, tail, params;  // empty: could not be read
};

/// An error of a card reported by the NVIDIA driver.
struct GpuXid {
  MonoTime time;
  std::uint32_t code = 0;
  std::string bus, message;  // "0000:01:00.0"; bytes
};

using Record = std::variant<CgroupSample, ProcessSample, Fork, Exec, Exit, CgroupEvent, CgroupAttach, OomMark,
                            KernelKill, Dying, DyingCode, UserKill, Reaper, OomDecision>;

/// One record of a ring. Error: it is shorter than it says, of an unknown type, or not of its type's size:
/// the two sides were built from different contracts. Cost: one copy of what the record holds.
Result<Record> decode(std::span<const std::byte> bytes, const Units& units);

/// The same of the ring that only the GPU programs write.
/// Where the GpuCall of the same thread before it was made, in Python. Error: not such a record.
Result<DyingCode> decode_gpu_code(std::span<const std::byte> bytes, const Units& units);
bool is_gpu_code(std::span<const std::byte> bytes);
Result<GpuCall> decode_gpu_call(std::span<const std::byte> bytes, const Units& units);
Result<GpuXid> decode_gpu_xid(std::span<const std::byte> bytes);

/// Why the kernel side dropped something, by the index it counts with.
std::span<const std::string_view> lost_reasons();

/// The largest record; a buffer with less room than this may have to wait.
std::size_t max_record_bytes();

/// Sums of a cgroup's reclaim stalls since load, as the kernel side keeps them.
struct Stalls {
  std::uint64_t count = 0;
  Nanos time{};
  Bytes reclaimed;
};
std::size_t stalls_bytes();
Stalls decode_stalls(std::span<const std::byte> bytes, const Units& units);

}  // namespace oomcast::wire
