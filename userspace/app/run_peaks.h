// Memory figures of a run's summary.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "stream/facts.h"

namespace oomcast {

/// The command's memory peaks, and of which subject.
class RunPeaks {
 public:
  void on(const Sample& sample) {
    for (const auto& value : {sample.usage, sample.peak})
      if (value) at_least(*value);
    if (sample.limit) limit_ = sample.limit;
  }
  void at_least(Bytes held) { held_ = std::max(held_.value_or(held), held); }

  // All its processes on all cards; pinned memory is reported with each card of a process.
  void on(const GpuSample& sample) {
    std::pair key{sample.process->id, sample.device};
    on_cards_[key] = sample.ended ? Bytes{} : sample.held;
    pinned_[sample.process->id] = sample.ended || !sample.pinned ? Bytes{} : *sample.pinned;
    gpu_before_ = gpu_before_ || sample.since_before;
    // Memory still held at exit counts, too.
    Bytes now = sample.ended ? sample.held : Bytes{};
    Bytes pinned = sample.ended && sample.pinned ? *sample.pinned : Bytes{};
    for (const auto& [of, bytes] : on_cards_) now += bytes;
    for (const auto& [of, bytes] : pinned_) pinned += bytes;
    gpu_ = gpu_ ? std::max(*gpu_, now) : now;
    most_pinned_ = std::max(most_pinned_, pinned);
  }

  std::string summary(bool own_cgroup) const {
    std::string out;
    if (held_) out += fmt::format("; {}peak {}", own_cgroup ? "" : "its cgroup's ", format_size(*held_));
    if (limit_) out += fmt::format(" of {}", format_size(*limit_));
    if (gpu_)
      out += fmt::format("; GPU memory peak {}{}", gpu_before_ ? "at least " : "", format_size(*gpu_));
    if (most_pinned_.count) out += fmt::format(" with {} of pinned host memory", format_size(most_pinned_));
    return out;
  }

 private:
  std::optional<Bytes> held_, limit_;
  std::map<std::pair<TaskId, std::optional<GpuUuid>>, Bytes> on_cards_;
  std::map<TaskId, Bytes> pinned_;
  std::optional<Bytes> gpu_;
  Bytes most_pinned_;
  bool gpu_before_ = false;  // some of it is older than this run
};

}  // namespace oomcast
