// clang-format off
// The tables of a store and of a recording, which are the same.
//
// Schema 3 (PRAGMA user_version). Times are CLOCK_REALTIME in ns as the run's own clock gives it: a run's
// wall_of_mono_zero_ns taken off is CLOCK_MONOTONIC, exactly; in a store only until the clock is set or the machine
// sleeps. Sizes are bytes; NULL: unknown, or no limit.
// `seq` orders the rows of a table; in a recording it counts the rows of all tables that have it together.
//   runs            each run of oomcast: version, kernel, boot_id, scope; ended_ns NULL: it runs, or was killed
//   cgroups         id: what the columns cgroup and limit_cgroup of other tables name; one row per path
//   processes       one row per change; cmdline: each word with a NUL behind it
//   samples         a cgroup's memory; no column of it known: it is gone. step_s NULL: each moment that was told.
//                   Older: of each step_s seconds the highest and lowest that cannot be dropped, and the highest
//                   usage; 0: an episode keeps it whole
//   process_samples the same of processes (a store has only those that hold much)
//   exits, kills (SIGKILL from user space), reclaim, pressure, alerts, alert_actions, losses
//   forecasts       as told; told=0: not told by itself, but with an episode or an alert
//   throttled_forecasts: those to a memory.high
//   forecast_evidence of those near a limit (left to it, moved within) and of those that thrash: for how long, the
//                   share of time that tasks waited, bytes reclaimed a second
//   episodes        OOM kills; source: live, kmsg, journal, file; complete=0: oomcast ended before it was told
//   victims         of an episode, with the sizes of the kernel's line; stack: user addresses
//   others          of an episode: role 'also_killed' (shared a victim's memory) or 'grew'
//   ancestors       of an episode: the chain of cgroups at the kill, innermost first
//   kept            cgroups whose samples an episode keeps, those that matter most first
//   thinned         up to which row of samples and process_samples those of each step_s are thinned out
//   victim_code     the Python frames of a victim (its nr), innermost first
//   victim_times, kill_series, kill_hosts
//                   when each victim of a group died; of a crash loop, how many kills an episode is one of; of
//                   an imported kill, the other host that its log names
//   growth_sites    of an episode: from where a process (all that it grew by: of) grew, in the whiles, watched_s in
//                   all, in which its page faults were sampled; growth_code: the line of a site, then its callers;
//                   growth_holders: the container that holds what it keeps, where one is known;
//                   growth_evidence: what of it was kept, or touched only, and why more is not known
//   growth_containers, growth_adders
//                   of an episode: containers of Python programs that grew meanwhile; the line that adds to
//                   each, then its callers
//   memory_at_kill  of an episode, by the kernel's report; tasks: how many rows its table had
//   parts_at_kill   of an episode: every counter of the same report, without overlap
//   tasks, task_sums
//                   of an episode: the largest rows of that table; the sums over all its rows
//   machine_at_kill, zones_at_kill, slabs_at_kill
//                   of an episode where no memory cgroup's limit was met, by the same report: NUMA nodes, RAM
//                   and swap; each zone with its watermarks; the largest slabs that cannot be reclaimed
//   gpu_samples, gpu_evictions, gpu_events, gpu_errors, forecast_devices: gpu_tables.h
// Only in recordings:
//   headroom_cgroups (of samples: whose limit headroom_limit is of, 0: the machine's, where that is not limit_cgroup),
//   throttles (of samples: the memory.high that they meet before their limit, and whose it is),
//   removals (a cgroup was forgotten), ticks (killed: whose limit was met), events (json, text: as it was told)
//
// What a file of an earlier version lacks of these open_store() adds; one that is only read does as if they were empty.
// clang-format on
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/database.h"
#include "store/run_info.h"

namespace oomcast {

constexpr int kSchema = 3;
constexpr int kApplicationId = 0x6f6f6d63;  // "oomc"
/// Those whose rows belong to an episode and go with it.
constexpr const char* kTablesOfEpisodes[] = {
    "victims",        "others",          "ancestors",         "kept",
    "tasks",          "memory_at_kill",  "machine_at_kill",   "zones_at_kill",
    "slabs_at_kill",  "victim_code",     "growth_sites",      "growth_code",
    "growth_holders", "growth_evidence", "growth_containers", "growth_adders",
    "victim_times",   "kill_hosts",      "parts_at_kill",     "task_sums"};
/// Only the first telling of an episode knows it: it stays when the rest is written again.
constexpr const char* kSeriesTable = "kill_series";
/// In headroom_cgroups.
constexpr std::optional<std::int64_t> kOfTheMachine = 0;
/// Cgroups whose samples an episode keeps.
constexpr std::size_t kMaxKept = 256;
/// Of an episode's curves, before the kill and after it.
constexpr Nanos kKeptBefore = std::chrono::minutes(30);
constexpr Nanos kKeptAfter = std::chrono::minutes(2);

/// Makes the tables in an empty database, within the caller's transaction.
bool make_tables(sqlite3* db);
/// Adds what a database of schema 2 or 3 lacks, within the caller's transaction. An earlier oomcast that
/// writes to it meanwhile is not disturbed.
bool complete_tables(sqlite3* db);

/// The row of a run.
bool add_run(sqlite3* db, const RunInfo& info, std::int64_t began_ns, std::int64_t& id);
std::optional<RunInfo> read_run(sqlite3* db, std::int64_t id);

/// Whether it is a database of oomcast that this oomcast reads; an older one gets views and temporary
/// tables (in memory) by which it reads like this schema. `shown` is its name for messages. Error::usage: it
/// is none, is another's, or of another schema (both are named).
Status prepare_to_read(sqlite3* db, const std::string& shown);

}  // namespace oomcast
