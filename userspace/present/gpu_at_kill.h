// GPU memory, and host memory pinned for it, of an episode's processes at the kill.
#pragma once

#include <optional>
#include <vector>

#include "present/post_mortem.h"

namespace oomcast {

struct GpuAtKill {
  ProcessRef process;
  Bytes held;  // on all cards
  std::optional<Bytes> managed, pinned;
  std::vector<GpuSample> cards;  // the newest of each card with memory in use
  bool since_before = false;     // a lower bound: some was allocated before oomcast started
  bool victim = false;
};

/// Processes that held GPU memory, victims first, then the largest.
std::vector<GpuAtKill> gpu_at_kill(const StoredEpisode& e);
/// nullopt: no process held any, or it is unknown.
std::optional<Finding> who_held_gpu_memory(const StoredEpisode& e);
/// The part of the limit's memory that processes in it pinned for GPUs; nullopt: unknown, or none.
std::optional<Bytes> pinned_for_gpus(const StoredEpisode& e);

}  // namespace oomcast
