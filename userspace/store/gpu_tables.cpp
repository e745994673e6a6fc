#include "store/gpu_tables.h"

#include <array>

namespace oomcast {
namespace {

constexpr std::array kGpuTables = {
    TableText{
        "gpu_samples",
        "seq INTEGER PRIMARY KEY, time_ns INTEGER, run INTEGER, process INTEGER, device TEXT, held INTEGER,"
        " overhead INTEGER, managed INTEGER, pinned INTEGER, card_memory INTEGER, card_free INTEGER,"
        " moved_in INTEGER, moved_out INTEGER, faults INTEGER, since_before INTEGER, ended INTEGER"},
    TableText{"gpu_events",
              "seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER, op TEXT, kind TEXT, device TEXT,"
              " bytes INTEGER, status INTEGER, first_ns INTEGER, managed INTEGER, pinned INTEGER"},
    TableText{"gpu_evictions", "sample INTEGER PRIMARY KEY, evicted INTEGER, cpu_faults INTEGER"},
    TableText{"gpu_errors", "event INTEGER PRIMARY KEY, bus TEXT, message TEXT"},
    TableText{"gpu_event_code",
              "event INTEGER, nr INTEGER, function TEXT, file TEXT, line INTEGER, PRIMARY KEY(event, nr)"},
    TableText{"forecast_devices", "forecast INTEGER PRIMARY KEY, device TEXT"},
};

}  // namespace

bool make_gpu_tables(sqlite3* db) {
  return make_missing(db, kGpuTables) &&
         execute(db,
                 "CREATE INDEX IF NOT EXISTS gpu_samples_by_time ON gpu_samples(time_ns);"
                 "CREATE INDEX IF NOT EXISTS gpu_events_by_time ON gpu_events(time_ns)");
}

bool view_gpu_tables(sqlite3* db) {
  return view_missing(db, kGpuTables);
}

}  // namespace oomcast
