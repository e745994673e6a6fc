// What each process of oomcast may hold, and all of them together.
#pragma once

#include <sys/resource.h>

#include <cstddef>

#include "app/ceiling.h"
#include "base/units.h"

namespace oomcast {

/// Resident memory. Of the tracer Ceiling's; of readers their data, by RLIMIT_DATA, and what they have in
/// memory of the program and its libraries; of who starts a reader for `blame` as much by the bounds of its
/// queues, and the rings of its kernel programs.
struct MemoryLimits {
  static constexpr Bytes kFiles = MiB(11), kFilesAndRings = MiB(23);
  static constexpr Bytes kReader = MiB(6);
  static constexpr Bytes kLook = MiB(9), kLookReader = MiB(35);     // of the tracer's own
  static constexpr Bytes kBlame = MiB(30), kBlameReader = MiB(80);  // that a person asks for
  static constexpr Bytes kAll = MiB(160);
  static_assert(Ceiling::kMax + kReader + kFiles + kLook + kFilesAndRings + kLookReader + kFiles <= kAll);
  static_assert(kBlame + kFilesAndRings + kBlameReader + kFiles <= kAll);
  /// What a look may take of the machine.
  static constexpr Bytes kOfLook = kLook + kFilesAndRings + kLookReader + kFiles;
};

/// Of functions and files in the stacks of a process that is limited so.
inline std::size_t longest_name() {
  rlimit now{};
  bool brief = getrlimit(RLIMIT_DATA, &now) == 0 &&
               now.rlim_cur <= static_cast<rlim_t>(MemoryLimits::kLookReader.count);
  return brief ? 128 : 512;
}

}  // namespace oomcast
