#include "store/retention.h"

#include "store/writer.h"

namespace oomcast {

Retention::Retention(sqlite3* db, std::string path, const StoreLimits& limits)
    : db_(db), path_(std::move(path)), most_bytes_(limits.size.count), age_ns_(limits.age.count()) {}

bool Retention::keep_within(std::int64_t) {
  return true;
}

std::size_t take_over(const std::string&, sqlite3*) {
  return 0;
}

}  // namespace oomcast
