// What the processes of an episode held on cards, and of the host's memory for them, when it came.
#pragma once

#include <optional>
#include <vector>

#include "present/post_mortem.h"

namespace oomcast {

struct GpuAtKill {
  ProcessRef process;
  Bytes held;  // on all cards
  std::optional<Bytes> managed, pinned;
  std::vector<GpuSample> cards;  // the newest of each that was not empty
  bool since_before = false;     // more than that: there was some before oomcast
  bool victim = false;
};

/// Those that held something, victims first, then the largest.
std::vector<GpuAtKill> gpu_at_kill(const StoredEpisode& e);
/// nullopt: nobody held any, or nobody knows.
std::optional<Finding> who_held_gpu_memory(const StoredEpisode& e);
/// Of the limit's memory, what was pinned for cards by processes in it; nullopt: not known, or none.
std::optional<Bytes> pinned_for_gpus(const StoredEpisode& e);

}  // namespace oomcast
