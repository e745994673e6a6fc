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
/// What report, history and blame write, each some of them.
enum class Format { text, json, markdown, html, folded, pprof };
enum class ColorChoice { automatic, always, never };
enum class Shell { bash, zsh, fish };

/// Whose memory is told about; all empty: the whole machine.
struct ScopeOptions {
  std::optional<std::string> cgroup, container, unit, slurm_job;
  std::optional<std::uint32_t> pid;
  bool wait = false;
  bool whole_machine() const { return !cgroup && !container && !unit && !slurm_job && !pid; }
  /// "--cgroup /train", as a person would write it.
  std::string describe() const;
};

/// What is watched for, and what is done then: every action for every rule.
struct AlertOptions {
  std::vector<AlertRule> rules;  // with an action but without --alert: the forecast's own alert
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

/// For tests: a stand-in for the NVIDIA driver.
struct GpuTestOptions {
  std::vector<GpuSourceOptions::TestFile> files;
  std::optional<GpuDriverVersion> version;
  std::string trace;  // the calls as they were read, one JSON object a line: a fixture
  std::string cards;  // in place of /proc/driver/nvidia-uvm/gpus
};

/// Where data comes from, and how closely it is looked at.
struct SourceOptions {
  std::string root;  // the machine's /proc and /sys are there
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

/// Of replay and compare: recordings, or series in CSV.
struct SeriesOptions {
  std::string file, other;
  std::optional<Nanos> every;
  SeriesChoices choices;  // of a series of another tool; the limit of any
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
  bool import = true;  // keep in the store what the logs tell
};

struct BlameOptions {
  std::string file;  // empty, "-": stdout
  Format format = Format::text;
  std::string earlier;            // --since: what blame --json wrote
  std::vector<std::string> diff;  // two of it
  bool brief = false;             // as a look of trace needs it
};

/// Where the service is reached, and what it writes beside the store.
struct DaemonOptions {
  std::string socket;              // of its stream, trace's too; empty: none
  std::string metrics_file;        // empty: none
  std::string config;              // that was read, if it is there
  std::vector<std::string> words;  // the command line, to read the configuration again
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
  bool direct = false;        // trace: by itself, whether a daemon runs or not
  Shell shell = Shell::bash;  // of completion
};

/// What main does next: run `options`, or print `text` and exit 0 (help, version).
struct ParsedArguments {
  Options options;
  std::optional<std::string> text;
};

/// "USR1", "SIGUSR1" and "10" are 10. nullopt: no signal.
std::optional<int> parse_signal(std::string_view text);
/// "SIGUSR1"; "signal 40" for one without a name.
std::string signal_name(int signal);

/// Error::usage (exit 2) names the wrong word and where to read on.
Result<ParsedArguments> parse_arguments(int argc, const char* const* argv, const std::string& version);

}  // namespace oomcast
