// The role of each process in a training job: launcher, trainer or worker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/facts.h"

namespace oomcast {

struct ProcessRole {
  enum class Kind : std::uint8_t { alone, launcher, parent, worker };
  Kind kind = Kind::alone;
  std::string what;                   // of a worker: "DataLoader", "compile", …; empty: not known
  std::optional<std::uint32_t> of;    // of a worker: its trainer's pid
  std::optional<std::uint32_t> rank;  // of a distributed job
  std::size_t workers = 0;            // its workers among the given processes
};
std::string_view to_string(ProcessRole::Kind kind);

/// Judged by parents, arguments and names of the processes. A worker is a child with its parent's arguments
/// (forked), or one whose name or arguments say so; a launcher has children and is a program known to start
/// others. `environments`: for each process, NUL-terminated words; may be empty.
std::vector<ProcessRole> find_roles(std::span<const ProcessRef> processes,
                                    std::span<const std::string> environments);

}  // namespace oomcast
