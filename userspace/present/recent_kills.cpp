#include "present/recent_kills.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "present/rows.h"

namespace oomcast {
namespace {

// Enough for the process and its pid.
constexpr std::size_t kLeastName = 16;

std::size_t victims_of(const OomEvent& kill) {
  return std::max<std::size_t>(kill.episode.victims.size(), 1);
}

std::string victim_of(const Episode& e) {
  return e.victims.empty() ? "a process" : name_of(e.victims.front().process);
}

std::string since_kill(MonoTime then, MonoTime now) {
  auto seconds = static_cast<long>(seconds_between(then, now).count());
  return seconds < 1 ? "just now" : fmt::format("{} s ago", seconds);
}

}  // namespace

std::vector<const OomEvent*> recent_kills(const Overview& o) {
  std::vector<const OomEvent*> out;
  for (auto event = o.events.rbegin(); event != o.events.rend(); ++event)
    if (auto* kill = std::get_if<OomEvent>(&*event);
        kill && seconds_between(kill->episode.time, o.time) < kKillStays)
      out.push_back(kill);
  std::ranges::stable_sort(
      out, [](const OomEvent* a, const OomEvent* b) { return a->episode.time > b->episode.time; });
  return out;
}

const OomEvent* newest_kill(const Overview& o) {
  const OomEvent* out = nullptr;
  for (const Fact& event : o.events)
    if (auto* kill = std::get_if<OomEvent>(&event); kill && (!out || kill->episode.time >= out->episode.time))
      out = kill;
  return out;
}

Line kill_line(const Overview& o, const View& view, std::size_t width) {
  auto kills = recent_kills(o);
  Line out;
  if (kills.empty()) return out;
  std::size_t all = 0;
  for (const OomEvent* kill : kills) all += victims_of(*kill);
  std::string others;
  if (all > 1) others = fmt::format(", {} other{} within a minute", all - 1, all == 2 ? "" : "s");
  bool enter = view.page == Page::cgroups && kill_to_open(o, view) == kills.front();
  std::string key = enter ? ": Enter" : view.page == Page::report ? "" : ": o";
  std::string what = " was OOM-killed " + since_kill(kills.front()->episode.time, o.time);
  // If it does not fit, shorten the name first, then drop the count of others.
  constexpr std::string_view kMark = "!! ";
  auto room = [&] {
    std::size_t taken = kMark.size() + display_width(what + others + key);
    return width - std::min(width, taken);
  };
  std::string name = victim_of(kills.front()->episode);
  if (room() < std::min(display_width(name), kLeastName) && all > 1)
    others = fmt::format(", {} more", all - 1);
  if (room() < std::min(display_width(name), kLeastName)) what = " OOM-killed";
  return out.add(fmt::format("{}{}{}{}{}", kMark, cut_end(name, room()), what, others, key), Style::alert);
}

std::string key_of(const Fact& event) {
  if (auto* oom = std::get_if<OomEvent>(&event))
    return fmt::format("oom {} {}", oom->episode.serial, oom->episode.time.time_since_epoch().count());
  if (auto* kill = std::get_if<UserKillFact>(&event))
    return fmt::format("kill {} {}", kill->victim.id.tgid, kill->time.time_since_epoch().count());
  if (auto* alert = std::get_if<AlertFact>(&event))
    return fmt::format("alert {} {} {}", alert->time.time_since_epoch().count(), alert->rule, alert->message);
  return "";
}

const Fact* chosen_event(const Overview& o, const View& view) {
  const Fact* newest = nullptr;
  for (auto event = o.events.rbegin(); event != o.events.rend(); ++event) {
    if (view.selected_event && key_of(*event) == *view.selected_event) return &*event;
    bool first =
        !newest || (!std::holds_alternative<OomEvent>(*newest) && std::holds_alternative<OomEvent>(*event));
    if (first) newest = &*event;
  }
  return newest;
}

const OomEvent* kill_to_open(const Overview& o, const View& view) {
  if (view.page == Page::events) {
    const Fact* event = chosen_event(o, view);
    return event ? std::get_if<OomEvent>(event) : nullptr;
  }
  if (view.page != Page::cgroups || view.selected) return nullptr;  // Enter acts on the selected row
  auto kills = recent_kills(o);
  return kills.empty() ? nullptr : kills.front();
}

}  // namespace oomcast
