// Kills by programs other than the kernel, as their own sentences in a log say them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "parse/log_lines.h"
#include "parse/other_killers.h"

namespace oomcast {

/// A process, or all of a cgroup or a unit, that one of them killed, with what its sentence says.
struct OtherKill {
  const OtherKiller* killer = nullptr;
  std::uint32_t pid = 0;  // 0: it names a cgroup or a unit
  std::optional<std::string> comm;
  std::optional<std::uint32_t> uid;
  std::optional<std::string> cgroup;  // path below the hierarchy's root
  std::optional<std::string> unit;    // systemd's name for it, where no line has the path
  std::string signal;                 // "SIGKILL", "SIGTERM"
  std::optional<WallStamp> wall;
  std::optional<Nanos> since_boot;
  std::string host;
};

/// What the sentence of `killer` in this line says it has killed; nullopt: it names nothing.
std::optional<OtherKill> other_kill_in(std::string_view line, const OtherKiller& killer);

/// What the lines of one log say of other killers, in order.
class OtherKills {
 public:
  static constexpr std::size_t kMost = 4096;

  /// A line of the log, or a text of one of its records, in which there may be one's sentence.
  void note(std::string_view text, const LogPrefix& prefix);
  /// A raw line: nohang names its victim some lines before it says that it kills it.
  void look_for_choice(std::string_view line);

  /// Each killer once.
  const std::vector<OtherSaid>& said() const { return said_; }
  bool has_said(const OtherKiller& killer) const;
  const std::deque<OtherKill>& kills() const { return kills_; }
  /// Of more than kMost kills the oldest are dropped; this many.
  std::uint64_t dropped() const { return dropped_; }
  /// Sentences so far.
  std::uint64_t noted() const { return noted_; }

 private:
  bool is_said_again(const OtherKill& kill);

  std::vector<OtherSaid> said_;
  std::deque<OtherKill> kills_;
  std::uint64_t dropped_ = 0, noted_ = 0;
  std::optional<OtherKill> chosen_;  // by nohang
};

}  // namespace oomcast
