// What one system call on the NVIDIA driver's files means: bytes in, one operation out. Pure.
//
// Numbers, layouts and their changes from driver to driver: the driver's own headers, 515.43 to 595.45
// (uvm_ioctl.h, nvos.h, nv-ioctl-numbers.h), compiled per release. RM calls carry their size in the number,
// which tells the layout; UVM calls do not, so three of them need the driver's version.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "wire/records.h"

namespace oomcast {

/// "535.183.01" as numbers.
struct GpuDriverVersion {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const GpuDriverVersion&) const = default;
};
/// The first such number in `text` (a module's version, or /proc/driver/nvidia/version). nullopt: none.
std::optional<GpuDriverVersion> parse_gpu_driver_version(std::string_view text);

struct GpuUuid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const GpuUuid&) const = default;
};
/// "GPU-8f6e…", as nvidia-smi prints it.
std::string to_string(const GpuUuid& uuid);
std::optional<GpuUuid> parse_gpu_uuid(std::string_view text);

/// A handle of the resource manager; unique on the machine while it lives.
struct GpuObject {
  std::uint32_t client = 0, object = 0;
  auto operator<=>(const GpuObject&) const = default;
};

enum class GpuMemoryKind : std::uint8_t {
  device,    // on the card
  managed,   // moves between host and card: address space until it is touched
  pinned,    // host memory that the card reads
  external,  // address space for, or a window to, memory that is counted elsewhere
};

/// The driver's answer. 0 is success, 0x10000 and above a warning; nullopt: this driver's layout is not
/// known.
using GpuStatus = std::optional<std::uint32_t>;
bool failed(GpuStatus status);
/// NO_MEMORY, or INSUFFICIENT_RESOURCES of a call that asks for memory.
bool is_out_of_memory(GpuStatus status, bool asks_for_memory);

struct GpuOp {
  enum class What : std::uint8_t {
    open,     // a process began to use nvidia-uvm
    context,  // of `device`
    context_end,
    alloc,      // `object` below `parent`: `bytes` of `kind`
    free,       // `object`, or all below it
    duplicate,  // `object` is another handle to `source`
    reserve,    // address space
    map,        // `object` at `address` on `device`
    unmap,
    free_range,   // what was reserved or mapped at `address`
    managed_map,  // a mapping of nvidia-uvm
    unmapped,     // munmap, of anything
    check_range,  // the driver was asked whether it knows a managed mapping
    migrate,      // to `device`; the CPU has no uuid
    advise,
    free_seen,  // the driver told `free_bytes` of `bytes`, of the card that `object` stands for
    card,       // `object` stands for `device`
    registers,  // memory `object`, which a program asked for: the context before it is complete
    version,    // the driver told its version
  };
  What what = What::open;
  GpuStatus status;
  GpuObject object, source;
  std::uint32_t parent = 0;
  GpuMemoryKind kind = GpuMemoryKind::device;
  std::optional<Bytes> bytes, free_bytes;
  std::optional<std::uint64_t> address;
  std::optional<GpuUuid> device;
  bool asynchronous = false;
  std::optional<GpuDriverVersion> version;
};

/// Where the kernel program reads a UVM call's argument, for a driver of this version (nullopt: not known).
struct GpuUvmLayout {
  std::uint32_t command = 0;
  std::uint16_t head_bytes = 0, tail_at = 0, tail_bytes = 0;
};
std::vector<GpuUvmLayout> uvm_layouts(std::optional<GpuDriverVersion> version);

/// nullopt: of no interest, or its bytes could not be read, or hold what no machine has (2^50 bytes).
std::optional<GpuOp> decode_gpu_call(const wire::GpuCall& call, std::optional<GpuDriverVersion> version);

}  // namespace oomcast
