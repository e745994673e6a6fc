// Device memory that processes take from the NVIDIA driver while `blame` looks, and from which line.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "app/blame_reader.h"
#include "app/options.h"
#include "base/result.h"
#include "collect/gpu_source.h"
#include "collect/roots.h"
#include "model/gpu_memory.h"

namespace oomcast {

/// A pool asks the driver for more when none of what it has is free: the line that it then runs for is the
/// one that grew the pool, which need not be the one that fills it.
class GpuGrowth {
 public:
  /// `reader` outlives it.
  explicit GpuGrowth(BlameReader& reader) : reader_(reader) {}

  /// Loads, where there is a driver. Error: it is there, and cannot be followed.
  Status open(const GpuTestOptions& test, const Roots& roots);
  bool followed() const { return source_ != nullptr; }
  /// -1: not followed.
  int fd() const { return source_ ? source_->fd() : -1; }
  void set_python(std::uint32_t pid, std::span<const std::byte> layout);
  /// The window begins, or ends: what is taken before or behind it counts for nothing.
  void begin();
  /// Hands on what was taken. At most some thousand calls.
  void drain();
  void end();
  /// Calls that were lost since open().
  std::uint64_t lost() const { return source_ ? source_->lost() + source_->undecodable() + unplaced_ : 0; }

 private:
  struct Taken {
    TaskId task;
    GpuObject object;
    Bytes bytes;
  };
  void on_call(const wire::GpuCall& call);
  void on_stack(std::span<const std::byte> record);

  BlameReader& reader_;
  wire::Units units_{};
  std::optional<GpuDriverVersion> version_;
  std::unique_ptr<GpuSource> source_;
  GpuMemory memory_;
  std::unordered_map<std::uint32_t, Taken> without_stack_;  // by thread: its stack is behind it
  std::map<TaskId, std::map<GpuObject, Bytes>> taken_;      // in the window, and handed on
  bool in_window_ = false;
  std::uint64_t unplaced_ = 0;
};

}  // namespace oomcast
