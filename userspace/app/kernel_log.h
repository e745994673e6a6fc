// Follows the kernel log: its OOM reports, and records that were lost.
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
  /// Starts with the next record. Error: no permission to read it.
  static Result<KernelLog> open(const Roots& roots);
  explicit KernelLog(KmsgReader reader);

  /// Readable when a record waits.
  int fd() const { return reader_.fd(); }

  struct Read {
    bool any = false;                               // at least one record was read
    std::uint64_t overwritten = 0, unreadable = 0;  // records
  };
  /// Reads all waiting records. `on_victim` is called right after a line that names a victim, which may still
  /// be dying. Cost: per record a system call and a pass over the text, at most 4,096 records.
  Read read(const std::function<void(std::uint32_t tid)>& on_victim);

  /// Complete reports, oldest first, and incomplete ones that name one of `victims`, which cannot wait.
  std::vector<OomDump> take(MonoTime now, const std::vector<std::uint32_t>& victims);
  /// At exit: includes incomplete reports.
  std::vector<OomDump> take_all();
  /// Everything logged before this time has been read; returned once.
  std::optional<MonoTime> take_read_until() { return std::exchange(read_until_, std::nullopt); }

  /// OOM reports since start that could not be parsed, or for which there was no room.
  std::uint64_t unread() const { return parser_.given_up() + parser_.lost_dumps(); }

 private:
  void keep(std::vector<OomDump> finished);

  KmsgReader reader_;
  OomLogParser parser_;
  std::vector<OomDump> finished_;
  std::optional<MonoTime> read_until_;
};

}  // namespace oomcast
