#include "app/series_input.h"

#include <fmt/format.h>
#include <sys/stat.h>

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

// Selects the cgroup of the recording, by path.
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
  // Without anon_bytes only a cache larger than used_bytes proves it, and that is rare.
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
  out.value = std::max(Bytes{}, *row.used - *droppable_);  // above used_bytes if pinned_bytes includes swap
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

// ---- a file's readings

Result<SeriesInput> SeriesInput::open(const std::string& path, const SeriesChoices& choices) {
  auto file = LineFile::open(path);
  if (!file) return file.error();
  SeriesInput out;
  out.limit_ = choices.limit;
  bool ours = false;
  if (!choices.any()) {
    auto begin = file->begin(1);
    if (!begin) return begin.error();
    bool json = begin->starts_with('{') || begin->starts_with('[');  // one line of any length
    auto header =
        json ? Result<std::optional<std::string_view>>(std::optional<std::string_view>("")) : file->next();
    if (!header) return header.error();
    ours = !*header || CsvSeries::is_header(**header);
  }
  if (ours) {
    auto csv = CsvSeries::open(*std::move(file));
    if (!csv) return csv.error();
    out.csv_ = *std::move(csv);
    out.processes_ = out.csv_->per_process();
    return out;
  }
  auto found = SeriesFile::open(*std::move(file), choices);
  if (!found) return found.error();
  out.found_ = *std::move(found);
  out.processes_ = out.found_->processes();
  return out;
}

bool SeriesInput::would_wait() const {
  return ready_.empty() && !ended_ && (csv_ ? csv_->would_wait() : found_->would_wait());
}

int SeriesInput::fd() const {
  return csv_ ? csv_->fd() : found_->fd();
}

Error SeriesInput::wrong(std::string_view what) const {
  return csv_ ? csv_->wrong(what) : found_->wrong(what);
}

std::string SeriesInput::name(std::uint32_t series) const {
  auto at = series_.find(series);
  return at == series_.end() ? "" : at->second.name;
}

std::string SeriesInput::read_as() const {
  if (csv_) return csv_->has_dates() ? "time_s as dates, in seconds since 1970" : "";
  return found_->read_as() + (limit_ || found_->has_limit() ? "" : "; no limit (--limit SIZE gives one)");
}

void SeriesInput::end_moment() {
  if (!processes_ || moment_.empty()) return;
  ready_.push_back({kWhole, moment_.reading(now_, moment_limit_), now_, false});
  moment_.clear();
}

Status SeriesInput::take(const CsvRow& row) {
  auto limit = limit_ ? limit_ : row.limit;
  if (!processes_) {
    Reading reading = readings_.of(row, limit);
    ready_.push_back({kWhole, reading, row.time_s, readings_.turned()});
    return Ok{};
  }
  if (row.time_s > now_) end_moment();
  bool known = series_.contains(*row.pid);
  if ((!known && series_.size() >= ProcessSum::kMax) || !moment_.add(row))
    return wrong(fmt::format("more than {} processes", ProcessSum::kMax));
  series_[*row.pid].last = row.time_s;
  now_ = row.time_s;
  moment_limit_ = limit;
  ready_.push_back({*row.pid, {series_time(row.time_s), *row.uss, std::nullopt, row.rss}, row.time_s, false});
  return Ok{};
}

Status SeriesInput::take(const SeriesPoint& point) {
  constexpr double kMostTime = 4.6e9;  // s: nanoseconds between any two fit into 63 bits
  if (std::abs(point.time_s) > kMostTime)
    return wrong(fmt::format("the time is out of range: {}", point.time_s));
  std::uint32_t number = kWhole;
  if (processes_) {
    number = *point.pid;
    if (point.time_s > now_) end_moment();
  } else if (found_->many()) {
    auto at = numbers_.find(point.name);
    if (at == numbers_.end() && numbers_.size() < kMostNames)
      at = numbers_.emplace(point.name, static_cast<std::uint32_t>(numbers_.size()) + 1).first;
    if (at == numbers_.end()) return ++left_out_, Ok{};
    number = at->second;
  }
  auto known = series_.find(number);
  if (known == series_.end() && series_.size() >= kMostNames) return ++left_out_, Ok{};
  bool is_new = known == series_.end();
  if (is_new) known = series_.emplace(number, Named{point.name, point.time_s}).first;
  if (point.time_s < known->second.last) return found_->runs_backwards(known->second.last, point.time_s);
  known->second.last = point.time_s;
  auto limit = limit_ ? limit_ : point.limit;
  if (processes_) {
    if (!is_new && point.time_s < now_) return found_->runs_backwards(now_, point.time_s);
    CsvRow row;
    row.time_s = point.time_s;
    row.pid = number;
    row.uss = point.used;
    if (!moment_.add(row)) return wrong(fmt::format("more than {} processes", ProcessSum::kMax));
    moment_limit_ = limit;
    limit.reset();
  }
  now_ = point.time_s;
  ready_.push_back({number, {series_time(point.time_s), point.used, limit}, point.time_s, false});
  return Ok{};
}

