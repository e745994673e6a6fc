// `oomcast blame` in two processes: one owns the page-fault events and the report, the other one parses
// everything that an untrusted process controls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/helper_process.h"
#include "app/privileges.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "blame/blame.h"
#include "collect/allocation_budget.h"
#include "parse/gpu_calls.h"
#include "present/blame_json.h"

namespace oomcast {

/// Blame in a process that may be lost. The files a process has mapped, its memory, its maps and its perf map
/// are untrusted input: a parser may crash on it or use all memory it can get, a page from a hung file system
/// never arrives, an mmap_lock may be held forever. So all of it is read in that process, which has three
/// capabilities, a limit on its data (MemoryLimits) and a 50 ms timer for each read of another address space
/// (limit_looks()). When it dies, or is silent for kPatience, the process it was reading is known, and its
/// successor skips that one.
class BlameReader {
 public:
  static constexpr Nanos kLongestLook = std::chrono::milliseconds(50), kPatience = std::chrono::seconds(5);
  /// Bytes queued for the process; records of freed blocks may use twice that.
  static constexpr std::size_t kMaxQueued = 2 << 20;
  struct Events {
    std::function<void(std::uint32_t tgid, std::span<const std::byte> layout)> on_python;
    std::function<void(std::uint32_t tgid, Bytes resident)> on_baseline;
    /// The answer to find_allocator(). Untrusted: a compromised reader can name any file, and any place in
    /// it.
    std::function<void(std::uint32_t tgid, Result<Allocator>)> on_allocator;
    /// Addresses of container lengths, the answer to ask_growing(). Untrusted, too.
    std::function<void(std::uint32_t tgid, std::span<const std::uint64_t> lengths)> on_growing;
  };

  /// `root` and `limits` are for the child process, `most` limits its data. `body`: see HelperProcess.
  BlameReader(std::string root, ChildLimits limits, Bytes most, Events events, HelperProcess::Body body = {});
  BlameReader(const BlameReader&) = delete;

  /// Starts a new process that never reads those in `unread`; `blind`: reads none at all, so that only
  /// counters are reported.
  Status start(const std::vector<std::uint32_t>& unread, bool blind = false);
  // Requests, in the order of calls; see Blame. They are queued and never block.
  void note(std::uint32_t pid);
  void begin();
  /// A record of FaultSource. Dropped when the queue is full, and counted as "reader_full".
  void add(std::span<const std::byte> record);
  /// Device memory that the process allocated from the driver, with the stack: a record that
  /// wire::decode_gpu_stack() takes. gpu_gone(): objects that were freed.
  void add_gpu(std::uint32_t pid, const GpuObject& object, Bytes bytes, std::span<const std::byte> record);
  void gpu_gone(std::uint32_t pid, std::span<const GpuObject> objects);
  /// Answered once, by Events::on_allocator.
  void find_allocator(std::uint32_t pid);
  void set_watched(const WatchedAllocations& watched, std::span<const wire::LivingBlock> living);
  void set_unwatched(std::uint32_t pid, const std::string& why);
  /// Ignored while the last one is still running.
  void look(double watched_share);
  void end();
  void begin_objects(std::uint32_t pid);
  void ask_growing();  // for all of those; answered once for each, by Events::on_growing
  void end_objects();
  void finish(Seconds window, double watched_share);

  int fd() const { return ours_.get(); }
  bool wants_to_write() const { return !queue_.empty(); }
  /// Sends and receives what is possible without blocking.
  void advance(MonoTime now);
  /// All requests are done.
  bool idle() const { return queue_.empty() && unanswered_ == 0; }
  /// It died or is silent: start() a new one.
  bool lost() const { return lost_; }
  /// Lost by timeout: a retry may succeed, as on a machine with all CPUs busy.
  bool was_late() const { return late_; }
  /// Why no reader can run here, this one or another; nullptr: it can.
  const char* refusal() const { return refusal_; }
  /// The process that it read last.
  std::optional<std::uint32_t> looked_at() const { return looked_at_; }
  /// After finish(), once idle. nullopt: it sent no valid report.
  std::optional<BlameReport> take_report() { return report_.take(); }
  /// The report is longer than all the memory the reader may have, so there is none.
  bool report_is_too_long() const { return report_.too_long(); }
  /// Lost records, by reason.
  std::map<std::string, std::uint64_t> losses() const;

 private:
  void ask(std::uint32_t what, std::uint32_t pid = 0, double share = 0, double window = 0,
           std::span<const std::byte> payload = {});
  void enqueue(std::string message, std::size_t most);  // for a request without an answer
  void take(std::span<const std::byte> message, UniqueFd file);
  void take_growing(std::uint32_t pid, std::span<const std::byte> payload);
  void take_allocator(bool found, std::uint32_t pid, std::span<const std::byte> payload, UniqueFd file);

  struct {
    std::string root;
    ChildLimits limits;
    HelperProcess::Body body;
  } as_;  // it is started
  Events events_;
  UniqueFd ours_;
  HelperProcess process_;
  std::deque<std::string> queue_;
  std::vector<std::uint32_t> with_objects_;                  // begin_objects()
  std::set<std::pair<std::uint32_t, std::uint32_t>> asked_;  // open requests: what, for which process
  std::size_t queued_bytes_ = 0, unanswered_ = 0;
  bool looking_ = false, lost_ = false, late_ = false;
  const char* refusal_ = nullptr;
  std::optional<std::uint32_t> looked_at_;
  bool silent_ = false;        // and requests are open: its deadline runs from then on
  std::vector<std::byte> in_;  // one message
  ReportReader report_;
  std::uint64_t full_ = 0, undecodable_ = 0;
};

/// The child process: `oomcast --blame-reader [ROOT]`, requests on standard output, which is a socket.
/// Returns the exit code.
int serve_blame(const std::string& root);

}  // namespace oomcast
