// Follows the NVIDIA driver from the moment it is there: nothing is loaded or attached on a machine without
// one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/options.h"
#include "base/units.h"
#include "collect/gpu_driver.h"
#include "collect/gpu_source.h"
#include "collect/roots.h"
#include "model/world.h"

namespace oomcast {

class GpuFollower {
 public:
  GpuFollower(const Options& options, const Roots& roots, World& world);

  /// Looks whether the driver is there, once per interval. True: its calls are followed from now on, by fd().
  bool look();
  int fd() const { return source_ ? source_->fd() : -1; }
  /// Whether there was anything.
  bool drain();
  void on_exit(TaskId task);
  /// Calls that were lost since load.
  std::uint64_t lost() const;
  /// Why it is not followed although it is there.
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  Roots roots_;
  World& world_;
  GpuSourceOptions source_options_;
  std::optional<GpuDriverVersion> version_;
  std::unique_ptr<GpuSource> source_;
  std::optional<std::string> failure_;
};

}  // namespace oomcast
