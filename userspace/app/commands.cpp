#include "app/commands.h"

#include <algorithm>

#include "app/command_flags.h"

namespace oomcast {

Result<int> execute(const Options& options) {
  return std::ranges::find(command_specs(), options.command, &CommandSpec::command)->run(options);
}

}  // namespace oomcast
