// Puts the records of OOM kills together: one Episode per decision of the OOM killer, from the kernel
// programs, the kernel log, or both, each checking the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/cgroup_tree.h"
#include "model/dying_stacks.h"
#include "model/facts.h"
#include "model/growth_at_kill.h"
#include "model/kill_ledger.h"
#include "model/limit_owner.h"
#include "model/recent_kills.h"
#include "model/task_table.h"
#include "wire/records.h"

namespace oomcast {

struct EpisodeSources {
  bool bpf = true;
  bool kmsg = true;
  Bytes page = KiB(4);  // the kernel's tables count pages
};

/// One episode for each decision of the OOM killer: for a mark, but the marks of a group (memory.oom.group)
/// are one decision's. A report of the log is of the episode that has its victim's thread, or of none.
///
/// An episode is published `kSettle` after its last kill if nothing about it is open, and `kLatest` after its
/// first kill in any case. What is still open then is followed until `kFollow`, and published as a completion.
///
/// Bounds: `kMaxOpen` episodes, `kMaxVictims` in one, `kMaxVictimsInAll`; kills beyond that are counted as
/// dropped. Cost: a lookup per record, one pass over the task table for each limit hit.
class EpisodeBuilder {
 public:
  static constexpr Nanos kSettle = std::chrono::milliseconds(300);
  static constexpr Nanos kLatest = KillLedger::kPatience;
  static constexpr Nanos kForStore = std::chrono::milliseconds(200);
  static constexpr Nanos kFollow = std::chrono::seconds(30);
  static constexpr std::size_t kMaxOpen = 2048;
  static constexpr std::size_t kMaxVictims = 1024;
  static constexpr std::size_t kMaxVictimsInAll = 4096;
  static constexpr std::size_t kMaxArguments = 64 << 10;  // bytes in one, then each is cut off

  EpisodeBuilder(EpisodeSources sources, const TaskTable& tasks, const CgroupTree& cgroups)
      : sources_(sources), tasks_(tasks), cgroups_(cgroups), growth_(tasks, cgroups) {}

  void on_kernel_kill(const wire::KernelKill& kill);
  /// Returns the cgroup whose limit the kill is for, decided here and nowhere else; nullopt: no cgroup's.
  std::optional<std::uint64_t> on_mark(const wire::OomMark& mark);
  void on_decision(const wire::OomDecision& decision) { decisions_.on(decision); }
  void on_dying(const wire::Dying& dying);
  /// Of one of its threads; that of the thread that met the limit is kept, or of the first, or any.
  void on_code(const TaskId& id, std::uint32_t tid, std::vector<CodePlace> code) {
    stacks_.on_code(id, tid, std::move(code));
  }
  void on_exit(const wire::Exit& exit);
  void on_reaper(const wire::Reaper& reaper);
  /// A finished report of the kernel log; `when` on the model's clock: of the kill, or of reading.
  void on_dump(const OomDump& dump, MonoTime when);
  /// The log has been read up to `until`.
  void on_log_read(MonoTime until);
  void on_vmstat(const KillCount& count) { ledger_.on(count); }
  /// Usage of any cgroup, as it is read.
  void on_usage(std::uint64_t inode, MonoTime when, Bytes usage);

  /// Cgroups whose falling usage tells when a victim's memory came back; poll them every few milliseconds.
  std::vector<std::uint64_t> watched() const;
  /// An episode is not published yet.
  bool any_open() const { return untold_ > 0; }
  /// The same of what began by then.
  bool any_open_of(MonoTime until) const {
    return std::ranges::any_of(open_, [&](const Open& open) { return !open.told && open.first <= until; });
  }
  /// Whether a kill that is not over may be of the cgroup's processes: of its limit or one above, or the
  /// machine's. nullopt: the cgroup is not known, and every one may.
  bool any_open_around(std::optional<std::uint64_t> inode) const;
  /// The threads marked in those that close by then, whatever is still missing of them.
  std::vector<std::uint32_t> due(MonoTime when) const;
  /// Episodes that are untold and have another victim since the last call, as far as they are known.
  std::vector<Episode> take_opened();
  /// Whether what take_opened() gave is being written still: then nothing is told before it is, for kForStore
  /// beyond kLatest at most.
  void set_store_behind(bool behind) { store_behind_ = behind; }
  /// Episodes that are complete, or late, at `now`; `all`: whatever is missing of them.
  std::vector<Episode> take_closed(MonoTime now, bool all = false);
  /// Episodes that were told with something open and are complete now, or not followed any longer.
  std::vector<Episode> take_completed(MonoTime now);
  /// Kills that are in no episode, for lack of room.
  std::uint64_t dropped() const { return dropped_; }
  /// Victims of a group killed after its episode was published: only the completion has them.
  std::uint64_t late_victims() const { return late_victims_; }
  /// Kills that the kernel counted but no source reported, for so long that none will.
  std::uint64_t unseen(MonoTime now) { return ledger_.unseen(now, untold_ > 0); }
  /// At the end: what is short of that count now, is for good.
  void count_unseen(const KillCount& count) { ledger_.close(count); }

