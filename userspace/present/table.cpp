#include "present/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/ascii.h"
#include "base/escape.h"
#include "present/cgroup_details.h"
#include "present/event_lines.h"
#include "present/recent_kills.h"
#include "present/table_frame.h"

namespace oomcast {
namespace {

bool passes(const OverviewRow& row, const std::string& lower_filter) {
  if (lower_filter.empty() || !row.cgroup) return true;
  return to_lower(row.cgroup->path).find(lower_filter) != std::string::npos ||
         to_lower(row.cgroup->name.name).find(lower_filter) != std::string::npos;
}

class Body {
 public:
  Body(const Overview& o, const ClockMap& clock, View& view, Size size)
      : o_(o), clock_(clock), view_(view), size_(size) {}

  std::vector<Line> lines;
  std::size_t total = 0;  // scrollable rows

  void cgroups() {
    auto rows = arrange(o_, view_);
    total = rows.size();
    std::size_t idle = folded(o_, view_), for_idle = idle ? 1 : 0;
    std::vector<Line> lower = below_the_table(std::max<std::size_t>(rows.size() + for_idle, 1));
    std::size_t room = size_.height - std::min(size_.height, lower.size() + for_idle);
    view_.visible = room > 0 ? room - 1 : 0;
    keep_selected_visible(rows);
    Columns columns = choose_columns(size_.width);
    lines.push_back(head_line(columns, view_.order));
    for (std::size_t i = view_.first; i < std::min(total, view_.first + view_.visible); ++i) {
      lines.push_back(cgroup_line(*rows[i], columns));
      lines.back().selected = view_.selected == key(*rows[i]);
    }
    if (idle) lines.push_back(Line().add(fmt::format("{} idle cgroups: i shows them", idle), Style::dim));
    bool none = !idle && std::none_of(rows.begin(), rows.end(),
                                      [](const OverviewRow* row) { return row->cgroup != nullptr; });
    if (none)
      lines.push_back(Line().add(view_.filter.empty() ? "no cgroup in scope" : "no cgroup matches the filter",
                                 Style::dim));
    std::move(lower.begin(), lower.end(), std::back_inserter(lines));
  }

  void processes() {
    auto all = by_growth(o_);
    total = all.size();
    scroll_within(1);
    ProcessColumns columns = choose_process_columns(size_.width);
    lines.push_back(process_head(columns, "PROCESS"));
    for (std::size_t i = view_.first; i < std::min(total, view_.first + view_.visible); ++i)
      lines.push_back(process_line(*all[i], o_.time, columns));
    if (all.empty()) lines.push_back(Line().add("no process was sampled yet", Style::dim));
  }

  void events() {
    std::vector<Line> all;
    const Fact* chosen = chosen_event(o_, view_);
    std::size_t from = 0, to = 0;  // lines of the selected event
    for (auto event = o_.events.rbegin(); event != o_.events.rend(); ++event) {
      if (&*event != chosen) {
        all.push_back(event_headline(*event, clock_));
        continue;
      }
      from = all.size();
      add_event(all, *event);
      to = all.size();
    }
    if (all.empty()) all.push_back(Line().add("no OOM kill, no SIGKILL and no alert so far", Style::dim));
    total = all.size();
    scroll_within(0);
    if (to > view_.first + view_.visible) view_.first = to - view_.visible;
    view_.first = std::min(view_.first, from);
    scroll(std::move(all));
  }

  void report() {
    std::vector<Line> all;
    for (const std::string& text : view_.report) {
      std::size_t indent = text.find_first_not_of(' ');
      add_wrapped(all, size_.width, text, indent == std::string::npos ? 0 : indent + 2, Style::normal);
    }
    if (!all.empty())
      for (Cell& cell : all.front().cells) cell.style = Style::alert;
    scroll(std::move(all));
  }

  void details() {
    auto at = std::find_if(o_.rows.begin(), o_.rows.end(),
                           [&](const OverviewRow& row) { return view_.selected == key(row); });
    if (at == o_.rows.end())
      return scroll({Line().add("This cgroup no longer exists. Esc goes back.", Style::warn)});
    scroll(details_of(o_, *at, size_.width));
  }

