// argv → Options. The contract's commands and flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace oomcast {

enum class Command { watch, trace, run, replay, doctor };
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

struct Options {
  Command command = Command::watch;
  ScopeOptions scope;
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
  std::string file;                    // replay: the series
  std::optional<Bytes> limit;          // replay --limit
  std::optional<Nanos> every;          // replay --every
};

/// What main does next: run `options`, or print `text` and exit 0 (help, version).
struct ParsedArguments {
  Options options;
  std::optional<std::string> text;
};

/// Error::usage (exit 2) names the wrong word and where to read on.
Result<ParsedArguments> parse_arguments(int argc, const char* const* argv, const std::string& version);

}  // namespace oomcast
