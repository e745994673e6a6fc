#include "parse/memory_stat.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "parse/text.h"

namespace oomcast {
namespace {

// A name in memory.stat and where its value goes.
struct StatField {
  std::string_view key;
  std::optional<Bytes> MemoryStat::*value;
};

// v1 `total_*`: with descendants, as usage is. v2 has no other kind.
constexpr StatField v1_fields[] = {
    {"total_rss", &MemoryStat::anon},
    {"total_cache", &MemoryStat::file},
    {"total_shmem", &MemoryStat::shmem},
    {"total_active_file", &MemoryStat::active_file},
    {"total_inactive_file", &MemoryStat::inactive_file},
    {"total_active_anon", &MemoryStat::active_anon},
    {"total_inactive_anon", &MemoryStat::inactive_anon},
    {"total_unevictable", &MemoryStat::unevictable},
    {"total_mapped_file", &MemoryStat::mapped_file},
    {"total_swap", &MemoryStat::swap},
};
constexpr StatField v2_fields[] = {
    {"anon", &MemoryStat::anon},
    {"file", &MemoryStat::file},
    {"shmem", &MemoryStat::shmem},
    {"kernel", &MemoryStat::kernel},
    {"slab_reclaimable", &MemoryStat::slab_reclaimable},
    {"active_file", &MemoryStat::active_file},
    {"inactive_file", &MemoryStat::inactive_file},
    {"active_anon", &MemoryStat::active_anon},
    {"inactive_anon", &MemoryStat::inactive_anon},
    {"unevictable", &MemoryStat::unevictable},
    {"file_mapped", &MemoryStat::mapped_file},
};
// What `kernel` is made of, for kernels before 5.18 that do not print it.
constexpr std::string_view v2_kernel_parts[] = {"slab",           "kernel_stack", "pagetables",
                                                "sec_pagetables", "percpu",       "vmalloc"};

bool is_kernel_part(std::string_view key) {
  for (std::string_view part : v2_kernel_parts)
    if (part == key) return true;
  return false;
}

std::optional<PressureLine> parse_pressure_line(std::string_view line) {
  PressureLine out;
  struct {
    std::string_view key;
    double* value;
  } const averages[] = {{"avg10=", &out.avg10}, {"avg60=", &out.avg60}, {"avg300=", &out.avg300}};
  for (auto [key, value] : averages) {
    std::string_view field = next_field(line);
    if (!field.starts_with(key)) return std::nullopt;
    field.remove_prefix(key.size());
    auto [end, err] =
        std::from_chars(field.data(), field.data() + field.size(), *value, std::chars_format::fixed);
    if (err != std::errc{} || end != field.data() + field.size() || !std::isfinite(*value) || *value < 0)
      return std::nullopt;
  }
  std::string_view total = next_field(line);
  if (!total.starts_with("total=")) return std::nullopt;
  auto total_us = parse_u64(total.substr(6));
  if (!total_us) return std::nullopt;
  out.total_us = *total_us;
  return out;
}

}  // namespace

MemoryStat parse_memory_stat(Hierarchy hierarchy, std::string_view text) {
  const bool v1 = hierarchy == Hierarchy::v1;
  const std::span<const StatField> fields = v1 ? std::span<const StatField>(v1_fields) : v2_fields;
  MemoryStat stat;
  std::optional<Bytes> kernel_parts;
  std::string_view line;
  while (next_line(text, line)) {
    std::string_view key = next_field(line);
    std::string_view number = next_field(line);
    if (key == (v1 ? "total_pgfault" : "pgfault")) {
      if (!stat.pgfault) stat.pgfault = parse_u64(number);
      continue;
    }
    for (const StatField& field : fields)
      if (field.key == key && !(stat.*field.value)) stat.*field.value = parse_bytes(number);
    if (!v1 && is_kernel_part(key))
      if (auto part = parse_bytes(number))
        kernel_parts = kernel_parts ? add_saturating(*kernel_parts, *part) : *part;
  }
  if (!stat.kernel) stat.kernel = kernel_parts;
  // Page cache less shmem. The two counters are not read at one instant, hence the floor.
  if (stat.file && stat.shmem)
    stat.file = std::max(Bytes{}, *stat.file - *stat.shmem);
  else
    stat.file = std::nullopt;
  return stat;
}

std::optional<std::optional<Bytes>> parse_limit(std::string_view text) {
  text = trim(text);
  if (text == "max") return std::optional<Bytes>();
  auto value = parse_u64(text);
  if (!value) return std::nullopt;
  // PAGE_COUNTER_MAX is 2^63 rounded down to a page. No page is larger than 2 MiB, no machine as large as the
  // rest.
  constexpr std::uint64_t no_limit = (std::uint64_t{1} << 63) - (std::uint64_t{2} << 20);
  if (*value >= no_limit) return std::optional<Bytes>();
  return std::optional<Bytes>(Bytes{static_cast<std::int64_t>(*value)});
}

Pressure parse_pressure(std::string_view text) {
  Pressure out;
  std::string_view line;
  while (next_line(text, line)) {
    std::string_view kind = next_field(line);
    if (kind == "some") out.some = parse_pressure_line(line);
    if (kind == "full") out.full = parse_pressure_line(line);
  }
  return out;
}

Bytes add_saturating(Bytes a, Bytes b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a.count, b.count, &sum)) return {std::numeric_limits<std::int64_t>::max()};
  return {sum};
}

}  // namespace oomcast
