// The commands: their names, their help and their flags.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/options.h"

namespace CLI {
class App;
}

namespace oomcast {

struct CommandSpec {
  Command command;
  std::string_view name, help;
  /// Binds the flags to `options`: each is checked when parsed, combinations by the callback.
  void (*add_flags)(CLI::App& app, Options& options);
  Result<int> (*run)(const Options& options);
};

/// In the order of the help.
std::span<const CommandSpec> command_specs();

/// The store of root.
inline constexpr const char* kSystemStore = "/var/lib/oomcast";
/// Configuration and event socket of the service.
inline constexpr const char* kSystemConfig = "/etc/oomcast/oomcast.conf";
inline constexpr const char* kEventSocket = "/run/oomcast/events.sock";
/// The store that systemd names for a service, or the system's, or the user's.
std::string default_store();

}  // namespace oomcast
