// All known OOM kills: from the store, this machine's kernel log and journal, or log files.
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
  std::vector<PastKill> kills;             // without duplicates, newest first, each with an id
  std::vector<LoggedUserKill> user_kills;  // by other killers, in files
  std::vector<std::string> sources;        // that were read: "store", "kmsg", "journal", or files
  std::string store;                       // that was read; empty: none
  std::size_t left_out = 0;                // oldest ones dropped, from logs with too many
  std::uint64_t user_kills_left_out = 0;
  std::size_t without_victim = 0;  // OOMs without a killable process: not in the list
  std::optional<Error> unread;     // a file without a kill, but with lines that mention one
  std::optional<Error> forbidden;  // no permission for the kernel log, or root's store
};

/// Reads the sources that the options name: only the files of --from, or these and the store of --store;
/// without --from the store, the kernel log and the journal. A directory means the files in it. A kill in a
/// file with only a time since boot is dated from this machine's kernel log, if `dates` and it is there, too.
/// Error: nothing could be read.
Result<KnownKills> find_kills(const Options& options, WallTime now, EpisodeParts parts, bool dates);

/// Saves kills known only from logs in the store; one saved from a file is overwritten when a better source
/// has it, too. Kills of other hosts only with --store. Whatever is not saved is reported with its reason.
void keep_kills(const Options& options, const std::vector<PastKill>& kills);

HistoryFacts::Machine this_machine();

}  // namespace oomcast
