// Errors of cards reported by the NVIDIA driver's tracepoint (575.51 and newer).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collect/roots.h"
#include "parse/gpu_calls.h"
#include "wire/records.h"

namespace oomcast {

class GpuXids {
 public:
  /// The driver cannot be unloaded while this is attached. Error: why it is not possible here.
  static Result<std::unique_ptr<GpuXids>> open(const std::string& btf_path);
  virtual ~GpuXids() = default;
  virtual void drain(const std::function<void(const wire::GpuXid&)>& sink) = 0;
  virtual std::uint64_t lost() const = 0;
};

/// The process that an Xid's message blames ("pid=4711, name=python3, …"); nullopt: none, or not known.
std::optional<std::uint32_t> blamed_by_xid(std::string_view message);
/// Which card is at this place of the PCI bus, as the driver says in /proc.
std::optional<GpuUuid> gpu_at_bus(const Roots& roots, std::string_view bus);

}  // namespace oomcast
