// argv → Options. The contract's commands and flags.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/gpu_source.h"
#include "collect/perf_event.h"
#include "forecast/alert_rule.h"
#include "parse/series_forms.h"
#include "store/writer.h"
#include "stream/fact_filter.h"

namespace oomcast {

enum class Command {
  watch,
  trace,
  run,
  record,
  replay,
  report,
  history,
  compare,
  blame,
  daemon,
  doctor,
  completion
};
/// Output formats of report, history and blame; each supports some of them.
enum class Format { text, json, markdown, html, folded, pprof };
enum class ColorChoice { automatic, always, never };
enum class Shell { bash, zsh, fish };

/// What to report on; all empty: the whole machine.
struct ScopeOptions {
  std::optional<std::string> cgroup, container, unit, slurm_job;
  std::optional<std::uint32_t> pid;
  bool wait = false;
  bool whole_machine() const { return !cgroup && !container && !unit && !slurm_job && !pid; }
  /// "--cgroup /train", as a person would write it.
  std::string describe() const;
};

/// Alert rules and actions; every action runs for every rule.
struct AlertOptions {
  std::vector<AlertRule> rules;  // an action without --alert: the forecast's own alert
  std::optional<std::string> exec, touch;
  std::optional<int> signal;
  bool any() const { return !rules.empty(); }
  bool acts() const { return exec || touch || signal; }
};

struct OutputOptions {
  bool json = false;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
  int verbose = 0;
};

struct StoreOptions {
  std::string path;  // a directory, or a file to read; empty: none
  StoreLimits limits;
  bool named = false;  // --store was given
};

/// For tests: a fake NVIDIA driver.
struct GpuTestOptions {
  std::vector<GpuSourceOptions::TestFile> files;
  std::optional<GpuDriverVersion> version;
  std::string trace;  // recorded calls, one JSON object a line: a fixture
  std::string cards;  // instead of /proc/driver/nvidia-uvm/gpus
};

/// Where data comes from.
struct SourceOptions {
  std::string root;  // prefix of the machine's /proc and /sys
  bool use_bpf = true, use_kmsg = true;
  Nanos interval = std::chrono::seconds(1);
  GpuTestOptions gpu_test;
  Events page_faults = Events::of_this_machine, data_breakpoints = Events::of_this_machine;  // for tests
};

struct RunOptions {
  std::optional<Bytes> memory;
  std::vector<std::string> command;
};

struct RecordOptions {
  std::string file;
  bool force = false;  // replace it
};

/// For replay and compare: recordings or CSV series.
struct SeriesOptions {
  std::string file, other;
  std::optional<Nanos> every;
  SeriesChoices choices;  // for a series of another tool; the limit for any series
};

struct ReportOptions {
  std::string id;    // of the episode; empty: the last
  std::string file;  // empty, "-": stdout
  Format format = Format::text;
};

struct HistoryOptions {
  Format format = Format::text;
  std::vector<std::string> logs;  // --from
  std::optional<WallTime> since;
  bool import = true;  // save kills from logs in the store
};

struct BlameOptions {
  std::string file;  // empty, "-": stdout
  Format format = Format::text;
  std::string earlier;            // --since: output of blame --json
  std::vector<std::string> diff;  // two of those
  bool brief = false;             // for a profile started by trace
};

/// The service's socket, and what it writes besides the store.
struct DaemonOptions {
  std::string socket;              // of its events, also for trace; empty: none
  std::string metrics_file;        // empty: none
  std::string config;              // that was read, if it exists
  std::vector<std::string> words;  // the command line, to reload the configuration
};

struct Options {
  Command command = Command::watch;
  ScopeOptions scope;
  AlertOptions alert;
  OutputOptions output;
  FactChoice choice;  // of trace, run and replay
  StoreOptions store;
  SourceOptions sources;
  std::optional<Nanos> duration;  // --for
  RunOptions run;
  RecordOptions record;
  SeriesOptions series;
  ReportOptions report;
  HistoryOptions history;
  BlameOptions blame;
  DaemonOptions daemon;
  bool direct = false;        // trace: by itself, even if a daemon runs
  Shell shell = Shell::bash;  // of completion
};

/// What main does next: run `options`, or print `text` and exit 0 (help, version).
struct ParsedArguments {
  Options options;
  std::optional<std::string> text;
};

/// "USR1", "SIGUSR1" and "10" are 10. nullopt: not a signal.
std::optional<int> parse_signal(std::string_view text);
/// "SIGUSR1"; "signal 40" if it has no name.
std::string signal_name(int signal);

/// Error::usage (exit 2) names the wrong word and where to find help.
Result<ParsedArguments> parse_arguments(int argc, const char* const* argv, const std::string& version);

}  // namespace oomcast
