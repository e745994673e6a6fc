#include "present/blame_holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "present/blame.h"
#include "present/blame_parts.h"
#include "stream/growth.h"
#include "stream/text.h"

namespace oomcast {
namespace {

// The stacks seen to add, most frequent first; not the line already printed above.
std::string adders(const BlameHolder& holder, std::string_view line, bool unknown) {
  constexpr std::size_t kMax = 3;
  std::map<std::string, std::uint64_t> sums;
  std::uint64_t all = 0;
  for (const BlameAddition& each : holder.additions) {
    const Frame* frame = culprit(each.stack);
    sums[frame ? to_text(*frame) : "?"] += each.seen;
    all += each.seen;
  }
  if (sums.empty() && unknown) return ", added by a line that is not known (see below)";
  if (sums.empty() || (sums.size() == 1 && sums.begin()->first == line)) return "";
  std::vector<std::pair<std::string, std::uint64_t>> order(sums.begin(), sums.end());
  std::ranges::stable_sort(order, std::greater(), &std::pair<std::string, std::uint64_t>::second);
  std::string out;
  for (const auto& [text, seen] : std::span(order).first(std::min(order.size(), kMax)))
    out += fmt::format("{}{} ({} of {} seen)", out.empty() ? ", added by " : ", ", text, seen, all);
  return out;
}

}  // namespace

std::string holder_text(const BlameProcess& p, std::size_t number, std::string_view line) {
  const BlameHolder& of_process = p.holders->all[number];
  const Holder& holder = of_process.holder;
  GrownHolder container;
  container.path = holder.path;
  container.type = holder.type;
  container.added_type = holder.of;
  container.containers = holder.containers;
  container.length = holder.length;
  container.added = holder.added;
  return describe_container(container) + adders(of_process, line, !p.why_not_added.empty());
}

std::string other_holders(const BlameProcess& p) {
  constexpr std::size_t kMax = 3;
  std::string out;
  std::size_t told = 0;
  for (std::uint32_t i = 0; p.holders && i < p.holders->all.size() && told < kMax; ++i) {
    auto is = [&](const BlameSite& site) { return site.held_by == i; };
    if (std::any_of(p.sites.begin(), p.sites.end(), is)) continue;
    ++told;
    const BlameHolder& h = p.holders->all[i];
    out += fmt::format("  {:>10} at least, {}\n", format_size(h.holder.least), holder_text(p, i, ""));
  }
  return out;
}

std::string grown_types_text(const BlameProcess& p) {
  constexpr std::size_t kMax = 3;
  if (!p.holders || !p.holders->types) return "";
  std::string out;
  std::size_t told = 0;
  for (const GrownType& t : *p.holders->types) {
    if (told == kMax || share(t.least, p.grown()) < kMinShare) break;
    out += fmt::format("{}+{} {} of {}", told++ ? ", " : "  objects: ", t.added, escape_for_terminal(t.type),
                       t.objects);
  }
  return out.empty() ? out : out + "\n";
}

}  // namespace oomcast
