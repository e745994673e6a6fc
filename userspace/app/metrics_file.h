// The file of metrics that node_exporter's textfile collector reads.
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

/// Replaces the file as a whole, by a new one beside it: a reader never has half of it. Its mode is 0644, as
/// the collector is another user's; it holds names and sizes, no command lines. A link in its place is
/// refused, and so is what is no regular file. A thread of its own writes, so that a disk that stands still
/// holds up nothing; it starts with the first write and has the privileges of that moment.
class MetricsFile {
 public:
  /// At the end, a write that takes longer is not waited for.
  static constexpr Nanos kPatience = std::chrono::milliseconds(700);

  /// What writes `text` to `path`, by the thread; a test has its own.
  using Replace = std::function<Status(const std::string& path, const std::string& text)>;

  explicit MetricsFile(std::string path, Replace replace = replace_with);
  /// Removes the file that it wrote: nobody keeps it true any more. Leaves a thread behind that is still stuck
  /// in a write: the process must end after that.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;

  /// false: the one before is still being written, and this one is skipped.
  bool write(std::string text);
  /// Why it could not be written, once until it could again.
  std::optional<std::string> take_error();
  std::uint64_t skipped() const { return skipped_; }
  /// Waits until what was given is written, for so long at most. Whether it is.
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
    std::optional<std::string> error;  // to be told
  };
  static void work(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
  std::uint64_t skipped_ = 0;
};

}  // namespace oomcast
