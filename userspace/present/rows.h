// The rows of the screen's tables: text, order, and columns for a given width.
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

/// Negative: `a` comes first. Unknown values come last. Never 0 for two cgroups.
int compare(const OverviewRow& a, const OverviewRow& b, Order order);
/// Growing processes first, then by size.
std::vector<const ProcessSampleFact*> by_growth(const Overview& overview);
/// At most `most` growing processes: for each cgroup that has a deadline or grows, in order of urgency, the
/// process that grows fastest in it; then the others, fastest first, except those in cgroups known not to
/// grow.
std::vector<const ProcessSampleFact*> growers(const Overview& overview, std::size_t most);
/// The fastest growing process in the row's cgroup (for the host: of all); null: none is known to grow.
const ProcessSampleFact* grower_of(const OverviewRow& row,
                                   const std::vector<const ProcessSampleFact*>& by_growth, MonoTime now);
/// nullopt: unknown, or from a sample so old that a process still growing would have been sampled again.
std::optional<BytesPerSec> growth_at(const ProcessSampleFact& process, MonoTime now);
/// Slower growth of a process is not shown.
constexpr BytesPerSec kSlowestGrowth{1024};

/// Whether it grows steadily, by its verdict: noise, spikes and a single step do not count.
bool grows(const OverviewRow& row);
std::optional<BytesPerSec> rate(const OverviewRow& row);
/// Color for the unreclaimable share of the limit; urgency(): for the time left.
Style full_style(const OverviewRow& row);
Style urgency(const OverviewRow& row);

// All texts are safe for a terminal.
bool is_within(const CgroupRef& inner, const CgroupRef& outer);
/// "–" if unknown.
std::string size_or_none(const std::optional<Bytes>& size);
/// Usage as a share of the limit: "94%", "<1%", "–".
std::string percent(const OverviewRow& row);
/// Continues a sentence that begins with the cgroup's name: "keeps growing and gives nothing back".
std::string_view meaning(Verdict verdict);
/// The time to OOM is too uncertain for an alert.
bool is_doubtful(const Forecast& forecast);

/// Column widths; 0: no room. The least important columns are dropped first.
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
