// Puts the records of OOM kills together: one Episode per limit and moment, from the kernel programs, the
// kernel log, or both, each checking the other.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/cgroup_tree.h"
#include "model/facts.h"
#include "model/task_table.h"
#include "wire/records.h"

namespace oomcast {

/// What the table and the tree know of a task, with the record's own words where they are newer.
ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, const wire::Task& task);
ProcessRef process_ref(const TaskTable& tasks, const CgroupTree& cgroups, TaskId id);

/// Whose limit fired, told from the memcgs at the mark; nullopt: no memory cgroup's. The kernel locks the
/// whole subtree of the limit's owner while it decides, so the topmost locked ancestor of the trigger is the
/// owner. Where that lock does not exist (a kernel without v1), or two decisions overlap: the lowest cgroup
/// at its limit above the trigger, or, for a limit lowered below the usage, whose kill runs in the writer's
/// context, above the victim.
std::optional<std::uint64_t> limit_owner(const wire::OomMark& mark);
/// memory.oom.group is set between the victim and the owner, the owner included.
bool is_group_kill(const wire::OomMark& mark, std::optional<std::uint64_t> owner);

/// The kernel's count of kills, read at some moment between the two times.
struct KillCount {
  MonoTime began, ended;
  std::uint64_t kills = 0;
};

struct EpisodeSources {
  bool bpf = true;
  bool kmsg = true;
  Bytes page = KiB(4);  // the kernel's tables count pages
};

/// A mark joins the open episode of its limit's owner (or of none, for the machine's limit); an episode
/// closes when nothing about it is open any more, `kSettle` after its last kill at the earliest and `kLatest`
/// after it at the latest. One of `kMaxVictims` is full, and another begins; of those, `kMaxOpen` at once.
/// The rest are counted as dropped.
class EpisodeBuilder {
 public:
  static constexpr Nanos kSettle = std::chrono::milliseconds(1000);
  static constexpr Nanos kLatest = std::chrono::milliseconds(1700);
  static constexpr std::size_t kMaxOpen = 256;
  static constexpr std::size_t kMaxVictims = 1024;

  EpisodeBuilder(EpisodeSources sources, const TaskTable& tasks, const CgroupTree& cgroups)
      : sources_(sources), tasks_(tasks), cgroups_(cgroups) {}

  void on_kernel_kill(const wire::KernelKill& kill);
  void on_mark(const wire::OomMark& mark);
  void on_decision(const wire::OomDecision& decision);
  void on_dying(const wire::Dying& dying);
  /// Of one of its threads; that of the thread that met the limit is kept, or of the first, or any.
  void on_code(const TaskId& id, std::uint32_t tid, std::vector<CodePlace> code);
  void on_exit(const wire::Exit& exit);
  void on_reaper(const wire::Reaper& reaper);
  /// A finished report of the kernel log; `when` on the model's clock.
  /// `when`: of reading, which may be long after the kill.
  void on_dump(const OomDump& dump, MonoTime when);
  /// All that the log had until then has been read.
  void on_log_read(MonoTime until);
  void on_vmstat(const KillCount& count);
  /// Usage of a cgroup that watched() names.
  void on_usage(std::uint64_t inode, MonoTime when, Bytes usage);

  /// Cgroups whose falling usage tells when a victim's memory came back; poll them every few milliseconds.
  std::vector<std::uint64_t> watched() const;
  bool any_open() const { return !open_.empty(); }
  /// Whether a kill that is not over may be of the cgroup's processes: of its limit or one above, or the
  /// machine's. nullopt: the cgroup is not known, and every one may.
  bool any_open_around(std::optional<std::uint64_t> inode) const;
  /// The threads marked in those that close by then, whatever is still missing of them.
  std::vector<std::uint32_t> due(MonoTime when) const;
  /// Episodes that are open and have another victim since the last call, as far as they are known.
  std::vector<Episode> take_begun();
  /// Episodes that are complete, or late, at `now`.
  std::vector<Episode> take_closed(MonoTime now);
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct OpenVictim {
    Victim victim;
    MonoTime marked_at;
    wire::Task task;
    std::uint64_t mm_key = 0;
    std::uint32_t killer_tid = 0;  // of the thread that sent it the SIGKILL
  };
  struct Open {
    Episode episode;
    std::optional<std::uint64_t> limit_inode;
    std::optional<wire::Task> trigger;
    std::vector<OpenVictim> victims;
    MonoTime first, last;
    std::optional<Bytes> usage_before;
    std::optional<std::uint64_t> vmstat_before;
    bool marked = false;    // a record of the kernel programs told of it
    bool alone = true;      // no other episode was open at the same time
    std::size_t begun = 0;  // victims that take_begun() gave
  };
  struct Closed {
    std::uint32_t tid;
    MonoTime at;
  };

  Open* open_for(std::optional<std::uint64_t> limit_inode, MonoTime when, MonoTime alive);
  void begin(Open& open, MonoTime when, MonoTime alive);
  OpenVictim* find_victim(TaskId id);
  OpenVictim* find_unmarked(const wire::OomMark& mark, std::optional<std::uint64_t> owner, Open** in);
  OpenVictim& take_mark(OpenVictim& v, Open& open, const wire::OomMark& mark);
  OpenVictim* find_logged(const OomVictimLine& line, Open** owner);
  OpenVictim& add_victim(Open& open, const wire::Task& task, MonoTime when);
  void add_logged_victim(Open& open, const OomDump& dump, const OomVictimLine& line, MonoTime when);
  wire::Task logged_trigger(const Open& open, const OomDump& dump) const;
  const wire::OomDecision* decision_of(const wire::OomMark& mark) const;
  std::optional<std::uint64_t> owner_of(const wire::OomMark& mark) const;
  bool was_sent_by(const wire::OomMark& mark);
  bool complete(const Open& open) const;
  Episode finish(Open& open);
  std::vector<GrewProcess> grew_most(const Open& open) const;

  EpisodeSources sources_;
  const TaskTable& tasks_;
  const CgroupTree& cgroups_;
  std::vector<Open> open_;
  std::deque<wire::KernelKill> kills_;       // recent, newest last
  std::deque<wire::Exit> exits_;             // of processes that the kernel killed; one can precede its mark
  std::deque<wire::OomDecision> decisions_;  // recent
  std::deque<std::pair<TaskId, std::vector<std::uint64_t>>> stacks_;
  struct DyingThread {
    TaskId id;
    std::uint32_t tid = 0;
    std::vector<CodePlace> code;
  };
  std::deque<DyingThread> threads_;
  std::deque<Closed> closed_;
  std::deque<KillCount> vmstat_;  // the newest readings
  std::deque<MonoTime> log_read_;
  std::uint64_t dropped_ = 0, serial_ = 0;
};

}  // namespace oomcast