  void help() { scroll(help_lines(size_.width)); }

 private:
  // Everything known about the event; keys act on its first line.
  void add_event(std::vector<Line>& out, const Fact& event) const {
    Style style = event_style(event);
    std::size_t begin = out.size();
    for (const std::string& text : event_lines(event, clock_)) {
      add_wrapped(out, size_.width, text, 14, style);
      style = Style::normal;
    }
    if (out.size() > begin) out[begin].selected = true;
  }

  void scroll_within(std::size_t above) {
    view_.visible = size_.height - std::min(size_.height, above);
    view_.first = std::min(view_.first, total - std::min(total, view_.visible));
  }

  void scroll(std::vector<Line> all) {
    total = all.size();
    scroll_within(0);
    auto begin = all.begin() + static_cast<std::ptrdiff_t>(view_.first);
    auto end = begin + static_cast<std::ptrdiff_t>(std::min(view_.visible, total - view_.first));
    lines.assign(std::move_iterator(begin), std::move_iterator(end));
  }

  void keep_selected_visible(const std::vector<const OverviewRow*>& rows) {
    auto at = std::find_if(rows.begin(), rows.end(),
                           [&](const OverviewRow* row) { return view_.selected == key(*row); });
    if (at == rows.end()) {
      view_.first = 0;  // the most urgent row stays on top until the user selects one
      return;
    }
    auto index = static_cast<std::size_t>(at - rows.begin());
    view_.first = std::min(view_.first, index);
    if (index >= view_.first + view_.visible && view_.visible > 0) view_.first = index + 1 - view_.visible;
    view_.first = std::min(view_.first, rows.size() - std::min(rows.size(), view_.visible));
  }

  // Growing processes and recent events, in the space that the table of `rows` leaves free, but at least two
  // fifths of a screen that is not tiny. Kills take precedence over growing processes.
  std::vector<Line> below_the_table(std::size_t rows) const {
    constexpr std::size_t kMaxGrowing = 5, kMaxEvents = 4;
    std::vector<Line> growing, recent;
    ProcessColumns columns = choose_process_columns(size_.width);
    for (const ProcessSampleFact* p : growers(o_, kMaxGrowing))
      growing.push_back(process_line(*p, o_.time, columns));
    for (auto event = o_.events.rbegin(); event != o_.events.rend() && recent.size() < kMaxEvents; ++event)
      recent.push_back(event_headline(*event, clock_));

    std::size_t room = size_.height - std::min(size_.height, rows + 1);
    if (size_.height >= 12) room = std::max(room, size_.height * 2 / 5);
    auto wanted = [](const std::vector<Line>& section) { return section.empty() ? 0 : section.size() + 2; };
    std::size_t for_events =
        std::min(wanted(recent), std::max(room / 2, room - std::min(room, wanted(growing))));
    std::size_t for_growing = std::min(wanted(growing), room - for_events);
    std::vector<Line> out;
    auto add = [&](std::vector<Line>& section, Line title, std::size_t height) {
      if (height < 3) return;
      out.emplace_back();
      out.push_back(std::move(title));
      section.resize(std::min(section.size(), height - 2));
      std::move(section.begin(), section.end(), std::back_inserter(out));
    };
    add(growing, process_head(columns, "GROWING PROCESSES"), for_growing);
    add(recent, Line().add("EVENTS, newest first", Style::strong), for_events);
    return out;
  }

