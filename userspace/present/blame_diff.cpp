#include "present/blame_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "present/blame.h"
#include "stream/json_parts.h"

namespace oomcast {
namespace {

std::int64_t per_s(Bytes bytes, const BlameReport& report) {
  return report.window.count() > 0 ? std::llround(bytes.as_double() / report.window.count()) : 0;
}

std::int64_t change(const StackProfile::Row& row) {
  return row.values[1] - row.values[0];
}

std::int64_t sum_of(const StackProfile& profile, std::size_t kind) {
  std::int64_t sum = 0;
  for (const StackProfile::Row& row : profile.rows) sum += row.values[kind];
  return sum;
}

struct ChangedLine {
  std::string process, line;
  std::int64_t before = 0, after = 0;
};

std::vector<ChangedLine> lines_of(const StackProfile& profile) {
  std::map<std::pair<std::string, std::string>, ChangedLine> lines;
  for (const StackProfile::Row& row : profile.rows) {
    const Frame* frame = culprit(row.stack);
    std::string text = frame ? to_text(*frame) : "?";
    ChangedLine& line = lines[{row.process, text}];
    line.process = row.process;
    line.line = text;
    line.before += row.values[0];
    line.after += row.values[1];
  }
  std::vector<ChangedLine> out;
  for (auto& [key, line] : lines) out.push_back(std::move(line));
  std::stable_sort(out.begin(), out.end(), [](const ChangedLine& a, const ChangedLine& b) {
    return std::abs(a.after - a.before) > std::abs(b.after - b.before);
  });
  return out;
}

std::string rate_text(std::int64_t bytes_per_s) {
  return format_rate({static_cast<double>(bytes_per_s)});
}

}  // namespace

StackProfile difference(const BlameReport& before, const BlameReport& after) {
  std::map<std::pair<std::string, Stack>, std::vector<std::int64_t>> rows;
  auto add = [&](const BlameReport& report, std::size_t kind) {
    for (const BlameProcess& p : report.processes) {
      auto count = [&](const Stack& stack, Bytes grown) {
        auto& values = rows[{p.process.comm, stack}];
        values.resize(3);
        values[kind] += per_s(grown, report);
      };
      for (const BlameSite& site : p.sites)
        if (site.grown > Bytes{}) count(site.stack, site.grown);
      for (auto [bytes, what] :
           {std::pair(p.unseen, kUnseenByFaults), std::pair(p.free_in_heap, kFreeInHeap)})
        if (bytes > Bytes{}) count({{Frame::Kind::native, std::string(what), {}, std::nullopt}}, bytes);
    }
  };
  add(before, 0);
  add(after, 1);
  StackProfile out;
  out.differs = true;
  out.kinds = {{"before", "bytes_per_s"}, {"after", "bytes_per_s"}, {"difference", "bytes_per_s"}};
  out.window = after.window;
  for (auto& [key, values] : rows) {
    values[2] = values[1] - values[0];
    out.rows.push_back({key.first, std::nullopt, key.second, std::move(values)});
  }
  std::stable_sort(out.rows.begin(), out.rows.end(),
                   [](const auto& a, const auto& b) { return std::abs(change(a)) > std::abs(change(b)); });
  out.title = fmt::format("{} before, {} after: {}", rate_text(sum_of(out, 0)), rate_text(sum_of(out, 1)),
                          rate_text(sum_of(out, 2)));
  return out;
}

std::string to_text(const StackProfile& difference) {
  constexpr std::size_t kMax = 20;
  std::string out = difference.title + "\n\n";
  out += fmt::format("  {:>13} {:>13} {:>13}\n", "before", "after", "difference");
  std::size_t shown = 0;
  for (const ChangedLine& line : lines_of(difference)) {
    if (line.before == line.after || shown++ >= kMax) break;
    out += fmt::format("  {:>13} {:>13} {:>13}  {}: {}\n", rate_text(line.before), rate_text(line.after),
                       rate_text(line.after - line.before), escape_for_terminal(line.process), line.line);
  }
  return out;
}

std::string to_json(const StackProfile& difference) {
  Json sites = Json::array();
  for (const StackProfile::Row& row : difference.rows) {
    Json stack = Json::array();
    for (const Frame& frame : row.stack) stack.push_back(frame_json(frame));
    const Frame* top = culprit(row.stack);
    sites.push_back({{"comm", text(row.process)},
                     {"before_bytes_per_s", row.values[0]},
                     {"after_bytes_per_s", row.values[1]},
                     {"difference_bytes_per_s", row.values[2]},
                     {"culprit", top ? frame_json(*top) : Json(nullptr)},
                     {"stack", std::move(stack)}});
  }
  return dump({{"type", "blame_difference"},
               {"time", format_rfc3339(difference.time)},
               {"before_bytes_per_s", sum_of(difference, 0)},
               {"after_bytes_per_s", sum_of(difference, 1)},
               {"difference_bytes_per_s", sum_of(difference, 2)},
               {"sites", std::move(sites)}}) +
         "\n";
}

}  // namespace oomcast
