#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/commands.h"
#include "app/ending.h"
#include "app/fix_answer.h"
#include "app/series_input.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "stream/json_parts.h"

namespace oomcast {
namespace {

constexpr std::array kMinutes = {0, 5, 10, 20, 30, 60};

// The state of one run at one of the moments. Floor and peak are since the moment before.
struct Moment {
  Bytes level, floor, peak;
  std::optional<Growth> growth;
  Verdict verdict = Verdict::unknown;
};

struct Run {
  std::string file, name;
  std::array<std::optional<Moment>, kMinutes.size()> at;  // nullopt: it did not last so long
  Moment end;
  Seconds lasted{};
  std::optional<Bytes> limit;
  Bytes highest;
  std::optional<std::uint64_t> oom_kills;  // nullopt: the file does not say
};

Result<Run> read_run(const std::string& file, const Options& options, const std::string& prefer) {
  Run out;
  out.file = escape_for_terminal(file);
  std::optional<Forecaster> forecaster;
  std::optional<MonoTime> begin;
  Reading last;
  std::optional<Bytes> floor, peak;
  std::size_t next = 0;
  BeforeTheEnd<Moment> until_the_end;
  auto moment = [&] {
    const Forecast& f = forecaster->forecast();
    Moment m{last.value, floor.value_or(last.value), peak.value_or(last.value), std::nullopt, f.verdict};
    m.growth = f.growth;
    return m;
  };
  auto take = [&](const Reading& r, Surplus surplus) {
    if (!begin) begin = r.time;
    if (!forecaster) forecaster.emplace(surplus);
    auto due = [&](MonoTime t) {
      return next < kMinutes.size() && t - *begin > std::chrono::minutes(kMinutes[next]);
    };
    while (due(r.time)) {
      out.at[next++] = moment();
      floor = peak = std::nullopt;
    }
    forecaster->add(r);
    floor = floor ? std::min(*floor, r.value) : r.value;
    peak = peak ? std::max(*peak, r.value) : r.value;
    out.highest = std::max(out.highest, r.value);
    last = r;
    until_the_end.add(r.time, r.value, moment());
  };
  auto facts =
      read_series(file, {options.scope.cgroup, options.series.choices.limit, options.series.choices, prefer},
                  take, [&] { forecaster.emplace(); });
  if (!facts) return facts.error();
  if (!facts->read_as.empty()) diagnostics(options)(out.file + ": read as " + facts->read_as);
  if (facts->torn) diagnostics(options)(out.file + " has no end: its last second may be missing");
  out.name = facts->name;
  out.oom_kills = facts->oom_kills;
  out.lasted = last.time - *begin;
  while (next < kMinutes.size() && last.time - *begin >= std::chrono::minutes(kMinutes[next])) {
    out.at[next++] = moment();
  }
  out.end = until_the_end.said(*begin, last.time).value_or(moment());
  out.limit = last.limit;
  return out;
}

std::string rate_or(const std::optional<Growth>& growth) {
  return growth ? format_rate(growth->rate) : "";
}

FixAnswer answer(const Run& a, const Run& b) {
  auto shown = [](const Run& run) {
    return RunShown{run.end.verdict, run.end.growth, run.lasted, run.highest, run.end.peak - run.end.floor,
                    run.oom_kills};
  };
  return did_it_help(shown(a), shown(b));
}

// The user's question: is it better now?
std::string difference(const Run& a, const Run& b) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < kMinutes.size(); ++i)
    if (a.at[i] && b.at[i]) last = i;
  bool ends = last == 0;  // neither ran that long: compare their ends
  const Moment &x = ends ? a.end : *a.at[last], &y = ends ? b.end : *b.at[last];
  Bytes off = y.level - x.level;
  std::string when = ends ? "at the end" : fmt::format("after {} minutes", kMinutes[last]);
  std::string level = off == Bytes{}
                          ? fmt::format("both stand at {}", format_size(x.level))
                          : fmt::format("B stands at {}, {} {} than A with {}", format_size(y.level),
                                        format_size(off < Bytes{} ? -off : off),
                                        off < Bytes{} ? "less" : "more", format_size(x.level));
  auto says = [](const char* who, const Moment& m) {
    return fmt::format("{} {}{}", who, to_string(m.verdict),
                       m.growth ? " at " + format_rate(m.growth->rate) : "");
  };
  std::string kills =
      a.oom_kills && b.oom_kills ? fmt::format("; OOM kills {} against {}", *a.oom_kills, *b.oom_kills) : "";
  return fmt::format("{} {}; {}, {}; highest {} against {}{}", when, level, says("A:", x), says("B:", y),
                     format_size(a.highest), format_size(b.highest), kills);
}

