#include "present/blame_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "present/blame.h"
#include "present/json_parts.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxFrames = 512;

std::string string_at(const Json& object, const char* key) {
  auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}
std::int64_t number_at(const Json& object, const char* key) {
  auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
}
std::uint64_t count_of(const Json& number) {
  return number.is_number_unsigned() ? number.get<std::uint64_t>() : 0;
}
const Json& list_at(const Json& object, const char* key) {
  static const Json none = Json::array();
  auto at = object.find(key);
  return at != object.end() && at->is_array() ? *at : none;
}

Stack stack_of(const Json& json) {
  Stack out;
  for (const Json& frame : list_at(json, "stack")) {
    if (!frame.is_object() || out.size() >= kMaxFrames) continue;
    out.push_back({string_at(frame, "kind") == "python" ? Frame::Kind::python : Frame::Kind::native,
                   string_at(frame, "function"), string_at(frame, "file"), std::nullopt});
    if (frame.contains("line") && frame["line"].is_number_unsigned())
      out.back().line = frame["line"].get<std::uint32_t>();
  }
  return out;
}

BlameHolder holder_of(const Json& json) {
  auto count = [&](const char* name) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_at(json, name)));
  };
  BlameHolder out{{string_at(json, "path"), string_at(json, "type"), count("length"), count("added"),
                   string_at(json, "of"), Bytes{number_at(json, "bytes_at_least")},
                   Bytes{number_at(json, "small_bytes")}, count("containers")},
                  count("kept_blocks")};
  for (const Json& each : list_at(json, "additions"))
    if (each.is_object()) out.additions.push_back({stack_of(each), count_of(each.value("seen", Json()))});
  return out;
}

Kept kept_of(const Json& json) {
  return {{number_at(json, "bytes")},
          {number_at(json, "error_bytes")},
          count_of(json.value("blocks", Json())),
          count_of(json.value("objects", Json()))};
}

BlameSite site_of(const Json& json, const BlameProcess& process) {
  BlameSite out;
  out.grown = {number_at(json, "grown_bytes")};
  out.touched = {number_at(json, "touched_bytes")};
  out.stack = stack_of(json);
  out.adds = json.value("adds", Json()) == true;
  out.small_objects = json.value("small_objects", Json()) == true;
  if (auto kept = json.find("kept"); kept != json.end() && kept->is_object()) out.kept = kept_of(*kept);
  std::string held_by = string_at(json, "held_by");
  for (std::uint32_t i = 0; process.holders && i < process.holders->all.size() && !held_by.empty(); ++i)
    if (!out.held_by && process.holders->all[i].holder.path == held_by) out.held_by = i;
  return out;
}

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

Result<BlameReport> parse_blame(std::string_view text, const std::string& name) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || string_at(json, "type") != "blame")
    return Error::failed(fmt::format("{} is not what `oomcast blame --json` writes", name));
  BlameReport out;
  out.scope = string_at(json, "scope");
  out.grown = {number_at(json, "grown_bytes")};
  auto window = json.find("window_s");
  if (window == json.end() || !window->is_number() || !(window->get<double>() > 0))
    return Error::failed(fmt::format("{} does not say for how long it watched (window_s)", name));
  out.window = Seconds(window->get<double>());
  out.samples = count_of(json.value("samples", Json()));
  if (auto lost = json.find("lost"); lost != json.end() && lost->is_object())
    for (const auto& [reason, count] : lost->items()) out.lost[reason] = count_of(count);
  if (auto watched = json.find("watched_share"); watched != json.end() && watched->is_number())
    out.watched_share = std::clamp(watched->get<double>(), 0.0, 1.0);
  for (const Json& each : list_at(json, "processes")) {
    if (!each.is_object()) continue;
    BlameProcess& process = out.processes.emplace_back();
    if (auto ref = each.find("process"); ref != each.end() && ref->is_object()) {
      process.process.comm = string_at(*ref, "comm");
      process.process.id.tgid = static_cast<std::uint32_t>(number_at(*ref, "pid"));
    }
    process.process.id.start_ticks = static_cast<std::uint64_t>(number_at(each, "start_ticks"));
    process.grown_anon = {number_at(each, "grown_anon_bytes")};
    process.unshared = {number_at(each, "unshared_bytes")};
    process.exited = each.value("exited", Json()) == true;
    process.grown_shmem = Bytes{number_at(each, "grown_shmem_bytes")};
    process.unseen = {number_at(each, "unseen_bytes")};
    process.free_in_heap = {number_at(each, "free_in_heap_bytes")};
    // Of what was watched for how long nothing is asked here.
    if (auto kept = each.find("kept"); kept != each.end() && kept->is_object())
      process.kept.emplace().all = kept_of(*kept);
    process.why_not_kept = string_at(each, "kept_unknown");
    process.why_not_added = string_at(each, "additions_unknown");
    for (const Json& holder : list_at(each, "holders"))
      if (holder.is_object()) {
        if (!process.holders) process.holders.emplace();
        process.holders->all.push_back(holder_of(holder));
      }
    for (const Json& site : list_at(each, "sites"))
      if (site.is_object()) process.sites.push_back(site_of(site, process));
  }
  return out;
}

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
