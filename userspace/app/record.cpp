#include <fmt/format.h>
#include <unistd.h>

#include <type_traits>
#include <utility>

#include "app/commands.h"
#include "app/tracing.h"
#include "base/escape.h"
#include "store/recording.h"
#include "store/writer.h"
#include "stream/fact_filter.h"
#include "stream/json.h"
#include "stream/text.h"

namespace oomcast {
namespace {

// As published, for replay, for facts that the forecasts do not depend on.
std::optional<RecordedEvent> event_of(const Fact& fact, const ClockMap& clock) {
  return std::visit(
      [&](const auto& f) -> std::optional<RecordedEvent> {
        using T = std::decay_t<decltype(f)>;
        if constexpr (std::is_constructible_v<RecordedItem, T>)  // it is stored in rows of its own
          return std::nullopt;
        else if constexpr (std::is_same_v<T, OomEvent>)
          return RecordedEvent{f.episode.time, "oom", to_json(fact, clock),
                               to_text(fact, clock, TextStyle{false})};
        else
          return RecordedEvent{f.time, std::string(type_of(fact)), to_json(fact, clock),
                               to_text(fact, clock, TextStyle{false})};
      },
      fact);
}

// Progress of the recording: on a terminal one line that is overwritten. In the same queue as the lines in
// between, if these go to the same terminal; neither blocks on a stopped terminal.
class Recorded {
 public:
  Recorded(Output& output, bool quiet) : output_(output), shown_(!quiet && isatty(STDERR_FILENO)) {}

  std::uint64_t items = 0, kills = 0;

  std::string all_kills() const { return fmt::format("{} OOM kill{}", kills, kills == 1 ? "" : "s"); }
  void draw(Nanos lasts) {
    write(fmt::format("\r{} recorded, {} lines, {}", format_duration(lasts), items, all_kills()),
          kMaxWaiting);
  }
  void clear() { write("\r\033[K", OutputQueue::kMaxBytes); }
  void end() { write("\n", OutputQueue::kMaxBytes); }

 private:
  static constexpr std::size_t kMaxWaiting = 4096;

  void write(const std::string& text, std::size_t most) {
    if (!shown_) return;
    if (same_)
      output_.write_part(text, most);
    else
      errors_.write(text, most);
  }

  Output& output_;
  OutputQueue errors_{STDERR_FILENO};
  bool shown_, same_ = isatty(STDOUT_FILENO) != 0;
};

}  // namespace

Result<int> record(const Options& options) {
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  Output output(options);
  std::unique_ptr<StoreWriter> writer;
  // The file is created before privileges are dropped.
  auto make_file = [&](const Session& s) -> Status {
    auto made = StoreWriter::record(options.record.file, s.run_info(), options.record.force);
    if (!made) return made.error();
    writer = *std::move(made);
    return Ok{};
  };
  auto session = open_session(options, *stop, true, make_file);
  if (!session) return session.error();
  if (!*session) return 0;
  Session& s = **session;
  MonoTime begin = s.now();
  MonoTime end = options.duration ? begin + *options.duration : MonoTime::max();
  bool told_failure = false;
  News news;
  Recorded progress(output, options.output.quiet || options.output.json);
  auto tell = error_lines();
  s.record_in(*writer);
  s.start([&](const Fact& fact) {
    if (auto event = event_of(fact, s.clock())) writer->add(*std::move(event));
    ++progress.items;
    progress.kills += std::holds_alternative<OomEvent>(fact);
    if (!options.output.json && !news.is(fact)) return;
    progress.clear();
    output.write(fact, s.clock());
  });
  MonoTime next = begin;
  while (!stop->pending() && !output.failed() && s.now() < end) {
    s.step(std::min(end, next));
    output.tell_losses(s);
    if (s.now() < next) continue;
    next = s.now() + std::chrono::seconds(1);
    for (const std::string& failure : writer->take_notices()) {
      told_failure = true;
      progress.clear();
      tell(failure);
    }
    progress.draw(s.now() - begin);
  }
  s.finish();
  progress.end();
  Status written = writer->finish();
  if (!written && told_failure) return 1;
  if (!written) return written.error();
  if (writer->lost()) tell_error(fmt::format("{} lines were lost: the disk was too slow", writer->lost()));
  if (!options.output.json)
    output.write_line(fmt::format("{} lines over {} with {} in {}; read on: oomcast replay {}",
                                  progress.items, format_duration(s.now() - begin), progress.all_kills(),
                                  escape_for_terminal(options.record.file),
                                  escape_for_terminal(options.record.file)));
  if (auto told = output.finish(); !told) return told.error();
  return 0;
}

}  // namespace oomcast
