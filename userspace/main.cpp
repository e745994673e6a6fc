// argv → Options → command → exit code.
#include <fmt/format.h>

#include "app/commands.h"
#include "app/options.h"

int main(int argc, char** argv) {
  using namespace oomcast;
  auto report = [](const Error& error) {
    fmt::print(stderr, "oomcast: {}\n", error.message);
    return error.exit_code;
  };
  auto parsed = parse_arguments(argc, argv, OOMCAST_VERSION);
  if (!parsed) return report(parsed.error());
  if (parsed->text) {
    fmt::print("{}", *parsed->text);
    return 0;
  }
  const Options& options = parsed->options;
  Result<int> code = [&] {
    switch (options.command) {
      case Command::trace:
        return trace(options);
      case Command::run:
        return run(options);
      case Command::doctor:
        return doctor(options);
      case Command::watch:
        break;
    }
    return watch(options);
  }();
  return code ? *code : report(code.error());
}
