#include "store/salvage.h"

#include <algorithm>
#include <tuple>

#include "store/schema.h"
#include "store/store.h"
#include "store/tables.h"

namespace oomcast {
namespace {

constexpr std::int64_t kMaxSalvaged = 10'000;
constexpr std::int64_t kWithCurves = 20;

}  // namespace

std::size_t take_over(const std::string& from, sqlite3* to) {
  auto store = Store::open(from);
  if (!store) return 0;
  struct Run {
    RunInfo info;
    std::unique_ptr<Tables> tables;
  };
  std::map<std::tuple<std::string, Nanos, std::string>, Run> runs;
  std::size_t count = 0;
  if (!execute(to, "BEGIN IMMEDIATE")) return 0;
  std::int64_t last = store->last_row();
  for (std::int64_t row = std::max<std::int64_t>(1, last - kMaxSalvaged); row <= last; ++row) {
    bool whole = row > last - kWithCurves;
    auto episode = store->episode_at(row, whole ? kKeptBefore : Nanos{});
    if (!episode) continue;
    StoredEpisode& e = *episode;
    auto& run = runs[{e.run.boot_id, e.run.wall_of_mono_zero, e.run.version}];
    if (!run.tables) {
      std::int64_t id = 0, began = (e.told.episode.time.time_since_epoch() + e.run.wall_of_mono_zero).count();
      run.info = e.run;
      if (!add_run(to, run.info, began, id)) break;
      run.tables = std::make_unique<Tables>(to, id, run.info, false);
    }
    auto write = [&](const auto& facts) {
      for (const auto& fact : facts) run.tables->write(fact);
    };
    if (whole) {
      write(e.samples);
      write(e.processes);
      write(e.forecasts);
      write(e.reclaim);
      write(e.pressure);
      write(e.kills);
      write(e.alerts);
      write(e.exits);
      write(e.gpu);
      write(e.gpu_events);
    }
    e.told.episode.serial = count + 1;
    run.tables->write(EpisodeFact{std::move(e.told), e.complete, e.source});
    if (run.tables->failed()) break;
    ++count;
  }
  if (execute(to, "COMMIT")) return count;
  execute(to, "ROLLBACK");
  return 0;
}

}  // namespace oomcast
