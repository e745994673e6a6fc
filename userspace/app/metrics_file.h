// The metrics file for node_exporter's textfile collector.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/units.h"

namespace oomcast {

/// Replaces the file atomically, with a new one beside it: a reader never sees half of it. Mode 0644, as the
/// collector runs as another user; it holds names and sizes, no command lines. Refuses to replace a link, or
/// anything but a regular file. A thread does the writing, so that a hung disk blocks nothing; it starts with
/// the first write and has the privileges of that moment.
class MetricsFile {
 public:
  /// On exit, wait this long for a running write.
  static constexpr Nanos kPatience = std::chrono::milliseconds(700);

  /// Writes `text` to `path`, in the thread; tests replace it.
  using Replace = std::function<Status(const std::string& path, const std::string& text)>;

  explicit MetricsFile(std::string path, Replace replace = replace_with);
  /// Removes the file: nobody updates it any more. A thread stuck in a write is left behind: the process must
  /// exit after this.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;

  /// false: the previous write is still running, and this one is skipped.
  bool write(std::string text);
  /// Why writing failed; once per series of failures.
  std::optional<std::string> take_error();
  std::uint64_t skipped() const { return skipped_; }
  /// Waits until everything is written, at most `patience`. Returns whether it is.
  bool flush(Nanos patience = kPatience);

 private:
  static Status replace_with(const std::string& path, const std::string& text);
  struct Shared {
    std::string path;
    Replace replace;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::string> text;  // to be written
    bool busy = false, ending = false, ended = false;
    bool failing = false;
    std::optional<std::string> error;  // to be reported
  };
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
  std::uint64_t skipped_ = 0;
};

}  // namespace oomcast
