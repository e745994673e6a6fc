// Device memory that processes allocate from the NVIDIA driver during a `blame` window, with the source line.
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

/// A pool asks the driver for more when it has no free block: the line running then is the one that grew the
/// pool, not necessarily the one that fills it.
class GpuGrowth {
 public:
  /// `reader` must outlive it.
  explicit GpuGrowth(BlameReader& reader) : reader_(reader) {}

  /// Loads the programs if there is a driver. Error: there is one, but it cannot be traced.
  Status open(const GpuTestOptions& test, const Roots& roots);
  bool followed() const { return source_ != nullptr; }
  /// -1: not traced.
  int fd() const { return source_ ? source_->fd() : -1; }
  void set_python(std::uint32_t pid, std::span<const std::byte> layout);
  /// Begins or ends the window: allocations outside of it do not count.
  void begin();
  /// Passes on new allocations. At most some thousand calls.
  void drain();
  void end();
  /// Calls lost since open().
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
  std::unordered_map<std::uint32_t, Taken> without_stack_;  // by thread: its stack arrives next
  std::map<TaskId, std::map<GpuObject, Bytes>> taken_;      // during the window, and passed on
  bool in_window_ = false;
  std::uint64_t unplaced_ = 0;
};

}  // namespace oomcast
