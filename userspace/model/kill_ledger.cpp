#include "model/kill_ledger.h"

#include <algorithm>

#include "model/recent.h"

namespace oomcast {

void KillLedger::on(const KillCount& count) {
  if (!from_) from_ = count.kills - std::min(count.kills, known_);
  remember(counts_, count, 16);
}

std::optional<std::uint64_t> KillLedger::before(MonoTime when) const {
  std::optional<std::uint64_t> out;
  for (const KillCount& count : counts_)
    if (count.ended < when) out = count.kills;
  return out;
}

std::optional<std::uint64_t> KillLedger::after(MonoTime when) const {
  return !counts_.empty() && counts_.back().began > when ? std::optional(counts_.back().kills) : std::nullopt;
}

std::uint64_t KillLedger::short_of(const KillCount& count) const {
  std::uint64_t ours = *from_ + known_ + std::max(sent_again_, logged_again_) + unseen_;
  return count.kills > ours ? count.kills - ours : 0;
}

std::uint64_t KillLedger::unseen(MonoTime now, bool waiting) {
  if (waiting)
    waited_for_.reset();
  else if (!counts_.empty())
    wait_for_counts(now);
  return unseen_;
}

void KillLedger::wait_for_counts(MonoTime now) {
  if (waited_for_ && now - waited_since_ > kPatience) {
    unseen_ += short_of(*waited_for_);
    waited_for_.reset();
  }
  // Wait for this count only: in a storm there are always records in flight, and always others.
  if (!waited_for_ && short_of(counts_.back())) {
    waited_for_ = counts_.back();
    waited_since_ = now;
  }
}

void KillLedger::close(const KillCount& count) {
  if (from_) unseen_ += short_of(count);
}

}  // namespace oomcast
