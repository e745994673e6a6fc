// The maps through which user space configures the GPU programs and reads their sums, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/task_id.h"
#include "wire/records.h"

namespace oomcast::wire {

/// Where a UVM call's layout stands in map "gpu_layouts".
std::uint32_t gpu_layout_index(std::uint32_t command);
std::vector<std::byte> encode_gpu_layout(std::uint16_t head_bytes, std::uint16_t tail_at,
                                         std::uint16_t tail_bytes);
std::vector<std::byte> encode_gpu_test_file(std::uint64_t device, std::uint64_t inode);

/// Whose a va_space is: a value of map "gpu_va_spaces", which has 64-bit keys.
inline constexpr std::size_t kGpuOwnerBytes = 16;
TaskId decode_gpu_owner(std::span<const std::byte, kGpuOwnerBytes> value, const Units& units);

/// A row of map "gpu_activity", summed up over the CPUs.
struct GpuPageEvents {
  enum class What { cpu_fault, card_fault, to_card, from_card, between_cards };
  std::optional<TaskId> task;  // nullopt: the process is not known
  What what = What::cpu_fault;
  std::uint16_t cause = 0;
  std::uint64_t count = 0, bytes = 0;
};
inline constexpr std::size_t kGpuActivityKeyBytes = 16, kGpuActivityValueBytes = 16;
/// `values` has one for each CPU. nullopt: no event that this side knows.
std::optional<GpuPageEvents> decode_gpu_activity(std::span<const std::byte, kGpuActivityKeyBytes> key,
                                                 std::span<const std::byte> values, const Units& units);

}  // namespace oomcast::wire
