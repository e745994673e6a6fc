#include "app/growth_found.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "present/blame_brief.h"
#include "stream/growth.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxProcesses = 64, kMaxSites = 16, kMaxFrames = 8;    // 5 MiB in all
constexpr std::size_t kMaxHolders = 4, kMaxAdders = 2, kMaxAdderFrames = 2;  // 1 MiB in all
constexpr std::size_t kMaxTold = 3;                                          // sites of a process
constexpr double kMinTold = 0.05;                                            // of its growth
constexpr std::size_t kMaxOfAll = 16;

template <typename Map, typename Less>
void keep_largest(Map& map, std::size_t most, const Less& less) {
  while (map.size() > most) map.erase(std::min_element(map.begin(), map.end(), less));
}

// Sums known values.
void add_to(std::optional<Bytes>& sum, Bytes more) {
  sum = sum ? *sum + more : more;
}

// From the culprit's frame outwards; empty: that frame is unknown.
std::vector<CodePlace> code_of(const Stack& stack, std::size_t most) {
  std::vector<CodePlace> out;
  for (const Frame* frame : from_culprit(stack, most))
    out.push_back({frame->function, frame->file, frame->line});
  if (!out.empty() && out.front().function.empty() && out.front().file.empty()) out.clear();
  return out;
}

}  // namespace

void GrowthFound::add(const BlameReport& report, const TaskTable& tasks, MonoTime from, MonoTime to) {
  std::uint64_t lost = 0;
  for (const auto& [reason, count] : report.lost) lost += count;
  for (const BlameProcess& p : report.processes) {
    const TaskState* task = tasks.find(p.process.id);
    if (!task) continue;
    // A process that has exited has no memory left: the pages that it touched are the best estimate, if there
    // is no better one.
    if (p.exited && processes_.contains(task->id)) continue;
    Bytes grown = p.grown();
    if (p.exited)
      for (const BlameSite& site : p.sites) grown += site.touched;
    if (grown <= Bytes{}) continue;
    if (processes_.size() >= kMaxProcesses && !processes_.contains(task->id)) {
      auto oldest = std::min_element(processes_.begin(), processes_.end(),
                                     [](const auto& a, const auto& b) { return a.second.to < b.second.to; });
      processes_.erase(oldest);
    }
    auto [at, fresh] = processes_.try_emplace(task->id);
    Process& known = at->second;
    if (fresh) known.from = from;
    known.to = to;
    known.grown += grown;
    known.watched += report.window;
    known.faults_watched += report.window * report.watched_share;
    known.samples += report.samples;
    known.lost += lost;
    if (!p.kept)
      known.kept_unknown = p.exited && p.why_not_kept.empty() ? "it ended meanwhile" : p.why_not_kept;
    add_sites(p, known);
    add_holders(p, known);
  }
}

namespace {

// By line: bytes added to containers that no site is known to belong to.
struct Added {
  Bytes left;  // not yet attributed to a site
  const std::string* to = nullptr;
};
std::map<CodePlace, Added> added_by_line(const BlameProcess& seen) {
  std::map<CodePlace, Added> out;
  for (std::uint32_t i = 0; seen.holders && i < seen.holders->all.size(); ++i) {
    const BlameHolder& each = seen.holders->all[i];
    if (std::ranges::any_of(seen.sites, [&](const BlameSite& site) { return site.held_by == i; })) continue;
    double all = 0;
    for (const BlameAddition& addition : each.additions) all += static_cast<double>(addition.seen);
    for (const BlameAddition& addition : each.additions) {
      auto code = code_of(addition.stack, 1);
      if (code.empty() || !addition.seen) continue;
      Added& added = out[code.front()];
      added.left += scaled(each.holder.least, static_cast<double>(addition.seen) / all);
      if (!added.to) added.to = &each.holder.path;
    }
  }
  return out;
}

}  // namespace

