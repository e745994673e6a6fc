// Writes what a run tells, into a recording or into the store.
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
#include <vector>

#include "base/result.h"
#include "store/store.h"
#include "store/tables.h"

namespace oomcast {

/// How much a store keeps.
struct StoreLimits {
  Bytes size = MiB(512);                    // of its files together; the oldest goes first, episodes last
  Nanos age = std::chrono::hours(24 * 90);  // of everything but the episodes themselves
};

/// Writes from a thread of its own, so that a slow disk does not hold up the tracing. It starts with the
/// first item: a thread has the privileges of the moment at which it starts, and those for opening are given
/// up before. What was added is in the file after a second at the latest, also if oomcast is killed; an
/// episode at once, also if the machine stops.
class StoreWriter {
 public:
  // Items of < 400 bytes that wait; beyond, they are lost and counted. A recording is to have everything; in
  // a store's queue what any user can make without end takes half.
  static constexpr std::size_t kMaxWaiting = 12'000, kMaxWaitingRecorded = 20'000;
  // Bytes, about, of the episodes that wait, which no number bounds: they are lost last, and counted.
  static constexpr std::size_t kMaxOfEpisodes = 5 << 20;
  static constexpr std::size_t kBatch = 500;  // as many are written at once, so that a storm does not gather

  /// Everything of one run, in a file of its own of mode 0640. Nothing more is written after the first
  /// failure. Error: `path` exists (unless `overwrite`), or cannot be written.
  static Result<std::unique_ptr<StoreWriter>> record(const std::string& path, const RunInfo& info,
                                                     bool overwrite);
  /// The store in `directory` (made with 0750 if it is missing), which others may write at the same time:
  /// what changed and mattered, thinned with age. A failure is told and retried; a broken file is put aside.
  /// One that stays locked is opened later. Error: it cannot be used now.
  static Result<std::unique_ptr<StoreWriter>> keep(const std::string& directory, const RunInfo& info,
                                                   StoreLimits limits = {});
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;

  void add(StoreItem item);
  /// Whether an episode that was added is not in the file yet. Not while writing fails: nobody waits for
  /// that.
  bool behind() const {
    std::uint64_t done = episodes_done_;
    return done != kNoMore && done != episodes_added_;
  }
  /// The clock was set, or the machine slept: a store's times are told by this from the next write on. A
  /// recording goes on by the clock of its beginning.
  void set_clock(Nanos wall_of_mono_zero) { clock_ = wall_of_mono_zero.count(); }
  /// The part of its bound that it may use from now on. Of what waits and is over, the oldest is lost, kills
  /// and ends not; a recording keeps all of it.
  void set_room(double part);
  /// Items that came to nothing because of a failure or a disk that was too slow.
  std::uint64_t lost() const { return lost_; }
  /// What a person should know, each once: a failure, its end, a file that was put aside.
  std::vector<std::string> take_notices();
  /// Begins to write what waits and to close the file, and waits for that. false: it takes longer, on a disk
  /// that stands still; then it must not be destroyed, and the process is to end.
  bool ends_within(Nanos patience);
  /// Writes what waits, and closes the file; a recording is one file then. Error: the failure that ended it.
  Status finish();

 private:
  StoreWriter() = default;
  struct Target;  // the thread's own
  static Result<std::unique_ptr<StoreWriter>> begin(std::unique_ptr<Target> target);
  void start();
  void work();
  void write_all();
  /// A kill waits, or the end.
  bool is_awaited() const;
  void close_file();
  bool write(std::vector<StoreItem> items, bool last);
  void notice(std::string text);

  std::unique_ptr<Target> target_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::deque<StoreItem> waiting_;
  std::size_t bound_ = kMaxWaiting, most_waiting_ = bound_;
  bool urgent_ = false, ending_ = false, has_ended_ = false;
  std::vector<std::string> notices_;
  std::optional<std::string> failure_;
  std::atomic<std::uint64_t> lost_ = 0;
  static constexpr std::uint64_t kNoMore = ~std::uint64_t{};
  std::uint64_t episodes_added_ = 0;  // by who adds
  std::atomic<std::size_t> bytes_of_episodes_ = 0;
  std::atomic<std::uint64_t> episodes_done_ = 0;
  std::atomic<std::int64_t> clock_ = 0;  // 0: as it was at the beginning
};

}  // namespace oomcast
