#include "present/table_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "present/event_lines.h"
#include "present/loss_words.h"
#include "present/rows.h"
#include "present/text.h"

namespace oomcast {
namespace {

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
    std::string_view now = f.limit_kind == LimitKind::high ? "" : " any moment";
    std::string when = f.eta->count() > 0 ? fmt::format("{} in {}", end_of(f), format_deadline(f, true))
                                          : fmt::format("{}{}", end_of(f), now);
    return Line().add(fmt::format("{}: {}{}", who, when, growing), Style::alert);
  }
  if (f.alert) return Line().add(fmt::format("{}: {}", who, displayable(f.why)), Style::alert);
  if (f.eta)
    return Line().add(
        fmt::format("{}: {} in {}{}, low confidence", who, end_of(f), format_deadline(f, true), growing));
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
  for (const OverviewRow& row : o.rows)
    if (!row.cgroup && row.usage && row.limit)
      title.add(fmt::format("  host {} of {}", format_size(*row.usage), format_size(*row.limit)));
  auto kills = std::count_if(o.events.begin(), o.events.end(),
                             [](const Fact& fact) { return std::holds_alternative<OomEvent>(fact); });
  if (view.paused) title.cells.insert(title.cells.begin(), {"PAUSED ", Style::warn});
  if (kills) title.add(fmt::format("  {} OOM kill{}", kills, kills == 1 ? "" : "s"), Style::alert);

  Line lost;
  if (std::string all = summarize_losses(o.lost); !all.empty()) lost.add("LOST " + all, Style::warn);
  Line sources;
  for (const std::string& s : o.sources)
    sources.add((sources.cells.empty() ? "from " : ", ") + displayable(s), Style::dim);

  if (!o.gpu.empty()) sources.add(", GPU: " + displayable(o.gpu), Style::dim);

  if (size.height >= 3) out.push_back(std::move(title));
  if (size.height >= 16 && !sources.cells.empty()) out.push_back(std::move(sources));
  if (size.height >= 8 && !lost.cells.empty()) out.push_back(std::move(lost));
  if (size.height >= 12) {
    constexpr std::size_t kMaxCards = 8;
    for (std::size_t i = 0; i < std::min({o.cards.size(), kMaxCards, size.height / 4}); ++i)
      out.push_back(card_line(o.cards[i]));
  }
  out.push_back(summary(o, size.width));
  return out;
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
      out.add("q quit  ? help  / filter  Enter details  b lines  p processes  e events", Style::dim);
      return out.add(fmt::format("  s order: {}{}", to_string(view.order), view.reverse ? ", reversed" : ""),
                     Style::dim);
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
