#include "present/cgroup_details.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/escape.h"
#include "present/rows.h"
#include "stream/growth.h"
#include "stream/text.h"

namespace oomcast {
namespace {

std::string usage_of_limit(const OverviewRow& row) {
  if (!row.usage) return "unknown";
  if (!row.limit) return format_size(*row.usage) + ", limit unknown";
  std::string of = !row.cgroup                              ? "of memory"
                   : !row.limit_cgroup                      ? "of the host's memory: it has no limit"
                   : row.limit_cgroup->id == row.cgroup->id ? "of its own limit"
                                                            : "of the limit of " + path_of(row.limit_cgroup);
  return fmt::format("{} of {} ({}) {}", format_size(*row.usage), format_size(*row.limit), percent(row), of);
}

// Ancestors in scope with a limit, deepest first.
void add_limits_above(const Overview& o, const OverviewRow& row, std::size_t width, std::vector<Line>& out) {
  if (!row.cgroup) return;
  std::vector<const OverviewRow*> above;
  for (const OverviewRow& r : o.rows)
    if (!r.cgroup || (r.cgroup->id != row.cgroup->id && is_within(*row.cgroup, *r.cgroup)))
      above.push_back(&r);
  if (above.empty()) return;
  std::sort(above.begin(), above.end(), [](const OverviewRow* a, const OverviewRow* b) {
    return (a->cgroup ? a->cgroup->path.size() : 0) > (b->cgroup ? b->cgroup->path.size() : 0);
  });
  out.emplace_back();
  out.push_back(Line().add("Above it", Style::strong));
  for (const OverviewRow* r : above) {
    bool own = r->limit && (!r->cgroup || (r->limit_cgroup && r->limit_cgroup->id == r->cgroup->id));
    std::string limit =
        own ? fmt::format("{} of {} ({})", size_or_none(r->usage), format_size(*r->limit), percent(*r))
            : size_or_none(r->usage) + ", no limit of its own";
    add_wrapped(out, width, fmt::format("  {}  {}", path_of(r->cgroup), limit), 4,
                own ? Style::normal : Style::dim);
  }
}

// The lines from which its processes grow, if profiled.
void add_growth_of(const Overview& o, const OverviewRow& row, std::size_t width, std::vector<Line>& out) {
  if (!o.can_look || !row.cgroup) return;
  out.emplace_back();
  out.push_back(Line().add("IT GREW FROM", Style::strong));
  std::size_t before = out.size();
  for (const GrowthSource& source : growth_sources(o.grew_from)) {
    const ProcessRef& process = source.process();
    if (!process.cgroup || !is_within(*process.cgroup, *row.cgroup)) continue;
    MonoTime to = source.site ? source.site->to : source.holder->to;
    add_wrapped(out, width,
                fmt::format("{}, {} ago", describe(source, o.grew_from.holders),
                            format_duration(seconds_between(to, o.time))),
                4, source.sure_share() > 0 ? Style::normal : Style::dim);
    std::string callers = describe_callers(source.site ? source.site->code : source.holder->adder);
    if (!callers.empty()) add_wrapped(out, width, "    called by " + callers, 6, Style::dim);
    if (std::string doubts = source.site ? doubts_of(*source.site) : ""; !doubts.empty())
      add_wrapped(out, width, "    " + doubts, 6, Style::dim);
  }
  if (o.looking_at == row.cgroup->path)
    out.push_back(Line().add(fmt::format("profiling for {} s", kLookLasts.count()), Style::dim));
  else if (out.size() == before)
    out.push_back(
        Line().add(fmt::format("not profiled yet: b does it, for {} s", kLookLasts.count()), Style::dim));
}

void add_processes_of(const Overview& o, const OverviewRow& row, std::size_t width, std::vector<Line>& out) {
  ProcessColumns columns = choose_process_columns(width);
  out.emplace_back();
  out.push_back(process_head(columns, "ITS PROCESSES"));
  std::size_t before = out.size();
  for (const ProcessSampleFact* p : by_growth(o))
    if (!row.cgroup || (p->process.cgroup && is_within(*p->process.cgroup, *row.cgroup)))
      out.push_back(process_line(*p, o.time, columns));
  if (out.size() == before) out.push_back(Line().add("none was sampled lately", Style::dim));
}

}  // namespace

std::vector<Line> details_of(const Overview& o, const OverviewRow& row, std::size_t width) {
  std::vector<Line> out;
  auto say = [&](std::string_view what, const std::string& text, Style style = Style::normal) {
    constexpr std::size_t kLabel = 12;
    bool first = true;
    std::size_t room = width > kLabel + 8 ? width - kLabel : width;
    for (std::string& part : wrap(text, room, 0)) {
      Line line;
      line.add(align_left(first ? what : "", kLabel), Style::strong).add(std::move(part), style);
      out.push_back(std::move(line));
      first = false;
    }
  };
  const Forecast& f = row.forecast;
  say("Cgroup", path_of(row.cgroup));
  say("Forecast",
      (f.evidence.thrashing ? "it " : "") + describe_deadline(f) + (is_doubtful(f) ? ", low confidence" : ""),
      urgency(row));
  say("Verdict", fmt::format("{}: {}", to_string(f.verdict), meaning(f.verdict)), urgency(row));
  if (!f.why.empty() && !f.evidence.thrashing) say("Why", displayable(f.why));
  say("Usage", usage_of_limit(row), full_style(row));
  say("Pinned", row.pinned ? format_size(*row.pinned) + " that the kernel cannot drop" : "unknown",
      full_style(row));
  if (const auto& limit = row.forecast.limit; limit && row.limit && *limit != *row.limit)
    say("", fmt::format("runs into {}, {}", format_size(*limit),
                        *limit > *row.limit ? "with the swap that is left" : "as others hold the rest"));
  if (f.growth)
    say("Growth",
        fmt::format("{} (90 % interval {} to {}), from {} samples over {}", format_rate(f.growth->rate),
                    format_rate(f.growth->low), format_rate(f.growth->high), f.growth->samples,
                    format_duration(f.growth->span)));
  else
    say("Growth", "unknown");
  if (row.cgroup) {
    const CgroupName& name = row.cgroup->name;
    if (name.container) say("Container", displayable(*name.container));
    if (name.pod) say("Pod", displayable(*name.pod));
    if (name.unit) say("Unit", displayable(*name.unit));
    if (name.slurm_job)
      say("SLURM job", displayable(*name.slurm_job + (name.slurm_step ? "." + *name.slurm_step : "")));
  }
  add_limits_above(o, row, width, out);
  add_growth_of(o, row, width, out);
  add_processes_of(o, row, width, out);
  return out;
}

}  // namespace oomcast
