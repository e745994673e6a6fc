#include "present/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

#include "base/escape.h"
#include "present/memory_table.h"
#include "present/post_mortem_parts.h"
#include "present/web_page.h"
#include "stream/cells.h"
#include "stream/facts.h"
#include "stream/json.h"
#include "stream/json_parts.h"
#include "stream/loss_words.h"
#include "stream/text.h"

namespace oomcast {

extern const std::optional<WebPage> kReportPage;

namespace {

// Limits for what a browser can draw at once, and for the file size with any names.
constexpr std::size_t kMaxCurves = 64, kMaxKinds = 8, kMaxMarks = 1000;
constexpr std::size_t kMaxColumnBytes = 2200 << 10;                            // of all curves together
constexpr std::size_t kMaxListBytes = 96 << 10, kMaxSentenceBytes = 48 << 10;  // of one list
constexpr std::size_t kMaxLetters = 120, kMaxSentenceLetters = 1000;

std::string shown(std::string_view escaped, std::size_t letters = kMaxLetters) {
  return cut_middle(to_valid_utf8(escaped), letters);
}
std::string sentence(std::string_view escaped) {
  return shown(escaped, kMaxSentenceLetters);
}

/// As many elements as fit; the rest is counted.
struct List {
  Json elements = Json::array();
  std::size_t left_out = 0;
};
template <typename Container, typename ToJson>
List list_of(const Container& all, std::size_t most_bytes, ToJson to_json) {
  List out;
  std::size_t size = 0;
  for (const auto& each : all) {
    Json json = to_json(each);
    size += dump_ascii(json).size();
    if (size > most_bytes) break;
    out.elements.push_back(std::move(json));
  }
  out.left_out = all.size() - out.elements.size();
  return out;
}

// ---- columns
// ------------------------------------------------------------------------------------------------

/// Numbers as text for charts.js: the difference to the last known value in base 36, `~` for unknown, `*N` to
/// repeat the last value N times.
class ColumnWriter {
 public:
  void add(std::optional<std::int64_t> value) {
    if (any_ && value == last_) {
      ++repeated_;
      return;
    }
    flush();
    if (value) {
      // Unsigned: wrapped differences of 64-bit numbers add up correctly.
      put(static_cast<std::int64_t>(static_cast<std::uint64_t>(*value) - static_cast<std::uint64_t>(known_)));
      known_ = *value;
    } else {
      put_text("~");
    }
    last_ = value;
    any_ = true;
  }
  std::string take() {
    flush();
    return std::move(out_);
  }

 private:
  void put_text(std::string_view text) {
    if (!out_.empty()) out_ += ' ';
    out_ += text;
  }
  void put(std::int64_t number) {
    char digits[16];
    put_text({digits, std::to_chars(digits, std::end(digits), number, 36).ptr});
  }
  void flush() {
    if (repeated_ == 0) return;
    put_text("*");
    char digits[16];
    out_.append(digits, std::to_chars(digits, std::end(digits), repeated_, 36).ptr);
    repeated_ = 0;
  }

