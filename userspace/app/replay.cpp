#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <span>

#include "app/analysis.h"
#include "app/commands.h"
#include "app/series_input.h"
#include "app/tracing.h"
#include "base/escape.h"
#include "base/escape_json.h"
#include "base/print.h"
#include "store/recording.h"
#include "stream/json.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kFlushAt = 1 << 16;

/// Writes all of it to stdout. A signal ends the wait for a stopped reader. false: not all was written.
bool write_all(std::string_view text, StopSignals& stop) {
  constexpr std::size_t kFitsAlways = 4096;  // a writable pipe has room for this
  constexpr int kLastWait = 1000;            // ms
  while (!text.empty()) {
    pollfd wait[] = {{STDOUT_FILENO, POLLOUT, 0}, {stop.fd(), POLLIN, 0}};
    poll(wait, std::size(wait), stop.pending() ? kLastWait : -1);
    if (!wait[0].revents && !stop.pending()) continue;
    if (!wait[0].revents) return false;
    ssize_t wrote = write(STDOUT_FILENO, text.data(), std::min(text.size(), kFitsAlways));
    if (wrote < 0 && errno != EINTR && errno != EAGAIN) return false;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(wrote, 0)));
  }
  return true;
}

/// Prints lines, in blocks.
class Printer {
 public:
  Printer(const Options& options, StopSignals& stop, ClockMap clock = {})
      : json_(options.output.json),
        stop_(stop),
        clock_(clock),
        style_{Output(options).color()},
        filter_(options.choice, !json_) {}

  void fact(const Fact& fact) {
    if (filter_.wants(fact)) line(json_ ? to_json(fact, clock_) : to_text(fact, clock_, style_));
  }
  /// For an event as recorded.
  bool wants(const RecordedEvent& event) const { return filter_.wants(event.type, event.json); }
  void line(std::string_view line) {
    if (line.empty()) return;
    out_.append(line);
    out_ += '\n';
    if (out_.size() > kFlushAt) flush();
  }
  void flush() {
    ok_ = ok_ && write_all(out_, stop_);
    out_.clear();
  }
  bool ok() const { return ok_; }
  const ClockMap& clock() const { return clock_; }

 private:
  bool json_;
  StopSignals& stop_;
  ClockMap clock_;
  TextStyle style_;
  FactFilter filter_;
  std::string out_;
  bool ok_ = true;
};

/// A series of another tool: one forecast per moment, or per --every.
class SeriesReplay {
 public:
  SeriesReplay(const Options& options, SeriesInput& input, StopSignals& stop)
      : options_(options),
        input_(input),
        stop_(stop),
        printer_(options, stop),
        forecasts_(config_of(options)) {}

  Result<int> run() {
    Result<int> read = read_all();
    // Also up to an invalid line.
    if (printer_.ok() && first_) finish(bool(read));
    printer_.flush();
    return printer_.ok() ? read : stdout_failed();
  }

 private:
  static ForecastRegistry::Config config_of(const Options& options) {
    ForecastRegistry::Config out;
    out.every_forecast = options.output.json || options.choice.all;
    return out;
  }

  Result<int> read_all() {
    while (printer_.ok()) {
      if (input_.would_wait()) await_rows();
      if (!printer_.ok() || stop_.pending()) break;
      auto point = input_.next();
      if (!point) return point.error();
      at_end_ = !*point;
      if (at_end_) break;
      take(**point);
    }
    return 0;
  }

  void take(const SeriesInput::Point& point) {
    if (!first_) begin(point.time_s);
    // With several series: all lines of a moment have been read.
    if (input_.many() && point.time_s != now_) tick();
    if (point.time_s < now_) due_ = point.time_s;  // next series in the file
    now_ = point.time_s;
    forecasts_.on(reading_of(point));
    if (!input_.many()) tick();
    rows_ += !input_.many() || point.series != SeriesInput::kWhole;
  }

  SeriesReading reading_of(const SeriesInput::Point& point) const {
    SeriesReading out{point.series, point.reading, point.time_s, point.turned, input_.surplus()};
    if (input_.processes() && point.series != SeriesInput::kWhole) {
      out.process.emplace();
      out.process->id.tgid = point.series;
      out.process->comm = input_.name(point.series);
    } else {
      out.name = input_.name(point.series);
    }
    return out;
  }

