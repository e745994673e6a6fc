// The rows of the screen's tables: what they say, in which order, and in which columns for a given width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "present/overview.h"
#include "stream/cells.h"
#include "stream/names.h"

namespace oomcast {

enum class Order : std::uint8_t {
  deadline,  // time to OOM, then growth, then usage
  growth,
  usage,
  name,
};
std::string_view to_string(Order order);

/// The row's cgroup; inode 0 for the host.
CgroupId key(const OverviewRow& row);

/// Below 0: `a` comes first. What is unknown comes last. Never 0 for two cgroups.
int compare(const OverviewRow& a, const OverviewRow& b, Order order);
/// Growing ones first, then by size.
std::vector<const ProcessSampleFact*> by_growth(const Overview& overview);
/// At most `most` that grow: of each cgroup that has a deadline or grows, in order of urgency, the process
/// that grows fastest in it; then the others, fastest first, but for those in cgroups that are known not to
/// grow.
std::vector<const ProcessSampleFact*> growers(const Overview& overview, std::size_t most);
/// Of those in the row's cgroup (the host: of all), the one that grows fastest; null: none is known to grow.
const ProcessSampleFact* grower_of(const OverviewRow& row,
                                   const std::vector<const ProcessSampleFact*>& by_growth, MonoTime now);
/// nullopt: unknown, or from a sample so old that it would have been followed by another if it still grew.
std::optional<BytesPerSec> growth_at(const ProcessSampleFact& process, MonoTime now);
/// Growth of a process below this is not worth a line.
constexpr BytesPerSec kSlowestGrowth{1024};

/// Whether it goes up steadily, by its verdict: noise, spikes and one step are no growth.
bool grows(const OverviewRow& row);
std::optional<BytesPerSec> rate(const OverviewRow& row);
/// How much of its limit is not reclaimable, and how soon that runs out.
Style full_style(const OverviewRow& row);
Style urgency(const OverviewRow& row);

// All texts are safe to show.
bool is_within(const CgroupRef& inner, const CgroupRef& outer);
/// "–" for what is unknown.
std::string size_or_none(const std::optional<Bytes>& size);
/// Usage of the limit: "94%", "<1%", "–".
std::string percent(const OverviewRow& row);
/// What follows the cgroup's name in a sentence: "keeps growing and gives nothing back".
std::string_view meaning(Verdict verdict);
/// A time to OOM that no alert would be given for.
bool is_doubtful(const Forecast& forecast);

/// Widths of the columns of a table; 0 where there was no room. The least important go first.
struct Columns {
  std::size_t name = 14, usage = 0, limit = 0, percent = 0, bar = 0, pinned = 0, growth = 0, verdict = 0;
  std::size_t deadline = 8, limit_of = 0, why = 0;
};
Columns choose_columns(std::size_t width);
Line head_line(const Columns& columns, Order order);
Line cgroup_line(const OverviewRow& row, const Columns& columns);

struct ProcessColumns {
  std::size_t name = 16, rss = 0, error = 0, private_bytes = 0, growth = 0, cgroup = 0;
};
ProcessColumns choose_process_columns(std::size_t width);
Line process_head(const ProcessColumns& columns, std::string_view title);
Line process_line(const ProcessSampleFact& process, MonoTime now, const ProcessColumns& columns);

}  // namespace oomcast