  std::string out_;
  std::optional<std::int64_t> last_;
  std::int64_t known_ = 0;
  std::size_t repeated_ = 0;
  bool any_ = false;
};

/// Indexes of the moments to draw.
using Moments = std::vector<std::size_t>;

/// Empty: nothing is known. A leading `#` means units of 4 KiB.
std::string column(const Column& values, const Moments& moments) {
  std::vector<std::optional<std::int64_t>> counts;
  for (std::size_t i : moments)
    counts.push_back(i < values.size() && values[i] ? std::optional(values[i]->count) : std::nullopt);
  auto known = [](const auto& count) { return count.has_value(); };
  if (std::none_of(counts.begin(), counts.end(), known)) return "";
  bool pages = std::all_of(counts.begin(), counts.end(), [](const auto& n) { return !n || *n % 4096 == 0; });
  ColumnWriter out;
  for (const auto& count : counts) out.add(count && pages ? std::optional(*count / 4096) : count);
  return (pages ? "#" : "") + out.take();
}

/// Halves the moments, keeping of each pair the one with the higher total of the first curve, so that peaks
/// stay.
Moments thinned(const Moments& moments, const Timeline& timeline) {
  auto level = [&](std::size_t i) {
    if (timeline.curves.empty()) return std::int64_t{-1};
    const Column& total = timeline.curves[0].total;
    if (timeline.at[i] == 0) return std::numeric_limits<std::int64_t>::max();  // always keep the kill
    return i < total.size() && total[i] ? total[i]->count : std::int64_t{-1};
  };
  Moments out;
  for (std::size_t i = 0; i < moments.size(); i += 2)
    out.push_back(i + 1 < moments.size() && level(moments[i + 1]) >= level(moments[i]) ? moments[i + 1]
                                                                                       : moments[i]);
  return out;
}

Json page_curve(const Curve& curve, const Moments& moments, std::size_t& size) {
  Json kinds = Json::array();
  auto put = [&](const Column& values) {
    std::string text = column(values, moments);
    size += text.size();
    return text;
  };
  for (const Curve::Kind& kind : curve.kinds)
    if (kinds.size() < kMaxKinds) kinds.push_back({{"name", shown(kind.name)}, {"values", put(kind.values)}});
  return {{"name", shown(curve.name)}, {"process", curve.process},  {"limit_owner", curve.limit_owner},
          {"victim", curve.victim},    {"culprit", curve.culprit},  {"kinds", std::move(kinds)},
          {"trend", curve.trend},      {"total", put(curve.total)}, {"pinned", put(curve.pinned)},
          {"limit", put(curve.limit)}};
}

// ---- sections
// -----------------------------------------------------------------------------------------------

std::string_view name_of(TimelineEvent::Kind kind) {
  constexpr std::array<std::string_view, 8> names = {"kill", "user kill", "alert", "verdict",
                                                     "exit", "reclaim",   "limit", "lost"};
  return names[static_cast<std::size_t>(kind)];
}

/// Values to draw: JSON has no infinities or NaN.
std::optional<double> finite(std::optional<double> s) {
  return s && std::isfinite(*s) ? s : std::nullopt;
}

/// The `most` elements closest to the kill, in time order.
template <typename T>
std::vector<T> nearest(std::vector<T> all, std::size_t most) {
  std::erase_if(all, [](const T& e) { return !std::isfinite(e.at); });
  std::stable_sort(all.begin(), all.end(), [](const T& a, const T& b) { return a.at < b.at; });
  if (all.size() <= most) return all;
  auto distance = [](const T& e) { return std::fabs(e.at); };
  std::vector<double> distances(all.size());
  std::transform(all.begin(), all.end(), distances.begin(), distance);
  std::nth_element(distances.begin(), distances.begin() + most, distances.end());
  std::erase_if(all, [&](const T& e) { return distance(e) > distances[most]; });
  if (all.size() > most) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most));
  return all;
}

Json page_timeline(const Timeline& timeline) {
  Moments moments;
  for (std::size_t i = 0; i < timeline.at.size(); ++i)
    if (std::isfinite(timeline.at[i]) && std::fabs(timeline.at[i]) < 1e12) moments.push_back(i);
  std::size_t drawn = std::min(timeline.curves.size(), kMaxCurves);
  std::size_t every = 1;
  std::string at;
  Json curves;
  for (;;) {
    ColumnWriter at_ms;
    for (std::size_t i : moments) at_ms.add(std::llround(timeline.at[i] * 1000));
    at = at_ms.take();
    std::size_t size = at.size();
    curves = Json::array();
    for (std::size_t i = 0; i < drawn; ++i) curves.push_back(page_curve(timeline.curves[i], moments, size));
    if (size <= kMaxColumnBytes || moments.size() < 4) break;
    moments = thinned(moments, timeline);
    every *= 2;
  }
  List events = list_of(nearest(timeline.events, kMaxMarks), kMaxListBytes, [](const TimelineEvent& event) {
    return Json{{"kind", name_of(event.kind)}, {"at", event.at}, {"text", sentence(event.text)}};
  });
  std::size_t drawn_events = events.elements.size();
  Json forecasts = Json::array();
  for (const ForetoldDeadline& told : nearest(timeline.forecasts, kMaxMarks))
    if (std::isfinite(told.eta) && std::isfinite(told.low))
      forecasts.push_back({told.at, told.eta, told.low, maybe(finite(told.high))});
  return {{"at_ms", at},
          {"curves", std::move(curves)},
          {"events", std::move(events.elements)},
          {"forecasts", std::move(forecasts)},
          {"every", every},
          {"moments_left_out", timeline.moments_left_out},
          {"curves_left_out", timeline.curves.size() - drawn},
          {"events_left_out", timeline.events_left_out + timeline.events.size() - drawn_events}};
}

Json sentences_json(const std::vector<std::string>& lines) {
  return list_of(lines, kMaxSentenceBytes, [](const std::string& line) { return Json(sentence(line)); })
      .elements;
}

