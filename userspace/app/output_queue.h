// Output to a descriptor whose reader may be slow or stopped.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/units.h"

namespace oomcast {

/// A write to a pipe with a sleeping reader, to a terminal after Ctrl-S or to a full network disk blocks. A
/// thread blocks there; callers of write() never do. 2 MiB may be queued, 4 MiB with alerts, of which any
/// user can cause thousands, and 6 MiB with kills and other output that must not be lost; beyond that whole
/// lines are dropped and counted.
class OutputQueue {
 public:
  static constexpr std::size_t kMaxBytes = 2 << 20, kMaxAlerts = 4 << 20, kMaxEvidence = 6 << 20;
  /// On exit, a reader that accepts nothing for this long is abandoned.
  static constexpr Nanos kPatience = std::chrono::milliseconds(700);

  explicit OutputQueue(int fd) : fd_(fd) {}
  /// A thread stuck in a write is left behind: the process must exit after this.
  ~OutputQueue();
  OutputQueue(const OutputQueue&) = delete;

  /// `most`: queue limit for this line, in bytes.
  void write(const std::string& line, std::size_t most = kMaxBytes);
  /// A write failed: the reader is gone, or the disk is full. Nothing more is written.
  bool failed() const;
  /// Lines dropped since the last call; 0 while there is no room to report them.
  std::uint64_t take_dropped();
  /// Waits as long as the reader accepts data. Returns whether everything was written.
  bool flush();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> waiting;  // in chunks of kPart: one string would double as it grows
    std::size_t unwritten = 0;        // including what the thread holds
    bool failed = false, ending = false, ended = false;
  };
  void start();
  static void work(int fd, const std::shared_ptr<Shared>& shared);

  int fd_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
  std::uint64_t dropped_ = 0;
};

}  // namespace oomcast
