// A recording: everything that one run of oomcast was told, in one SQLite database that people can query too.
//
// Schema 1 (PRAGMA user_version). Times are CLOCK_MONOTONIC in ns; `meta` has what turns them into wall time.
// `seq` counts the rows of all tables that have it together, in the order in which they came. Sizes are
// bytes; NULL: unknown, or no limit.
//   meta(key, value)      version, kernel, scope, hierarchy, interval_ns, wall_of_mono_zero_ns,
//                         wall_of_boot_zero_ns, clock_tick_ns; tree_pid, tree_start_ticks with --pid; lost
//   cgroups(id, inode, path, name, kind, container, pod, unit, slurm_job, slurm_step)
//   processes(id, pid, start_ticks, comm, cmdline, cmdline_source, cmdline_truncated, uid, ppid, ns_pid,
//             cgroup)     one row per change; cmdline: each word with a NUL behind it
//   samples(seq, time_ns, cgroup, usage, usage_limit, limit_cgroup, anon, file, shmem, kernel, swap, pinned,
//           headroom_limit, peak)
//   process_samples(seq, time_ns, process, rss, anon, file, shmem, swap, private, rss_error)
//   exits(seq, time_ns, process)
//   removals(seq, time_ns, cgroup)       when it was forgotten
//   ticks(seq, time_ns, killed)          killed: the cgroup whose limit was met
//   forecasts(seq, time_ns, cgroup, process, verdict, growth, eta_s, eta_low_s, eta_high_s, alert, why)
//   events(seq, time_ns, type, json, text)   all else as it was told: kills, alerts, losses, start, end …
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "base/result.h"
#include "base/units.h"
#include "forecast/book.h"
#include "model/facts.h"
#include "store/run_info.h"

struct sqlite3;
struct sqlite3_stmt;

namespace oomcast {

struct RecordedTick {
  MonoTime time;
  CgroupPtr killed = nullptr;  // its limit was met
};
/// A fact that no forecast depends on, as it was told.
struct RecordedEvent {
  MonoTime time;
  std::string type, json, text;
};
using RecordedItem = std::variant<Sample, ProcessSampleFact, ExitFact, ForgottenFact, ForecastFact,
                                  RecordedTick, RecordedEvent>;

/// Writes from a thread of its own, so that a slow disk does not hold up the tracing. What was added is in
/// the file after a second at the latest, also if oomcast is killed.
class RecordingWriter {
 public:
  static constexpr std::size_t kMostWaiting = 100'000;  // items; beyond, they are lost and counted

  /// Mode 0640. Error: `path` exists (unless `overwrite`), or cannot be written.
  static Result<std::unique_ptr<RecordingWriter>> create(const std::string& path, const RunInfo& info,
                                                         bool overwrite);
  ~RecordingWriter();
  RecordingWriter(const RecordingWriter&) = delete;

  void add(RecordedItem item);
  std::uint64_t lost() const { return lost_; }
  /// The first thing that went wrong; nothing is written any more after it.
  std::optional<std::string> failure() const;
  /// Writes what waits, and closes the file: it is one file then.
  Status finish();

 private:
  RecordingWriter() = default;
  struct Database;
  void work();

  std::string path_;
  std::unique_ptr<Database> db_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<RecordedItem> waiting_;
  bool ending_ = false;
  std::optional<std::string> failure_;
  std::atomic<std::uint64_t> lost_ = 0;
};

/// Reads a recording in the order in which it was written. The file is treated as hostile.
class RecordingReader {
 public:
  /// Whether the file begins as an SQLite database does.
  static bool is_recording(const std::string& path);
  /// Error::usage (exit 2): no recording, or of another schema (both are named).
  static Result<RecordingReader> open(const std::string& path);
  RecordingReader(RecordingReader&&) noexcept;
  ~RecordingReader();

  const RunInfo& info() const { return info_; }
  /// nullopt: the end.
  Result<std::optional<RecordedItem>> next();

 private:
  struct Database;
  explicit RecordingReader(std::unique_ptr<Database> db);
  std::unique_ptr<Database> db_;
  RunInfo info_;
};

}  // namespace oomcast
