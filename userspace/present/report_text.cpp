#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "base/escape.h"
#include "present/memory_table.h"
#include "present/post_mortem_parts.h"
#include "present/report.h"
#include "present/rows.h"
#include "stream/cells.h"

namespace oomcast {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kChartWidth = 60, kChartHeight = 5;
constexpr std::size_t kMaxRows = 6, kMaxMemoryRows = 10, kMaxGroups = 3;
constexpr double kSmallestRow = 0.005;  // of the total

class TextPage {
 public:
  explicit TextPage(const TextStyle& style) : style_(style) {}

  void bullet(const std::string& text, Style how = Style::normal) {
    for (const std::string& part : wrap("* " + text, kWidth, 2)) line(part, how);
  }
  void paragraph(const std::string& text, std::size_t indent, Style how = Style::normal) {
    // Commands are for copying: do not wrap them.
    std::vector<std::string> lines =
        text.starts_with("oomcast ") ? std::vector<std::string>{text} : wrap(text, kWidth - indent, 0);
    for (const std::string& part : lines) line(std::string(indent, ' ') + part, how);
  }
  void line(const std::string& text, Style how = Style::normal) {
    Line cells;
    cells.add(text, how);
    out_ += to_text(cells, style_) + "\n";
  }
  void blank() { out_ += "\n"; }
  void heading(const std::string& text) {
    blank();
    line(text, Style::strong);
  }
  std::string take() { return std::move(out_); }

