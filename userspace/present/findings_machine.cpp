// Findings from the kernel's report about the machine: for global OOM kills.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/escape.h"
#include "present/findings_parts.h"
#include "present/gpu_at_kill.h"
#include "present/memory_table.h"
#include "present/rows.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxZones = 4, kMaxSlabs = 4;
constexpr double kProcessesExplain = 0.5;  // of the RAM
constexpr double kWorthNaming = 0.03;      // of the RAM

Bytes size_of_zone(const ZoneLine& z) {
  return z.managed ? *z.managed : known(z.present);
}

std::string levels_of(const ZoneLine& z) {
  std::string out = fmt::format("{}: {} free", name_of(z), z.free ? format_size(*z.free) : "an unknown part");
  for (auto [name, level] : {std::pair("min", z.min), std::pair("low", z.low), std::pair("high", z.high)})
    if (level) out += fmt::format(", {} {}", name, format_size(*level));
  return out;
}

std::string nodes(std::string_view list) {
  bool one = list.find_first_of(",-") == std::string_view::npos;
  return fmt::format("NUMA node{} {}", one ? "" : "s", displayable(list));
}

std::string sentence(const Episode& e, const MachineAtKill& m, const ZoneLine* largest) {
  if (e.scope == OomScope::mempolicy && m.nodemask)
    return fmt::format("The memory had to come from {}: its memory policy allows no other.",
                       nodes(*m.nodemask));
  if (e.scope == OomScope::cpuset && m.mems_allowed)
    return fmt::format("The memory had to come from {}: its cpuset{} allows no other.",
                       nodes(*m.mems_allowed),
                       m.cpuset && *m.cpuset != "/" ? fmt::format(" ({})", displayable(*m.cpuset)) : "");
  if (!largest || !largest->free) return "What the machine had left, by the kernel's report:";
  bool spent = largest->min && *largest->free <= (largest->low ? *largest->low : *largest->min);
  if (!spent && e.request.order && *e.request.order > 0)
    return fmt::format("Free memory was in pieces: {} had {} free, but not {} pages in a row.",
                       name_of(*largest), format_size(*largest->free), 1LL << std::min(*e.request.order, 20));
  if (!largest->min)
    return fmt::format("The largest part of the memory, {}, had {} free.", name_of(*largest),
                       format_size(*largest->free));
  return fmt::format("{}: {} had {} free, and the kernel keeps {} for itself.",
                     spent ? "Nothing was left to give" : "What was left could not be given to this request",
                     name_of(*largest), format_size(*largest->free), format_size(*largest->min));
}

}  // namespace

std::string name_of(const ZoneLine& z) {
  return z.node ? fmt::format("zone {} of node {}", displayable(z.zone), *z.node)
                : "zone " + displayable(z.zone);
}

std::string largest_slabs(const Episode& e) {
  if (!e.machine || e.machine->slabs.empty()) return "";
  std::string out = "its largest slabs: ";
  for (std::size_t i = 0; i < e.machine->slabs.size() && i < kMaxSlabs; ++i)
    out += fmt::format("{}{} {}", i ? ", " : "", displayable(e.machine->slabs[i].name),
                       format_size(e.machine->slabs[i].total));
  return out;
}

std::optional<Finding> where_the_machines_memory_was(const PostMortem& r) {
  const Episode& e = r.episode.told.episode;
  auto table = memory_table(e);
  if (!table || !table->of_machine) return std::nullopt;
  auto is_free = [](const MemoryRow& row) { return row.name.starts_with("free"); };
  auto row_named = [&](std::string_view name) {
    auto row = std::ranges::find(table->rows, name, &MemoryRow::name);
    return row == table->rows.end() ? Bytes{} : row->size;
  };
  Finding out;
  Bytes own = row_named("anon");
  bool riddle = own.as_double() < kProcessesExplain * table->whole.as_double();
  auto most = std::ranges::find_if_not(
      table->rows, [&](const MemoryRow& row) { return is_free(row) || (riddle && row.name == "anon"); });
  if (most == table->rows.end()) return std::nullopt;
  std::string_view what = most->meaning.empty() ? std::string_view(most->name) : most->meaning;
  if (riddle)
    out.text =
        fmt::format("The processes account for only {} of the {} of RAM; the largest other part is {} ({}).",
                    format_size(own), format_size(table->whole), what, format_size(most->size));
  else
    out.text = fmt::format("{} of the {} of RAM ({}) is {}.", format_size(most->size),
                           format_size(table->whole), percent_of_whole(most->size, table->whole), what);
  for (const MemoryRow& row : table->rows) {
    bool large = row.size.as_double() >= kWorthNaming * table->whole.as_double();
    if (!riddle || is_free(row) || row.name == "anon" || !large) continue;
    out.evidence.push_back(fmt::format("{} ({}) {}: {}{}", format_size(row.size),
                                       percent_of_whole(row.size, table->whole), row.name, row.meaning,
                                       row.command.empty() ? "" : fmt::format("; see {}", row.command)));
  }
  if (std::string slabs = largest_slabs(e); !slabs.empty()) out.evidence.push_back(slabs);
  if (auto pinned = pinned_for_gpus(r.episode))
    out.evidence.push_back(fmt::format("{} of shared memory is pinned for GPUs", format_size(*pinned)));
  if (e.tasks.rss && e.tasks.listed > 1)
    out.evidence.push_back(fmt::format(
        "RSS of the {} processes of the kernel's table: {} in all{}", e.tasks.listed,
        format_size(*e.tasks.rss),
        e.tasks.swap && e.tasks.swap->count ? ", and " + format_size(*e.tasks.swap) + " in swap" : ""));
  return out;
}

std::optional<Finding> where_it_ran_out(const PostMortem& r) {
  const Episode& e = r.episode.told.episode;
  if (!e.machine || e.limit_cgroup || e.scope == OomScope::sysrq) return std::nullopt;
  const MachineAtKill& m = *e.machine;
  auto largest = std::ranges::max_element(m.zones, {}, size_of_zone);
  Finding out{sentence(e, m, largest == m.zones.end() ? nullptr : &*largest), {}};
  std::vector<ZoneLine> zones = m.zones;
  std::ranges::stable_sort(zones, std::greater{}, size_of_zone);
  for (std::size_t i = 0; i < zones.size() && i < kMaxZones; ++i) out.evidence.push_back(levels_of(zones[i]));
  if (zones.size() > kMaxZones)
    out.evidence.push_back(fmt::format("{} smaller zones are left out here", zones.size() - kMaxZones));
  if (m.swap_total && m.swap_total->count == 0)
    out.evidence.push_back("the machine has no swap");
  else if (m.swap_total && m.swap_free)
    out.evidence.push_back(
        fmt::format("swap: {} free of {}", format_size(*m.swap_free), format_size(*m.swap_total)));
  // A log with only the report's first and last lines has neither zones nor swap.
  if (out.evidence.empty() && e.scope == OomScope::global) return std::nullopt;
  return out;
}

}  // namespace oomcast
