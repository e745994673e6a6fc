#include "present/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace oomcast {
namespace {

constexpr std::string_view kNone = "–";
constexpr double kWarnFrom = 0.9;
constexpr std::size_t kDeadlineWidth = 19;  // with its interval

std::optional<double> share(const std::optional<Bytes>& part, const std::optional<Bytes>& whole) {
  if (!part || !whole || whole->count <= 0) return std::nullopt;
  return part->as_double() / whole->as_double();
}

// The owner of the limit: often an ancestor or the host.
std::string limit_owner(const OverviewRow& row) {
  if (!row.limit) return std::string(kNone);
  if (!row.cgroup) return "RAM";
  if (!row.limit_cgroup) return "host";
  return row.limit_cgroup->id == row.cgroup->id ? "own" : label(row.limit_cgroup);
}

// Avoids flicker: noise of cgroups that do not grow must not affect the order.
std::optional<BytesPerSec> real_rate(const OverviewRow& row) {
  return grows(row) ? rate(row) : std::nullopt;
}

template <typename T>
int more_first(const std::optional<T>& a, const std::optional<T>& b) {
  if (a.has_value() != b.has_value()) return a ? -1 : 1;
  return !a || *a == *b ? 0 : *a > *b ? -1 : 1;
}

template <typename T>
int less_first(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? more_first(b, a) : more_first(a, b);
}

std::optional<BytesPerSec> steady_growth(const ProcessSampleFact& p, MonoTime now) {
  auto growth = growth_at(p, now);
  return growth && *growth >= kSlowestGrowth ? growth : std::nullopt;
}

// Memory that comes and goes within a cgroup that does not grow is not growth, whatever the last samples
// show.
bool is_in_calm_cgroup(const Overview& o, const ProcessSampleFact& p) {
  auto its = std::ranges::find_if(o.rows, [&](const OverviewRow& row) {
    return row.cgroup && p.process.cgroup && row.cgroup->id == p.process.cgroup->id;
  });
  return its != o.rows.end() && its->forecast.verdict != Verdict::unknown && !its->forecast.eta_low &&
         !its->forecast.eta && !grows(*its);
}

// "~": too uncertain for an alert.
std::string deadline_cell(const Forecast& f, std::size_t width) {
  if (f.evidence.thrashing) return "thrashes";
  for (bool with_interval : {width >= kDeadlineWidth, false}) {
    std::string out = format_deadline(f, with_interval);
    if (is_doubtful(f)) out.insert(0, "~");
    if (display_width(out) <= width) return out;
  }
  return format_deadline(f, false);
}

class Row {
 public:
  void left(std::string_view text, std::size_t width, Style style = Style::normal) {
    if (width) cell(align_left(text, width), style);
  }
  void right(std::string_view text, std::size_t width, Style style = Style::normal) {
    if (width) cell(align_right(text, width), style);
  }
  void cell(std::string text, Style style) {
    if (!line.cells.empty()) line.add(" ");
    line.add(std::move(text), style);
  }
  Line line;
};

// Unreclaimable memory is solid, reclaimable is shaded.
void add_bar(Row& out, const OverviewRow& row, std::size_t width) {
  if (!width) return;
  auto used = share(row.usage, row.limit), pinned = share(row.pinned, row.limit);
  auto length = [&](double part) {
    return static_cast<std::size_t>(std::lround(std::clamp(part, 0.0, 1.0) * static_cast<double>(width)));
  };
  std::size_t shown = used ? length(*used) : 0;
  std::size_t solid = pinned ? std::min(length(*pinned), shown) : 0;
  std::string bar;
  for (std::size_t i = 0; i < width; ++i) bar += i < solid ? "█" : i < shown ? "▒" : "·";
  out.cell(std::move(bar), used ? full_style(row) : Style::dim);
}

}  // namespace

CgroupId key(const OverviewRow& row) {
  return row.cgroup ? row.cgroup->id : CgroupId{};
}

