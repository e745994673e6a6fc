// Whose limit an OOM kill is for.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/units.h"
#include "wire/records.h"

namespace oomcast {

/// Whose limit fired, told from the memcgs at the mark; nullopt: no memory cgroup's. The kernel locks the
/// whole subtree of the limit's owner while it decides, so the topmost locked ancestor of the trigger is the
/// owner. Where that lock does not exist (a kernel without v1), or is another decision's, which the victim
/// is not below: the lowest cgroup at its limit above trigger and victim, or, for a limit lowered below the
/// usage, whose kill runs in the writer's context, above the victim.
std::optional<std::uint64_t> limit_owner(const wire::OomMark& mark);
/// Whose memory.oom.group has the victim's kill be that of a group: the topmost that is set from the victim
/// up to the owner, the owner included. nullopt: the victim is killed alone.
std::optional<std::uint64_t> group_of(const wire::OomMark& mark, std::optional<std::uint64_t> owner);

/// The newest decisions of the OOM killer, for marks whose own memcgs do not tell the owner any more.
class OomDecisions {
 public:
  static constexpr Nanos kSameMoment = std::chrono::seconds(2);

  /// Where oom_kill_process() can be probed: it comes before the marks.
  void on(const wire::OomDecision& decision);
  /// The one that the mark is of: all kills of a decision are made by one thread, one after the other.
  /// nullptr: it was not seen.
  const wire::OomDecision* of(const wire::OomMark& mark) const;
  /// That decision's, or what limit_owner() tells, or the owner of a kill just before: victims give memory
  /// back while others are being killed, and then the owner is no longer full, and only the first thread to
  /// run into it held its lock. But it is still killed for what was killed for just before, by the same
  /// thread (a group), or by one that had waited for the first. The answer counts as such a kill from now on.
  std::optional<std::uint64_t> owner_of(const wire::OomMark& mark);

 private:
  std::optional<std::uint64_t> find_owner(const wire::OomMark& mark) const;

  struct Decided {
    std::uint64_t owner;
    std::uint32_t trigger_tid;
    MonoTime time;
  };
  std::deque<wire::OomDecision> decisions_;
  std::deque<Decided> decided_;
};

}  // namespace oomcast
