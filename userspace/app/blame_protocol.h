// The messages between a BlameReader and its process, one per datagram of a socket pair. Both ends are the
// same binary, so there is no version and the layout may change freely.
#pragma once

#include <array>
#include <cstdint>

#include "blame/allocator.h"
#include "wire/fault.h"

namespace oomcast::blame_protocol {

/// Requests.
enum What : std::uint32_t {
  kLeaveOut,
  kLeaveOutAll,
  kNote,
  kBegin,
  kFault,
  kGpuTaken,
  kGpuGone,
  kLook,
  kBeginObjects,
  kGrowing,
  kFindAllocator,
  kLiving,
  kWatched,
  kUnwatched,
  kEnd,
  kEndObjects,
  kFinish
};

/// Replies.
enum Said : std::uint32_t {
  kDone,
  kLooksAt,
  kPython,
  kBaseline,
  kReport,
  kUndecodable,
  kGrowingLengths,
  kAllocator,  // with its file
  kNoAllocator
};

struct Request {
  std::uint32_t what = 0, pid = 0;
  double share = 0, window = 0;
};

struct BlameReply {
  std::uint32_t said = 0, pid = 0;
  std::int64_t bytes = 0;
};

/// Follows the BlameReply of kAllocator.
struct AllocatorPlaces {
  std::array<std::uint64_t, wire::kAllocates> allocates{};
  std::uint64_t free = 0;
  OtherFunctions others{};
  std::uint32_t stepped = 0, _pad = 0;
};

}  // namespace oomcast::blame_protocol