bool is_within(const CgroupRef& inner, const CgroupRef& outer) {
  if (inner.id == outer.id || outer.path == "/") return true;
  return inner.path.size() > outer.path.size() && inner.path.starts_with(outer.path) &&
         inner.path[outer.path.size()] == '/';
}

std::string size_or_none(const std::optional<Bytes>& size) {
  return size ? format_size(*size) : std::string(kNone);
}

std::string percent(const OverviewRow& row) {
  auto used = share(row.usage, row.limit);
  if (!used) return std::string(kNone);
  if (*used > 0 && *used < 0.01) return "<1%";
  return fmt::format("{:.0f}%", std::min(*used * 100, 999.0));
}

Style full_style(const OverviewRow& row) {
  auto pinned = share(row.pinned, row.limit);
  return pinned && *pinned >= kWarnFrom ? Style::warn : Style::normal;
}

Style urgency(const OverviewRow& row) {
  if (row.forecast.alert) return Style::alert;
  return row.forecast.eta ? Style::warn : Style::normal;
}

std::optional<BytesPerSec> rate(const OverviewRow& row) {
  const auto& growth = row.forecast.growth;
  return growth && std::isfinite(growth->rate.value) ? std::optional<BytesPerSec>(growth->rate)
                                                     : std::nullopt;
}

std::string_view meaning(Verdict verdict) {
  constexpr std::array<std::string_view, kVerdicts> meanings = {
      "does not grow",
      "keeps growing and gives nothing back",
      "jumps up and comes back",
      "went up once and stays there",
      "is starting up",
      "stops sharing pages with its parent (copy-on-write)",
      "grows by file cache, which the kernel takes back when it needs to",
      "too early to say",
  };
  static_assert(!meanings.back().empty());
  return meanings[static_cast<std::size_t>(verdict)];
}

int compare(const OverviewRow& a, const OverviewRow& b, Order order) {
  int by = 0;
  if (order == Order::deadline)
    by = b.forecast.evidence.thrashing.has_value() - a.forecast.evidence.thrashing.has_value();
  if (!by && order == Order::deadline) {
    by = less_first(a.forecast.eta, b.forecast.eta);
    if (!by && !a.forecast.eta) by = less_first(a.forecast.eta_low, b.forecast.eta_low);
  }
  if (!by && order == Order::growth) by = more_first(rate(a), rate(b));
  if (!by && order == Order::deadline) by = more_first(real_rate(a), real_rate(b));
  if (!by && order != Order::name) by = more_first(a.usage, b.usage);
  if (!by) by = label(a.cgroup).compare(label(b.cgroup));
  if (!by) by = key(a) < key(b) ? -1 : key(b) < key(a);
  return by;
}

std::optional<BytesPerSec> growth_at(const ProcessSampleFact& p, MonoTime now) {
  if (!p.growth || p.growth->value <= 0) return p.growth;
  // A growing process is sampled again at least every MiB; one that stopped is not, and would keep its last
  // rate forever.
  double expected = MiB(3).as_double() / p.growth->value;
  return seconds_between(p.time, now).count() <= std::clamp(expected, 10.0, 60.0) ? p.growth : std::nullopt;
}

std::vector<const ProcessSampleFact*> by_growth(const Overview& o) {
  std::vector<const ProcessSampleFact*> out;
  out.reserve(o.processes.size());
  for (const ProcessSampleFact& p : o.processes) out.push_back(&p);
  std::sort(out.begin(), out.end(), [&o](const ProcessSampleFact* a, const ProcessSampleFact* b) {
    auto real = [&o](const ProcessSampleFact* p) { return steady_growth(*p, o.time); };
    int by = more_first(real(a), real(b));
    if (by) return by < 0;
    return a->rss != b->rss ? a->rss > b->rss : a->process.id < b->process.id;
  });
  return out;
}

