#include "app/ceiling.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "collect/files.h"
#include "collect/procfs.h"

namespace oomcast {

std::optional<double> Ceiling::advance(MonoTime now) {
  if (now < next_) return std::nullopt;
  next_ = now + kSoon;
  auto use = use_();
  if (!use) return std::nullopt;
  double before = part_;
  if (*use >= kTight) {
    part_ = std::max(kMin, part_ / 2);
    eased_ = now;
  } else if (*use < kEase && now - eased_ >= kLater) {
    part_ = std::min(1.0, 2 * part_);
    eased_ = now;
  }
  return part_ == before ? std::nullopt : std::optional(part_);
}

std::optional<Bytes> memory_in_use() {
  char buffer[256];
  auto text = read_file_at(AT_FDCWD, "/proc/self/statm", std::span(buffer));
  auto statm = text ? parse_statm(*text) : std::nullopt;
  if (!statm) return std::nullopt;
  Bytes resident{static_cast<std::int64_t>(statm->resident_pages) * sysconf(_SC_PAGESIZE)};
  if (resident < Ceiling::kEase) return resident;
  return resident - Bytes{static_cast<std::int64_t>(mallinfo2().fordblks)};
}

}  // namespace oomcast
