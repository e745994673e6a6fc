#include <unistd.h>

#include <cerrno>

#include "app/commands.h"
#include "app/live_screen.h"
#include "app/tracing.h"
#include "present/change_log.h"
#include "present/report.h"
#include "present/table.h"
#include "store/store.h"

namespace oomcast {
namespace {

// On a pipe: a line for every cgroup at first, then for those that change or grow, and every kill.
Result<int> watch_plainly(const Options& options, Session& s, StopSignals& stop, MonoTime end) {
  Output output(options);
  ChangeLog log;
  s.start([&](const Fact& fact) {
    if (options.output.json || kind_of(fact) != FactKind::state) output.write(fact, s.clock());
  });
  MonoTime next = s.now();
  while (!stop.pending() && !output.failed() && s.now() < end) {
    s.step(std::min(end, next));
    output.tell_losses(s);
    if (s.now() < next) continue;
    next = s.now() + options.sources.interval;
    if (options.output.json) continue;
    for (const Line& line : log.changes(s.overview(), s.clock()))
      output.write_line(to_text(line, TextStyle{output.color()}));
  }
  s.finish();
  if (auto told = output.finish(); !told) return told.error();
  return 0;
}

// Like `oomcast report`. Without a store, or before the kill is in it, uses the kill's own data.
std::string post_mortem_of(const OomEvent& kill, const std::string& store_path, const RunInfo& run) {
  StoredEpisode episode;
  episode.run = run;
  episode.told = kill;
  episode.from = kill.episode.time;
  if (auto store = store_path.empty() ? Result<Store>(Error{}) : Store::open(store_path))
    if (auto stored = store->episode(kill.episode.id)) episode = *std::move(stored);
  return to_text(make_post_mortem(std::move(episode)), TextStyle{});
}

void watch_screen(const Options& options, Session& s, StopSignals& stop, MonoTime end, LiveScreen& screen) {
  (void)s.loop().wake_on(screen.asked_fd());
  MonoTime next = s.now();
  while (!stop.pending() && s.now() < end) {
    LiveScreen::Asked asked = screen.asked();
    if (asked.quit) break;
    if (asked.look) s.look_for_growth(*asked.look);
    if (s.now() >= next || asked.look) {
      if (!screen.paused()) screen.show(s.overview());
      next = s.now() + options.sources.interval;
    }
    s.step(std::min(end, next));
  }
}

}  // namespace

Result<int> watch(const Options& options) {
  bool plainly = options.output.json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO);
  if (!plainly) LiveScreen::leave_its_signals_alone();
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  auto session = open_session(options, *stop);
  if (!session) return session.error();
  if (!*session) return 0;
  Session& s = **session;
  MonoTime end = options.duration ? s.now() + *options.duration : MonoTime::max();
  if (plainly) return watch_plainly(options, s, *stop, end);
  std::optional<EndFact> ended;
  {
    std::string store = s.has_store() ? options.store.path : "";
    auto screen = LiveScreen::open(
        s.clock(), Output(options).color(),
        [store, run = s.run_info()](const OomEvent& kill) { return post_mortem_of(kill, store, run); });
    if (!screen) return screen.error();
    s.hold_notices(true);
    s.start([&ended](const Fact& fact) {
      if (auto* last = std::get_if<EndFact>(&fact)) ended = *last;
    });
    watch_screen(options, s, *stop, end, **screen);
    s.hold_notices(false);
  }
  s.finish();
  // The screen is gone; important events stay on the terminal.
  Output output(options);
  for (const Fact& event : s.overview().events)
    if (!std::holds_alternative<UserKillFact>(event)) output.write(event, s.clock());
  if (ended) output.write(*ended, s.clock());
  return 0;
}

}  // namespace oomcast
