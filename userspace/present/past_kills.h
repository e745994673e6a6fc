// All kills that are known, as a list, and how often they come back.
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

/// Of a kill that is not confirmed.
inline constexpr const char* kCannotShowWriter = "this file cannot show that the kernel wrote it";

/// Kills of one command, or of one limit.
struct Recurring {
  bool command = false;  // else a cgroup's limit, or the machine's
  std::string host;      // as in PastKill
  std::string name;      // bytes: comm, or path; "" the machine
  Recurrence recurrence;
  std::vector<std::size_t> kills;  // indexes into the list, newest first
  bool confirmed = true;           // each of them is
};

/// `kills`: newest first. Those that happened twice or more often, most kills first: by the name of each
/// victim, and by whose limit it was, host by host. Kills without a time of day are in none; those that are
/// not confirmed only with `all`.
std::vector<Recurring> recurring(const std::vector<PastKill>& kills, bool all);

/// A kill by another killer than the kernel's, as a log has it.
struct LoggedUserKill {
  OtherKill kill;
  std::optional<WallTime> time;
  std::string file;
};

/// What `history` tells about itself.
struct HistoryFacts {
  std::string version;
  std::vector<std::string> sources;  // that were read: "store", "kmsg", "journal", or files
  WallTime now;
  bool filtered = false;     // --cgroup or --since: others may be there
  std::size_t left_out = 0;  // the oldest, of logs with too many
  std::uint64_t user_kills_left_out = 0;
  std::size_t without_victim = 0;  // OOMs in which no process could be killed: they are not in the list
  std::vector<LoggedUserKill> user_kills = {};
  bool of_files = false;                    // of the files that were named, not of this machine
  std::optional<std::size_t> columns = {};  // of the terminal; nullopt: it is none, lines are not broken
  struct Machine {
    std::string host;  // by gethostname(2)
    std::optional<Bytes> memory;
  } machine = {};  // this one
};

/// What makes a kill that is not confirmed unlikely; empty: nothing. A victim with more anonymous memory than
/// the machine has, if the log is of this one.
std::string doubt_of(const PastKill& kill, const HistoryFacts& facts);

std::string history_text(const std::vector<PastKill>& kills, const HistoryFacts& facts,
                         const TextStyle& style);
/// JSON Lines: `start`, an `oom` per kill, a `kill` per kill by another killer than the kernel's, a
/// `recurrence` per name that came back, `end`.
std::string history_json(const std::vector<PastKill>& kills, const HistoryFacts& facts);

}  // namespace oomcast