Json page_findings(const std::vector<Finding>& findings) {
  auto to_json = [](const Finding& finding) {
    return Json{{"text", sentence(finding.text)}, {"evidence", sentences_json(finding.evidence)}};
  };
  return list_of(findings, kMaxSentenceBytes, to_json).elements;
}

Json page_process(const PostMortemProcess& p) {
  std::string cmdline;
  for (std::string_view arg : p.process.cmdline) {
    if (!cmdline.empty()) cmdline += ' ';
    cmdline += displayable(arg.substr(0, kMaxLetters));
    if (cmdline.size() > kMaxLetters) break;
  }
  return {{"name", shown(settle_marks(describe(p.process)))},
          {"cmdline", shown(cmdline)},
          {"cgroup", p.process.cgroup ? Json(shown(displayable(p.process.cgroup->path))) : Json(nullptr)},
          {"pid", p.process.id.tgid},
          {"victim", p.victim},
          {"culprit", p.culprit},
          {"trigger", p.trigger},
          {"ended_before", p.ended_before},
          {"rss", maybe(p.rss)},
          {"anon", maybe(p.anon)},
          {"file", maybe(p.file)},
          {"shmem", maybe(p.shmem)},
          {"swap", maybe(p.swap)},
          {"grew", maybe(p.grew)},
          {"growth", p.growth ? maybe(finite(p.growth->value)) : Json(nullptr)},
          {"oom_score_adj", maybe(p.oom_score_adj)}};
}

Json level_json(const ChainLevel& level, const CgroupPtr& limit_cgroup) {
  return {{"path", level.cgroup ? Json(shown(displayable(level.cgroup->path))) : Json(nullptr)},
          {"usage", level.usage.count},
          {"limit", maybe(level.limit)},
          {"met", level.cgroup && limit_cgroup && level.cgroup->id == limit_cgroup->id}};
}

/// The time of the kill, and this machine's offset from UTC then.
Json page_time(WallTime wall) {
  std::int64_t ns = wall.time_since_epoch().count();
  std::time_t when = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm local{};
  localtime_r(&when, &local);
  return {{"utc", format_rfc3339(wall)},
          {"epoch_ms", ns / 1'000'000},
          {"offset_s", local.tm_gmtoff},
          {"zone", to_valid_utf8(local.tm_zone ? local.tm_zone : "")}};
}

std::string_view name_of(EpisodeSource source) {
  constexpr std::array<std::string_view, 4> names = {"seen live by oomcast", "from the kernel log",
                                                     "from the journal", "from a log file"};
  return names[static_cast<std::size_t>(source)];
}

/// Memory of the limit's cgroup: known [kind, bytes] pairs.
Json page_memory(const PostMortemMemory& memory) {
  Json kinds = Json::array();
  auto add = [&](const char* name, std::optional<Bytes> value) {
    if (value) kinds.push_back(Json::array({name, value->count}));
  };
  add("anon", memory.kinds.anon);
  add("file", memory.kinds.file);
  add("shmem", memory.kinds.shmem);
  add("kernel", memory.kinds.kernel);
  add("swap", memory.kinds.swap);
  add("unattributed", memory.unattributed);
  return {{"kinds", std::move(kinds)},
          {"slab", maybe(memory.kinds.slab)},
          {"exact", memory.exact},
          {"age_s", maybe(finite(memory.age.count()))}};
}

/// Every counter of the kernel's report: [name, meaning, bytes].
Json page_table(const Episode& e) {
  auto table = memory_table(e);
  if (!table) return nullptr;
  Json rows = Json::array();
  for (const MemoryRow& row : table->rows)
    rows.push_back(Json::array({shown(displayable(row.name)), row.meaning, row.size.count}));
  return {{"machine", table->of_machine}, {"whole", table->whole.count}, {"rows", std::move(rows)}};
}

Json page_tasks(const Episode::Tasks& tasks) {
  if (!tasks.rss) return nullptr;
  std::vector<TaskGroup> several;
  for (TaskGroup& group : task_groups(tasks))
    if (group.count > 1 && group.rss) several.push_back(std::move(group));
  Json groups = list_of(several, kMaxSentenceBytes, [](const TaskGroup& group) {
                  return Json::array({shown(group.name), group.count, group.rss->count});
                }).elements;
  return {{"listed", tasks.listed},
          {"rss", tasks.rss->count},
          {"of", of_which(tasks)},
          {"groups", std::move(groups)}};
}

