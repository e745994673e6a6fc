// What is written to a descriptor whose reader may not read.
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

/// A pipe whose reader sleeps, a terminal after Ctrl-S and a full disk of a network take a write and do not
/// return. A thread of its own waits there; who writes here never does. 2 MiB may wait, 4 MiB with alerts, of
/// which any user can have thousands, and 6 MiB with kills and what else must not be missed; what is over is
/// dropped and counted, whole lines.
class OutputQueue {
 public:
  static constexpr std::size_t kMaxBytes = 2 << 20, kMaxAlerts = 4 << 20, kMaxEvidence = 6 << 20;
  /// Who takes nothing for so long at the end is not waited for.
  static constexpr Nanos kPatience = std::chrono::milliseconds(700);

  explicit OutputQueue(int fd) : fd_(fd) {}
  /// Leaves a thread behind that is still stuck in a write: the process must end after that.
  ~OutputQueue();
  OutputQueue(const OutputQueue&) = delete;

  /// `most`: bytes that may wait with it.
  void write(const std::string& line, std::size_t most = kMaxBytes);
  /// A write failed: the reader is gone, or the disk is full. Nothing more is written.
  bool failed() const;
  /// Lines that were dropped since the last call; 0 while there is no room to tell of them.
  std::uint64_t take_dropped();
  /// Waits while something is taken. Whether all was written.
  bool flush();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> waiting;  // of kPart each: one string of all would grow by doubling
    std::size_t unwritten = 0;        // with what the thread holds
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
