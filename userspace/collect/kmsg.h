// /dev/kmsg: the kernel's log, one record per read.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "parse/kmsg_record.h"

namespace oomcast {

enum class KmsgFrom : std::uint8_t {
  start,  ///< everything the ring still holds, then what follows
  end,    ///< only what is logged from now on
};

/// What one drain() met. Everything that is not `records` is a loss, or a reason to call again.
struct KmsgDrain {
  std::size_t records = 0;
  std::size_t overruns = 0;    ///< times the ring had overwritten records before they were read (EPIPE)
  std::uint64_t lost = 0;      ///< records missing between two sequence numbers, all causes
  std::size_t unreadable = 0;  ///< records that were larger than the buffer or not of the documented form
  bool more = false;           ///< stopped at `max_records`; there may be more to read
};

/// The only owner of a descriptor of /dev/kmsg. Reads never block.
class KmsgReader {
 public:
  /// As ::read: one record per call, -1 and errno otherwise. A test hands in its own.
  using ReadCall = ssize_t (*)(int fd, void* buffer, std::size_t size);

  /// Opens `path` ("<root>/dev/kmsg"). Error::forbidden if the kernel refuses (kernel.dmesg_restrict without
  /// CAP_SYSLOG), with what to do; Error::failed if it is not there.
  static Result<KmsgReader> open(const std::string& path, KmsgFrom from);

  /// Takes a descriptor that is already non-blocking and placed.
  explicit KmsgReader(UniqueFd fd, ReadCall read_call = ::read) : fd_(std::move(fd)), read_(read_call) {}

  /// Readable when a record waits: for poll() or epoll.
  int fd() const { return fd_.get(); }

  /// Hands at most `max_records` waiting records to `on_record`, in order, and returns at once when none is
  /// left. Error only if the descriptor itself fails at once; overwritten or unreadable records are counted
  /// and passed over. Cost: one system call per record, no allocation but the record's text.
  Result<KmsgDrain> drain(const std::function<void(const KmsgRecord&)>& on_record,
                          std::size_t max_records = 4096);

 private:
  UniqueFd fd_;
  ReadCall read_;
  std::optional<std::uint64_t> next_seq_;
};

}  // namespace oomcast
