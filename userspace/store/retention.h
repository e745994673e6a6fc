// What a store lets go: detail with age, and the oldest when it is full.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "store/database.h"

namespace oomcast {

struct StoreLimits;

class Retention {
 public:
  Retention(sqlite3* db, std::string path, const StoreLimits& limits);

  /// What is due at `now` (ns since the epoch), in transactions of its own; costs nothing most times it is
  /// called. False: the database failed.
  bool keep_within(std::int64_t now);

 private:
  bool thin(std::int64_t now);
  bool expire(std::int64_t now);
  bool shrink();

  sqlite3* db_;
  std::string path_;
  std::int64_t most_bytes_, age_ns_;
  std::optional<std::int64_t> thinned_, expired_;
};

/// Copies the episodes that can still be read from a damaged store; how many.
std::size_t take_over(const std::string& from, sqlite3* to);

}  // namespace oomcast
