// The commands: their names, their help and their flags.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.h"

namespace CLI {
class App;
}

namespace oomcast {

/// Words as they come; they are read after parsing, so that every mistake is told in our words.
struct Texts {
  std::optional<std::string> duration, interval, memory, limit, every, store, store_max, store_keep, since,
      format;
  std::string color = "auto";
  std::vector<std::string> rules, gpu_test, only;
  std::optional<std::string> signal, unit, time, samples;
};

struct CommandSpec {
  Command command;
  std::string_view name, help;
  void (*add_flags)(CLI::App& app, Options& options, Texts& texts);
  Result<int> (*run)(const Options& options);
};

/// In the order of the help.
std::span<const CommandSpec> command_specs();

/// Where root's kills are.
inline constexpr const char* kSystemStore = "/var/lib/oomcast";
/// As systemd names it for a service, or the system's, or the user's.
std::string default_store();

}  // namespace oomcast
