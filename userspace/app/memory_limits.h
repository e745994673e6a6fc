// How much memory each oomcast process may hold, and all of them together.
#pragma once

#include <sys/resource.h>

#include <cstddef>

#include "app/ceiling.h"
#include "base/units.h"

namespace oomcast {

/// Resident memory. The tracer's is limited by Ceiling; a reader's by RLIMIT_DATA for its data, plus the
/// resident part of the program and its libraries; that of a process that starts a reader for `blame` by the
/// bounds of its queues and the rings of its kernel programs.
struct MemoryLimits {
  static constexpr Bytes kFiles = MiB(11), kFilesAndRings = MiB(23);
  static constexpr Bytes kReader = MiB(6);
  static constexpr Bytes kLook = MiB(9), kLookReader = MiB(35);     // started by the tracer
  static constexpr Bytes kBlame = MiB(30), kBlameReader = MiB(80);  // started by a user
  static constexpr Bytes kAll = MiB(160);
  static_assert(Ceiling::kMax + kReader + kFiles + kLook + kFilesAndRings + kLookReader + kFiles <= kAll);
  static_assert(kBlame + kFilesAndRings + kBlameReader + kFiles <= kAll);
  /// The memory of the machine that one profile may use.
  static constexpr Bytes kOfLook = kLook + kFilesAndRings + kLookReader + kFiles;
};

/// Longest name of a function or file in a stack, for a process with these limits.
inline std::size_t longest_name() {
  rlimit now{};
  bool brief = getrlimit(RLIMIT_DATA, &now) == 0 &&
               now.rlim_cur <= static_cast<rlim_t>(MemoryLimits::kLookReader.count);
  return brief ? 128 : 512;
}

}  // namespace oomcast