 private:
  const TextStyle& style_;
  std::string out_;
};

/// The first curve's total as blocks, below its limit line.
std::vector<std::string> chart(const Timeline& timeline, const std::optional<Rise>& rise) {
  std::vector<std::string> out;
  if (timeline.curves.empty() || !timeline.curves.front().limit_owner) return out;
  const Curve& curve = timeline.curves.front();
  double begin = 0, most = 0;
  for (std::size_t i = 0; i < timeline.at.size(); ++i)
    if (curve.total[i] && timeline.at[i] <= 0) {
      begin = std::min(begin, timeline.at[i]);
      most = std::max(most, curve.total[i]->as_double());
    }
  // Shows what led to the kill, not the quiet hours before.
  if (rise) begin = std::max(begin, -std::max(10 * rise->took.count(), 30.0));
  if (begin > -0.5 || most <= 0) return out;
  std::optional<Bytes> limit;
  for (std::size_t i = 0; i < timeline.at.size(); ++i)
    if (timeline.at[i] <= 0 && curve.limit[i]) limit = curve.limit[i];
  double top = std::max(most, limit && limit->as_double() < 4 * most ? limit->as_double() : most);
  std::array<double, kChartWidth> high{};
  double held = 0;
  std::size_t next = 0;
  while (next < timeline.at.size() && timeline.at[next] < begin) {
    if (curve.total[next]) held = curve.total[next]->as_double();
    ++next;
  }
  for (std::size_t x = 0; x < kChartWidth; ++x) {
    double until = begin * (1 - static_cast<double>(x + 1) / kChartWidth);
    high[x] = held;
    for (; next < timeline.at.size() && timeline.at[next] <= until + 1e-9; ++next)
      if (curve.total[next]) {
        held = curve.total[next]->as_double();
        high[x] = std::max(high[x], held);
      }
  }
  constexpr std::array<std::string_view, 9> blocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  for (std::size_t row = kChartHeight; row-- > 0;) {
    std::string label = row + 1 == kChartHeight ? format_size({std::llround(top)}) : row == 0 ? "0" : "";
    std::string bar;
    for (double value : high) {
      double eighths = value / top * 8 * kChartHeight - 8.0 * static_cast<double>(row);
      bar += blocks[static_cast<std::size_t>(std::clamp(std::lround(eighths), 0L, 8L))];
    }
    out.push_back(fmt::format("  {} ┤{}", align_right(label, 9), bar));
  }
  std::string from = format_duration(Seconds(-begin)) + " before";
  out.push_back(fmt::format("{}└{}{} kill", std::string(12, ' '), align_left(from, kChartWidth - 5), ""));
  return out;
}

std::string role_of(const PostMortemProcess& p) {
  std::string out;
  bool asked = p.trigger && !p.victim && !p.culprit;
  for (auto [is, name] : {std::pair(p.victim, "killed"), std::pair(p.culprit, "grew most"),
                          std::pair(asked, "asked"), std::pair(p.ended_before, "ended before")})
    if (is) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

void processes(TextPage& page, const std::vector<PostMortemProcess>& all) {
  if (all.empty()) return;
  bool swapped =
      std::any_of(all.begin(), all.end(), [](const auto& p) { return p.swap && p.swap->count > 0; });
  auto row = [&](const std::string& rss, const std::string& swap, const std::string& grew,
                 const std::string& adj) {
    return align_right(rss, 9) + (swapped ? " " + align_right(swap, 9) : "") + " " + align_right(grew, 9) +
           " " + align_right(adj, 5) + "  ";
  };
  page.heading(row("RSS", "SWAP", "RSS GREW", "ADJ") + "PROCESS");
  std::size_t shown = 0;
  for (const PostMortemProcess& p : all) {
    bool part = p.victim || p.culprit || p.trigger;
    if (!part && shown >= kMaxRows) continue;
    if (++shown > 2 * kMaxRows) break;
    std::string role = role_of(p);
    std::string line = row(size_or_none(p.rss), size_or_none(p.swap), size_or_none(p.grew),
                           p.oom_score_adj ? fmt::format("{}", *p.oom_score_adj) : "–");
    std::size_t room = kWidth - display_width(line) - (role.empty() ? 0 : display_width(role) + 3);
    line += cut_end(name_of(p.process), room);
    if (!role.empty()) line += " [" + role + "]";
    page.line(line, p.victim ? Style::warn : Style::normal);
  }
  shown = std::min(shown, 2 * kMaxRows);
  if (all.size() > shown) page.line(fmt::format("{:>9} more", all.size() - shown), Style::dim);
}

void memory(TextPage& page, const Episode& e) {
  auto table = memory_table(e);
  if (!table) return;
  page.heading(fmt::format("WHERE THE MEMORY WAS, of {} {}", format_size(table->whole),
                           table->of_machine ? "RAM" : "in use"));
  std::size_t shown = 0;
  Bytes rest;
  std::size_t most = table->of_machine ? kMaxMemoryRows : kMaxRows;
  for (const MemoryRow& row : table->rows) {
    bool small = row.size.as_double() < kSmallestRow * table->whole.as_double();
    if ((small || shown >= most) && row.name != "uncounted") {
      rest = add_saturating(rest, row.size);
      continue;
    }
    ++shown;
    page.line(
        align_right(format_size(row.size), 9) + align_right(percent_of_whole(row.size, table->whole), 8) +
        "  " +
        cut_end(std::string(row.meaning.empty() ? std::string_view(row.name) : row.meaning), kWidth - 19));
  }
  if (rest.count)
    page.line(align_right(format_size(rest), 9) + align_right(percent_of_whole(rest, table->whole), 8) +
                  "  smaller parts",
              Style::dim);
}

// The sum of the kernel's task table, and of commands or cgroups with several rows.
void sums(TextPage& page, const Episode::Tasks& tasks) {
  if (!tasks.rss || tasks.listed < 2) return;
  std::string swap = tasks.swap && tasks.swap->count ? ", swap " + format_size(*tasks.swap) : "";
  page.line(fmt::format("{}  sum of the {} processes of the kernel's table{}",
                        align_right(format_size(*tasks.rss), 9), tasks.listed, swap));
  std::size_t shown = 0;
  for (const TaskGroup& group : task_groups(tasks)) {
    if (group.count < 2 || shown == kMaxGroups) continue;
    ++shown;
    page.line(fmt::format("{}  {} {} × {}", align_right(size_or_none(group.rss), 9), of_which(tasks),
                          group.count, cut_middle(group.name, kWidth - 38)));
  }
}

}  // namespace

std::string format_moment(WallTime t, unsigned digits) {
  std::time_t when = t.time_since_epoch().count() / 1'000'000'000;
  std::tm local{};
  localtime_r(&when, &local);
  constexpr std::size_t kSeconds = 8;  // "12:03:07"
  std::size_t length = digits ? kSeconds + 1 + digits : kSeconds;
  std::string utc = format_rfc3339(t);
  std::string date = fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
  std::string zone = local.tm_zone ? local.tm_zone : "";
  if (local.tm_gmtoff == 0) return fmt::format("{} {} UTC", date, utc.substr(11, length));
  // Repeat the date if it differs in UTC.
  std::string other = utc.substr(0, 10) == date ? "" : utc.substr(0, 10) + " ";
  return fmt::format("{} {} {} ({}{} UTC)", date, format_clock(t).substr(0, length), zone, other,
                     utc.substr(11, length));
}

std::string to_text(const PostMortem& report, const TextStyle& style) {
  TextPage page(style);
  const StoredEpisode& e = report.episode;
  page.paragraph(report.headline, 0, Style::alert);
  page.paragraph(fmt::format("{}   {}", moment_of(e), displayable(e.told.episode.id)), 0, Style::dim);
  auto findings = [&](std::string_view title, const std::vector<Finding>& all) {
    if (all.empty()) return;
    page.heading(std::string(title));
    for (const Finding& finding : all) {
      page.bullet(finding.text);
      for (const std::string& line : finding.evidence)
        page.paragraph(line, 4, line.starts_with("oomcast ") ? Style::warn : Style::dim);
    }
  };
  findings("WHY", report.findings);
  if (auto lines = chart(report.timeline, report.rise); !lines.empty()) {
    page.heading("MEMORY of " + cut_middle(report.timeline.curves.front().name, kWidth - 10));
    for (const std::string& line : lines) page.line(line);
  }
  findings("WHAT WOULD HAVE PREVENTED IT", report.prevention);
  memory(page, e.told.episode);
  processes(page, report.processes);
  sums(page, e.told.episode.tasks);
  if (!report.unknown.empty()) {
    page.heading("NOT KNOWN");
    for (const std::string& text : report.unknown) page.bullet(text, Style::dim);
  }
  findings("SO THAT IT IS KNOWN NEXT TIME", report.next);
  if (std::string request = request_of(e.told.episode); !request.empty())
    page.paragraph("Asked for: " + request, 0, Style::dim);
  return page.take();
}

}  // namespace oomcast