// Retained bytes are summed over the profiles that knew them: a lower bound. A line that touches pages and
// adds to a container of that size is not a temporary's.
void GrowthFound::add_sites(const BlameProcess& seen, Process& known) {
  std::map<CodePlace, Added> added = added_by_line(seen);
  for (const BlameSite& site : seen.sites) {
    Bytes bytes = seen.exited ? site.touched : site.grown;
    if (bytes <= Bytes{}) continue;
    auto code = code_of(site.stack, kMaxFrames);
    if (code.empty()) continue;
    CodePlace line = code.front();
    Process::Site& sum = known.sites[std::move(code)];
    GrowthEvidence& evidence = sum.evidence;
    sum.grown += bytes;
    add_to(evidence.touched, site.touched);
    if (seen.kept) {
      add_to(evidence.kept, site.kept.bytes);
      add_to(evidence.kept_error, site.kept.error);
    }
    evidence.sure += site.sure();
    evidence.adds = evidence.adds || site.adds;
    if (site.held_by && seen.holders) evidence.held_by = seen.holders->all[*site.held_by].holder.path;
    auto by_line = added.find(line);
    if (by_line == added.end() || site.sure() > Bytes{} || by_line->second.left <= Bytes{}) continue;
    Bytes of_line = std::min(bytes, by_line->second.left);
    by_line->second.left -= of_line;
    evidence.sure += of_line;
    evidence.adds = true;
    evidence.held_by = *by_line->second.to;
  }
  keep_largest(known.sites, kMaxSites, [](const auto& a, const auto& b) {
    return std::tie(a.second.evidence.sure, a.second.grown) <
           std::tie(b.second.evidence.sure, b.second.grown);
  });
}

void GrowthFound::add_holders(const BlameProcess& seen, Process& known) {
  if (!seen.holders) return;
  for (const BlameHolder& each : seen.holders->all) {
    const Holder& holder = each.holder;
    Process::Container& container = known.holders[holder.path];
    GrownHolder& sum = container.sum;
    sum.path = holder.path;
    sum.type = holder.type;
    sum.added_type = holder.of;
    sum.containers = holder.containers;
    sum.length = holder.length;
    sum.added += holder.added;
    sum.least += std::min(holder.least, seen.grown());
    for (const BlameAddition& addition : each.additions) {
      sum.adds_seen += addition.seen;
      if (auto code = code_of(addition.stack, kMaxAdderFrames); !code.empty())
        container.adders[std::move(code)] += addition.seen;
    }
    keep_largest(container.adders, kMaxAdders,
                 [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  keep_largest(known.holders, kMaxHolders,
               [](const auto& a, const auto& b) { return a.second.sum.least < b.second.sum.least; });
}

std::vector<GrewFrom> GrowthFound::sites_of(const ProcessRef& process, const Process& known) {
  std::vector<GrewFrom> out;
  for (const auto& [code, site] : known.sites) {
    GrewFrom from{process,
                  code,
                  site.grown,
                  known.grown,
                  known.watched,
                  known.from,
                  known.to,
                  site.evidence,
                  known.samples,
                  known.lost,
                  known.faults_watched / known.watched};
    if (!from.evidence.kept) from.evidence.kept_unknown = known.kept_unknown;
    if (from.share() >= kMinTold) out.push_back(std::move(from));
  }
  std::ranges::stable_sort(out, is_better_known);
  return out;
}

std::vector<GrownHolder> GrowthFound::holders_of(const ProcessRef& process, const Process& known) {
  std::vector<GrownHolder> out;
  for (const auto& [path, container] : known.holders) {
    GrownHolder holder = container.sum;
    holder.process = process;
    holder.of = known.grown;
    holder.watched = known.watched;
    holder.from = known.from;
    holder.to = known.to;
    for (const auto& [code, seen] : container.adders)
      if (seen > holder.adder_seen) {
        holder.adder = code;
        holder.adder_seen = seen;
      }
    if (holder.share() >= kMinTold) out.push_back(std::move(holder));
  }
  std::ranges::stable_sort(out, std::greater(), &GrownHolder::least);
  return out;
}

GrowthOrigins GrowthFound::of(const std::vector<ProcessRef>& processes) const {
  GrowthOrigins out;
  std::unordered_set<TaskId> told;
  auto take = [](auto& all, auto&& some) {
    for (std::size_t i = 0; i < some.size() && i < kMaxTold && all.size() < kMaxOfAll; ++i)
      all.push_back(std::move(some[i]));
  };
  for (const ProcessRef& process : processes) {
    auto known = processes_.find(process.id);
    if (known == processes_.end() || !told.insert(process.id).second) continue;
    take(out.sites, sites_of(process, known->second));
    take(out.holders, holders_of(process, known->second));
  }
  return out;
}

}  // namespace oomcast
