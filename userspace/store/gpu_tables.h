// What a store has of GPU memory since oomcast follows it. Tables beside the others: a store of before
// gets them when it is written again, and reads as one without a GPU until then.
//   gpu_samples      a process's memory on a card (device NULL: on which is not known), or a card's (process
//                    NULL); held: on the card; managed, pinned: of the process, wherever it is
//   gpu_evictions    of the gpu_samples of processes whose pages are followed
//   gpu_events       what a person reads of: contexts, out of memory, copies, ends, errors of a card (process
//                    NULL: the driver blames nobody)
//   gpu_errors       of the gpu_events that are errors: the card's place on the bus, the driver's words
//   gpu_event_code   of the gpu_events that a call for memory brought about: its Python frames, innermost
//   first forecast_devices the forecasts that are of a card, or of what a process has on it
#pragma once

#include "store/database.h"

namespace oomcast {

/// Within the caller's transaction. What is there already stays.
bool make_gpu_tables(sqlite3* db);
/// For reading: what the file lacks is there, and empty, in memory.
bool view_gpu_tables(sqlite3* db);

}  // namespace oomcast
