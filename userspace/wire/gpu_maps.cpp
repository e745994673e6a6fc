#include "wire/gpu_maps.h"

#include <wire.h>

#include <cstring>

#include "wire/decoder.h"
#include "wire/gpu_numbers.h"

namespace oomcast::wire {
namespace {

static_assert(kRmAllocMemory == OC_RM_ALLOC_MEMORY && kRmFree == OC_RM_FREE && kRmControl == OC_RM_CONTROL);
static_assert(kRmAlloc == OC_RM_ALLOC && kRmDupObject == OC_RM_DUP_OBJECT);
static_assert(kRmMemoryInfo == OC_RM_MEMORY_INFO && kRmCardId == OC_RM_CARD_ID &&
              kRmRegisterMemory == OC_RM_REGISTER_MEMORY);
static_assert(kRmVidHeapControl == OC_RM_VID_HEAP_CONTROL && kCheckVersion == OC_RM_CHECK_VERSION);
static_assert(kClassSystem == OC_RM_MEMORY_SYSTEM && kClassDevice == OC_RM_MEMORY_DEVICE);
static_assert(kClassDescriptor == OC_RM_MEMORY_DESCRIPTOR && kClassFabric == OC_RM_MEMORY_FABRIC);
static_assert(kUvmInitialize == OC_UVM_INITIALIZE);

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

static_assert(sizeof(oc_gpu_owner) == kGpuOwnerBytes);
TaskId decode_gpu_owner(std::span<const std::byte, kGpuOwnerBytes> value, const Units& units) {
  oc_gpu_owner owner{};
  std::memcpy(&owner, value.data(), sizeof(owner));
  return Decoder(units).task_id(owner.tgid, owner.start_ns);
}

static_assert(sizeof(oc_gpu_activity_key) == kGpuActivityKeyBytes);
static_assert(sizeof(oc_gpu_activity) == kGpuActivityValueBytes);
std::optional<GpuPageEvents> decode_gpu_activity(std::span<const std::byte, kGpuActivityKeyBytes> key,
                                                 std::span<const std::byte> values, const Units& units) {
  oc_gpu_activity_key k{};
  std::memcpy(&k, key.data(), sizeof(k));
  if (k.what < OC_GPU_CPU_FAULT || k.what > OC_GPU_BETWEEN_CARDS) return std::nullopt;
  GpuPageEvents out;
  if (k.tgid) out.task = Decoder(units).task_id(k.tgid, k.start_ns);
  out.what = static_cast<GpuPageEvents::What>(k.what - OC_GPU_CPU_FAULT);
  out.cause = k.cause;
  for (std::size_t at = 0; at + sizeof(oc_gpu_activity) <= values.size(); at += sizeof(oc_gpu_activity)) {
    oc_gpu_activity one{};
    std::memcpy(&one, values.data() + at, sizeof(one));
    out.count += one.count;
    out.bytes += one.bytes;
  }
  return out;
}

}  // namespace oomcast::wire
