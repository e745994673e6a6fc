// The kernel's count of OOM kills against the kills that are known.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/units.h"

namespace oomcast {

/// The kernel's count (oom_kill in /proc/vmstat), read at some moment between the two times.
struct KillCount {
  MonoTime began, ended;
  std::uint64_t kills = 0;
};

class KillLedger {
 public:
  /// It is no matter of waiting any more.
  static constexpr Nanos kPatience = std::chrono::milliseconds(1700);

  void on(const KillCount& count);
  /// A kill that some source told of.
  void add_known() { ++known_; }
  /// The kernel counts one that it names twice of a group twice: by signals, or by lines of its log.
  void add_sent_again() { ++sent_again_; }
  void add_logged_again(std::size_t lines) { logged_again_ += lines; }

  /// The newest count that was read before or after that moment. nullopt: there is none.
  std::optional<std::uint64_t> before(MonoTime when) const;
  std::optional<std::uint64_t> after(MonoTime when) const;

  /// Kills that the kernel counted and nobody told of for kPatience. `waiting`: some that are known are not
  /// told yet.
  std::uint64_t unseen(MonoTime now, bool waiting);
  /// At the end: what is short of that count now, is for good.
  void close(const KillCount& count);

 private:
  std::uint64_t short_of(const KillCount& count) const;
  void wait_for_counts(MonoTime now);

  std::deque<KillCount> counts_;
  std::optional<std::uint64_t> from_;  // the count when nothing was known
  std::uint64_t known_ = 0, sent_again_ = 0, logged_again_ = 0, unseen_ = 0;
  std::optional<KillCount> waited_for_;  // some of it were not known at waited_since_
  MonoTime waited_since_{};
};

}  // namespace oomcast
