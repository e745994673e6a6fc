#include "parse/gpu_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include "wire/gpu_numbers.h"

namespace oomcast {
namespace {

using What = GpuOp::What;
using Field = std::span<const std::byte>;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 50;

constexpr GpuDriverVersion kAlloc40StatusMoved{525, 0, 0};     // 32 to 36 in the 40-byte form
constexpr GpuDriverVersion kAlloc32StatusMoved{535, 0, 0};     // 24 to 28 in the 32-byte form
constexpr GpuDriverVersion kPreferredStatusMoved{550, 40, 7};  // 32 to 36
constexpr GpuDriverVersion kMapExternalGrew{550, 40, 53};      // UVM_MAX_GPUS 32 to 256
constexpr GpuDriverVersion kFreeLostLength{590, 44, 1};

constexpr std::uint32_t kMapExternal = 33, kFree = 34, kSetPreferred = 42, kMigrate = 51;
constexpr std::uint16_t kTailBytes = 24;

// Little-endian, as all machines with this driver are. nullopt: not among the bytes that were read.
template <typename T>
std::optional<T> at(Field bytes, std::size_t offset) {
  if (offset + sizeof(T) > bytes.size()) return std::nullopt;
  T out{};
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return out;
}

std::optional<Bytes> size_at(Field bytes, std::size_t offset, std::uint64_t more = 0) {
  auto n = at<std::uint64_t>(bytes, offset);
  if (!n || *n > kMaxBytes) return std::nullopt;
  return Bytes{static_cast<std::int64_t>(*n + more)};
}

std::optional<GpuUuid> uuid_at(Field bytes, std::size_t offset) {
  if (offset + 16 > bytes.size()) return std::nullopt;
  GpuUuid out;
  std::memcpy(out.bytes.data(), bytes.data() + offset, 16);
  // All zeros stands for the CPU.
  return out == GpuUuid{} ? std::nullopt : std::optional(out);
}

// One UVM call: how much of it is read and where its fields are. Offsets of 0 in `uuid_at`: at the front.
struct UvmCall {
  std::uint32_t command;
  What what;
  std::uint16_t head_bytes, status_at;
  std::optional<std::uint8_t> uuid;
  bool has_range;  // base at 0, length at 8
};
constexpr std::array kUvmCalls = {
    UvmCall{kUvmInitialize, What::open, 16, 8, {}, false},
    UvmCall{25, What::context, 32, 28, 0, false},
    UvmCall{26, What::context_end, 20, 16, 0, false},
    UvmCall{kMapExternal, What::map, 40, 0, 24, true},  // its status is in the tail
    UvmCall{kFree, What::free_range, 24, 16, {}, true},
    UvmCall{kSetPreferred, What::advise, 40, 36, 16, true},
    UvmCall{43, What::advise, 24, 16, {}, true},
    UvmCall{44, What::advise, 24, 16, {}, true},
    UvmCall{45, What::advise, 24, 16, {}, true},
    UvmCall{46, What::advise, 40, 32, 16, true},
    UvmCall{47, What::advise, 40, 32, 16, true},
    UvmCall{kMigrate, What::migrate, 80, 72, 16, true},
    UvmCall{66, What::unmap, 40, 32, 16, true},
    UvmCall{72, What::check_range, 24, 16, {}, true},
    UvmCall{73, What::reserve, 24, 16, {}, true},
    UvmCall{74, What::reserve, 40, 32, 16, true},
    UvmCall{80, What::advise, 32, 24, {}, true},
};

// nullopt: depends on a version that is not known.
std::optional<std::size_t> status_offset(const UvmCall& call, std::optional<GpuDriverVersion> version) {
  if (call.command != kFree && call.command != kSetPreferred) return call.status_at;
  if (!version) return std::nullopt;
  if (call.command == kFree) return *version < kFreeLostLength ? 16u : 8u;
  return *version < kPreferredStatusMoved ? 32u : 36u;
}

std::optional<GpuOp> decode_uvm(const wire::GpuCall& call, std::optional<GpuDriverVersion> version) {
  auto row = std::find_if(kUvmCalls.begin(), kUvmCalls.end(),
                          [&](const UvmCall& c) { return c.command == call.command; });
  if (row == kUvmCalls.end()) return std::nullopt;
  Field head(call.head), tail(call.tail);
  GpuOp out;
  out.what = row->what;
  if (row->command == kMapExternal) {
    out.status = at<std::uint32_t>(tail, 20);
    auto client = at<std::uint32_t>(tail, 12), memory = at<std::uint32_t>(tail, 16);
    if (client && memory) out.object = {*client, *memory};
    out.kind = GpuMemoryKind::external;
  } else if (auto where = status_offset(*row, version)) {
    out.status = at<std::uint32_t>(head, *where);
  }
  if (row->uuid) out.device = uuid_at(head, *row->uuid);
  if (row->has_range) {
    out.address = at<std::uint64_t>(head, 0);
    if (!out.address) return std::nullopt;
    bool has_length = row->command != kFree || (version && *version < kFreeLostLength);
    if (has_length) out.bytes = size_at(head, 8);
    if (has_length && !out.bytes) return std::nullopt;
  }
  if (row->command == kMigrate)
    if (auto flags = at<std::uint32_t>(head, 32)) out.asynchronous = *flags & 1;
  if (out.what == What::context)
    if (auto client = at<std::uint32_t>(head, 20)) out.object.client = *client;
  if (out.what == What::reserve) out.kind = GpuMemoryKind::external;
  return out;
}

std::optional<GpuMemoryKind> kind_of_class(std::uint32_t rm_class) {
  switch (rm_class) {
    case kClassDevice:
      return GpuMemoryKind::device;
    case kClassSystem:
    case kClassDescriptor:
      return GpuMemoryKind::pinned;
    case kClassFabric:
      return GpuMemoryKind::external;
    default:
      return std::nullopt;
  }
}

// As the resource manager itself turns flags and attributes into a class; nullopt: address space only.
std::optional<GpuMemoryKind> kind_of_heap(std::uint32_t flags, std::uint32_t attributes) {
  if (flags & 0x00080000) return std::nullopt;
  return (attributes >> 25 & 3) == 0 ? GpuMemoryKind::device : GpuMemoryKind::pinned;
}

std::optional<GpuOp> decode_alloc(const wire::GpuCall& call, std::optional<GpuDriverVersion> version) {
  Field head(call.head), params(call.params);
  auto client = at<std::uint32_t>(head, 0), parent = at<std::uint32_t>(head, 4),
       object = at<std::uint32_t>(head, 8), rm_class = at<std::uint32_t>(head, 12);
  auto kind = rm_class ? kind_of_class(*rm_class) : std::nullopt;
  if (!client || !parent || !object || !kind) return std::nullopt;
  GpuOp out;
  out.what = What::alloc;
  out.object = {*client, *object};
  out.parent = *parent;
  out.kind = *kind;
  switch (head.size()) {
    case 48:
      out.status = at<std::uint32_t>(head, 40);
      break;
    case 40:
      if (version) out.status = at<std::uint32_t>(head, *version < kAlloc40StatusMoved ? 32 : 36);
      break;
    case 32:
      if (version) out.status = at<std::uint32_t>(head, *version < kAlloc32StatusMoved ? 24 : 28);
      break;
    default:
      return std::nullopt;
  }
  if (*rm_class == kClassFabric) {
    out.bytes = size_at(params, 8);
  } else if (*rm_class != kClassDescriptor) {  // that one has parameters of its own
    auto flags = at<std::uint32_t>(params, 8);
    if (flags && *flags & 0x00080000) return std::nullopt;
    out.bytes = size_at(params, 64);
  }
  return out;
}

std::optional<GpuOp> decode_heap(const wire::GpuCall& call) {
  Field head(call.head);
  if (head.size() != 184) return std::nullopt;
  constexpr std::uint32_t kAllocSize = 2, kFreeMemory = 3, kInfo = 5, kAllocSizeRange = 14,
                          kOsDescriptor = 27;
  std::uint32_t function = *at<std::uint32_t>(head, 8);
  GpuOp out;
  out.status = *at<std::uint32_t>(head, 20);
  out.object.client = *at<std::uint32_t>(head, 0);
  out.parent = *at<std::uint32_t>(head, 4);
  switch (function) {
    case kAllocSize:
    case kAllocSizeRange: {
      auto kind = kind_of_heap(*at<std::uint32_t>(head, 52), *at<std::uint32_t>(head, 56));
      if (!kind) return std::nullopt;
      out.what = What::alloc;
      out.kind = *kind;
      out.object.object = *at<std::uint32_t>(head, 44);
      out.bytes = size_at(head, function == kAllocSize ? 88 : 80);
      break;
    }
    case kOsDescriptor:
      out.what = What::alloc;
      out.kind = GpuMemoryKind::pinned;
      out.object.object = *at<std::uint32_t>(head, 40);
      out.address = at<std::uint64_t>(head, 64);
      out.bytes = size_at(head, 72, 1);
      break;
    case kFreeMemory:
      out.what = What::free;
      out.object.object = *at<std::uint32_t>(head, 44);
      return out;
    case kInfo:
      out.what = What::free_seen;
      out.bytes = size_at(head, 24);
      out.free_bytes = size_at(head, 32);
      break;
    default:
      return std::nullopt;
  }
  return out.bytes ? std::optional(out) : std::nullopt;
}

// The answer that CUDA reads as it begins, and cudaMemGetInfo later: pairs of an index and a number of KiB.
// The heap is what can be had; what is beside it the card keeps for itself.
std::optional<GpuOp> decode_memory_info(Field params, GpuOp out) {
  constexpr std::uint32_t kTotalRam = 0x08, kHeapSize = 0x09, kHeapFree = 0x16;
  out.what = What::free_seen;
  auto pairs = at<std::uint32_t>(params, 0);
  std::optional<Bytes> heap, ram;
  for (std::uint32_t i = 0; pairs && i < *pairs; ++i) {
    auto index = at<std::uint32_t>(params, 4 + 8 * std::size_t{i}),
         kib = at<std::uint32_t>(params, 8 + 8 * std::size_t{i});
    if (!index || !kib) break;
    if (*index == kHeapFree) out.free_bytes = KiB(*kib);
    if (*index == kHeapSize) heap = KiB(*kib);
    if (*index == kTotalRam) ram = KiB(*kib);
  }
  out.bytes = heap ? heap : ram;
  return out.free_bytes ? std::optional(out) : std::nullopt;
}

// NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, in either form: sixteen bytes, or "GPU-8f6e…".
std::optional<GpuOp> decode_card_id(Field params, GpuOp out) {
  constexpr std::size_t kData = 12;
  auto length = at<std::uint32_t>(params, 8);
  if (!length || params.size() < kData) return std::nullopt;
  out.what = What::card;
  if (*length == 16)
    out.device = uuid_at(params, kData);
  else
    out.device = parse_gpu_uuid({reinterpret_cast<const char*>(params.data()) + kData,
                                 std::min<std::size_t>(*length, params.size() - kData)});
  return out.device ? std::optional(out) : std::nullopt;
}

std::optional<GpuOp> decode_control(const wire::GpuCall& call) {
  Field head(call.head), params(call.params);
  auto client = at<std::uint32_t>(head, 0), object = at<std::uint32_t>(head, 4),
       command = at<std::uint32_t>(head, 8);
  if (!client || !object || !command) return std::nullopt;
  GpuOp out;
  out.object = {*client, *object};
  out.status = at<std::uint32_t>(head, 28);
  if (*command == kRmMemoryInfo) return decode_memory_info(params, out);
  if (*command == kRmCardId) return decode_card_id(params, out);
  auto memory = at<std::uint32_t>(params, 0);
  if (*command != kRmRegisterMemory || !memory) return std::nullopt;
  out.what = What::registers;
  out.object.object = *memory;
  return out;
}

std::optional<GpuOp> decode_rm(const wire::GpuCall& call, std::optional<GpuDriverVersion> version) {
  Field head(call.head);
  GpuOp out;
  switch (call.command & 0xff) {
    case kRmAllocMemory: {
      if (head.size() != 56) return std::nullopt;
      auto kind = kind_of_class(*at<std::uint32_t>(head, 12));
      if (!kind) return std::nullopt;
      out.what = What::alloc;
      out.kind = *kind;
      out.object = {*at<std::uint32_t>(head, 0), *at<std::uint32_t>(head, 8)};
      out.parent = *at<std::uint32_t>(head, 4);
      out.address = at<std::uint64_t>(head, 24);
      out.bytes = size_at(head, 32, 1);
      out.status = at<std::uint32_t>(head, 40);
      return out.bytes ? std::optional(out) : std::nullopt;
    }
    case kRmFree:
      if (head.size() != 16) return std::nullopt;
      out.what = What::free;
      out.object = {*at<std::uint32_t>(head, 0), *at<std::uint32_t>(head, 8)};
      out.parent = *at<std::uint32_t>(head, 4);
      out.status = at<std::uint32_t>(head, 12);
      return out;
    case kRmAlloc:
      return decode_alloc(call, version);
    case kRmDupObject:
      if (head.size() != 28) return std::nullopt;
      out.what = What::duplicate;
      out.object = {*at<std::uint32_t>(head, 0), *at<std::uint32_t>(head, 8)};
      out.parent = *at<std::uint32_t>(head, 4);
      out.source = {*at<std::uint32_t>(head, 12), *at<std::uint32_t>(head, 16)};
      out.status = at<std::uint32_t>(head, 24);
      return out;
    case kRmVidHeapControl:
      return decode_heap(call);
    case kRmControl:
      return decode_control(call);
    case kCheckVersion: {
      if (head.size() != 72) return std::nullopt;
      const char* text = reinterpret_cast<const char*>(head.data()) + 8;
      out.what = What::version;
      out.version = parse_gpu_driver_version({text, strnlen(text, 64)});
      return out.version ? std::optional(out) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<GpuDriverVersion> parse_gpu_driver_version(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  for (std::size_t begin = text.find_first_of(digits); begin != std::string_view::npos;
       begin = text.find_first_of(digits, text.find_first_not_of(digits, begin))) {
    GpuDriverVersion out;
    const char* end = text.data() + text.size();
    auto [after_major, e1] = std::from_chars(text.data() + begin, end, out.major);
    if (e1 == std::errc{} && out.major >= 300 && after_major < end && *after_major == '.') {
      auto [after_minor, e2] = std::from_chars(after_major + 1, end, out.minor);
      if (e2 == std::errc{} && after_minor != after_major + 1) {
        if (after_minor < end && *after_minor == '.') std::from_chars(after_minor + 1, end, out.patch);
        return out;
      }
    }
    if (text.find_first_not_of(digits, begin) == std::string_view::npos) break;
  }
  return std::nullopt;
}

std::string to_string(const GpuUuid& uuid) {
  std::string out = "GPU";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return out;
}

std::optional<GpuUuid> parse_gpu_uuid(std::string_view text) {
  if (auto at = text.find("GPU-"); at != std::string_view::npos) text.remove_prefix(at + 4);
  GpuUuid out;
  std::size_t nibbles = 0;
  for (char c : text) {
    if (c == '-') continue;
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (value < 0 || nibbles == 32) break;
    auto& byte = out.bytes[nibbles++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | value);
  }
  return nibbles == 32 ? std::optional(out) : std::nullopt;
}

bool failed(GpuStatus status) {
  return status && *status != 0 && *status < 0x10000;
}

bool is_out_of_memory(GpuStatus status, bool asks_for_memory) {
  constexpr std::uint32_t kNoMemory = 0x51, kInsufficientResources = 0x1A;
  return status && (*status == kNoMemory || (asks_for_memory && *status == kInsufficientResources));
}

std::vector<GpuUvmLayout> uvm_layouts(std::optional<GpuDriverVersion> version) {
  std::vector<GpuUvmLayout> out;
  for (const UvmCall& call : kUvmCalls) {
    GpuUvmLayout layout{call.command, call.head_bytes, 0, 0};
    // Of a driver that is not known, as much as every driver has.
    if (call.command == kFree && (!version || *version >= kFreeLostLength)) layout.head_bytes = 16;
    if (call.command == kMapExternal && version) {
      layout.tail_at = *version < kMapExternalGrew ? 1176 : 9240;
      layout.tail_bytes = kTailBytes;
    }
    out.push_back(layout);
  }
  return out;
}

std::optional<GpuOp> decode_gpu_call(const wire::GpuCall& call, std::optional<GpuDriverVersion> version) {
  if (call.result < 0) return std::nullopt;  // the driver refused the call itself: nothing happened
  if (call.call == wire::GpuCall::Call::ioctl)
    return call.device == wire::GpuCall::Device::uvm ? decode_uvm(call, version) : decode_rm(call, version);
  GpuOp out;
  out.what = call.call == wire::GpuCall::Call::mmap ? What::managed_map : What::unmapped;
  out.kind = GpuMemoryKind::managed;
  out.address = call.address;
  if (call.length > kMaxBytes) return std::nullopt;
  out.bytes = Bytes{static_cast<std::int64_t>(call.length)};
  return out;
}

}  // namespace oomcast