const ProcessSampleFact* grower_of(const OverviewRow& row,
                                   const std::vector<const ProcessSampleFact*>& fastest, MonoTime now) {
  for (const ProcessSampleFact* p : fastest) {
    if (!steady_growth(*p, now)) break;
    if (!row.cgroup || (p->process.cgroup && is_within(*p->process.cgroup, *row.cgroup))) return p;
  }
  return nullptr;
}

std::vector<const ProcessSampleFact*> growers(const Overview& o, std::size_t most) {
  std::vector<const OverviewRow*> rows;
  for (const OverviewRow& row : o.rows)
    if (row.cgroup && (row.forecast.eta || row.forecast.eta_low || row.forecast.alert || grows(row)))
      rows.push_back(&row);
  std::sort(rows.begin(), rows.end(),
            [](const OverviewRow* a, const OverviewRow* b) { return compare(*a, *b, Order::deadline) < 0; });
  rows.resize(std::min(rows.size(), 8 * most));  // each costs a pass over the processes
  const auto fastest = by_growth(o);
  std::vector<const ProcessSampleFact*> out;
  auto add = [&](const ProcessSampleFact* p) {
    if (p && out.size() < most && std::find(out.begin(), out.end(), p) == out.end()) out.push_back(p);
  };
  for (const OverviewRow* row : rows) add(grower_of(*row, fastest, o.time));
  for (const ProcessSampleFact* p : fastest) {
    if (out.size() == most || !steady_growth(*p, o.time)) break;
    if (!is_in_calm_cgroup(o, *p)) add(p);
  }
  return out;
}

Columns choose_columns(std::size_t width) {
  Columns out;
  std::size_t used = out.name + 1 + out.deadline;
  if (used > width) out.name = width > out.deadline + 5 ? width - out.deadline - 1 : width;
  if (out.name == width) out.deadline = 0;
  bool more = true;  // in order of importance: stop at the first that does not fit
  auto grow = [&](std::size_t& column, std::size_t to) {
    std::size_t cost = to - column + (column == 0 ? 1 : 0);
    more = more && used + cost <= width;
    if (!more) return;
    used += cost;
    column = to;
  };
  grow(out.usage, 8);
  grow(out.percent, 4);
  grow(out.growth, 11);
  grow(out.limit, 8);
  grow(out.deadline, kDeadlineWidth);
  grow(out.verdict, 7);
  grow(out.name, 20);
  grow(out.pinned, 8);
  grow(out.bar, 10);
  grow(out.name, 40);
  grow(out.limit_of, 16);
  grow(out.why, 20);
  if (used < width) (out.why ? out.why : out.name) += width - used;
  return out;
}

Line head_line(const Columns& c, Order order) {
  auto style = [&](Order its) { return order == its ? Style::selected : Style::strong; };
  Row row;
  row.left("CGROUP", c.name, style(Order::name));
  row.right("USAGE", c.usage, style(Order::usage));
  row.right("LIMIT", c.limit, Style::strong);
  row.left("LIMIT OF", c.limit_of, Style::strong);
  row.right("FULL", c.percent, Style::strong);
  row.left("", c.bar);
  row.right("PINNED", c.pinned, Style::strong);
  row.right("GROWTH", c.growth, style(Order::growth));
  row.left("VERDICT", c.verdict, Style::strong);
  row.left(c.deadline > 11 ? "TIME TO OOM" : "OOM IN", c.deadline, style(Order::deadline));
  row.left("WHY", c.why, Style::strong);
  return std::move(row.line);
}

