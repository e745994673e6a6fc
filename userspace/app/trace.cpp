#include "app/commands.h"
#include "app/tracing.h"

namespace oomcast {

Result<int> trace(const Options& options) {
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  Output output(options);
  auto session = open_session(options, *stop);
  if (!session) return session.error();
  if (!*session) return 0;
  Session& s = **session;
  MonoTime begin = s.now();
  MonoTime end = options.duration ? begin + *options.duration : MonoTime::max();
  s.start([&](const Fact& fact) { output.write(fact, s.clock()); });
  while (!stop->pending() && !output.failed() && s.now() < end) {
    s.step(end);
    output.tell_losses(s);
  }
  s.finish();
  if (auto written = output.finish(); !written) return written.error();
  return 0;
}

}  // namespace oomcast
