// argv → Options. The contract's commands and flags.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/gpu_source.h"
#include "forecast/alert_rule.h"
#include "store/writer.h"

namespace oomcast {

enum class Command { watch, trace, run, record, replay, report, history, compare, blame, doctor };
/// What report, history and blame write; each knows some of them.
enum class Format { text, json, markdown, html, folded, pprof };
enum class ColorChoice { automatic, always, never };

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
};

struct Options {
  Command command = Command::watch;
  ScopeOptions scope;
  AlertOptions alert;
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  ColorChoice color = ColorChoice::automatic;
  std::optional<Nanos> duration;  // --for
  Nanos interval = std::chrono::seconds(1);
  std::string root;
  bool use_bpf = true;
  bool use_kmsg = true;
  std::optional<Bytes> memory;         // run --memory
  std::vector<std::string> arguments;  // run: the command
  std::string file, other;        // record, replay, compare: recordings, or series in CSV; report, blame: -o
  std::string earlier;            // blame --since: what blame --json wrote
  std::vector<std::string> diff;  // blame --diff: two of it
  bool force = false;             // record: replace the file
  std::string id;                 // report: of the episode; empty: the last
  Format format = Format::text;
  std::optional<Bytes> limit;  // replay --limit
  std::optional<Nanos> every;  // replay --every
  std::string store;           // --store: a directory, or a file to read; empty: none
  StoreLimits store_limits;
  bool store_named = false;                                // --store was given
  std::vector<std::string> logs;                           // history --from
  std::optional<WallTime> since;                           // history --since
  bool import = true;                                      // history: keep in the store what the logs tell
  std::vector<GpuSourceOptions::TestFile> gpu_test_files;  // --gpu-test, for tests: a stand-in for the driver
  std::optional<GpuDriverVersion> gpu_test_version;
  std::string gpu_test_trace;  // the calls as they were read, one JSON object a line: a fixture
  std::string gpu_test_cards;  // in place of /proc/driver/nvidia-uvm/gpus
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
