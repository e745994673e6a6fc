// The maps by which user space tells the GPU program what to read, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace oomcast::wire {

/// Where a UVM call's layout stands in map "gpu_layouts".
std::uint32_t gpu_layout_index(std::uint32_t command);
std::vector<std::byte> encode_gpu_layout(std::uint16_t head_bytes, std::uint16_t tail_at,
                                         std::uint16_t tail_bytes);
std::vector<std::byte> encode_gpu_test_file(std::uint64_t device, std::uint64_t inode);

}  // namespace oomcast::wire
