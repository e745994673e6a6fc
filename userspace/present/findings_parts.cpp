#include "present/findings_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "present/rows.h"
#include "stream/text.h"

namespace oomcast {

std::string ago(double s) {
  return format_duration(Seconds(s)) + " before the kill";
}

std::string speed(BytesPerSec rate) {
  std::string out = format_rate(rate);
  return out.starts_with('+') ? out.substr(1) : out;
}

std::string ago(Seconds s) {
  return ago(s.count());
}

std::string short_name_of(const ProcessRef& p) {
  return cut_middle(name_of(p), 60);
}

std::string clock_at(const StoredEpisode& e, double at) {
  return format_clock(
             clock_of(e.run).wall(e.told.episode.time + std::chrono::duration_cast<Nanos>(Seconds(at))))
      .substr(0, 8);
}

std::vector<const ForecastFact*> foretold(const StoredEpisode& e) {
  std::vector<const ForecastFact*> out;
  MonoTime began = life_began(e);
  for (const ForecastFact& f : e.forecasts)
    if (f.cgroup && !f.process && is_owner(e, f.cgroup) && f.time > began && f.time < e.told.episode.time &&
        f.forecast.verdict != Verdict::unknown)
      out.push_back(&f);
  return out;
}

std::optional<Bytes> limit_of(const StoredEpisode& e) {
  if (e.told.episode.limit) return e.told.episode.limit;
  std::optional<Bytes> out;
  for (const Sample& s : e.samples)
    if (is_owner(e, s.cgroup) && s.time <= e.told.episode.time && s.limit) out = s.limit;
  return out;
}

const Victim* first_victim(const Episode& e) {
  return e.victims.empty() ? nullptr : &e.victims.front();
}

std::string scope_of(const Episode& e) {
  const Victim* victim = first_victim(e);
  CgroupPtr cgroup = e.limit_cgroup ? e.limit_cgroup : victim ? victim->process.cgroup : nullptr;
  // `oomcast run` has removed its cgroup.
  if (!cgroup || cgroup->path == "/" || cgroup->name.name.starts_with("oomcast-run-")) return "";
  auto plain = [](const std::string& text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("/._:@-").find(static_cast<char>(c)) != std::string_view::npos;
    });
  };
  if (cgroup->name.kind == CgroupKind::unit && cgroup->name.unit && plain(*cgroup->name.unit))
    return " --unit " + *cgroup->name.unit;
  return plain(cgroup->path) ? " --cgroup " + cgroup->path : "";
}

bool culprit_is_victim(const PostMortem& r) {
  return r.culprit && is_victim(r.episode.told.episode, r.culprit->process);
}

}  // namespace oomcast