  const Overview& o_;
  const ClockMap& clock_;
  View& view_;
  Size size_;
};

}  // namespace

std::vector<const OverviewRow*> arrange(const Overview& overview, const View& view) {
  std::vector<const OverviewRow*> out;
  out.reserve(overview.rows.size());
  const std::string filter = to_lower(view.filter);
  bool folds = folded(overview, view) > 0;
  for (const OverviewRow& row : overview.rows) {
    bool hidden = folds && row.idle && view.selected != key(row);
    if (!hidden && passes(row, filter)) out.push_back(&row);
  }
  std::sort(out.begin(), out.end(), [&](const OverviewRow* a, const OverviewRow* b) {
    if (!a->cgroup || !b->cgroup) return !a->cgroup && b->cgroup;
    int by = compare(*a, *b, view.order);
    return view.reverse ? by > 0 : by < 0;
  });
  return out;
}

std::size_t folded(const Overview& overview, const View& view) {
  if (view.show_idle || !view.filter.empty() || view.editing_filter) return 0;
  auto idle = std::ranges::count_if(overview.rows, [](const OverviewRow& row) { return row.idle; });
  if (static_cast<std::size_t>(idle) < kFoldFrom) return 0;
  bool shown = std::ranges::any_of(
      overview.rows, [&](const OverviewRow& row) { return row.idle && view.selected == key(row); });
  return static_cast<std::size_t>(idle) - (shown ? 1 : 0);
}

void move(View& view, const Overview& overview, std::ptrdiff_t by) {
  auto moved = [by](std::size_t from, std::size_t end) {
    auto last = static_cast<std::ptrdiff_t>(end) - 1;
    auto at = static_cast<std::ptrdiff_t>(from);
    // No overflow for any distance.
    return static_cast<std::size_t>(by < 0 ? (by < -at ? 0 : at + by) : (by > last - at ? last : at + by));
  };
  if (view.page == Page::events && !view.help && !overview.events.empty()) {
    const auto& events = overview.events;
    const Fact* chosen = chosen_event(overview, view);
    auto at = std::ranges::find_if(events, [&](const Fact& event) { return &event == chosen; });
    auto newer = static_cast<std::size_t>(events.end() - at) - 1;  // newest first
    view.selected_event = key_of(events[events.size() - 1 - moved(newer, events.size())]);
    return;
  }
  if (view.page != Page::cgroups || view.help) {
    view.first = moved(view.first, 1u << 30);  // render() clamps it
    return;
  }
  auto rows = arrange(overview, view);
  if (rows.empty()) return;
  auto at = std::find_if(rows.begin(), rows.end(),
                         [&](const OverviewRow* row) { return view.selected == key(*row); });
  std::size_t index = at != rows.end() ? moved(static_cast<std::size_t>(at - rows.begin()), rows.size())
                      : by > 1         ? moved(0, rows.size())
                                       : 0;
  view.selected = key(*rows[index]);
}

void open_details(View& view, const Overview& overview) {
  auto rows = arrange(overview, view);
  bool shown = std::any_of(rows.begin(), rows.end(),
                           [&](const OverviewRow* row) { return view.selected == key(*row); });
  if (!shown) {
    auto first =
        std::find_if(rows.begin(), rows.end(), [](const OverviewRow* row) { return bool(row->cgroup); });
    if (first == rows.end()) first = rows.begin();
    if (first == rows.end()) return;
    view.selected = key(**first);
  }
  view.page = Page::details;
  view.first = 0;
}

void open_report(View& view, std::string_view text) {
  view.report.clear();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    view.report.push_back(settle_marks(make_harmless(text.substr(at, end - at))));
    at = end + 1;
  }
  if (view.page != Page::report) view.report_from = view.page;
  view.page = Page::report;
  view.first = 0;
}

void close_report(View& view) {
  view.report.clear();
  view.page = view.report_from;
  view.first = 0;
}

std::vector<Line> render(const Overview& overview, const ClockMap& clock, View& view, Size size) {
  if (size.width == 0 || size.height == 0) return {};
  std::vector<Line> out = heading(overview, clock, view, size);
  bool foot = size.height >= 6 || view.editing_filter;
  std::size_t taken = out.size() + (foot ? 1 : 0);
  Body body(overview, clock, view, {size.width, size.height - std::min(size.height, taken)});
  if (view.help)
    body.help();
  else if (view.page == Page::cgroups)
    body.cgroups();
  else if (view.page == Page::processes)
    body.processes();
  else if (view.page == Page::events)
    body.events();
  else if (view.page == Page::report)
    body.report();
  else
    body.details();
  std::move(body.lines.begin(), body.lines.end(), std::back_inserter(out));
  if (foot) {
    out.resize(size.height - 1);
    out.push_back(footer(overview, view, body.total, size.width));
  }
  if (out.size() > size.height) out.resize(size.height);
  for (Line& line : out) {
    cut_end(line, size.width);
    if (!view.utf8) to_ascii(line);
  }
  return out;
}

}  // namespace oomcast
