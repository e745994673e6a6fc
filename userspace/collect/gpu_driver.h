// The NVIDIA driver as /proc and /sys show it: whether it is loaded, its version, its cards.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "collect/roots.h"
#include "parse/gpu_calls.h"

namespace oomcast {

struct GpuDriver {
  bool control = false;                    // nvidia itself (character devices 195)
  std::optional<std::uint32_t> uvm_major;  // nvidia-uvm, often loaded at the first use of CUDA only
  std::optional<GpuDriverVersion> version;
  bool present() const { return control || uvm_major; }
};
/// Pure: /proc/devices.
GpuDriver parse_devices(std::string_view text);
/// Reads three small files; about 30 µs where there is no driver.
GpuDriver find_gpu_driver(const Roots& roots);

/// One card, from /proc/driver/nvidia-uvm/gpus/*/*/info. Counts since the driver was loaded; pages are the
/// CPU's.
struct GpuCard {
  GpuUuid uuid;
  std::optional<Bytes> memory;
  std::optional<std::uint64_t> faults, migrated_pages_in, migrated_pages_out;
};
/// nullopt: no uuid in `path`.
std::optional<GpuCard> parse_gpu_card(std::string_view path, std::string_view text);
/// Those below `top`, which is kGpuCards but for tests. At most 64. Empty: nvidia-uvm is not loaded, or no
/// card is in use.
std::vector<GpuCard> read_gpu_cards(const std::string& top);
inline constexpr const char* kGpuCards = "/proc/driver/nvidia-uvm/gpus";

}  // namespace oomcast
