// The NVIDIA driver's own numbers that the kernel programs know as well; compared with theirs in
// gpu_maps.cpp.
#pragma once

#include <cstdint>

namespace oomcast {

// Calls to the resource manager.
constexpr std::uint32_t kRmAllocMemory = 0x27, kRmFree = 0x29, kRmControl = 0x2A, kRmAlloc = 0x2B,
                        kRmDupObject = 0x34, kRmVidHeapControl = 0x4A, kCheckVersion = 0xD2;
// Questions to it.
constexpr std::uint32_t kRmMemoryInfo = 0x20801303, kRmCardId = 0x2080014A, kRmRegisterMemory = 0x503C0104;
// Its classes of memory.
constexpr std::uint32_t kClassSystem = 0x3E, kClassDevice = 0x40, kClassDescriptor = 0x71,
                        kClassFabric = 0xF8;
constexpr std::uint32_t kUvmInitialize = 0x30000001;

}  // namespace oomcast
