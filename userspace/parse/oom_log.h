// The kernel's OOM reports, put together from its log: one OomDump per decision to kill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "parse/kmsg_record.h"
#include "parse/oom_lines.h"

namespace oomcast {

/// The time of day, as far as a log tells it.
struct WallStamp {
  Nanos since_epoch{};
  Nanos error{};          ///< the truth is within this of it
  bool yearless = false;  ///< see log_lines.h: the log's end decides the year
};

/// One line of a log, without its prefix.
struct LogLine {
  std::optional<Nanos> time;  ///< on one clock that does not run backwards, since boot or since the epoch
  std::string_view text;
  std::string_view caller = {};  ///< who printed it ("T123"), where the log tells; keeps two reports apart
  bool continuation = false;     ///< the log says that this continues its caller's previous line
  bool broken = false;           ///< of a continuation: a mail program broke the line, and left a space out
  bool cut = false;              ///< the line's end is missing
  std::optional<WallStamp> wall = {};
};

/// A record as a line; nullopt unless the kernel itself wrote it: user space can log "Killed process …" too.
std::optional<LogLine> line_of(const KmsgRecord& record);

/// How much of hostile or broken input is kept. What is over is counted in the dump.
struct OomLogLimits {
  std::size_t open_dumps = 16;                 ///< then the oldest is finished early
  std::size_t finished_dumps = 64;             ///< not taken yet; then the oldest is lost
  std::size_t rows = 512;                      ///< of the table, per dump
  std::size_t victims = 1024;                  ///< and others killed with them
  std::size_t stats_blocks = 8;                ///< per dump
  std::size_t stats = 256;                     ///< per block
  std::size_t line_bytes = 8192;               ///< a longer line is cut
  Nanos settle = std::chrono::seconds(2);      ///< a dump is finished when its last line is older than this
  Nanos unfinished = std::chrono::seconds(2);  ///< the same of one that names more victims; see OomLogParser
  bool lone_lines =
      false;  ///< a line alone, shortened or of the reaper, tells of a kill: for logs that people keep
};

enum class OomScope : std::uint8_t { memcg, global, cpuset, mempolicy, sysrq };
std::string_view to_string(OomScope scope);

/// One decision of the OOM killer, as far as the log tells. Every part may be missing: the kernel prints the
/// report only 10 times in 5 s (then victims stand alone), and logs are cut and overwritten.
struct OomDump {
  struct Times {
    std::optional<Nanos> first, last;  ///< of its first and last line, as given
    std::optional<Nanos> kill;         ///< of the first victim's line
  } time;
  std::optional<WallStamp> wall;  ///< of the first victim's line, or else of the first line
  std::optional<OomInvoked> invoked;
  std::optional<std::uint32_t> trigger_tid;
  std::optional<OomConstraint> constraint;
  std::optional<MemcgTaskLine> memcg_task;
  std::vector<MemcgUsageLine> usage;
  std::vector<MemcgStatsHead> stats;   ///< the limit's cgroup first; old kernels print its children too
  std::vector<TaskRow> tasks;          ///< those that could have been killed; over the limit, the largest
  std::optional<OomChosen> chosen;     ///< until 5.0
  std::vector<OomVictimLine> victims;  ///< each thread once, though the kernel may name it twice
  std::optional<OomGroupKill> group_kill;
  std::vector<OomSharesMemory> also_killed;
  std::vector<OomReaped> reaped;
  std::optional<OomNoVictim> no_victim;
  std::optional<OomCpuset> cpuset;  ///< the trigger's, until 4.20; later it is in the constraint
  OomMemInfo mem_info;              ///< empty unless the machine itself was short of memory
  std::size_t dropped = 0;          ///< rows, victims and numbers over a limit
  struct Counts {
    std::size_t named_again = 0;  ///< lines of a victim that had one; the kernel counts a kill for each
    std::size_t tasks = 0;        ///< rows of the table, with those over the limit
    std::optional<std::uint64_t> rss_pages, swap_pages;  ///< of all of them; nullopt: no row has the column
  } counts;
  bool interleaved = false;  ///< another report was printed between its lines and nothing tells whose usage,
                             ///< statistics and rows are whose; victims are still right

