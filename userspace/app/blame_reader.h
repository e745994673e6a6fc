// `oomcast blame` in two processes: one has the kernel's page-fault events and the report, the other one has
// whatever a stranger can choose.
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

/// Blame in a process that can be lost. Files that a process has mapped, its memory, its maps, its perf map:
/// whatever is read there was chosen by whoever runs it. A parser crashes on it or takes all memory that it
/// can get, a page of a file system that does not answer never comes, an mmap_lock is held for ever. So it
/// happens in there, with three capabilities, a bound of its data (MemoryLimits), and a timer of 50 ms for
/// each look at another's address space (limit_looks()). When it dies or is silent for kPatience, the process
/// that it looked at is known, and the next one is started without that one.
class BlameReader {
 public:
  static constexpr Nanos kLongestLook = std::chrono::milliseconds(50), kPatience = std::chrono::seconds(5);
  /// Bytes that wait for it; ends of blocks up to twice that.
  static constexpr std::size_t kMaxQueued = 2 << 20;
  struct Events {
    std::function<void(std::uint32_t tgid, std::span<const std::byte> layout)> on_python;
    std::function<void(std::uint32_t tgid, Bytes resident)> on_baseline;
    /// Of a process that find_allocator() asked for. It is the reader's word, which a tenant may have:
    /// neither the file nor the places in it need be this process's.
    std::function<void(std::uint32_t tgid, Result<Allocator>)> on_allocator;
    /// Where lengths of containers stand in a process that ask_growing() asked for: its word as well.
    std::function<void(std::uint32_t tgid, std::span<const std::uint64_t> lengths)> on_growing;
  };

  /// `root` and `limits` are for the process, and `most` is what it may have of data. `body`: as
  /// HelperProcess has it.
  BlameReader(std::string root, ChildLimits limits, Bytes most, Events events, HelperProcess::Body body = {});
  BlameReader(const BlameReader&) = delete;

  /// A new one that never looks at `unread`; `blind`: at nobody, so that only counters are told.
  Status start(const std::vector<std::uint32_t>& unread, bool blind = false);
  // What to do, in this order; as Blame has it. Queued, nothing waits.
  void note(std::uint32_t pid);
  void begin();
  /// A record of FaultSource. One for which there is no room is lost: "reader_full".
  void add(std::span<const std::byte> record);
  /// Device memory that the process took from the driver, and where: a record as wire::decode_gpu_stack()
  /// takes it; and what of it was given back.
  void add_gpu(std::uint32_t pid, const GpuObject& object, Bytes bytes, std::span<const std::byte> record);
  void gpu_gone(std::uint32_t pid, std::span<const GpuObject> objects);
  /// Then Events::on_allocator is called, once.
  void find_allocator(std::uint32_t pid);
  void set_watched(const WatchedAllocations& watched, std::span<const wire::LivingBlock> living);
  void set_unwatched(std::uint32_t pid, const std::string& why);
  /// None while the last one is still going on.
  void look(double watched_share);
  void end();
  void begin_objects(std::uint32_t pid);
  void ask_growing();  // of all of those: then Events::on_growing is called, once for each
  void end_objects();
  void finish(Seconds window, double watched_share);

  int fd() const { return ours_.get(); }
  bool wants_to_write() const { return !queue_.empty(); }
  /// Sends and takes what it can without waiting.
  void advance(MonoTime now);
  /// Everything that was asked for is done.
  bool idle() const { return queue_.empty() && unanswered_ == 0; }
  /// It died or is silent. Then start() a new one.
  bool lost() const { return lost_; }
  /// It was lost because of time: another try may have more luck, on a machine whose CPUs are all taken.
  bool was_late() const { return late_; }
  /// It may not serve, nor will another one: why; nullptr: it does.
  const char* refusal() const { return refusal_; }
  /// The process that it looked at last.
  std::optional<std::uint32_t> looked_at() const { return looked_at_; }
  /// After finish(), once it is idle. nullopt: what it said is none.
  std::optional<BlameReport> take_report() { return report_.take(); }
  /// It was longer than all that the reader may have: then there is none.
  bool report_is_too_long() const { return report_.too_long(); }
  /// By reason.
  std::map<std::string, std::uint64_t> losses() const;

 private:
  void ask(std::uint32_t what, std::uint32_t pid = 0, double share = 0, double window = 0,
           std::span<const std::byte> payload = {});
  void enqueue(std::string message, std::size_t most);  // one that is not answered
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
  std::set<std::pair<std::uint32_t, std::uint32_t>> asked_;  // what of whom, not answered yet
  std::size_t queued_bytes_ = 0, unanswered_ = 0;
  bool looking_ = false, lost_ = false, late_ = false;
  const char* refusal_ = nullptr;
  std::optional<std::uint32_t> looked_at_;
  bool silent_ = false;        // and something is asked of it: since then its deadline runs
  std::vector<std::byte> in_;  // one message
  ReportReader report_;
  std::uint64_t full_ = 0, undecodable_ = 0;
};

/// The process: `oomcast --blame-reader [ROOT]`, requests on standard output, which is a socket. Returns the
/// exit code.
int serve_blame(const std::string& root);

}  // namespace oomcast
