#include "present/table_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "present/blame.h"
#include "present/event_lines.h"
#include "present/recent_kills.h"
#include "present/rows.h"
#include "stream/growth.h"
#include "stream/loss_words.h"
#include "stream/text.h"

namespace oomcast {
namespace {

// The row for the summary sentence; null: none.
const OverviewRow* most_urgent(const Overview& o) {
  const OverviewRow* first = nullptr;
  for (const OverviewRow& row : o.rows)
    if (!first || compare(row, *first, Order::deadline) < 0) first = &row;
  for (const OverviewRow& row : o.rows)
    if (row.forecast.alert && !first->forecast.alert) first = &row;
  for (const OverviewRow& row : o.rows)
    if (row.forecast.evidence.thrashing && !first->forecast.evidence.thrashing) first = &row;
  return first;
}

// The one sentence that sums up the screen.
Line summary(const Overview& o, const OverviewRow* first, std::size_t width) {
  bool known = std::ranges::any_of(
      o.rows, [](const OverviewRow& row) { return row.forecast.verdict != Verdict::unknown; });
  if (!first) return Line().add("Nothing to watch yet: no cgroup is in scope.", Style::warn);
  const Forecast& f = first->forecast;
  std::string who = cut_middle(label(first->cgroup), std::max<std::size_t>(width / 3, 8));
  if (f.evidence.thrashing)
    return Line().add(fmt::format("{} {}", who, describe(*f.evidence.thrashing)), Style::alert);
  std::string growing = rate(*first) ? fmt::format(", growing {}", format_rate(*rate(*first)).substr(1)) : "";
  if (rate(*first) && rate(*first)->value < 0) growing.clear();
  if (f.alert && f.eta) {
    std::string_view now = f.limit_kind == LimitKind::high ? "" : " any moment";
    std::string when = f.eta->count() > 0 ? fmt::format("{} in {}", end_of(f), format_deadline(f, true))
                                          : fmt::format("{}{}", end_of(f), now);
    return Line().add(fmt::format("{}: {}{}", who, when, growing), Style::alert);
  }
  if (f.alert) return Line().add(fmt::format("{}: {}", who, displayable(f.why)), Style::alert);
  if (f.eta) {
    // The low confidence must stay visible, whatever is cut off.
    std::string when = fmt::format(": {} in {}, low confidence", end_of(f), format_deadline(f, true));
    std::size_t room = width - std::min(width, display_width(when));
    Line out = Line().add(cut_middle(label(first->cgroup), std::max<std::size_t>(room, 8)) + when);
    return display_width(out) + display_width(growing) <= width ? out.add(growing) : out;
  }
  if (!known) return Line().add("Too early for a forecast: too few samples yet.", Style::dim);
  return Line().add(recent_kills(o).empty() ? "No OOM in sight." : "No other OOM in sight.", Style::normal);
}

// " from append_output (train.py:8)", if known.
std::string from_line(const Overview& o, const ProcessRef& process) {
  for (const GrowthSource& source : growth_sources(o.grew_from)) {
    if (source.process().id != process.id) continue;
    const CodePlace* place = culprit(source.site ? source.site->code : source.holder->adder);
    return place ? " from " + settle_marks(to_text(*place)) : "";
  }
  return "";
}

// What grows there, and what to do. No cells: nothing to do.
Line advice(const Overview& o, const OverviewRow* row, std::size_t width) {
  Line out;
  if (!row) return out;
  const Forecast& f = row->forecast;
  if (f.evidence.thrashing)
    return out.add("To do: raise its limit, or end a task of it; Enter shows its processes", Style::strong);
  if (!f.alert && !f.eta) return out;
  const ProcessSampleFact* grower = grower_of(*row, by_growth(o), o.time);
  std::string name, grows;
  if (grower) {
    name = name_of(grower->process);
    grows = fmt::format(" grows {}{}", format_rate(*grower->growth).substr(1), from_line(o, grower->process));
  }
  std::vector<std::string> to_do;  // the longest that fits is used
  if (f.alert && row->cgroup) {
    to_do = {"save its work, raise its limit", "raise its limit"};
    if (o.can_look && grows.find(" from ") == std::string::npos)
      to_do.insert(to_do.begin(), to_do[0] + "; b: its line");
  } else if (f.alert) {
    to_do = {"save its work, or end it"};
  }
  std::string before = grower ? ": " : "To do: ";
  std::size_t least = std::min<std::size_t>(display_width(name), 20);
  auto fits = [&](const std::string& words) {
    return least + display_width(grows) + display_width(before + words) <= width;
  };
  auto said = std::ranges::find_if(to_do, fits);
  std::string words = said == to_do.end() ? "" : before + *said;
  std::size_t taken = display_width(grows) + display_width(words);
  return out.add(cut_end(name, std::max(least, width - std::min(width, taken))) + grows)
      .add(words, Style::strong);
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
  if (f.eta)
    out.add("  " + describe_deadline(f) + (is_doubtful(f) ? ", low confidence" : ""),
            f.alert ? Style::alert : Style::normal);
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

// The keys of a page, most important first: keys that do not fit are omitted, and are in the help.
std::vector<std::string> keys_of(const Overview& o, const View& view) {
  if (view.help) return {"arrows, PgUp, PgDn scroll", "any other key goes back"};
  bool opens = kill_to_open(o, view) != nullptr;
  switch (view.page) {
    case Page::cgroups: {
      std::string order = std::string(to_string(view.order)) + (view.reverse ? ", reversed" : "");
      std::vector<std::string> out = {"? help", "q quit", "s order: " + order,
                                      opens ? "Enter post-mortem" : "Enter details"};
      if (view.show_idle) out.emplace_back("i fold idle");
      for (const char* key : {"/ filter", "e events", "p processes", "b lines"}) out.emplace_back(key);
      return out;
    }
    case Page::processes:
      return {"p or Esc: back", "e events", "? help", "q quit"};
    case Page::events: {
      std::vector<std::string> out = {"e or Esc: back", "arrows choose", "? help", "q quit"};
      if (opens) out.insert(out.begin() + 1, "Enter post-mortem");
      return out;
    }
    case Page::details:
      return {"Enter or Esc: back", "b profile", "? help", "q quit"};
    case Page::report:
      return {"Enter or Esc: back", "arrows, PgUp, PgDn scroll", "? help", "q quit"};
  }
  return {};
}

bool ends_with_blanks(const Line& line) {
  return line.cells.back().text.ends_with("  ");
}

std::string range(const View& view, std::size_t total) {
  if (view.visible >= total || view.visible == 0) return "";
  return fmt::format("{} to {} of {}  ", view.first + 1, std::min(view.first + view.visible, total), total);
}

}  // namespace

std::vector<Line> heading(const Overview& o, const ClockMap& clock, const View& view, Size size) {
  std::vector<Line> out;
  Line title;
  title.add(clock_time(clock.wall(o.time)), Style::strong);
  title.add("  " + displayable(o.scope));
  std::string host, killed_so_far;
  for (const OverviewRow& row : o.rows)
    if (!row.cgroup && row.usage && row.limit)
      host = fmt::format("  host {} of {}", format_size(*row.usage), format_size(*row.limit));
  auto kills = std::count_if(o.events.begin(), o.events.end(),
                             [](const Fact& fact) { return std::holds_alternative<OomEvent>(fact); });
  if (view.paused) title.cells.insert(title.cells.begin(), {"PAUSED ", Style::warn});
  if (kills) killed_so_far = fmt::format("  {} OOM kill{}", kills, kills == 1 ? "" : "s");
  // The host has a row of its own.
  if (display_width(title) + display_width(host + killed_so_far) <= size.width) title.add(host);
  if (kills) title.add(killed_so_far, Style::alert);

  Line lost;
  if (std::string all = summarize_losses(o.lost); !all.empty()) lost.add("LOST " + all, Style::warn);
  Line sources;
  for (const std::string& s : o.sources)
    sources.add((sources.cells.empty() ? "from " : ", ") + settle_marks(source_in_words(s)), Style::dim);

  if (!o.gpu.empty()) sources.add(", GPU: " + displayable(o.gpu), Style::dim);

  const OverviewRow* urgent = most_urgent(o);
  Line to_do = advice(o, urgent, size.width), killed = kill_line(o, view, size.width);
  if (size.height >= 3) out.push_back(std::move(title));
  out.push_back(summary(o, urgent, size.width));
  if (size.height >= 10 && !to_do.cells.empty()) out.push_back(std::move(to_do));
  if (size.height >= 2 && !killed.cells.empty()) out.push_back(std::move(killed));
  if (size.height >= 8 && !lost.cells.empty()) out.push_back(std::move(lost));
  if (size.height >= 16 && !sources.cells.empty()) out.push_back(std::move(sources));
  if (size.height >= 12) {
    constexpr std::size_t kMaxCards = 8;
    for (std::size_t i = 0; i < std::min({o.cards.size(), kMaxCards, size.height / 4}); ++i)
      out.push_back(card_line(o.cards[i]));
  }
  return out;
}

Line footer(const Overview& o, const View& view, std::size_t total, std::size_t width) {
  Line out;
  if (view.editing_filter)
    return out.add("filter: " + displayable(view.filter), Style::strong)
        .add("_", Style::selected)
        .add("  Enter keeps it, Esc clears it", Style::dim);
  out.add(range(view, total), Style::normal);
  if (!view.filter.empty() && view.page == Page::cgroups)
    out.add(fmt::format("only '{}'  ", displayable(view.filter)), Style::warn);
  for (const std::string& key : keys_of(o, view)) {
    std::string text = (display_width(out) && !ends_with_blanks(out) ? "  " : "") + key;
    if (display_width(out) + display_width(text) <= width) out.add(std::move(text), Style::dim);
  }
  return out;
}

std::vector<Line> help_lines(std::size_t width) {
  const std::array<std::array<std::string_view, 2>, 23> keys = {{
      {"arrows, PgUp, PgDn", "select, scroll; Home: top, End: bottom"},
      {"Enter", "details of the selected cgroup; of a kill: its post-mortem"},
      {"o", "post-mortem of the newest OOM kill; Esc: back"},
      {"b", "from which lines the selected cgroup grows"},
      {"p, e", "all processes, all events; again: back"},
      {"s or 1 2 3 4", "order: time to OOM, growth, usage, name"},
      {"r", "reverse the order"},
      {"i", "show idle cgroups (nothing moves, no deadline), or fold them into one row"},
      {"/", "filter by a part of the name; Esc clears"},
      {"space", "pause, go on"},
      {"Ctrl-L", "draw anew"},
      {"q, Ctrl-C", "quit"},
      {"", ""},
      {"LIMIT", "tightest of the cgroup and those above it; dim: not its own"},
      {"PINNED", "what the kernel cannot drop: this runs into the limit; solid in the bar"},
      {"GROWTH", "of PINNED; dim: no more than noise"},
      {"TIME TO OOM", "median, 90 % interval; –: not in sight; ~: low confidence, no alert"},
      {"leak", meaning(Verdict::leak)},
      {"spikes", meaning(Verdict::spikes)},
      {"step", meaning(Verdict::step)},
      {"ramp", meaning(Verdict::ramp)},
      {"cow", meaning(Verdict::cow)},
      {"cache", meaning(Verdict::cache)},
  }};
  constexpr std::size_t kWhat = 20;
  std::vector<Line> out;
  for (const auto& [what, text] : keys) {
    if (width < 60 && !what.empty()) {
      out.push_back(Line().add(std::string(what), Style::strong));
      for (std::string& part : wrap("  " + std::string(text), width, 2))
        out.push_back(Line().add(std::move(part)));
      continue;
    }
    std::string_view begins = what;
    for (std::string& part : wrap(std::string(text), width - std::min(width, kWhat), 0))
      out.push_back(
          Line().add(align_left(std::exchange(begins, ""), kWhat), Style::strong).add(std::move(part)));
  }
  return out;
}

}  // namespace oomcast
