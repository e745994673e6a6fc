// Finds processes that have the NVIDIA driver's files open, and those that do so on behalf of others.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "collect/roots.h"

namespace oomcast {

/// A file of the driver, by the numbers of its device or, of a stand-in, by those of the file.
struct GpuFiles {
  std::optional<std::uint32_t> uvm_major;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> test_files;  // device as the kernel numbers it, inode
};
/// Whether the process has one open, among its first 4,096 descriptors. Cost: a stat of each.
bool has_gpu_file(const Roots& roots, std::uint32_t pid, const GpuFiles& files);

}  // namespace oomcast
