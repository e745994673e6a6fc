#include "present/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "present/blame.h"

namespace oomcast {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool passes(const OverviewRow& row, const std::string& lower_filter) {
  if (lower_filter.empty() || !row.cgroup) return true;
  return lower(row.cgroup->path).find(lower_filter) != std::string::npos ||
         lower(row.cgroup->name.name).find(lower_filter) != std::string::npos;
}

std::string clock_time(WallTime t) {
  return format_clock(t).substr(0, 8);
}

// ---- events

Style event_style(const Fact& fact) {
  if (std::holds_alternative<AlertFact>(fact)) return Style::warn;
  return std::holds_alternative<OomFactLine>(fact) ? Style::alert : Style::normal;
}

std::vector<std::string> text_lines(const Fact& fact, const ClockMap& clock) {
  std::vector<std::string> out;
  const std::string text = to_text(fact, clock, {});
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(settle_marks(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

// One line: who died of what.
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
  auto* oom = std::get_if<OomFactLine>(&fact);
  if (!oom || oom->episode.victims.empty()) {
    auto lines = text_lines(fact, clock);
    return Line().add(lines.empty() ? "" : lines.front(), event_style(fact));
  }
  const Episode& e = oom->episode;
  std::string text =
      fmt::format("{} OOM killed {}", clock_time(clock.wall(e.time)), name_of(e.victims.front().process));
  if (e.victims.size() > 1) text += fmt::format(" and {} more", e.victims.size() - 1);
  if (e.limit_cgroup)
    text += fmt::format(": {} met its limit of {}", path_of(e.limit_cgroup),
                        e.limit ? format_size(*e.limit) : "unknown size");
  return Line().add(std::move(text), event_style(fact));
}

// ---- the screen from top to bottom

// The one sentence to read.
Line summary(const Overview& o, std::size_t width) {
  const OverviewRow* first = nullptr;
  bool known = false;
  for (const OverviewRow& row : o.rows) {
    known = known || row.forecast.verdict != Verdict::unknown;
    if (!first || compare(row, *first, Order::deadline) < 0) first = &row;
  }
  for (const OverviewRow& row : o.rows)
    if (row.forecast.alert && !first->forecast.alert) first = &row;
  for (const OverviewRow& row : o.rows)
    if (row.forecast.evidence.thrashing && !first->forecast.evidence.thrashing) first = &row;
  if (!first) return Line().add("Nothing to watch yet: no cgroup is in scope.", Style::warn);
  const Forecast& f = first->forecast;
  std::string who = cut_middle(label(first->cgroup), std::max<std::size_t>(width / 3, 8));
  if (f.evidence.thrashing)
    return Line().add(fmt::format("{} {}", who, describe(*f.evidence.thrashing)), Style::alert);
  std::string growing = rate(*first) ? fmt::format(", growing {}", format_rate(*rate(*first)).substr(1)) : "";
  if (rate(*first) && rate(*first)->value < 0) growing.clear();
  if (f.alert && f.eta) {
    std::string when =
        f.eta->count() > 0 ? "OOM in " + format_deadline(f, true) : std::string("OOM any moment");
    return Line().add(fmt::format("{}: {}{}", who, when, growing), Style::alert);
  }
  if (f.alert) return Line().add(fmt::format("{}: {}", who, displayable(f.why)), Style::alert);
  if (f.eta)
    return Line().add(fmt::format("No hurry. {}: OOM in {}{}", who, format_deadline(f, true), growing));
  if (!known) return Line().add("Too early for a forecast: too few samples yet.", Style::dim);
  return Line().add("No OOM in sight.", Style::normal);
}

// "GPU-1a2b3c4d  23.1 GiB of 31.7 GiB  OOM in 20 min (…)  python3[12] 20.0 GiB"
Line card_line(const OverviewCard& card) {
  const GpuSample& now = card.now;
  Line out;
  out.add(to_string(*now.device).substr(0, 12), Style::strong);
  std::string size = (now.since_before ? "at least " : "") + format_size(now.held);
  if (now.limit) size += " of " + format_size(*now.limit);
  const Forecast& f = card.forecast;
  out.add("  " + size, f.alert ? Style::alert : Style::normal);
  if (f.eta) out.add("  " + describe_deadline(f), f.alert ? Style::alert : Style::normal);
  if (now.moved_out && now.moved_out->count)
    out.add(fmt::format("  pushed out {}", format_size(*now.moved_out)), Style::warn);
  for (const GpuSample& holder : card.holders) {
    out.add("  " + name_of(*holder.process) + " " + format_size(holder.held), Style::dim);
    if (holder.managed && holder.managed->count)
      out.add(" + managed " + format_size(*holder.managed), Style::dim);
    if (holder.pinned && holder.pinned->count)
      out.add(" + pinned host memory " + format_size(*holder.pinned), Style::dim);
    if (holder.evicted && holder.evicted->count)
      out.add(fmt::format(" evicted {}", format_size(*holder.evicted)), Style::warn);
  }
  return out;
}

std::vector<Line> heading(const Overview& o, const ClockMap& clock, const View& view, Size size) {
  std::vector<Line> out;
  Line title;
  title.add(clock_time(clock.wall(o.time)), Style::strong);
  title.add("  " + displayable(o.scope));
  for (const OverviewRow& row : o.rows)
    if (!row.cgroup && row.usage && row.limit)
      title.add(fmt::format("  host {} of {}", format_size(*row.usage), format_size(*row.limit)));
  auto kills = std::count_if(o.events.begin(), o.events.end(),
                             [](const Fact& fact) { return std::holds_alternative<OomFactLine>(fact); });
  if (view.paused) title.cells.insert(title.cells.begin(), {"PAUSED ", Style::warn});
  if (kills) title.add(fmt::format("  {} OOM kill{}", kills, kills == 1 ? "" : "s"), Style::alert);

  Line lost;
  for (const auto& [reason, count] : o.lost)
    if (count)
      lost.add(fmt::format("{}{} {}", lost.cells.empty() ? "LOST " : ", ", count, displayable(reason)),
               Style::warn);
  Line sources;
  for (const std::string& s : o.sources)
    sources.add((sources.cells.empty() ? "from " : ", ") + displayable(s), Style::dim);

  if (!o.gpu.empty()) sources.add(", GPU: " + displayable(o.gpu), Style::dim);

  if (size.height >= 3) out.push_back(std::move(title));
  if (size.height >= 16 && !sources.cells.empty()) out.push_back(std::move(sources));
  if (size.height >= 8 && !lost.cells.empty()) out.push_back(std::move(lost));
  if (size.height >= 12) {
    constexpr std::size_t kMostCards = 8;
    for (std::size_t i = 0; i < std::min({o.cards.size(), kMostCards, size.height / 4}); ++i)
      out.push_back(card_line(o.cards[i]));
  }
  out.push_back(summary(o, size.width));
  return out;
}

std::string range(const View& view, std::size_t total) {
  if (view.visible >= total || view.visible == 0) return "";
  return fmt::format("{} to {} of {}  ", view.first + 1, std::min(view.first + view.visible, total), total);
}

Line footer(const View& view, std::size_t total) {
  Line out;
  if (view.editing_filter)
    return out.add("filter: " + displayable(view.filter), Style::strong)
        .add("_", Style::selected)
        .add("  Enter keeps it, Esc clears it", Style::dim);
  out.add(range(view, total), Style::normal);
  if (!view.filter.empty() && view.page == Page::cgroups)
    out.add(fmt::format("only '{}'  ", displayable(view.filter)), Style::warn);
  if (view.help) return out.add("any key goes back", Style::dim);
  switch (view.page) {
    case Page::cgroups:
      out.add("q quit  ? help  / filter  Enter details  ", Style::dim);
      out.add(fmt::format("s order: {}{}", to_string(view.order), view.reverse ? ", reversed" : ""),
              Style::dim);
      return out.add("  b lines  p processes  e events", Style::dim);
    case Page::processes:
      return out.add("p or Esc: back  e events  q quit  ? help", Style::dim);
    case Page::events:
      return out.add("e or Esc: back  p processes  q quit  ? help", Style::dim);
    case Page::details:
      return out.add("Enter or Esc: back  b look for lines  q quit  ? help", Style::dim);
  }
  return out;
}

std::vector<Line> help_lines(std::size_t width) {
  const std::array<std::array<std::string_view, 2>, 21> keys = {{
      {"arrows, PgUp, PgDn", "select, scroll; Home: top, End: bottom"},
      {"Enter", "details of the selected cgroup"},
      {"b", "from which lines the selected cgroup grows"},
      {"p, e", "all processes, all events; again: back"},
      {"s or 1 2 3 4", "order: time to OOM, growth, usage, name"},
      {"r", "reverse the order"},
      {"/", "filter by a part of the name; Esc clears"},
      {"space", "pause, go on"},
      {"Ctrl-L", "draw anew"},
      {"q, Ctrl-C", "quit"},
      {"", ""},
      {"LIMIT", "tightest of the cgroup and those above it; dim: not its own"},
      {"PINNED", "what the kernel cannot drop: this runs into the limit; solid in the bar"},
      {"GROWTH", "of PINNED; dim: no more than noise"},
      {"TIME TO OOM", "median and 90 % interval; –: not in sight"},
      {"leak", meaning(Verdict::leak)},
      {"spikes", meaning(Verdict::spikes)},
      {"step", meaning(Verdict::step)},
      {"ramp", meaning(Verdict::ramp)},
      {"cow", meaning(Verdict::cow)},
      {"cache", meaning(Verdict::cache)},
  }};
  std::vector<Line> out;
  for (const auto& [what, text] : keys) {
    if (width < 60 && !what.empty()) {
      out.push_back(Line().add(std::string(what), Style::strong));
      for (std::string& part : wrap("  " + std::string(text), width, 2))
        out.push_back(Line().add(std::move(part)));
      continue;
    }
    out.push_back(Line()
                      .add(align_left(what, 20), Style::strong)
                      .add(cut_end(text, width - std::min<std::size_t>(width, 20))));
  }
  return out;
}

class Body {
 public:
  Body(const Overview& o, const ClockMap& clock, View& view, Size size)
      : o_(o), clock_(clock), view_(view), size_(size) {}

  std::vector<Line> lines;
  std::size_t total = 0;  // rows that one can scroll through

  void cgroups() {
    auto rows = arrange(o_, view_);
    total = rows.size();
    std::vector<Line> lower = below_the_table(std::max<std::size_t>(rows.size(), 1));
    std::size_t room = size_.height - std::min(size_.height, lower.size());
    view_.visible = room > 0 ? room - 1 : 0;
    keep_selected_visible(rows);
    Columns columns = choose_columns(size_.width);
    lines.push_back(head_line(columns, view_.order));
    for (std::size_t i = view_.first; i < std::min(total, view_.first + view_.visible); ++i) {
      lines.push_back(cgroup_line(*rows[i], columns));
      lines.back().selected = view_.selected == key(*rows[i]);
    }
    bool none =
        std::none_of(rows.begin(), rows.end(), [](const OverviewRow* row) { return row->cgroup != nullptr; });
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
      lines.push_back(process_line(*all[i], columns));
    if (all.empty()) lines.push_back(Line().add("no process was sampled yet", Style::dim));
  }

  void events() {
    std::vector<Line> all;
    for (auto event = o_.events.rbegin(); event != o_.events.rend(); ++event) {
      Style style = event_style(*event);
      for (const std::string& text : text_lines(*event, clock_)) {
        add_wrapped(all, text, 14, style);
        style = Style::normal;
      }
    }
    if (all.empty()) all.push_back(Line().add("no OOM kill, no SIGKILL and no alert so far", Style::dim));
    scroll(std::move(all));
  }

  void details() {
    auto at = std::find_if(o_.rows.begin(), o_.rows.end(),
                           [&](const OverviewRow& row) { return view_.selected == key(row); });
    if (at == o_.rows.end())
      return scroll({Line().add("This cgroup no longer exists. Esc goes back.", Style::warn)});
    scroll(details_of(*at));
  }

  void help() { scroll(help_lines(size_.width)); }

 private:
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
      view_.first = 0;  // the most urgent stays on top until someone chooses
      return;
    }
    auto index = static_cast<std::size_t>(at - rows.begin());
    view_.first = std::min(view_.first, index);
    if (index >= view_.first + view_.visible && view_.visible > 0) view_.first = index + 1 - view_.visible;
    view_.first = std::min(view_.first, rows.size() - std::min(rows.size(), view_.visible));
  }

  void add_wrapped(std::vector<Line>& out, std::string_view text, std::size_t indent, Style style) const {
    for (std::string& part : wrap(text, size_.width, indent))
      out.push_back(Line().add(std::move(part), style));
  }

  // Growing processes and recent events, in what the table of `rows` leaves free, but at least two fifths of
  // a screen that is not tiny. A kill that happened has room before a process that grows.
  std::vector<Line> below_the_table(std::size_t rows) const {
    constexpr std::size_t kMostProcesses = 5, kMostEvents = 4;
    std::vector<Line> growing, recent;
    ProcessColumns columns = choose_process_columns(size_.width);
    for (const ProcessSampleFact* p : by_growth(o_)) {
      if (growing.size() == kMostProcesses || !p->growth || *p->growth < kSlowestGrowth) break;
      growing.push_back(process_line(*p, columns));
    }
    for (auto event = o_.events.rbegin(); event != o_.events.rend() && recent.size() < kMostEvents; ++event)
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

  std::vector<Line> details_of(const OverviewRow& row) const {
    std::vector<Line> out;
    auto say = [&](std::string_view what, const std::string& text, Style style = Style::normal) {
      constexpr std::size_t kLabel = 12;
      bool first = true;
      std::size_t width = size_.width > kLabel + 8 ? size_.width - kLabel : size_.width;
      for (std::string& part : wrap(text, width, 0)) {
        Line line;
        line.add(align_left(first ? what : "", kLabel), Style::strong).add(std::move(part), style);
        out.push_back(std::move(line));
        first = false;
      }
    };
    const Forecast& f = row.forecast;
    say("Cgroup", path_of(row.cgroup));
    say("Forecast", (f.evidence.thrashing ? "it " : "") + describe_deadline(f), urgency(row));
    say("Verdict", fmt::format("{}: {}", to_string(f.verdict), meaning(f.verdict)), urgency(row));
    if (!f.why.empty() && !f.evidence.thrashing) say("Why", displayable(f.why));
    say("Usage", usage_of_limit(row), full_style(row));
    say("Pinned", row.pinned ? format_size(*row.pinned) + " that the kernel cannot drop" : "unknown",
        full_style(row));
    if (row.forecast.limit && row.forecast.limit != row.limit)
      say("", fmt::format("runs into {}, with the swap that is left", format_size(*row.forecast.limit)));
    if (f.growth)
      say("Growth",
          fmt::format("{} (90 % interval {} to {}), from {} samples over {}", format_rate(f.growth->rate),
                      format_rate(f.growth->low), format_rate(f.growth->high), f.growth->samples,
                      format_duration(f.growth->span)));
    else
      say("Growth", "unknown");
    if (row.cgroup) {
      const CgroupName& name = row.cgroup->name;
      if (name.container) say("Container", displayable(*name.container));
      if (name.pod) say("Pod", displayable(*name.pod));
      if (name.unit) say("Unit", displayable(*name.unit));
      if (name.slurm_job)
        say("SLURM job", displayable(*name.slurm_job + (name.slurm_step ? "." + *name.slurm_step : "")));
    }
    add_limits_above(row, out);
    add_growth_of(row, out);
    add_processes_of(row, out);
    return out;
  }

  static std::string usage_of_limit(const OverviewRow& row) {
    if (!row.usage) return "unknown";
    if (!row.limit) return format_size(*row.usage) + ", limit unknown";
    std::string of = !row.cgroup         ? "of memory"
                     : !row.limit_cgroup ? "of the host's memory: it has no limit"
                     : row.limit_cgroup->id == row.cgroup->id
                         ? "of its own limit"
                         : "of the limit of " + path_of(row.limit_cgroup);
    return fmt::format("{} of {} ({}) {}", format_size(*row.usage), format_size(*row.limit), percent(row),
                       of);
  }

  // Those in scope; deepest first.
  void add_limits_above(const OverviewRow& row, std::vector<Line>& out) const {
    if (!row.cgroup) return;
    std::vector<const OverviewRow*> above;
    for (const OverviewRow& r : o_.rows)
      if (!r.cgroup || (r.cgroup->id != row.cgroup->id && is_within(*row.cgroup, *r.cgroup)))
        above.push_back(&r);
    if (above.empty()) return;
    std::sort(above.begin(), above.end(), [](const OverviewRow* a, const OverviewRow* b) {
      return (a->cgroup ? a->cgroup->path.size() : 0) > (b->cgroup ? b->cgroup->path.size() : 0);
    });
    out.emplace_back();
    out.push_back(Line().add("Above it", Style::strong));
    for (const OverviewRow* r : above) {
      bool own = r->limit && (!r->cgroup || (r->limit_cgroup && r->limit_cgroup->id == r->cgroup->id));
      std::string limit =
          own ? fmt::format("{} of {} ({})", size_or_none(r->usage), format_size(*r->limit), percent(*r))
              : size_or_none(r->usage) + ", no limit of its own";
      add_wrapped(out, fmt::format("  {}  {}", path_of(r->cgroup), limit), 4,
                  own ? Style::normal : Style::dim);
    }
  }

  // From which lines its processes grow, as far as somebody looked.
  void add_growth_of(const OverviewRow& row, std::vector<Line>& out) const {
    if (!o_.can_look || !row.cgroup) return;
    out.emplace_back();
    out.push_back(Line().add("IT GREW FROM", Style::strong));
    std::size_t before = out.size();
    for (const GrewFrom& g : o_.grew_from) {
      if (!g.process.cgroup || !is_within(*g.process.cgroup, *row.cgroup) || g.code.empty()) continue;
      add_wrapped(out,
                  fmt::format("{:3.0f} %  {}: of {} by {} in {} of looking, {} ago", 100 * g.share(),
                              to_text(g.code.front()), format_size(g.of), name_of(g.process),
                              format_duration(g.watched), format_duration(seconds_between(g.to, o_.time))),
                  7, Style::normal);
      if (std::string callers = describe_callers(g); !callers.empty())
        add_wrapped(out, "       called by " + callers, 9, Style::dim);
      if (!g.held_by.empty())
        add_wrapped(out, "       held by " + escape_for_terminal(g.held_by), 9, Style::dim);
    }
    if (o_.looking_at == row.cgroup->path)
      out.push_back(Line().add(fmt::format("looking for {} s", kLookLasts.count()), Style::dim));
    else if (out.size() == before)
      out.push_back(
          Line().add(fmt::format("nobody looked yet: b looks for {} s", kLookLasts.count()), Style::dim));
  }

  void add_processes_of(const OverviewRow& row, std::vector<Line>& out) const {
    ProcessColumns columns = choose_process_columns(size_.width);
    out.emplace_back();
    out.push_back(process_head(columns, "ITS PROCESSES"));
    std::size_t before = out.size();
    for (const ProcessSampleFact* p : by_growth(o_))
      if (!row.cgroup || (p->process.cgroup && is_within(*p->process.cgroup, *row.cgroup)))
        out.push_back(process_line(*p, columns));
    if (out.size() == before) out.push_back(Line().add("none was sampled lately", Style::dim));
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
  const std::string filter = lower(view.filter);
  for (const OverviewRow& row : overview.rows)
    if (passes(row, filter)) out.push_back(&row);
  std::sort(out.begin(), out.end(), [&](const OverviewRow* a, const OverviewRow* b) {
    if (!a->cgroup || !b->cgroup) return !a->cgroup && b->cgroup;
    int by = compare(*a, *b, view.order);
    return view.reverse ? by > 0 : by < 0;
  });
  return out;
}

void move(View& view, const Overview& overview, std::ptrdiff_t by) {
  auto moved = [by](std::size_t from, std::size_t end) {
    auto last = static_cast<std::ptrdiff_t>(end) - 1;
    auto at = static_cast<std::ptrdiff_t>(from);
    // Without overflow, however far.
    return static_cast<std::size_t>(by < 0 ? (by < -at ? 0 : at + by) : (by > last - at ? last : at + by));
  };
  if (view.page != Page::cgroups || view.help) {
    view.first = moved(view.first, 1u << 30);  // render() knows where it ends
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
  else
    body.details();
  std::move(body.lines.begin(), body.lines.end(), std::back_inserter(out));
  if (foot) {
    out.resize(size.height - 1);
    out.push_back(footer(view, body.total));
  }
  if (out.size() > size.height) out.resize(size.height);
  for (Line& line : out) {
    cut_end(line, size.width);
    if (!view.utf8) to_ascii(line);
  }
  return out;
}

std::vector<Line> ChangeLog::changes(const Overview& overview, const ClockMap& clock) {
  for (auto& [id, told] : told_) told.still_there = false;
  std::vector<Line> out;
  for (const OverviewRow* row : arrange(overview, {})) {
    const Forecast& f = row->forecast;
    auto [at, is_new] = told_.try_emplace(key(*row));
    Told& told = at->second;
    told.still_there = true;
    auto moved = [&] {
      if (row->usage.has_value() != told.usage.has_value()) return true;
      if (!row->usage) return false;
      double by = std::abs((*row->usage - *told.usage).as_double());
      return by > std::max(MiB(1).as_double(), told.usage->as_double() * 0.01);
    };
    bool changed = is_new ? true
                          : f.verdict != told.verdict || f.alert != told.alert ||
                                f.evidence.thrashing.has_value() != told.thrashing ||
                                grows(*row) != told.growing || row->limit != told.limit || moved();
    if (!changed && !grows(*row)) continue;
    told.usage = row->usage, told.limit = row->limit;
    told.verdict = f.verdict, told.growing = grows(*row), told.alert = f.alert;
    told.thrashing = f.evidence.thrashing.has_value();

    std::string size = row->usage ? format_size(*row->usage) : "unknown";
    if (row->limit) size += fmt::format(" of {} ({})", format_size(*row->limit), percent(*row));
    std::string pinned = row->pinned ? format_size(*row->pinned) : "unknown";
    std::string growth = rate(*row) ? format_rate(*rate(*row)) : "growth unknown";
    Line line;
    line.add(format_clock(clock.wall(overview.time)), Style::dim);
    line.add(row->cgroup ? " cgroup    " : " host      ");
    line.add(fmt::format("{}{}, not reclaimable {}, {}, {}, {}",
                         row->cgroup ? path_of(row->cgroup) + "  " : std::string(), size, pinned, growth,
                         to_string(f.verdict), describe_deadline(f)),
             urgency(*row));
    out.push_back(std::move(line));
  }
  std::erase_if(told_, [](const auto& entry) { return !entry.second.still_there; });
  return out;
}

}  // namespace oomcast
