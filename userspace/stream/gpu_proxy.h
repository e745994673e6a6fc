// Processes that ask the NVIDIA driver for memory on behalf of others: what they hold belongs to other programs.
#pragma once

#include <optional>
#include <string_view>

#include "model/facts.h"

namespace oomcast {

/// "gvisor": a sandbox makes all calls of the programs in it; "mps": the CUDA multi-process server those of
/// its clients. nullopt: it asks for itself, as far as its name tells.
inline std::optional<std::string_view> gpu_proxy(const ProcessRef& process) {
  std::string_view program = process.cmdline.empty() ? process.comm : process.cmdline.front();
  program.remove_prefix(program.find_last_of('/') + 1);  // npos + 1 is 0
  if (program.starts_with("runsc") || process.comm.starts_with("runsc")) return "gvisor";
  // A comm has 15 bytes; the control daemon of the same beginning makes no calls.
  if (program.starts_with("nvidia-cuda-mps") || process.comm == "nvidia-cuda-mps") return "mps";
  return std::nullopt;
}

}  // namespace oomcast
