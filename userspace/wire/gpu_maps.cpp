#include "wire/gpu_maps.h"

#include <wire.h>

#include <cstring>

namespace oomcast::wire {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

}  // namespace

std::uint32_t gpu_layout_index(std::uint32_t command) {
  return command < OC_GPU_UVM_COMMANDS - 2 ? command : OC_GPU_UVM_COMMANDS - 2 + (command & 1 ? 0 : 1);
}

std::vector<std::byte> encode_gpu_layout(std::uint16_t head_bytes, std::uint16_t tail_at,
                                         std::uint16_t tail_bytes) {
  return bytes_of(oc_gpu_layout{head_bytes, tail_at, tail_bytes, 0});
}

std::vector<std::byte> encode_gpu_test_file(std::uint64_t device, std::uint64_t inode) {
  return bytes_of(oc_gpu_test_file{device, inode});
}

}  // namespace oomcast::wire