  /// nullopt: the log does not tell. Before 5.0 only memcg and sysrq show.
  std::optional<OomScope> scope() const;
  /// Whose limit fired; nullopt if it was not a memory cgroup's, or the log does not tell.
  std::optional<std::string> limit_cgroup() const;
  const MemcgUsageLine* usage_of(MemcgCounter counter) const;
};

/// Fed the lines of one log in order. Not tied to a kernel version: every form is told by its text.
///
/// Which dump a line belongs to: its caller's newest, where the log names callers. Where it does not,
/// "invoked oom-killer" begins a dump and what follows is its own; only the choice and the death of a process
/// that another still victimless dump has listed go to that one. A process that fits none, or more than one,
/// stands alone, and so does a second victim without "memory.oom.group" before it. After a group kill, the
/// victim of a decision whose report was rate-limited cannot be told from the group's, except by `settle`.
///
/// A report whose victim is not named yet goes on, and so does a group kill for the limit of the group's own
/// cgroup until each process of the table is named: there the group is the table, but for those that no kill
/// may take (oom_score_adj -1000).
///
/// A line that the log split over several records is put together again if its caller's next line completes
/// it.
///
/// Cost: one pass over a line; memory is bounded by OomLogLimits.
class OomLogParser {
 public:
  explicit OomLogParser(OomLogLimits limits = {}) : limits_(limits) {}

  /// The facts of this line: mostly none or one; more when unfinished lines had to be given up first.
  std::vector<LogEvent> feed(const LogLine& line);

  /// The dumps that are complete, oldest first, each once. `now`, on the log's clock, finishes what has
  /// settled; without it only the lines' own times do.
  std::vector<OomDump> take_finished(std::optional<Nanos> now = std::nullopt);

  /// Also those that name one of `victims` but may go on, for who cannot wait. What still comes of one is
  /// another dump.
  std::vector<OomDump> take_named(Nanos now, const std::vector<std::uint32_t>& victims);

  /// The log has ended: all dumps that were open.
  std::vector<OomDump> finish();

  /// Nothing is open: a line that cannot begin a report may be passed over.
  bool idle() const { return open_.empty() && begun_.empty(); }
  /// A line has begun whose rest may come.
  bool waits_for_rest() const { return !begun_.empty(); }

  /// Dumps that nobody took in time, since the beginning.
  std::size_t lost_dumps() const { return lost_dumps_; }
  /// Lines that speak of a kill, whose rest never came, and that say nothing by themselves; and the first.
  std::size_t given_up() const { return given_up_; }
  const std::string& first_given_up() const { return first_given_up_; }

 private:
  struct Open {
    OomDump dump;
    std::string caller;
    std::vector<TaskColumn> columns;  // of the table being printed
    bool in_stats = false;
    bool in_group = false;
    bool mem_info_mixed = false;
  };
  struct When {
    std::optional<Nanos> time;
    std::optional<WallStamp> wall;
  };
  struct Begun {
    When when;
    std::string caller;
    std::string text;
  };

  bool names_again(const LogEvent& fact, const When& when) const;
  bool is_reversed(const OomDump& dump) const;
  Open* newest_of(std::string_view caller);
  Open* owner_of_task(std::string_view caller, std::uint32_t tid);
  Open* owner_of(const LogEvent& fact, std::string_view caller, const When& when);
  Open& begin(const When& when, std::string_view caller);
  void close(std::list<Open>::iterator open);
  void settle(Nanos now, std::vector<LogEvent>& out);

  bool complete_begun(const LogLine& line, std::string_view text, std::vector<LogEvent>& out);
  void give_up(std::size_t begun_index, std::vector<LogEvent>& out);
  void hold(const LogLine& line, std::string_view text, std::vector<LogEvent>& out);

  void accept(const When& when, std::string_view caller, LogEvent fact, std::vector<LogEvent>& out);
  void feed_part(const Open& open, const LogLine& line, std::string_view text, bool cut,
                 std::vector<LogEvent>& out);
  void store(Open& open, const LogEvent& fact, const When& when);
  static void note_part(Open& open, const LogEvent& fact, bool stats_fit);
  void store_victim(Open& open, const OomVictimLine& victim, const When& when);
  void store_mem_info(Open& open, const MemInfoLine& line);
  void store_task(Open& open, const TaskRow& row);
  template <typename T>
  void append(Open& open, std::vector<T>& list, std::size_t limit, const T& item);

  OomLogLimits limits_;
  std::deque<std::pair<std::uint32_t, std::optional<std::string>>> named_;  // newest victims of closed dumps
  std::list<Open> open_;                                                    // oldest first
  std::vector<Begun> begun_;  // oldest first, at most one of a caller
  std::vector<OomDump> finished_;
  std::size_t lost_dumps_ = 0, given_up_ = 0;
  std::string first_given_up_;
};

}  // namespace oomcast
