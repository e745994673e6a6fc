#include "present/event_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "present/rows.h"
#include "stream/text.h"

namespace oomcast {

std::string clock_time(WallTime t) {
  return format_clock(t).substr(0, 8);
}

Style event_style(const Fact& fact) {
  if (std::holds_alternative<AlertFact>(fact)) return Style::warn;
  return std::holds_alternative<OomEvent>(fact) ? Style::alert : Style::normal;
}

std::vector<std::string> event_lines(const Fact& fact, const ClockMap& clock) {
  std::vector<std::string> out;
  const std::string text = to_text(fact, clock, {});
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(settle_marks(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

Line event_headline(const Fact& fact, const ClockMap& clock) {
  if (auto* kill = std::get_if<UserKillFact>(&fact)) {
    std::string cause = kill->cause ? fmt::format(" ({})", displayable(*kill->cause)) : "";
    return Line().add(fmt::format("{} {} got SIGKILL from {}{}", clock_time(clock.wall(kill->time)),
                                  name_of(kill->victim), name_of(kill->sender), cause));
  }
  if (auto* alert = std::get_if<AlertFact>(&fact))
    return Line().add(fmt::format("{} alert {}: {}", clock_time(clock.wall(alert->time)),
                                  displayable(alert->rule), settle_marks(alert->message)),
                      event_style(fact));
  auto* oom = std::get_if<OomEvent>(&fact);
  if (!oom || oom->episode.victims.empty()) {
    auto lines = event_lines(fact, clock);
    return Line().add(lines.empty() ? "" : lines.front(), event_style(fact));
  }
  const Episode& e = oom->episode;
  std::string text =
      fmt::format("{} OOM killed {}", clock_time(clock.wall(e.time)), name_of(e.victims.front().process));
  if (e.victims.size() > 1) text += fmt::format(" and {} more", e.victims.size() - 1);
  if (e.limit_cgroup)
    text += fmt::format(": {} hit its limit of {}", path_of(e.limit_cgroup),
                        e.limit ? format_size(*e.limit) : "unknown size");
  return Line().add(std::move(text), event_style(fact));
}

}  // namespace oomcast
