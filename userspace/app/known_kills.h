// The OOM kills that are known: by the store, by this machine's kernel log and journal, or by log files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "base/result.h"
#include "base/units.h"
#include "present/past_kills.h"
#include "store/past_kills.h"
#include "store/store.h"

namespace oomcast {

struct KnownKills {
  std::vector<PastKill> kills;             // each once, newest first, each with an id
  std::vector<LoggedUserKill> user_kills;  // by other killers, in files
  std::vector<std::string> sources;        // that were read: "store", "kmsg", "journal", or files
  std::string store;                       // that was read; empty: none
  std::size_t left_out = 0;                // the oldest, of logs with too many
  std::uint64_t user_kills_left_out = 0;
  std::size_t without_victim = 0;  // OOMs in which no process could be killed: they are not in the list
  std::optional<Error> unread;     // no kill in a file, but lines that speak of one
  std::optional<Error> forbidden;  // the kernel log, or root's store, may not be read
};

/// Reads what the options name: the files of --from alone, or with the store that --store names; without
/// --from the store, the kernel log and the journal. A directory stands for the files in it. A kill of a file
/// that counts from a boot alone is dated by this machine's kernel log where that has it too and `dates`.
/// Error: nothing could be read.
Result<KnownKills> find_kills(const Options& options, WallTime now, EpisodeParts parts, bool dates);

/// Writes what only logs know into the store; one that is there as a file had it is written again where a
/// better source has it, too. Kills of other hosts only if --store was given. What is not kept is said with
/// its reason.
void keep_kills(const Options& options, const std::vector<PastKill>& kills);

HistoryFacts::Machine this_machine();

}  // namespace oomcast