Json machine_json(const MachineAtKill& m) {
  Json zones = Json::array(), slabs = Json::array();
  for (const ZoneLine& z : m.zones)
    zones.push_back({{"node", maybe(z.node)},
                     {"name", shown(displayable(z.zone))},
                     {"free", maybe(z.free)},
                     {"min", maybe(z.min)},
                     {"low", maybe(z.low)},
                     {"high", maybe(z.high)},
                     {"managed", maybe(z.managed)}});
  for (const SlabRow& slab : m.slabs)
    slabs.push_back(
        {{"name", shown(displayable(slab.name))}, {"used", slab.used.count}, {"total", slab.total.count}});
  auto words = [](const std::optional<std::string>& text) {
    return text ? Json(shown(displayable(*text))) : Json(nullptr);
  };
  return {{"cpuset", words(m.cpuset)},       {"mems_allowed", words(m.mems_allowed)},
          {"nodemask", words(m.nodemask)},   {"ram", maybe(m.ram)},
          {"free", maybe(m.free)},           {"swap_total", maybe(m.swap_total)},
          {"swap_free", maybe(m.swap_free)}, {"zones", std::move(zones)},
          {"slabs", std::move(slabs)}};
}

/// How long before the kill a deadline was first forecast, how long after it all memory was back.
std::optional<double> foretold_s(const OomEvent& told) {
  if (!told.first_forecast) return std::nullopt;
  return seconds_between(*told.first_forecast, told.episode.time).count();
}
std::optional<double> freed_s(const Episode& e) {
  std::optional<double> latest;
  for (const Victim& victim : e.victims)
    if (victim.freed_after) latest = std::max(victim.freed_after->count(), latest ? *latest : 0.);
  return finite(latest);
}

}  // namespace

Result<std::string> to_html(const PostMortem& report) {
  if (!kReportPage)
    return Error::failed(
        "this oomcast was built without HTML (OOMCAST_HTML=OFF); --format md, text and json say the same");
  const StoredEpisode& stored = report.episode;
  const Episode& e = stored.told.episode;
  ClockMap clock{stored.run.wall_of_mono_zero, stored.run.wall_of_boot_zero, stored.run.tick};
  List processes = list_of(report.processes, kMaxListBytes * 2, page_process);
  List chain = list_of(e.chain, kMaxSentenceBytes,
                       [&](const ChainLevel& level) { return level_json(level, e.limit_cgroup); });
  List lost = list_of(stored.lost, kMaxSentenceBytes,
                      [](const auto& of) { return Json(sentence(describe_loss(of.first, of.second))); });
  Json data = {
      {"version", shown(displayable(stored.run.version))},
      {"kernel", shown(displayable(stored.run.kernel))},
      {"source", name_of(stored.source)},
      {"live", stored.source == EpisodeSource::live},
      {"id", shown(displayable(e.id))},
      {"time", page_time(clock.wall(e.time))},
      {"undated", stored.logged.dated ? Json(nullptr) : Json(moment_of(stored))},
      {"scope", e.scope ? Json(to_string(*e.scope)) : Json(nullptr)},
      {"limit_cgroup", e.limit_cgroup ? Json(shown(displayable(e.limit_cgroup->path))) : Json(nullptr)},
      {"usage", maybe(e.usage)},
      {"limit", maybe(e.limit)},
      {"order", maybe(e.request.order)},
      {"gfp", e.request.gfp ? Json(shown(displayable(*e.request.gfp))) : Json(nullptr)},
      {"group_kill", maybe(e.group_kill)},
      {"victims", e.victims.size()},
      {"foretold_s", maybe(finite(foretold_s(stored.told)))},
      {"freed_s", maybe(freed_s(e))},
      {"headline", sentence(report.headline)},
      {"findings", page_findings(report.findings)},
      {"prevention", page_findings(report.prevention)},
      {"unknown", sentences_json(report.unknown)},
      {"next", page_findings(report.next)},
      {"processes", std::move(processes.elements)},
      {"processes_left_out", processes.left_out},
      {"memory", report.memory ? page_memory(*report.memory) : Json(nullptr)},
      {"memory_table", page_table(e)},
      {"tasks", page_tasks(e.tasks)},
      {"machine", e.machine ? machine_json(*e.machine) : Json(nullptr)},
      {"chain", std::move(chain.elements)},
      {"checks",
       {{"mark_victim", maybe(e.checks.mark_victim)},
        {"kmsg", maybe(e.checks.kmsg)},
        {"vmstat", maybe(e.checks.vmstat)}}},
      {"lost", std::move(lost.elements)},
      {"timeline", page_timeline(report.timeline)}};
  return to_html(*kReportPage, fmt::format("OOM {} · oomcast", shown(displayable(e.id))), dump_ascii(data));
}

}  // namespace oomcast
