// The kernel's log while it is written: its OOM reports, and what of it was lost.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/kmsg.h"
#include "collect/roots.h"
#include "parse/oom_log.h"

namespace oomcast {

class KernelLog {
 public:
  /// What is logged from now on. Error: it may not be read.
  static Result<KernelLog> open(const Roots& roots);
  explicit KernelLog(KmsgReader reader);

  /// Readable when a record waits.
  int fd() const { return reader_.fd(); }

  struct Read {
    bool any = false;                               // record was there
    std::uint64_t overwritten = 0, unreadable = 0;  // records
  };
  /// What waits. `on_victim`: a line that names one was read just now, and its process may still be dying.
  /// Cost: a system call and a pass over the text for each record, 4,096 at most.
  Read read(const std::function<void(std::uint32_t tid)>& on_victim);

  /// The reports that are complete, oldest first, and those that name one of `victims`, which cannot wait.
  std::vector<OomDump> take(MonoTime now, const std::vector<std::uint32_t>& victims);
  /// At the end: what was begun, too.
  std::vector<OomDump> take_all();
  /// All that was logged until then has been read; once.
  std::optional<MonoTime> take_read_until() { return std::exchange(read_until_, std::nullopt); }

  /// Reports of kills since the beginning of which nothing could be made, or for which there was no room.
  std::uint64_t unread() const { return parser_.given_up() + parser_.lost_dumps(); }

 private:
  void keep(std::vector<OomDump> finished);

  KmsgReader reader_;
  OomLogParser parser_;
  std::vector<OomDump> finished_;
  std::optional<MonoTime> read_until_;
};

}  // namespace oomcast
