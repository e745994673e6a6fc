// The list of all known kills, and how often they recur.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/recurrence.h"
#include "parse/other_kills.h"
#include "store/past_kills.h"
#include "stream/text.h"

namespace oomcast {

/// For an unconfirmed kill.
inline constexpr const char* kCannotShowWriter = "this file cannot show that the kernel wrote it";

/// Kills of one command, or of one limit.
struct Recurring {
  bool command = false;  // else the limit of a cgroup or of the machine
  std::string host;      // see PastKill
  std::string name;      // bytes: comm, or path; "": the machine
  Recurrence recurrence;
  std::vector<std::size_t> kills;  // indexes into the list, newest first
  bool confirmed = true;           // all of them are
};

/// `kills`: newest first. Names with at least two kills, most kills first: by victim's name, and by the owner
/// of the limit, separately for each host. Kills without a date are ignored, unconfirmed ones unless `all`.
std::vector<Recurring> recurring(const std::vector<PastKill>& kills, bool all);

/// A kill by another killer than the kernel, from a log.
struct LoggedUserKill {
  OtherKill kill;
  std::optional<WallTime> time;
  std::string file;
};

/// Facts about the list that `history` prints.
struct HistoryFacts {
  std::string version;
  std::vector<std::string> sources;  // that were read: "store", "kmsg", "journal", or files
  WallTime now;
  bool filtered = false;     // --cgroup or --since: there may be others
  std::size_t left_out = 0;  // oldest ones dropped, from logs with too many
  std::uint64_t user_kills_left_out = 0;
  std::size_t without_victim = 0;  // OOMs without a killable process: not in the list
  std::vector<LoggedUserKill> user_kills = {};
  bool of_files = false;                    // of the given files, not of this machine
  std::optional<std::size_t> columns = {};  // of the terminal; nullopt: not a terminal, do not wrap
  struct Machine {
    std::string host;  // by gethostname(2)
    std::optional<Bytes> memory;
  } machine = {};  // this one
};

/// The reason why an unconfirmed kill is unlikely; empty: none. Such as a victim with more anonymous memory
/// than the machine has, if the log is of this machine.
std::string doubt_of(const PastKill& kill, const HistoryFacts& facts);

std::string history_text(const std::vector<PastKill>& kills, const HistoryFacts& facts,
                         const TextStyle& style);
/// JSON Lines: `start`, an `oom` per kill, a `kill` per kill by another killer, a `recurrence` per recurring
/// name, `end`.
std::string history_json(const std::vector<PastKill>& kills, const HistoryFacts& facts);

}  // namespace oomcast
