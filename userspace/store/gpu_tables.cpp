#include "store/gpu_tables.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace oomcast {
namespace {

struct Table {
  std::string_view name, columns;
};
constexpr std::array kTables = {
    Table{"gpu_samples",
          "seq INTEGER PRIMARY KEY, time_ns INTEGER, run INTEGER, process INTEGER, device TEXT, held INTEGER,"
          " overhead INTEGER, managed INTEGER, pinned INTEGER, card_memory INTEGER, card_free INTEGER,"
          " moved_in INTEGER, moved_out INTEGER, faults INTEGER, since_before INTEGER, ended INTEGER"},
    Table{"gpu_events",
          "seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER, op TEXT, kind TEXT, device TEXT,"
          " bytes INTEGER, status INTEGER, first_ns INTEGER, managed INTEGER, pinned INTEGER"},
    Table{"gpu_evictions", "sample INTEGER PRIMARY KEY, evicted INTEGER, cpu_faults INTEGER"},
    Table{"forecast_devices", "forecast INTEGER PRIMARY KEY, device TEXT"},
};

}  // namespace

bool make_gpu_tables(sqlite3* db) {
  for (const Table& table : kTables)
    if (!execute(db, fmt::format("CREATE TABLE IF NOT EXISTS {}({})", table.name, table.columns)))
      return false;
  return execute(db,
                 "CREATE INDEX IF NOT EXISTS gpu_samples_by_time ON gpu_samples(time_ns);"
                 "CREATE INDEX IF NOT EXISTS gpu_events_by_time ON gpu_events(time_ns)");
}

bool view_gpu_tables(sqlite3* db) {
  for (const Table& table : kTables) {
    auto there = ask(db, fmt::format("SELECT count(*) FROM main.sqlite_schema WHERE name='{}'", table.name));
    if (!there) return false;
    if (*there == 0 && !execute(db, fmt::format("CREATE TEMP TABLE {}({})", table.name, table.columns)))
      return false;
  }
  return true;
}

}  // namespace oomcast
