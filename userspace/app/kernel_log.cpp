#include "app/kernel_log.h"

#include <iterator>
#include <utility>
#include <variant>

#include "base/clock.h"

namespace oomcast {
namespace {

OomLogLimits limits() {
  OomLogLimits out;
  out.settle =
      std::chrono::milliseconds(300);  // an episode waits for its report, and must be published within 2 s
  return out;
}

}  // namespace

KernelLog::KernelLog(KmsgReader reader) : reader_(std::move(reader)), parser_(limits()) {}

Result<KernelLog> KernelLog::open(const Roots& roots) {
  auto reader = KmsgReader::open(roots.at("/dev/kmsg"), KmsgFrom::end);
  if (!reader) return reader.error();
  return KernelLog(*std::move(reader));
}

KernelLog::Read KernelLog::read(const std::function<void(std::uint32_t tid)>& on_victim) {
  Read out;
  auto drained = reader_.drain([&](const KmsgRecord& record) {
    out.any = true;
    auto line = line_of(record);
    if (!line) return;
    // The log's clock drifts from the monotonic clock by seconds in days; records are read as they arrive.
    line->time = mono_now().time_since_epoch();
    for (const LogEvent& fact : parser_.feed(*line))
      if (auto* victim = std::get_if<OomVictimLine>(&fact)) on_victim(victim->tid);
    keep(parser_.take_finished());
  });
  if (!drained) return out;
  out.overwritten = drained->lost;
  out.unreadable = drained->unreadable;
  if (!drained->more) read_until_ = mono_now();
  return out;
}

void KernelLog::keep(std::vector<OomDump> finished) {
  finished_.insert(finished_.end(), std::make_move_iterator(finished.begin()),
                   std::make_move_iterator(finished.end()));
}

std::vector<OomDump> KernelLog::take(MonoTime now, const std::vector<std::uint32_t>& victims) {
  keep(parser_.take_named(now.time_since_epoch(), victims));
  return std::exchange(finished_, {});
}

std::vector<OomDump> KernelLog::take_all() {
  keep(parser_.finish());
  return std::exchange(finished_, {});
}

}  // namespace oomcast