Line cgroup_line(const OverviewRow& row, const Columns& c) {
  const Forecast& f = row.forecast;
  bool own_limit = row.limit && (!row.cgroup || (row.limit_cgroup && row.limit_cgroup->id == row.cgroup->id));
  auto unknown_dim = [](bool known, Style style = Style::normal) { return known ? style : Style::dim; };
  Row out;
  std::string name = cut_middle(label(row.cgroup), c.name);
  out.left(name, c.name, f.alert ? Style::alert : row.cgroup ? Style::normal : Style::strong);
  out.right(size_or_none(row.usage), c.usage, unknown_dim(row.usage.has_value()));
  out.right(size_or_none(row.limit), c.limit, unknown_dim(own_limit));
  out.left(cut_middle(limit_owner(row), c.limit_of), c.limit_of, unknown_dim(own_limit));
  out.right(percent(row), c.percent, unknown_dim(row.usage && row.limit, full_style(row)));
  add_bar(out, row, c.bar);
  out.right(size_or_none(row.pinned), c.pinned, unknown_dim(row.pinned.has_value(), full_style(row)));
  out.right(rate(row) ? format_rate(*rate(row)) : std::string(kNone), c.growth,
            unknown_dim(grows(row), urgency(row)));
  out.left(to_string(f.verdict), c.verdict, unknown_dim(grows(row), urgency(row)));
  bool in_sight = f.eta || f.eta_low;
  out.left(deadline_cell(f, c.deadline), c.deadline,
           unknown_dim(in_sight || row.forecast.evidence.thrashing, urgency(row)));
  out.left(displayable(f.why), c.why, unknown_dim(in_sight));
  return std::move(out.line);
}

ProcessColumns choose_process_columns(std::size_t width) {
  ProcessColumns out;
  std::size_t used = out.name;
  if (used > width) out.name = width;
  bool more = true;
  auto add = [&](std::size_t& column, std::size_t size) {
    more = more && used + 1 + size <= width;
    if (more) used += 1 + size, column = size;
  };
  add(out.rss, 8);
  add(out.growth, 11);
  if (width >= 60) add(out.cgroup, width / 4);
  if (width >= 90) add(out.private_bytes, 8);
  if (width >= 110) add(out.error, 8);
  if (used < width) out.name += width - used;
  return out;
}

Line process_head(const ProcessColumns& c, std::string_view title) {
  Row row;
  row.left(title, c.name, Style::strong);
  row.right("RSS", c.rss, Style::strong);
  row.right("RSS ±", c.error, Style::strong);
  row.right("PRIVATE", c.private_bytes, Style::strong);
  row.right("GROWTH", c.growth, Style::strong);
  row.left("CGROUP", c.cgroup, Style::strong);
  return std::move(row.line);
}

Line process_line(const ProcessSampleFact& p, MonoTime now, const ProcessColumns& c) {
  auto growth = growth_at(p, now);
  bool growing = steady_growth(p, now).has_value();
  Row row;
  row.left(name_of(p.process), c.name);
  row.right(format_size(p.rss), c.rss);
  row.right(p.rss_error.count ? format_size(p.rss_error) : "exact", c.error, Style::dim);
  row.right(size_or_none(p.private_bytes), c.private_bytes, p.private_bytes ? Style::normal : Style::dim);
  row.right(growth ? format_rate(*growth) : std::string(kNone), c.growth,
            growing ? Style::normal : Style::dim);
  std::string where = p.process.cgroup ? label(p.process.cgroup) : "unknown";
  row.left(cut_middle(where, c.cgroup), c.cgroup, Style::dim);
  return std::move(row.line);
}

std::string_view to_string(Order order) {
  constexpr std::array<std::string_view, 4> names = {"time to OOM", "growth", "usage", "name"};
  return names[static_cast<std::size_t>(order)];
}

bool grows(const OverviewRow& row) {
  switch (row.forecast.verdict) {
    case Verdict::leak:
    case Verdict::ramp:
    case Verdict::cow:
    case Verdict::cache:
      return row.forecast.growth && row.forecast.growth->rate.value > 0;
    case Verdict::stable:
    case Verdict::spikes:
    case Verdict::step:
    case Verdict::unknown:
      break;
  }
  return false;
}

bool is_doubtful(const Forecast& f) {
  return f.eta && !f.alert;
}

}  // namespace oomcast
