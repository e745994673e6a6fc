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

Salvaged take_over(const std::string& from, sqlite3* to) {
  Salvaged out;
  auto store = Store::open(from);
  if (!store) return out;
  struct Run {
    RunInfo info;
    std::unique_ptr<Tables> tables;
  };
  std::map<std::tuple<std::string, Nanos, std::string>, Run> runs;
  if (!execute(to, "BEGIN IMMEDIATE")) return out;
  std::int64_t last = store->last_row(), row = std::max<std::int64_t>(1, last - kMaxSalvaged);
  for (; row <= last; ++row) {
    bool whole = row > last - kWithCurves;
    auto episode = store->episode_at(row, whole ? kKeptBefore : Nanos{});
    if (!episode) {
      ++out.lost;
      continue;
    }
    if (!*episode) continue;
    StoredEpisode& e = **episode;
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
    e.told.episode.serial = out.episodes + 1;
    run.tables->write(EpisodeFact{std::move(e.told), e.complete, e.source, std::move(e.logged.host)});
    if (run.tables->failed()) break;
    ++out.episodes;
  }
  // It ended early: the new store cannot be written.
  if (row <= last) out.lost += static_cast<std::size_t>(last - row + 1);
  if (execute(to, "COMMIT")) return out;
  execute(to, "ROLLBACK");
  return {0, out.lost + out.episodes};
}

}  // namespace oomcast
