#include "app/series_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/scope.h"
#include "base/escape.h"
#include "parse/memory_stat.h"
#include "store/recording.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxNames = 10;

std::string shown(const CgroupRef& cgroup) {
  return cgroup.name.kind == CgroupKind::root ? "the host" : escape_for_terminal(cgroup.path);
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
    for (const std::string& wanted : {*choice.cgroup, path_of_typed(*choice.cgroup)})
      if (paths.contains(wanted)) return wanted;
    std::string there;
    std::size_t n = 0;
    for (const auto& [p, any] : paths)
      if (n++ < kMaxNames) there += "\n  " + escape_for_terminal(p);
    return Error::failed(fmt::format("{}: no cgroup {} in it; there are:{}{}", escape_for_terminal(path),
                                     escape_for_terminal(*choice.cgroup), there,
                                     n > kMaxNames ? "\n  …" : ""));
  }
  std::string best = paths.begin()->first;
  for (const auto& [p, any] : paths)
    if (p.size() < best.size()) best = p;
  return best;
}

}  // namespace

MonoTime series_time(double time_s) {
  return MonoTime(Nanos(std::llround(time_s * 1e9)));
}

void CsvReadings::learn(const CsvRow& row) {
  turned_ = false;
  auto keep = [](std::optional<Bytes>& known, const std::optional<Bytes>& said) {
    if (said) known = said;
  };
  keep(anon_, row.anon);
  keep(file_, row.file);
  keep(shmem_, row.shmem);
  keep(kernel_, row.kernel);
  if (row.pinned) {
    droppable_ = *row.used - *row.pinned;
    return;
  }
  if (!row.file) return;

  auto weigh = [&](Excess& excess, Bytes kind, Bytes sum) {
    excess.kind += kind.as_double();
    excess.over += std::clamp(sum - *row.used, Bytes{}, kind).as_double();
  };
  Bytes sum = *file_;
  for (const auto& other : {anon_, kernel_})
    if (other) sum = add_saturating(sum, *other);
  weigh(cache_, *file_, sum);
  if (shmem_ && anon_) weigh(shared_, *shmem_, add_saturating(sum, *shmem_));
  // Without anon_bytes only a cache larger than used_bytes tells, and there is little of that.
  bool left_out = cache_.is_more_than(anon_ ? 0.5 : 0.02);
  bool in_file = shmem_ && (!anon_ || shared_.is_more_than(0.25));
  turned_ = droppable_ && (left_out != left_out_ || in_file != in_file_);
  left_out_ = left_out;
  in_file_ = in_file;
  droppable_ = left_out ? Bytes{} : std::max(Bytes{}, *file_ - (in_file ? *shmem_ : Bytes{}));
}

Reading CsvReadings::of(const CsvRow& row, std::optional<Bytes> limit) {
  learn(row);
  Reading out{series_time(row.time_s), *row.used, limit};
  if (!droppable_) return out;
  out.value = std::max(Bytes{}, *row.used - *droppable_);  // above used_bytes where pinned_bytes counts swap
  out.total = std::max(out.value, *row.used);
  return out;
}

bool ProcessSum::add(const CsvRow& row) {
  if (processes_.size() >= kMax && !processes_.contains(*row.pid)) return false;
  processes_[*row.pid] = {*row.uss, row.rss};
  return true;
}

Reading ProcessSum::reading(double time_s, std::optional<Bytes> limit) const {
  Reading out{series_time(time_s), Bytes{}, limit, Bytes{}};
  for (const auto& [pid, p] : processes_) {
    out.value = add_saturating(out.value, p.uss);
    out.total = out.total && p.rss ? std::optional(add_saturating(*out.total, *p.rss)) : std::nullopt;
  }
  return out;
}

namespace {

using Take = std::function<void(const Reading&, Surplus)>;
using Another = std::function<void()>;

Result<SeriesFacts> read_recorded(const std::string& path, const SeriesChoice& choice, const Take& take,
                                  const Another& another) {
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
    if (auto* tick = std::get_if<TickFact>(&**item)) {
      if (tick->killed && in_scope(*chosen, tick->killed->path)) another();
      // No samples: it has not changed.
      if (!tick->killed && last && tick->time - last->time > 3 * reader->info().interval) {
        last->time = tick->time;
        take(*last, Surplus::droppable);
      }
    }
    if (auto* gone = std::get_if<ForgottenFact>(&**item); gone && gone->cgroup == chosen_id) last.reset();
    auto* s = std::get_if<Sample>(&**item);
    if (!s || !s->cgroup || !s->pinned || s->cgroup->path != *chosen) continue;
    if (last && s->cgroup->id != chosen_id) another();  // a cgroup of the same path
    chosen_id = s->cgroup->id;
    facts.name = shown(*s->cgroup);
    auto total = s->usage ? std::optional(std::max(*s->usage, *s->pinned)) : std::nullopt;
    last = Reading{s->time, *s->pinned, choice.limit ? choice.limit : s->headroom_limit, total};
    take(*last, Surplus::droppable);
  }
  return facts;
}

Result<SeriesFacts> read_csv(const std::string& path, const SeriesChoice& choice, const Take& take,
                             const Another& another) {
  auto series = CsvSeries::open(path);
  if (!series) return series.error();
  CsvReadings readings;
  ProcessSum processes;
  double now = 0;
  std::optional<Bytes> limit;
  for (;;) {
    auto row = series->next();
    if (!row) return row.error();
    bool later = !*row || (*row)->time_s > now;
    if (later && !processes.empty()) {
      take(processes.reading(now, limit), Surplus::shared);
      processes.clear();
    }
    if (!*row) break;
    now = (*row)->time_s;
    limit = choice.limit ? choice.limit : (*row)->limit;
    if (series->per_process()) {
      if (!processes.add(**row))
        return series->wrong(fmt::format("more than {} processes", ProcessSum::kMax));
      continue;
    }
    Reading reading = readings.of(**row, limit);
    if (readings.turned()) another();
    take(reading, Surplus::droppable);
  }
  return SeriesFacts{escape_for_terminal(path), std::nullopt, false};
}

}  // namespace

Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&, Surplus)>& take,
                                const std::function<void()>& another) {
  return RecordingReader::is_recording(path) ? read_recorded(path, choice, take, another)
                                             : read_csv(path, choice, take, another);
}

}  // namespace oomcast
