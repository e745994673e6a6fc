// Overviews of the live screen, and what it shows of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "present/table.h"

namespace oomcast {

using Names = std::vector<std::string>;

inline CgroupPtr shown_cgroup(std::uint64_t inode, const std::string& path) {
  auto out = std::make_shared<CgroupRef>();
  out->id = {Hierarchy::v2, inode};
  out->path = path;
  out->name = name_cgroup(path);
  return out;
}

inline OverviewRow row(std::uint64_t inode, const std::string& path, Bytes usage) {
  OverviewRow out;
  out.cgroup = shown_cgroup(inode, path);
  out.usage = usage;
  out.limit = GiB(8);
  out.pinned = usage;
  out.limit_cgroup = out.cgroup;
  out.forecast.verdict = Verdict::stable;
  return out;
}

inline OverviewRow growing(OverviewRow out, BytesPerSec rate) {
  out.forecast.verdict = Verdict::leak;
  out.forecast.growth = Growth{rate, {rate.value * 0.9}, {rate.value * 1.1}, Seconds(30), 30};
  return out;
}

inline OverviewRow dying(OverviewRow out, double eta_s) {
  out = growing(std::move(out), {20.0 * (1 << 20)});
  out.forecast.eta = Seconds(eta_s);
  out.forecast.eta_low = Seconds(eta_s * 0.85);
  out.forecast.eta_high = Seconds(eta_s * 1.15);
  out.forecast.alert = eta_s < 1200;
  out.forecast.why = "grew +20.0 MiB/s over 30 s";
  return out;
}

inline OverviewRow host() {
  OverviewRow out;
  out.usage = GiB(45);
  out.limit = GiB(61);
  out.forecast.verdict = Verdict::stable;
  return out;
}

inline ProcessSampleFact growing_process(std::uint32_t pid, const std::string& comm,
                                         std::optional<BytesPerSec> growth) {
  ProcessSampleFact out;
  out.process.id = {pid, 1};
  out.process.comm = comm;
  out.rss = MiB(400);
  out.growth = growth;
  return out;
}

inline Overview overview(std::vector<OverviewRow> rows) {
  Overview out;
  out.scope = "whole machine";
  out.sources = {"cgroup files"};
  out.rows = std::move(rows);
  return out;
}

inline Overview busy() {
  Overview out = overview({row(1, "/idle", GiB(3)), dying(row(2, "/train", GiB(7)), 13), host(),
                           growing(row(3, "/cache", GiB(1)), {1e6}), row(4, "/small", MiB(5))});
  for (std::uint32_t i = 0; i < 9; ++i)
    out.processes.push_back(growing_process(100 + i, "python3", BytesPerSec{1e6}));
  OomEvent oom;
  oom.episode.limit_cgroup = out.rows[1].cgroup;
  oom.episode.limit = GiB(8);
  oom.episode.victims.emplace_back();
  oom.episode.victims[0].process = out.processes[0].process;
  out.events.push_back(oom);
  return out;
}

inline std::vector<std::string> text(const std::vector<Line>& lines) {
  std::vector<std::string> out;
  for (const Line& line : lines) out.push_back(to_text(line, TextStyle{}));
  return out;
}

inline std::string shown(const Overview& o, View view, Size size = {80, 24}) {
  std::string out;
  for (const std::string& line : text(render(o, {}, view, size))) out += line + "\n";
  return out;
}

inline std::string line_with(const std::string& screen, const std::string& what) {
  std::size_t at = screen.find(what);
  if (at == std::string::npos) return "";
  std::size_t begin = screen.rfind('\n', at) + 1;
  return screen.substr(begin, screen.find('\n', at) - begin);
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace oomcast
