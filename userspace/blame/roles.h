// Which process of a training job is what: the launcher that started it, the one that trains, its workers.
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
  std::optional<std::uint32_t> of;    // of a worker: whose, a pid
  std::optional<std::uint32_t> rank;  // of a distributed job
  std::size_t workers = 0;            // that it has among the processes given
};
std::string_view to_string(ProcessRole::Kind kind);

/// By the parents of the processes, their arguments and names. A worker is a child with its parent's own
/// arguments (it was forked), or one whose name or arguments say so; a launcher has children and is a program
/// that is known to start others. `environments`: of each process, words with a NUL behind each; may be
/// empty.
std::vector<ProcessRole> find_roles(std::span<const ProcessRef> processes,
                                    std::span<const std::string> environments);

}  // namespace oomcast
