#include "present/blame_quiet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/escape.h"
#include "present/blame_parts.h"
#include "stream/text.h"

namespace oomcast {
namespace {

// One-time buffers and caches are retained as well, but are few.
constexpr std::uint64_t kEnoughToStay = 5;

// Above the error, and more than once.
bool seen_to_stay(const BlameProcess& p, const BlameSite& site) {
  if (site.sure() <= Bytes{}) return false;
  if (site.kept.blocks >= kEnoughToStay) return true;
  return site.held_by && p.holders && p.holders->all[*site.held_by].holder.added >= kEnoughToStay;
}

bool counters_known(const BlameProcess& p) {
  return !p.exited && !p.growth_unknown;
}

std::string kept_more(Bytes bytes, std::string_view how) {
  if (bytes < Bytes{}) return fmt::format("{} shrank by {}", how, format_size(-bytes));
  return fmt::format("{} kept {} more", how, format_size(bytes));
}

}  // namespace

Bytes usual_change(const BlameProcess& p) {
  Bytes held = p.anon ? *p.anon : Bytes{};
  return std::clamp(scaled(held, 0.01), kUsualChange, MiB(16));
}

bool grows(const BlameProcess& p) {
  if (!p.gpu.empty() || (p.grown_hugetlb && *p.grown_hugetlb != Bytes{})) return true;
  if (!counters_known(p) || p.grown() <= Bytes{}) return false;
  if (p.grown() > usual_change(p)) return true;
  auto any_stays = [&](const BlameSite& site) { return seen_to_stay(p, site); };
  if (std::ranges::any_of(p.sites, any_stays)) return true;
  auto explains = [&](const BlameHolder& h) {
    return h.holder.added >= kEnoughToStay && h.holder.least.as_double() >= 0.5 * p.grown().as_double();
  };
  return p.holders && std::ranges::any_of(p.holders->all, explains);
}

std::string nothing_grows(const BlameReport& report) {
  const BlameProcess* most = nullptr;
  std::size_t known = 0;
  Bytes enough = kUsualChange;
  for (const BlameProcess& p : report.processes) {
    if (grows(p)) return "";
    if (!counters_known(p)) continue;
    ++known;
    enough = std::max(enough, usual_change(p));
    if (!most || p.grown() > most->grown()) most = &p;
  }
  if (!most) return "";
  // Page cache, tmpfs and kernel memory belong to no process.
  Bytes beside = report.cgroup_grown ? *report.cgroup_grown - report.grown : Bytes{};
  bool only_processes = beside <= enough;
  std::string out = fmt::format("{}: {} grows: ", escape_for_terminal(report.scope),
                                only_processes ? "nothing" : "no process");
  if (known == 1)
    out += kept_more(most->grown(), describe(most->process));
  else
    out += kept_more(report.grown, fmt::format("{} processes", known)) +
           fmt::format(" (most: {} {})", describe(most->process), signed_size(most->grown()));
  out += " in " + format_duration(report.window);
  if (!only_processes)
    out += fmt::format("; the cgroup grew by {} beside them: page cache, tmpfs or the kernel's memory",
                       format_size(beside));
  bool watched = std::ranges::all_of(report.processes,
                                     [](const BlameProcess& p) { return !counters_known(p) || p.kept; });
  Bytes per_s{std::llround(rate(enough, report.window).value)};
  out += fmt::format("\n  a growth of {}/s would have stood out{}; a longer --for shows a slower one\n",
                     format_size(per_s), watched ? ", and any whose blocks are seen to stay" : "");
  if (!watched && !most->why_not_kept.empty())
    out += fmt::format("  which of its allocations stay is not known: {}\n",
                       escape_for_terminal(most->why_not_kept));
  return out;
}

}  // namespace oomcast
