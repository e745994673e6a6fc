// The post-mortem of one OOM episode: facts, findings, and what would have prevented it, computed once for
// all renderers. A pure function of a StoredEpisode.
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

/// A sentence and its evidence. Plain text; names in it are already escaped.
struct Finding {
  std::string text;
  std::vector<std::string> evidence;
  std::string_view kind{};  // effect of an advice: cure, save (the work), delay
};

/// Values at the times of the Timeline; nullopt: unknown at that time.
using Column = std::vector<std::optional<Bytes>>;

/// One stacked chart: a cgroup's or process's memory by kind.
struct Curve {
  std::string name;  // "/train/worker", "python3[1234] train.py"; escaped
  bool process = false;
  bool limit_owner = false;  // of the cgroup whose limit was hit
  bool victim = false, culprit = false;
  struct Kind {
    std::string name;  // anon, file, shmem, kernel, swap, unattributed
    Column values;
  };
  std::vector<Kind> kinds;
  Column total;  // usage, RSS
  Column pinned;
  Column limit;
  std::string trend;  // describe_trend(); empty: unknown
};

/// An event, drawn as a mark.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kill, user_kill, alert, verdict, exit, reclaim, limit, lost };
  Kind kind = Kind::kill;
  double at = 0;     // s before (negative) or after the kill
  std::string text;  // escaped
};

/// A deadline as forecast at `at`: between `low` and `high` (nullopt: may never come); all in s from the
/// kill.
struct ForetoldDeadline {
  double at = 0, eta = 0, low = 0;
  std::optional<double> high;
};

/// All curves on one axis.
struct Timeline {
  std::vector<double> at;            // s from the kill, ascending; includes the kill itself, 0
  std::size_t moments_left_out = 0;  // for size: curves except the first may lack a peak
  std::vector<Curve> curves;         // the limit's cgroup first, then by importance
  std::vector<TimelineEvent> events;
  std::size_t events_left_out = 0;
  std::vector<ForetoldDeadline> forecasts;
};

/// One line of the process table.
struct PostMortemProcess {
  ProcessRef process;
  bool victim = false, culprit = false, trigger = false;
  std::optional<Bytes> rss, anon, file, shmem, swap;  // at the kill, or as last seen
  std::optional<Bytes> grew;                          // within the timeline
  std::optional<BytesPerSec> growth;
  std::optional<int> oom_score_adj;
  bool ended_before = false;
};

/// The memory of the limit's cgroup by kind.
struct PostMortemMemory {
  MemoryAtKill kinds;
  std::optional<Bytes> usage, unattributed;
  bool exact = false;  // from the kernel's report; otherwise from the newest sample
  Seconds age{};       // of that sample
};

/// How usage rose to the limit.
struct Rise {
  Verdict cause = Verdict::unknown;
  Bytes from, to;                  // unreclaimable memory
  Seconds took{};                  // from there to the kill
  bool sudden = false;             // more at once than the earlier growth explains
  Seconds seen{};                  // how long the curve was known before the kill
  std::optional<Bytes> came_back;  // peak of earlier similar rises that came down again
  std::optional<Forecast> before;  // as of the beginning of the rise
  Seconds before_age{};            // of `before`, at the kill
};

struct PostMortem {
  StoredEpisode episode;
  std::optional<PostMortemMemory> memory;
  std::optional<Rise> rise;            // nullopt: no curve
  std::optional<GrewProcess> culprit;  // the process that grew most
  std::string headline;                // one sentence: the victim, and which limit
  std::vector<Finding> findings;       // most important first
  std::vector<Finding> prevention;     // what would have prevented it
  std::vector<std::string> unknown;    // what is unknown, and why
  std::vector<Finding> next;           // commands to run, so that it is known next time
  std::vector<PostMortemProcess> processes;
  Timeline timeline;
};

PostMortem make_post_mortem(StoredEpisode episode);

}  // namespace oomcast