Json json_of(const Run& run) {
  auto point = [](const std::optional<Moment>& m) -> Json {
    if (!m) return nullptr;
    return {{"level_bytes", m->level.count},
            {"floor_bytes", m->floor.count},
            {"peak_bytes", m->peak.count},
            {"growth_bytes_per_s", m->growth ? Json(m->growth->rate.value) : nullptr},
            {"growth_low_bytes_per_s", m->growth ? Json(m->growth->low.value) : nullptr},
            {"growth_high_bytes_per_s", m->growth ? Json(m->growth->high.value) : nullptr},
            {"verdict", to_string(m->verdict)}};
  };
  Json points = Json::array();
  for (std::size_t i = 0; i < kMinutes.size(); ++i) {
    auto p = point(run.at[i]);
    Json one = {{"minute", kMinutes[i]}};
    for (const char* key : {"level_bytes", "floor_bytes", "peak_bytes", "growth_bytes_per_s",
                            "growth_low_bytes_per_s", "growth_high_bytes_per_s", "verdict"})
      one[key] = p.is_null() ? Json(nullptr) : p[key];
    points.push_back(std::move(one));
  }
  return {{"file", run.file},
          {"series", run.name},
          {"lasted_s", run.lasted.count()},
          {"limit_bytes", run.limit ? Json(run.limit->count) : nullptr},
          {"highest_bytes", run.highest.count},
          {"oom_kills", run.oom_kills ? Json(*run.oom_kills) : nullptr},
          {"points", std::move(points)},
          {"end", point(run.end)}};
}

std::string table(const Run& a, const Run& b) {
  auto head = [](const char* who, const Run& run) {
    std::string name = run.name == run.file ? "" : ": " + run.name;  // a CSV has no other
    return fmt::format("{}  {}{} over {}\n", who, run.file, name, format_duration(run.lasted));
  };
  std::string out = head("A", a) + head("B", b) + "\n";
  out += fmt::format("{:>6}  {:>2} {:>10} {:>10} {:>10} {:>14}  {}\n", "minute", "", "level", "floor", "peak",
                     "growth", "verdict");
  auto row = [&](std::string_view minute, const char* who, const std::optional<Moment>& m) {
    if (!m) {
      out += fmt::format("{:>6}  {:>2} {:>10}\n", minute, who, "ended");
      return;
    }
    out +=
        fmt::format("{:>6}  {:>2} {:>10} {:>10} {:>10} {:>14}  {}\n", minute, who, format_size(m->level),
                    format_size(m->floor), format_size(m->peak), rate_or(m->growth), to_string(m->verdict));
  };
  for (std::size_t i = 0; i < kMinutes.size(); ++i) {
    if (!a.at[i] && !b.at[i]) continue;
    row(fmt::format("{}", kMinutes[i]), "A", a.at[i]);
    row("", "B", b.at[i]);
  }
  row("end", "A", a.end);
  row("", "B", b.end);
  return out + "\n" + difference(a, b) + "\nDid the fix help? " + answer(a, b).why + "\n";
}

}  // namespace

Result<int> compare(const Options& options) {
  auto a = read_run(options.series.file, options, "");
  if (!a) return a.error();
  auto b = read_run(options.series.other, options, a->name);
  if (!b) return b.error();
  std::string out;
  if (options.output.json) {
    FixAnswer fix = answer(*a, *b);
    Json both = {{"type", "compare"},
                 {"time", format_rfc3339(wall_now())},
                 {"a", json_of(*a)},
                 {"b", json_of(*b)},
                 {"difference", difference(*a, *b)},
                 {"fix",
                  {{"helped", fix.helped ? Json(*fix.helped) : nullptr},
                   {"run_for_s", fix.run_for ? Json(fix.run_for->count()) : nullptr},
                   {"why", fix.why}}}};
    out = dump(both) + "\n";
  } else {
    out = table(*a, *b);
  }
  if (!print(stdout, out)) return stdout_failed();
  return 0;
}

}  // namespace oomcast
