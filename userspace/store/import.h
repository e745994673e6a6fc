// Imports episodes from a log into the store.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/database.h"
#include "store/store.h"
#include "store/tables.h"

namespace oomcast {

/// Synchronous, beside others that write the store. One transaction; nothing of it is there before finish().
class EpisodeImport {
 public:
  /// Error (exit 1): the store cannot be written.
  static Result<EpisodeImport> open(const std::string& directory, const std::string& version);
  EpisodeImport(EpisodeImport&&) noexcept = default;
  ~EpisodeImport();

  /// Whether it was not there yet. What is there (the same boot as far as both are known, a victim with the
  /// same tid, kills within 10 s) is completed with what only this one knows; a live one keeps all it has. A
  /// text file adds nothing to what another source has, and what is there of a text file alone is replaced.
  /// `host`: the machine that the log names, where that is another; empty: this one.
  /// `time` and the other times of `episode` are ignored but for the kill's, `at`; start_ticks of processes
  /// are unknown (0).
  Result<bool> add(Episode episode, EpisodeSource source, WallTime at,
                   const std::optional<std::string>& boot_id, const std::string& host = "");
  Status finish();

 private:
  EpisodeImport() = default;
  Error failed() const;

  std::string shown_, version_;
  DatabaseHandle db_;
  // by boot and hierarchy
  std::map<std::pair<std::string, Hierarchy>, std::unique_ptr<Tables>> runs_;
};

}  // namespace oomcast
