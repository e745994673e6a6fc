#include <fmt/format.h>

#include "base/escape.h"
#include "present/memory_table.h"
#include "present/post_mortem_parts.h"
#include "present/report.h"
#include "present/rows.h"
#include "stream/cells.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxGroupsMd = 8, kMaxProcessesMd = 200;

/// Literal text: escapes whatever Markdown or HTML would interpret.
std::string literal(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (std::string_view("\\`*_[]|#!~$@").find(c) != std::string_view::npos)
      out += {'\\', c};
    else
      out += c;
  }
  return out;
}

/// A code span with a fence longer than any run of backticks inside.
std::string code(const std::string& text) {
  std::string fence = "`";
  while (text.find(fence) != std::string::npos) fence += '`';
  return fence.size() == 1 ? fence + text + fence : fence + " " + text + " " + fence;
}

std::string findings_md(std::string_view title, const std::vector<Finding>& all) {
  if (all.empty()) return "";
  std::string out = fmt::format("\n## {}\n\n", title);
  for (const Finding& f : all) {
    out += fmt::format("- **{}**\n", literal(f.text));
    for (const std::string& line : f.evidence)
      out += fmt::format("  - {}\n", line.starts_with("oomcast ") ? code(line) : literal(line));
  }
  return out;
}

std::string curve_md(const Timeline& timeline) {
  if (timeline.curves.empty() || timeline.curves.front().trend.empty()) return "";
  const Curve& curve = timeline.curves.front();
  return fmt::format("\n## Memory before the kill\n\n{} {}.\n", literal(curve.name), literal(curve.trend));
}

std::string memory_md(const PostMortemMemory& memory) {
  const MemoryAtKill& m = memory.kinds;
  std::string out =
      "\n## Memory\n\n| anon | file | shmem | kernel | slab | swap | unattributed | usage |\n"
      "|---:|---:|---:|---:|---:|---:|---:|---:|\n|";
  for (const auto& size :
       {m.anon, m.file, m.shmem, m.kernel, m.slab, m.swap, memory.unattributed, memory.usage})
    out += fmt::format(" {} |", size_or_none(size));
  return out + "\n";
}

std::string parts_md(const Episode& e) {
  auto table = memory_table(e);
  if (!table) return "";
  std::string out = fmt::format("\n## Where the memory was\n\n| of {} {} | | |\n|---:|---:|---|\n",
                                format_size(table->whole), table->of_machine ? "RAM" : "in use");
  for (const MemoryRow& row : table->rows)
    out +=
        fmt::format("| {} | {} | {}: {} |\n", format_size(row.size), percent_of_whole(row.size, table->whole),
                    literal(displayable(row.name)), literal(row.meaning));
  return out;
}

std::string sums_md(const Episode::Tasks& tasks) {
  if (!tasks.rss || tasks.listed < 2) return "";
  std::string out = fmt::format("\nSum of the {} processes of the kernel's table: {}", tasks.listed,
                                format_size(*tasks.rss));
  if (tasks.swap && tasks.swap->count) out += ", swap " + format_size(*tasks.swap);
  std::size_t shown = 0;
  for (const TaskGroup& group : task_groups(tasks))
    if (group.count > 1 && shown++ < kMaxGroupsMd)
      out += fmt::format("; {} {} × {} {}", of_which(tasks), group.count, literal(group.name),
                         size_or_none(group.rss));
  return out + "\n";
}

std::string machine_md(const MachineAtKill& machine) {
  std::string out;
  if (!machine.zones.empty())
    out +=
        "\n## Zones\n\n| node | zone | free | min | low | high | managed "
        "|\n|---:|---|---:|---:|---:|---:|---:|\n";
  for (const ZoneLine& z : machine.zones) {
    out +=
        fmt::format("| {} | {} |", z.node ? fmt::format("{}", *z.node) : "–", literal(displayable(z.zone)));
    for (const auto& size : {z.free, z.min, z.low, z.high, z.managed})
      out += fmt::format(" {} |", size_or_none(size));
    out += "\n";
  }
  if (!machine.slabs.empty())
    out += "\n## Slabs that cannot be reclaimed\n\n| slab | used | total |\n|---|---:|---:|\n";
  for (const SlabRow& slab : machine.slabs)
    out += fmt::format("| {} | {} | {} |\n", literal(displayable(slab.name)), format_size(slab.used),
                       format_size(slab.total));
  return out;
}

std::string limits_md(const std::vector<ChainLevel>& chain) {
  if (chain.empty()) return "";
  std::string out = "\n## Limits\n\n| cgroup | usage | limit |\n|---|---:|---:|\n";
  for (const ChainLevel& level : chain)
    out += fmt::format("| {} | {} | {} |\n", literal(path_of(level.cgroup)), format_size(level.usage),
                       level.limit ? format_size(*level.limit) : "none");
  return out;
}

std::string processes_md(const std::vector<PostMortemProcess>& processes) {
  if (processes.empty()) return "";
  std::string out =
      "\n## Processes\n\n| process | cgroup | RSS | anon | file | shmem | swap | RSS grew | adj | |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|---|\n";
  std::size_t listed = 0;
  for (const PostMortemProcess& p : processes) {
    if (listed++ == kMaxProcessesMd) break;
    std::string role;
    for (auto [is, name] : {std::pair(p.victim, "killed"), std::pair(p.culprit, "grew most"),
                            std::pair(p.trigger, "asked"), std::pair(p.ended_before, "ended before")})
      if (is) role += (role.empty() ? "" : ", ") + std::string(name);
    out +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", literal(name_of(p.process)),
                    p.process.cgroup ? literal(path_of(p.process.cgroup)) : "–", size_or_none(p.rss),
                    size_or_none(p.anon), size_or_none(p.file), size_or_none(p.shmem), size_or_none(p.swap),
                    size_or_none(p.grew), p.oom_score_adj ? fmt::format("{}", *p.oom_score_adj) : "–", role);
  }
  if (processes.size() > kMaxProcessesMd)
    out += fmt::format("\n{} more are left out.\n", processes.size() - kMaxProcessesMd);
  return out;
}

}  // namespace

std::string to_markdown(const PostMortem& report) {
  const StoredEpisode& e = report.episode;
  const Episode& told = e.told.episode;
  std::string out = fmt::format("# {}\n\n{} · {}\n", literal(report.headline), literal(moment_of(e)),
                                code(displayable(told.id)));
  out += curve_md(report.timeline);
  out += findings_md("Why", report.findings);
  out += findings_md("What would have prevented it", report.prevention);
  if (report.memory) out += memory_md(*report.memory);
  out += parts_md(told);
  if (told.machine) out += machine_md(*told.machine);
  out += limits_md(told.chain);
  out += processes_md(report.processes);
  out += sums_md(told.tasks);
  if (!report.unknown.empty()) {
    out += "\n## Not known\n\n";
    for (const std::string& text : report.unknown) out += fmt::format("- {}\n", literal(text));
  }
  out += findings_md("So that it is known next time", report.next);
  if (std::string request = request_of(told); !request.empty())
    out += fmt::format("\nAsked for: {}\n", literal(request));
  out += fmt::format("\nWritten by oomcast {}{}.\n", literal(displayable(e.run.version)),
                     e.run.kernel.empty() ? "" : ", on Linux " + literal(displayable(e.run.kernel)));
  return out;
}

}  // namespace oomcast
