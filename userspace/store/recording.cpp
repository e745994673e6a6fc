#include "store/recording.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/escape.h"
#include "store/rows.h"
#include "store/schema.h"
#include "store/vfs.h"

namespace oomcast {

struct RecordingReader::Database {
  struct Source {
    Statement rows;
    bool more = false;
  };

  Database(DatabaseHandle handle, const RunInfo& run)
      : db(std::move(handle)),
        rows(db.get(), run),
        hierarchy(run.hierarchy),
        sources{source(columns::sample, "samples"), source(columns::process_sample, "process_samples"),
                source(columns::exit, "exits"), source("time_ns, killed", "ticks"),
                // Older recordings have reclaim as lines that were told, too: it would be told twice.
                source("time_ns, type, json, text", "events WHERE type<>'reclaim'"),
                source("time_ns, cgroup", "removals"), source(columns::forecast, "forecasts WHERE told"),
                source(columns::reclaim, "reclaim"), source(columns::gpu_sample, "gpu_samples")} {}

  // seq comes behind what Rows reads.
  Source source(const std::string& wanted, const std::string& from) {
    return {Statement(db.get(), fmt::format("SELECT seq, {} FROM {} ORDER BY seq", wanted, from)), false};
  }

  RecordedItem item(std::size_t which) {
    const Statement& r = sources[which].rows;
    switch (which) {
      case 0:
        return rows.sample(r, 1);
      case 1:
        return rows.process_sample(r, 1);
      case 2: {
        ExitFact e{rows.time(r, 1), rows.process(r, 2)};
        rows.forget_process(r.integer(2));
        return e;
      }
      case 3:
        return TickFact{rows.time(r, 1), rows.cgroup(r, 2)};
      case 4:
        return RecordedEvent{rows.time(r, 1), r.text(2), r.text(3), r.text(4)};
      case 5: {
        CgroupPtr gone = rows.cgroup(r, 2);
        rows.forget_cgroup(r.integer(2));
        return ForgottenFact{rows.time(r, 1), gone ? gone->id : CgroupId{hierarchy, 0}};
      }
      case 6:
        return rows.forecast(r, 1);
      case 7:
        return rows.reclaim(r, 1);
      default:
        return rows.gpu_sample(r, 1);
    }
  }

  DatabaseHandle db;
  Rows rows;
  Hierarchy hierarchy;
  std::array<Source, 9> sources;
  bool begun = false;
};

RecordingReader::RecordingReader(std::unique_ptr<Database> db) : db_(std::move(db)) {}
RecordingReader::RecordingReader(RecordingReader&&) noexcept = default;
RecordingReader::~RecordingReader() = default;

bool RecordingReader::is_recording(const std::string& path) {
  auto place = resolve(path, {});
  if (!place || !place->is_regular()) return false;  // a pipe is left to who reads it
  auto file = open_input(*place);
  char begin[16] = {};
  return file && pread(file->get(), begin, sizeof(begin), 0) == 16 &&
         std::memcmp(begin, "SQLite format 3", 16) == 0;
}

Result<RecordingReader> RecordingReader::open(const std::string& path) {
  std::string shown = escape_for_terminal(path);
  auto wrong = [&](std::string_view what) { return Error::usage(fmt::format("{}: {}", shown, what)); };
  auto place = resolve(path, {});
  if (!place) return wrong(place.error().message);
  if (!place->is_regular()) return wrong("it is no file");
  auto opened = open_to_read(*std::move(place), shown);
  if (!opened) return opened.error();
  DatabaseHandle db = *std::move(opened);
  if (auto ok = prepare_to_read(db.get(), shown); !ok) return ok.error();
  if (ask(db.get(), "SELECT count(*) FROM (SELECT 1 FROM runs LIMIT 2)") != 1)
    return wrong(
        "it has several runs of oomcast, as a store: it is read by oomcast report and oomcast history");
  auto info = read_run(db.get(), 1);
  if (!info) return wrong("what is true of the whole run cannot be read");
  auto database = std::make_unique<Database>(std::move(db), *info);
  for (const auto& source : database->sources)
    if (!source.rows) return wrong(why_failed(database->db.get()));
  RecordingReader out(std::move(database));
  out.info_ = *std::move(info);
  return out;
}

Result<std::optional<RecordedItem>> RecordingReader::next() {
  auto& sources = db_->sources;
  if (!db_->begun)
    for (auto& s : sources) s.more = s.rows.row();
  db_->begun = true;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].rows.failed()) return Error::failed(fmt::format("reading: {}", why_failed(db_->db.get())));
    if (sources[i].more && (!first || sources[i].rows.integer(0) < sources[*first].rows.integer(0)))
      first = i;
  }
  if (!first) return std::optional<RecordedItem>();
  RecordedItem out = db_->item(*first);
  sources[*first].more = sources[*first].rows.row();
  return std::optional(std::move(out));
}

}  // namespace oomcast
