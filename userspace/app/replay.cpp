#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "app/analysis.h"
#include "app/commands.h"
#include "app/series_input.h"
#include "app/tracing.h"
#include "base/escape.h"
#include "base/escape_json.h"
#include "base/print.h"
#include "forecast/forecaster.h"
#include "present/json.h"
#include "present/text.h"
#include "store/recording.h"

namespace oomcast {
namespace {

constexpr std::size_t kFlushAt = 1 << 16;

/// To stdout, all of it. A signal ends the wait for a reader that does not read. false: not all was written.
bool write_all(std::string_view text, StopSignals& stop) {
  constexpr std::size_t kFitsAlways = 4096;  // where a pipe has room at all
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

class Replay {
 public:
  Replay(const Options& options, SeriesInput& input, StopSignals& stop)
      : options_(options),
        input_(input),
        stop_(stop),
        style_{!options.output.json && Output(options).color()},
        // What is news of a series is decided here.
        filter_({true, options.output.choice.only, std::nullopt}, !options.output.json) {}

  Result<int> run() {
    Result<int> read = read_all();
    if (closed_) return closed();
    // Up to a bad line, too.
    if (first_) finish(bool(read));
    return write_out() ? read : closed();
  }

 private:
  // A series, or a process of several.
  struct Followed {
    explicit Followed(Surplus surplus) : forecaster(surplus) {}
    Forecaster forecaster;
    std::optional<double> seen_at;
    // Of the forecast that was printed last.
    bool printed = false, alert = false;
    Verdict verdict = Verdict::unknown;
    std::optional<Seconds> eta;
  };

  static Error closed() { return stdout_failed(); }

  Result<int> read_all() {
    while (!closed_) {
      if (input_.would_wait()) await_rows();
      if (closed_ || stop_.pending()) break;
      auto point = input_.next();
      if (!point) return point.error();
      at_end_ = !*point;
      if (at_end_) break;
      take(**point);
      if (out_.size() > kFlushAt) closed_ = !write_out();
    }
    return 0;
  }

  void take(const SeriesInput::Point& point) {
    if (!first_) begin(point.time_s);
    // Of several, all of one moment are there.
    if (input_.many() && point.time_s != now_) tick();
    if (point.time_s < now_) due_ = point.time_s;  // the next series of the file
    Followed& followed = of(point.series);
    if (point.turned) followed.forecaster = Forecaster();
    followed.forecaster.add(point.reading);
    followed.seen_at = now_ = point.time_s;
    if (!input_.many()) tick();
    rows_ += !input_.many() || point.series != SeriesInput::kWhole;
  }

  Followed& of(std::uint32_t series) {
    return followed_.try_emplace(series, Followed(input_.surplus())).first->second;
  }

  // Of a series that is still being written each forecast is printed as it is made.
  void await_rows() {
    closed_ = !write_out();
    pollfd wait[] = {{input_.fd(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}};
    if (!closed_) poll(wait, std::size(wait), -1);
  }

  void finish(bool whole) {
    if (input_.many() && at_end_) tick();  // else some of the last moment's may be missing
    if (!published_last_) publish_all();
    emit(EndFact{{}, rows_, {}, now_});
    if (input_.left_out())
      diagnostics(options_)(fmt::format("{} samples were left out: of more than {} series", input_.left_out(),
                                        SeriesInput::kMostNames));
    if (whole && !options_.output.json) summary();
  }

  void begin(double time_s) {
    first_ = now_ = due_ = time_s;
    std::string read_as = input_.read_as();
    if (!read_as.empty()) diagnostics(options_)("read as " + read_as);
    emit(StartFact{{}, OOMCAST_VERSION, "", {"csv"}, time_s, std::move(read_as)});
    if (input_.has_whole()) of(SeriesInput::kWhole);
  }

  void tick() {
    published_last_ = false;
    if (now_ < due_) return;
    publish_all();
    if (!options_.series.every) return;
    double every = Seconds(*options_.series.every).count();
    due_ = *first_ + (std::floor((now_ - *first_) / every) + 1) * every;
  }

  void publish_all() {
    published_last_ = true;
    for (auto& [series, followed] : followed_)
      if (series != SeriesInput::kWhole && followed.seen_at == now_) publish(series, followed);
    if (input_.has_whole()) publish(SeriesInput::kWhole, of(SeriesInput::kWhole));
  }

  ForecastFact fact_of(std::uint32_t series, Followed& followed) const {
    ForecastFact out;
    if (series != SeriesInput::kWhole && input_.processes()) {
      out.process.emplace();
      out.process->id.tgid = series;
      out.process->comm = input_.name(series);
    } else {
      out.series = input_.name(series);
    }
    out.forecast = followed.forecaster.forecast();
    out.time_s = now_;
    return out;
  }

  // For a person, only what is new.
  void publish(std::uint32_t series, Followed& last) {
    const Forecast& f = last.forecaster.forecast();
    bool moved = f.eta && (!last.eta || std::abs((*f.eta - *last.eta).count()) > 0.25 * last.eta->count());
    bool news = !last.printed || f.verdict != last.verdict || f.alert != last.alert || moved;
    if (!options_.output.json && !news && !options_.output.choice.all) return;
    last.printed = true;
    last.alert = f.alert;
    last.verdict = f.verdict;
    last.eta = f.eta;
    emit(fact_of(series, last));
  }

  void emit(const Fact& fact) {
    if (!filter_.wants(fact)) return;
    out_ += options_.output.json ? to_json(fact, clock_) : to_text(fact, clock_, style_);
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
  }

  // Of several without a sum: those that meet their limit first.
  void summary() {
    std::string over = format_duration(Seconds(now_ - *first_));
    if (input_.has_whole()) {
      const Forecast& f = of(SeriesInput::kWhole).forecaster.forecast();
      out_ += fmt::format("{} samples over {}: {}: {}\n", rows_, over, to_string(f.verdict), f.why);
      return;
    }
    constexpr std::size_t kMostLines = 8;
    std::vector<std::pair<double, std::uint32_t>> order;
    for (auto& [series, followed] : followed_) {
      const Forecast& f = followed.forecaster.forecast();
      order.emplace_back(f.eta ? f.eta->count() : 1e18, series);
    }
    std::ranges::sort(order);
    out_ += fmt::format("{} samples of {} series over {}\n", rows_, followed_.size(), over);
    for (const auto& [eta, series] : std::span(order).first(std::min(order.size(), kMostLines))) {
      const Forecast& f = of(series).forecaster.forecast();
      out_ += fmt::format("  {}: {}: {}\n", escape_for_terminal(input_.name(series)), to_string(f.verdict),
                          f.why);
    }
  }

  bool write_out() {
    bool ok = write_all(out_, stop_);
    out_.clear();
    return ok;
  }

  const Options& options_;
  SeriesInput& input_;
  StopSignals& stop_;
  TextStyle style_;
  FactFilter filter_;
  ClockMap clock_;
  std::map<std::uint32_t, Followed> followed_;
  std::string out_;
  bool published_last_ = false, closed_ = false, at_end_ = false;
  std::optional<double> first_;
  double now_ = 0, due_ = 0;
  std::uint64_t rows_ = 0;
};

// As far as a recording has it.
bool same(const ForecastFact& a, const ForecastFact& b) {
  auto id = [](const ForecastFact& f) { return f.cgroup ? f.cgroup->id : CgroupId{}; };
  auto task = [](const ForecastFact& f) { return f.process ? f.process->id : TaskId{}; };
  const Forecast &x = a.forecast, &y = b.forecast;
  return a.time == b.time && id(a) == id(b) && task(a) == task(b) && a.device == b.device &&
         x.verdict == y.verdict && x.eta == y.eta && x.eta_low == y.eta_low && x.eta_high == y.eta_high &&
         x.alert == y.alert && x.why == y.why;
}

// A recording may come from anybody.
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
        clock_{reader.info().wall_of_mono_zero, reader.info().wall_of_boot_zero, reader.info().tick},
        forecasts_({reader.info().interval, reader.info().tree}),
        style_{Output(options).color()},
        filter_(options.output.choice, !options.output.json) {}

  Result<int> run() {
    while (ok_ && !stop_.pending()) {
      auto item = reader_.next();
      if (!item) {
        write_all(out_, stop_);
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
    if (!ok_ || !write_all(out_, stop_)) return stdout_failed();
    say_what_is_missing();
    return 0;
  }

 private:
  void write(const std::string& line) {
    if (line.empty() || !ok_) return;
    out_ += line;
    out_ += '\n';
    if (out_.size() < kFlushAt) return;
    ok_ = write_all(out_, stop_);
    out_.clear();
  }

  // A kill has several lines.
  void write_lines(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = std::min(text.find('\n', at), text.size());
      write(make_harmless(text.substr(at, end - at)));
      at = end + 1;
    }
  }

  void on_event(const RecordedEvent& event) {
    ended_ = event.type == "end";
    if (!filter_.wants(event.type, event.json)) return;
    if (!options_.output.json)
      write_lines(event.text);
    else if (is_json_line(event.json))
      write(escape_json_for_terminal(event.json));
    else
      ++damaged_;
  }

  void on_forecast(const ForecastFact& recorded) {
    if (!differs_ && (made_.empty() || !same(made_.front(), recorded))) differs_ = recorded.time;
    if (!made_.empty()) made_.pop_front();
  }

  void on_fact(RecordedItem item) {
    // Recorded forecasts stand right behind what they were made of.
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
      if (filter_.wants(made))
        write(options_.output.json ? to_json(made, clock_) : to_text(made, clock_, style_));
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
                      format_rfc3339(clock_.wall(*differs_)), reader_.info().version, OOMCAST_VERSION));
  }

  const Options& options_;
  RecordingReader& reader_;
  StopSignals& stop_;
  ClockMap clock_;
  ForecastRegistry forecasts_;
  TextStyle style_;
  FactFilter filter_;
  std::string out_;
  bool ok_ = true, ended_ = false;
  std::deque<ForecastFact> made_;  // until the recorded one comes, right behind
  std::optional<MonoTime> differs_;
  std::uint64_t damaged_ = 0;
};

}  // namespace

Result<int> replay(const Options& options) {
  if (RecordingReader::is_recording(options.series.file)) {
    if (options.series.limit || options.series.every || options.series.choices.any())
      return Error::usage(
          "--limit, --every, --column, --unit and --time are for series; a recording is replayed as it was");
    auto reader = RecordingReader::open(options.series.file);
    if (!reader) return reader.error();
    auto stop = StopSignals::block();
    if (!stop) return stop.error();
    return RecordingReplay(options, *reader, *stop).run();
  }
  if (options.output.choice.samples)
    return Error::usage(
        "--samples is for recordings; of a series, --every says how many forecasts there are");
  auto input = SeriesInput::open(options.series.file, options.series.choices);
  if (!input) return input.error();
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  return Replay(options, *input, *stop).run();
}

}  // namespace oomcast