Result<std::optional<SeriesInput::Point>> SeriesInput::next() {
  while (ready_.empty() && !ended_) {
    if (csv_) {
      auto row = csv_->next();
      if (!row) return row.error();
      ended_ = !*row;
      if (*row)
        if (auto ok = take(**row); !ok) return ok.error();
    } else {
      points_.clear();
      auto more = found_->next(points_);
      if (!more) return more.error();
      ended_ = !*more;
      for (const SeriesPoint& point : points_)
        if (auto ok = take(point); !ok) return ok.error();
    }
    if (ended_) end_moment();
  }
  if (ready_.empty()) return std::optional<Point>();
  Point out = ready_.front();
  ready_.pop_front();
  return std::optional(out);
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
  SeriesFacts facts{"", 0, true, ""};
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
      // No samples means no change.
      if (!tick->killed && last && tick->time - last->time > 3 * reader->info().interval) {
        last->time = tick->time;
        take(*last, Surplus::droppable);
      }
    }
    if (auto* gone = std::get_if<ForgottenFact>(&**item); gone && gone->cgroup == chosen_id) last.reset();
    auto* s = std::get_if<Sample>(&**item);
    if (!s || !s->cgroup || !s->pinned || s->cgroup->path != *chosen) continue;
    if (last && s->cgroup->id != chosen_id) another();  // a new cgroup with the same path
    chosen_id = s->cgroup->id;
    facts.name = shown(*s->cgroup);
    auto total = s->usage ? std::optional(std::max(*s->usage, *s->pinned)) : std::nullopt;
    last = Reading{s->time, *s->pinned, choice.limit ? choice.limit : s->headroom_limit, total};
    take(*last, Surplus::droppable);
  }
  return facts;
}

// Selects a series of the file: by name, or the largest.
Result<std::uint32_t> choose_series(const std::string& path, const SeriesChoice& choice) {
  auto input = SeriesInput::open(path, choice.columns);
  if (!input) return input.error();
  std::uint32_t best = SeriesInput::kWhole;
  if (input->has_whole()) return best;
  struct stat file {};
  if (fstat(input->fd(), &file) != 0 || !S_ISREG(file.st_mode))
    return Error::usage(escape_for_terminal(path) +
                        ": there are several series in it, so it has to be a file: it is read twice");
  std::optional<Bytes> most;
  for (;;) {
    auto point = input->next();
    if (!point) return point.error();
    if (!*point) break;
    if (!choice.series.empty() && input->name((*point)->series) == choice.series) return (*point)->series;
    if (most && (*point)->reading.value <= *most) continue;
    most = (*point)->reading.value;
    best = (*point)->series;
  }
  return best;
}

Result<SeriesFacts> read_found(const std::string& path, const SeriesChoice& choice, const Take& take,
                               const Another& another) {
  auto chosen = path == "-" ? Result<std::uint32_t>(SeriesInput::kWhole) : choose_series(path, choice);
  if (!chosen) return chosen.error();
  auto input = SeriesInput::open(path, choice.columns);
  if (!input) return input.error();
  if (path == "-" && !input->has_whole())
    return Error::usage("stdin: there are several series in it, so it has to be a file: it is read twice");
  for (;;) {
    auto point = input->next();
    if (!point) return point.error();
    if (!*point) break;
    if ((*point)->series != *chosen) continue;
    if ((*point)->turned) another();
    take((*point)->reading, input->surplus());
  }
  std::string name = input->name(*chosen);
  if (name.empty()) name = path;
  return SeriesFacts{escape_for_terminal(name), std::nullopt, false, input->read_as()};
}

}  // namespace

Result<SeriesFacts> read_series(const std::string& path, const SeriesChoice& choice,
                                const std::function<void(const Reading&, Surplus)>& take,
                                const std::function<void()>& another) {
  return RecordingReader::is_recording(path) ? read_recorded(path, choice, take, another)
                                             : read_found(path, choice, take, another);
}

}  // namespace oomcast
