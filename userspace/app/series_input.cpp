#include "app/series_input.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/escape.h"
#include "store/recording.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostNames = 10;

std::string shown(const CgroupRef& cgroup) {
  return cgroup.name.kind == CgroupKind::root ? "the host" : escape_for_terminal(cgroup.path);
}

bool is_below(const std::string& path, const std::string& top) {
  return top == "/" || path == top || path.rfind(top + "/", 0) == 0;
}

// Which cgroup of the recording is meant, by path.
Result<std::string> choose(const std::string& path, const SeriesChoice& choice) {
  auto reader = RecordingReader::open(path);
  if (!reader) return reader.error();
  std::map<std::string, bool> paths;
  for (;;) {
    auto item = reader->next();
    if (!item) return item.error();
    if (!*item) break;
    if (auto* s = std::get_if<Sample>(&**item); s && s->cgroup && s->pinned) paths[s->cgroup->path] = true;
  }
  if (paths.empty())
    return Error::failed(fmt::format("{}: no cgroup was sampled in it", escape_for_terminal(path)));
  if (choice.cgroup) {
    std::string wanted = *choice.cgroup;
    for (const char* mount : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"})
      if (!paths.contains(wanted) && wanted.rfind(mount, 0) == 0) wanted.erase(0, std::string(mount).size());
    if (wanted.empty()) wanted = "/";
    if (wanted.size() > 1 && wanted.back() == '/') wanted.pop_back();
    if (paths.contains(wanted)) return wanted;
    std::string there;
    std::size_t n = 0;
    for (const auto& [p, any] : paths)
      if (n++ < kMostNames) there += "\n  " + escape_for_terminal(p);
    return Error::failed(fmt::format("{}: no cgroup {} in it; there are:{}{}", escape_for_terminal(path),
                                     escape_for_terminal(*choice.cgroup), there,
                                     n > kMostNames ? "\n  …" : ""));
  }
  std::string best = paths.begin()->first;
  for (const auto& [p, any] : paths)
    if (p.size() < best.size()) best = p;
  return best;
}

}  // namespace

Reading reading_of(const CsvRow& row, std::optional<Bytes> limit) {
  // A series' clock begins anywhere, before zero too.
  Reading out{MonoTime(Nanos(std::llround(row.time_s * 1e9))), *row.used, limit};
  if (row.pinned) {
    out.value = *row.pinned;
    out.total = row.used;
  } else if (row.file) {
    Bytes droppable = *row.file;
    if (row.shmem) {
      bool apart =
          row.anon && (*row.anon + *row.file + *row.shmem).as_double() <= 1.02 * row.used->as_double();
      if (!apart) droppable -= *row.shmem;
    }
    if (droppable < Bytes{} || droppable > *row.used) return out;
    out.value = *row.used - droppable;
    out.total = row.used;
  }
  return out;
}

Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&)>& take,
                                const std::function<void()>& killed) {
  if (RecordingReader::is_recording(path)) {
    auto chosen = choose(path, choice);
    if (!chosen) return chosen.error();
    auto reader = RecordingReader::open(path);
    if (!reader) return reader.error();
    SeriesFacts facts{"", 0, true};
    std::optional<Reading> last;
    CgroupId chosen_id;
    for (;;) {
      auto item = reader->next();
      if (!item) return item.error();
      if (!*item) break;
      if (auto* event = std::get_if<RecordedEvent>(&**item)) {
        facts.torn = event->type != "end";
        *facts.oom_kills += event->type == "oom";
      }
      if (auto* tick = std::get_if<RecordedTick>(&**item)) {
        if (tick->killed && is_below(*chosen, tick->killed->path)) killed();
        // No samples: it has not changed.
        if (!tick->killed && last && tick->time - last->time > 3 * reader->info().interval) {
          last->time = tick->time;
          take(*last);
        }
      }
      if (auto* gone = std::get_if<ForgottenFact>(&**item); gone && gone->cgroup == chosen_id) last.reset();
      auto* s = std::get_if<Sample>(&**item);
      if (!s || !s->cgroup || !s->pinned || s->cgroup->path != *chosen) continue;
      chosen_id = s->cgroup->id;
      facts.name = shown(*s->cgroup);
      auto total = s->usage ? std::optional(std::max(*s->usage, *s->pinned)) : std::nullopt;
      last = Reading{s->time, *s->pinned, choice.limit ? choice.limit : s->headroom_limit, total};
      take(*last);
    }
    return facts;
  }
  auto series = CsvSeries::open(path);
  if (!series) return series.error();
  if (series->per_process())
    return Error::usage(
        fmt::format("{}: one line per process; give a series of one total", escape_for_terminal(path)));
  for (;;) {
    auto row = series->next();
    if (!row) return row.error();
    if (!*row) break;
    take(reading_of(**row, choice.limit ? choice.limit : (*row)->limit));
  }
  return SeriesFacts{escape_for_terminal(path), std::nullopt, false};
}

}  // namespace oomcast
