#include "collect/kmsg.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace oomcast {
namespace {

// The kernel's longest record has 8192 bytes (CONSOLE_EXT_LOG_MAX); for a longer one read() returns EINVAL.
constexpr std::size_t kBufferSize = 16384;

}  // namespace

Result<KmsgReader> KmsgReader::open(const std::string& path, KmsgFrom from) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd && (errno == EPERM || errno == EACCES))
    return Error::forbidden(fmt::format(
        "cannot read the kernel log {}: run as root or with CAP_SYSLOG, or set kernel.dmesg_restrict=0",
        path));
  if (!fd) return Error::from_errno(fmt::format("cannot open the kernel log {}", path));
  if (::lseek(fd.get(), 0, from == KmsgFrom::end ? SEEK_END : SEEK_SET) < 0)
    return Error::from_errno(fmt::format("cannot go to the {} of the kernel log {}",
                                         from == KmsgFrom::end ? "end" : "start", path));
  return KmsgReader(std::move(fd));
}

Result<KmsgDrain> KmsgReader::drain(const std::function<void(const KmsgRecord&)>& on_record,
                                    std::size_t max_records) {
  std::array<char, kBufferSize> buffer;
  KmsgDrain out;
  for (std::size_t reads = 0; reads < max_records; ++reads) {
    ssize_t n = read_(fd_.get(), buffer.data(), buffer.size());
    if (n == 0 || (n < 0 && errno == EAGAIN)) return out;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) {  // the next read continues at the oldest remaining record
      ++out.overruns;
      continue;
    }
    if (n < 0 && errno == EINVAL) {  // larger than the buffer; the kernel has skipped it
      ++out.unreadable;
      continue;
    }
    if (n < 0 && reads == 0) return Error::from_errno("cannot read the kernel log");
    if (n < 0) break;  // report the counts first; the next call returns the error
    auto record = parse_kmsg_record({buffer.data(), static_cast<std::size_t>(n)});
    if (!record) {
      ++out.unreadable;
      continue;
    }
    if (next_seq_ && record->seq > *next_seq_) out.lost += record->seq - *next_seq_;
    next_seq_ = record->seq + 1;
    ++out.records;
    on_record(*record);
  }
  out.more = true;
  return out;
}

}  // namespace oomcast
