// Any bytes as a log: UTF-16 or not, records of every form, their lines, their assembly to reports, and what
// becomes of those.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "model/logged_kill.h"
#include "parse/oom_reports.h"
#include "parse/utf16.h"

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
  std::string decoded;
  if (auto utf16 = oomcast::Utf16Decoder::of(rest)) {
    utf16->decode(rest, decoded);
    rest = decoded;
  }
  constexpr std::size_t kPiece = 4096;  // a line's, so that some go on
  oomcast::OomReports reports;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    bool whole = end != std::string_view::npos && end <= kPiece;
    std::string_view line = rest.substr(0, whole ? end : kPiece);
    reports.line(line, !whole);
    rest.remove_prefix(whole ? end + 1 : line.size());
    for (const auto& oom : reports.take()) check(oom, reports);
  }
  for (const auto& oom : reports.finish()) check(oom, reports);
  for (const auto& said : reports.others().said()) (void)oomcast::describe(said);
  return 0;
}
