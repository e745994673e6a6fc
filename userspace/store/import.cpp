#include "store/import.h"

#include <fmt/format.h>

#include "base/escape.h"
#include "store/open.h"
#include "store/schema.h"

namespace oomcast {

Result<EpisodeImport> EpisodeImport::open(const std::string& directory, const std::string& version) {
  EpisodeImport out;
  out.shown_ = escape_for_terminal(directory);
  out.version_ = version;
  StoreOpening opened = open_store(directory);
  if (!opened.db) return Error::failed(opened.why);
  out.db_ = std::move(opened.db);
  if (!execute(out.db_.get(), "BEGIN IMMEDIATE")) return out.failed();
  return out;
}

EpisodeImport::~EpisodeImport() = default;

Error EpisodeImport::failed() const {
  return Error::failed(fmt::format("writing {}: {}", shown_, why_failed(db_.get())));
}

Result<bool> EpisodeImport::add(Episode episode, EpisodeSource source, WallTime at,
                                const std::optional<std::string>& boot_id, const std::string& host) {
  Hierarchy hierarchy = episode.limit_cgroup ? episode.limit_cgroup->id.hierarchy : Hierarchy::v2;
  for (const Victim& v : episode.victims)
    if (v.process.cgroup) hierarchy = v.process.cgroup->id.hierarchy;
  auto& tables = runs_[{boot_id.value_or(""), hierarchy}];
  if (!tables) {
    // Its clock is the wall's.
    RunInfo run;
    run.version = version_;
    run.scope = fmt::format("imported ({})", to_string(source));
    run.hierarchy = hierarchy;
    run.interval = std::chrono::seconds(1);
    run.tick = std::chrono::milliseconds(10);
    run.boot_id = boot_id.value_or("");
    std::int64_t id = 0;
    // The same run each time, so that a log that is read daily does not fill the store with them.
    Statement known(db_.get(), "SELECT id FROM runs WHERE scope=? AND boot_id IS ? AND hierarchy=? LIMIT 1");
    known << run.scope << boot_id << std::string_view(hierarchy == Hierarchy::v1 ? "v1" : "v2");
    if (known.row())
      id = known.integer(0);
    else if (!add_run(db_.get(), run, at.time_since_epoch().count(), id))
      return failed();
    tables = std::make_unique<Tables>(db_.get(), id, run, false);
  }
  episode.time = MonoTime(at.time_since_epoch());
  if (episode.victims.size() == 1) episode.victims[0].time = episode.time;
  bool is_new =
      tables->write(EpisodeFact{{std::move(episode), std::nullopt, std::nullopt}, true, source, host});
  if (auto failure = tables->take_failure())
    return Error::failed(fmt::format("writing {}: {}", shown_, failure->what));
  return is_new;
}

Status EpisodeImport::finish() {
  runs_.clear();
  if (!execute(db_.get(), "COMMIT")) return failed();
  return Ok{};
}

}  // namespace oomcast