  // For a series that is still being written, each forecast is printed at once.
  void await_rows() {
    printer_.flush();
    pollfd wait[] = {{input_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
    if (printer_.ok()) poll(wait, std::size(wait), -1);
  }

  void finish(bool whole) {
    if (input_.many() && at_end_) tick();  // else some of the last moment's may be missing
    if (!analysed_last_) analyse_all();
    printer_.fact(EndFact{{}, rows_, {}, now_});
    if (input_.left_out())
      diagnostics(options_)(fmt::format("{} samples were left out: of more than {} series", input_.left_out(),
                                        SeriesInput::kMostNames));
    if (whole && !options_.output.json) summary();
  }

  void begin(double time_s) {
    first_ = now_ = due_ = time_s;
    std::string read_as = input_.read_as();
    if (!read_as.empty()) diagnostics(options_)("read as " + read_as);
    printer_.fact(StartFact{{}, OOMCAST_VERSION, "", {"csv"}, time_s, std::move(read_as)});
  }

  void tick() {
    analysed_last_ = false;
    if (now_ < due_) return;
    analyse_all();
    if (!options_.series.every) return;
    double every = Seconds(*options_.series.every).count();
    due_ = *first_ + (std::floor((now_ - *first_) / every) + 1) * every;
  }

  void analyse_all() {
    analysed_last_ = true;
    Fact moment = TickFact{series_time(now_)};
    analyse(forecasts_, moment, [this](const Fact& made) { printer_.fact(made); });
  }

  // For several series without a sum: those that hit their limit first.
  void summary() {
    constexpr std::size_t kMostLines = 8;
    auto said = forecasts_.series();
    std::string over = format_duration(Seconds(now_ - *first_));
    auto verdict = [](const ForecastFact& f) {
      return fmt::format("{}: {}", to_string(f.forecast.verdict), f.forecast.why);
    };
    if (input_.has_whole()) {
      printer_.line(fmt::format("{} samples over {}: {}", rows_, over, verdict(said.back())));
      return;
    }
    printer_.line(fmt::format("{} samples of {} series over {}", rows_, said.size(), over));
    std::ranges::stable_sort(said, {},
                             [](const ForecastFact& f) { return f.forecast.eta.value_or(Seconds::max()); });
    for (const ForecastFact& f : std::span(said).first(std::min(said.size(), kMostLines)))
      printer_.line(fmt::format("  {}: {}", escape_for_terminal(f.series), verdict(f)));
  }

  const Options& options_;
  SeriesInput& input_;
  StopSignals& stop_;
  Printer printer_;
  ForecastRegistry forecasts_;
  bool analysed_last_ = false, at_end_ = false;
  std::optional<double> first_;
  double now_ = 0, due_ = 0;
  std::uint64_t rows_ = 0;
};

// Compares the fields that a recording has.
bool same(const ForecastFact& a, const ForecastFact& b) {
  auto id = [](const ForecastFact& f) { return f.cgroup ? f.cgroup->id : CgroupId{}; };
  auto task = [](const ForecastFact& f) { return f.process ? f.process->id : TaskId{}; };
  const Forecast &x = a.forecast, &y = b.forecast;
  return a.time == b.time && id(a) == id(b) && task(a) == task(b) && a.device == b.device &&
         x.verdict == y.verdict && x.eta == y.eta && x.eta_low == y.eta_low && x.eta_high == y.eta_high &&
         x.alert == y.alert && x.why == y.why;
}

// A recording is untrusted.
bool is_json_line(std::string_view line) {
  return line.starts_with('{') && std::ranges::none_of(line, [](unsigned char c) { return c < ' '; }) &&
         nlohmann::json::accept(line);
}

// Facts and ticks go through the same analysis as in the live run.
class RecordingReplay {
 public:
  RecordingReplay(const Options& options, RecordingReader& reader, StopSignals& stop)
      : options_(options),
        reader_(reader),
        stop_(stop),
        printer_(options, stop,
                 {reader.info().wall_of_mono_zero, reader.info().wall_of_boot_zero, reader.info().tick}),
        forecasts_({reader.info().interval, reader.info().tree}) {}

  Result<int> run() {
    while (printer_.ok() && !stop_.pending()) {
      auto item = reader_.next();
      if (!item) {
        printer_.flush();
        return item.error();
      }
      if (!*item) break;
      if (auto* event = std::get_if<RecordedEvent>(&**item))
        on_event(*event);
      else if (auto* recorded = std::get_if<ForecastFact>(&**item))
        on_forecast(*recorded);
      else
        on_fact(std::move(**item));
    }
    printer_.flush();
    if (!printer_.ok()) return stdout_failed();
    say_what_is_missing();
    return 0;
  }

 private:
  // A kill has several lines.
  void write_lines(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = std::min(text.find('\n', at), text.size());
      printer_.line(make_harmless(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  void on_event(const RecordedEvent& event) {
    ended_ = event.type == "end";
    if (!printer_.wants(event)) return;
    if (!options_.output.json)
      write_lines(event.text);
    else if (is_json_line(event.json))
      printer_.line(escape_json_for_terminal(event.json));
    else
      ++damaged_;
  }

  void on_forecast(const ForecastFact& recorded) {
    if (!differs_ && (made_.empty() || !same(made_.front(), recorded))) differs_ = recorded.time;
    if (!made_.empty()) made_.pop_front();
  }

  void on_fact(RecordedItem item) {
    // Recorded forecasts directly follow the facts they were made from.
    if (!differs_ && !made_.empty()) differs_ = made_.front().time;
    if (differs_) made_.clear();
    Fact fact = std::visit(
        [](auto&& i) -> Fact {
          using T = std::decay_t<decltype(i)>;
          if constexpr (std::is_same_v<T, RecordedEvent>)
            return TickFact{i.time};
          else
            return std::forward<decltype(i)>(i);
        },
        std::move(item));
    analyse(forecasts_, fact, [this](const Fact& made) {
      if (auto* forecast = std::get_if<ForecastFact>(&made)) made_.push_back(*forecast);
      printer_.fact(made);
    });
  }

  void say_what_is_missing() const {
    auto say = diagnostics(options_);
    if (stop_.pending())
      say("stopped before the end of the recording");
    else if (!ended_)
      say("the recording has no end: oomcast was killed, or it is still being written; its last second may "
          "be "
          "missing");
    if (reader_.info().lost)
      say(fmt::format("{} lines are missing: the disk was too slow when it was recorded",
                      reader_.info().lost));
    if (damaged_)
      say(fmt::format("{} lines of the recording are no JSON and were left out: it is damaged", damaged_));
    if (differs_)
      say(fmt::format("from {} on the forecasts are others than those that oomcast {} made live (this is {})",
                      format_rfc3339(printer_.clock().wall(*differs_)), reader_.info().version,
                      OOMCAST_VERSION));
  }

  const Options& options_;
  RecordingReader& reader_;
  StopSignals& stop_;
  Printer printer_;
  ForecastRegistry forecasts_;
  bool ended_ = false;
  std::deque<ForecastFact> made_;  // until the recorded one comes, right behind
  std::optional<MonoTime> differs_;
  std::uint64_t damaged_ = 0;
};

}  // namespace

Result<int> replay(const Options& options) {
  if (RecordingReader::is_recording(options.series.file)) {
    if (options.series.choices.limit || options.series.every || options.series.choices.any())
      return Error::usage(
          "--limit, --every, --column, --unit and --time are for series; a recording is replayed as it was");
    auto reader = RecordingReader::open(options.series.file);
    if (!reader) return reader.error();
    auto stop = StopSignals::block();
    if (!stop) return stop.error();
    return RecordingReplay(options, *reader, *stop).run();
  }
  if (options.choice.samples)
    return Error::usage(
        "--samples is for recordings; of a series, --every says how many forecasts there are");
  auto input = SeriesInput::open(options.series.file, options.series.choices);
  if (!input) return input.error();
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  return SeriesReplay(options, *input, *stop).run();
}

}  // namespace oomcast