 private:
  // A report of the log that is read this late is still of the episode that was told; later its number may be
  // another's.
  static constexpr Nanos kToldFor = std::chrono::seconds(5);

  struct OpenVictim {
    Victim victim;
    MonoTime marked_at;
    wire::Task task;
    std::uint64_t mm_key = 0;
    std::uint32_t killer_tid = 0;  // of the thread that sent it the SIGKILL
  };
  struct Open {
    Episode episode;  // without its victims
    std::optional<std::uint64_t> limit_inode;
    std::optional<std::uint64_t> group;  // whose memory.oom.group it is
    std::size_t expected = 0;            // victims: of a group those that lived when it began
    std::optional<wire::Task> trigger;
    std::vector<OpenVictim> victims;
    MonoTime first, last;
    std::optional<Bytes> usage_before;
    std::optional<std::uint64_t> vmstat_before;
    bool marked = false;  // a record of the kernel programs told of it
    bool alone = true;    // no other was untold at the same time
    bool told = false;
    bool news = false;      // since it was told
    std::size_t begun = 0;  // victims that take_opened() gave
  };
  struct At {
    Open* open = nullptr;
    std::size_t nr = 0;
    explicit operator bool() const { return open != nullptr; }
    OpenVictim& victim() const { return open->victims[nr]; }
  };
  struct Index {
    At find(const TaskId& id) const;
    At find(std::uint32_t tid) const;
    void add(Open& open, std::size_t nr);
    std::unordered_map<std::uint32_t, At> by_tid;
    std::map<TaskId, At> by_task;
  };
  // A kill whose episode has been dropped.
  struct Closed {
    std::uint32_t tid;
    TaskId id;
    MonoTime at;
    bool logged;
  };
  std::size_t living_in(std::uint64_t group, MonoTime at) const;
  Open* begin(MonoTime when, MonoTime alive);
  void begin_at(Open& open, MonoTime when, MonoTime alive);
  bool has_room(const Open* open);
  void let_go(Open* open);
  void drop(std::uint32_t tid, const TaskId& id, MonoTime when, bool logged);
  bool was_closed(const wire::OomMark& mark) const;
  bool was_closed(std::uint32_t tid, MonoTime when);
  Open* open_group(const wire::OomMark& mark, std::optional<std::uint64_t> owner, std::uint64_t group,
                   const wire::OomDecision* decision);
  At add_victim(Open& open, const wire::Task& task, MonoTime when);
  void add_mark(const wire::OomMark& mark, std::optional<std::uint64_t> owner);
  At take_mark(At at, Open* group, const wire::OomMark& mark);
  void first_mark(Open& open, const wire::OomMark& mark, std::optional<std::uint64_t> owner);
  void add_logged_victim(Open& open, const OomDump& dump, const OomVictimLine& line, MonoTime when);
  Open* open_logged(const OomDump& dump, MonoTime when);
  CgroupPtr limit_of(const OomDump& dump) const;
  CgroupPtr with_number(const CgroupRef& logged, std::optional<std::uint64_t> inode) const;
  void take_owner(Open& open, const OomDump& dump);
  void forget_usage_before(Open& open);
  void take_report(Open& open, const OomDump& dump);
  wire::Task logged_trigger(const Open& open, const OomDump& dump) const;
  bool complete(const Open& open) const;
  void close(Open& open);
  Episode as_known(const Open& open) const;

  EpisodeSources sources_;
  const TaskTable& tasks_;
  const CgroupTree& cgroups_;
  std::list<Open> open_;  // oldest first
  std::size_t untold_ = 0, victims_ = 0;
  Index index_;                                             // victims of open_
  std::unordered_multimap<std::uint64_t, Open*> by_limit_;  // whose usage before is known
  std::vector<Episode> completed_;                          // of those that had to be let go
  RecentKills recent_;
  OomDecisions decisions_;
  DyingStacks stacks_;
  std::deque<Closed> closed_;
  GrowthAtKill growth_;
  KillLedger ledger_;
  std::deque<MonoTime> log_read_;
  bool store_behind_ = false;
  std::uint64_t dropped_ = 0, late_victims_ = 0, serial_ = 0;
};

}  // namespace oomcast
