// The post-mortem of one OOM episode: its facts, what they mean, and what would have prevented it, once for
// all renderers. Made from a StoredEpisode alone, by a pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "forecast/forecast.h"
#include "model/facts.h"
#include "store/store.h"
#include "stream/facts.h"

namespace oomcast {

/// A sentence with what it rests on. Plain text; names in it are escaped already.
struct Finding {
  std::string text;
  std::vector<std::string> evidence;
  std::string_view kind{};  // of advice, what it does: cure, save (the work), delay
};

/// Values at the times of the Timeline; nullopt: not known at that moment.
using Column = std::vector<std::optional<Bytes>>;

/// One stacked chart: the kinds of memory of a cgroup or a process.
struct Curve {
  std::string name;  // "/train/worker", "python3[1234] train.py"; escaped
  bool process = false;
  bool limit_owner = false;  // of the cgroup whose limit was met
  bool victim = false, culprit = false;
  struct Kind {
    std::string name;  // anon, file, shmem, kernel, swap, unattributed
    Column values;
  };
  std::vector<Kind> kinds;
  Column total;  // usage, RSS
  Column pinned;
  Column limit;
  std::string trend;  // describe_trend(); empty: not known
};

/// Something at a moment, drawn as a mark.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kill, user_kill, alert, verdict, exit, reclaim, limit, lost };
  Kind kind = Kind::kill;
  double at = 0;     // s before (negative) or after the kill
  std::string text;  // escaped
};

/// A deadline as it was foretold: at `at`, between `low` and `high` (nullopt: may never); all s from the
/// kill.
struct ForetoldDeadline {
  double at = 0, eta = 0, low = 0;
  std::optional<double> high;
};

/// All curves on one axis.
struct Timeline {
  std::vector<double> at;            // s from the kill, ascending; the kill itself, 0, is one of them
  std::size_t moments_left_out = 0;  // of too many: the curves but the first may lack a peak
  std::vector<Curve> curves;         // the limit's cgroup first, then what mattered most
  std::vector<TimelineEvent> events;
  std::size_t events_left_out = 0;
  std::vector<ForetoldDeadline> forecasts;
};

/// One line of the process table.
struct PostMortemProcess {
  ProcessRef process;
  bool victim = false, culprit = false, trigger = false;
  std::optional<Bytes> rss, anon, file, shmem, swap;  // at the kill, or the last that was seen
  std::optional<Bytes> grew;                          // within the timeline
  std::optional<BytesPerSec> growth;
  std::optional<int> oom_score_adj;
  bool ended_before = false;
};

/// Where the memory of the limit's cgroup was.
struct PostMortemMemory {
  MemoryAtKill kinds;
  std::optional<Bytes> usage, unattributed;
  bool exact = false;  // by the kernel's report of the kill; otherwise by the newest sample
  Seconds age{};       // of that sample
};

/// How the limit was met.
struct Rise {
  Verdict cause = Verdict::unknown;
  Bytes from, to;                  // of what cannot be dropped
  Seconds took{};                  // from there to the kill
  bool sudden = false;             // more at once than the growth before explains
  Seconds seen{};                  // for how long the curve was known before the kill
  std::optional<Bytes> came_back;  // the highest of several earlier rises like it that did
  std::optional<Forecast> before;  // as it was when the rise began
  Seconds before_age{};            // of `before`, at the kill
};

struct PostMortem {
  StoredEpisode episode;
  std::optional<PostMortemMemory> memory;
  std::optional<Rise> rise;            // nullopt: no curve
  std::optional<GrewProcess> culprit;  // who grew most
  std::string headline;                // one sentence: who died, at which limit
  std::vector<Finding> findings;       // most important first
  std::vector<Finding> prevention;     // what would have prevented it
  std::vector<std::string> unknown;    // what could not be told, and why
  std::vector<Finding> next;           // what to run, so that it is known next time
  std::vector<PostMortemProcess> processes;
  Timeline timeline;
};

PostMortem make_post_mortem(StoredEpisode episode);

}  // namespace oomcast
