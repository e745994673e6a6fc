// Any bytes as a log: lines of every form, their assembly to reports, and what becomes of those.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/logged_kill.h"
#include "parse/oom_reports.h"

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

void check(const oomcast::LoggedOom& oom, const oomcast::OomReports& reports) {
  using namespace oomcast;
  OomLogLimits limits;
  must(oom.dump.tasks.size() <= limits.rows && oom.dump.victims.size() <= limits.victims);
  for (const OomVictimLine& victim : oom.dump.victims) must(!victim.anon_rss || victim.anon_rss->count >= 0);
  if (oom.wall) (void)reports.resolve(*oom.wall, WallTime(std::chrono::hours(24 * 365 * 56)));
  auto kill = logged_kill(oom.dump);
  if (!kill) return;
  for (const Victim& victim : kill->victims) must(!victim.swap || victim.swap->count >= 0);
  (void)episode_id(WallTime(oom.wall ? oom.wall->since_epoch : Nanos{}), *kill);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  oomcast::OomReports reports;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    bool whole = end != std::string_view::npos;
    reports.line(rest.substr(0, end), !whole);
    rest.remove_prefix(whole ? end + 1 : rest.size());
    for (const auto& oom : reports.take()) check(oom, reports);
  }
  for (const auto& oom : reports.finish()) check(oom, reports);
  return 0;
}
