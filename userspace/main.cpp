// argv → Options → command → exit code.
#include <malloc.h>
#include <sys/prctl.h>

#include <csignal>
#include <string_view>

#include "app/blame_reader.h"
#include "app/commands.h"
#include "app/options.h"
#include "app/reader.h"
#include "base/print.h"

int main(int argc, char** argv) {
  using namespace oomcast;
  mallopt(M_ARENA_MAX, 1);                // a second one for the store's thread keeps 4 MiB that nobody uses
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);  // else it rises to the largest that was freed, the kernel's types
  prctl(PR_SET_NAME, "oomcast");          // "exe", where it starts itself
  std::signal(SIGPIPE, SIG_IGN);          // a reader that went away is an error of its own
  std::signal(SIGCHLD, SIG_DFL);  // where whoever started it ignores them, nobody hears how a child ended
  // Not commands: how it starts the processes that look at others' memory.
  if (std::string_view first = argc >= 2 ? argv[1] : ""; first == "--reader" || first == "--blame-reader")
    return (first == "--reader" ? serve_reader : serve_blame)(argc > 2 ? argv[2] : "");
  auto fail = [](const Error& error) {
    if (!error.message.empty()) print(stderr, "oomcast: " + error.message + "\n");
    return error.exit_code;
  };
  auto parsed = parse_arguments(argc, argv, OOMCAST_VERSION);
  if (!parsed) return fail(parsed.error());
  if (parsed->text) {
    return print(stdout, *parsed->text) ? 0 : 1;
  }
  Result<int> code = execute(parsed->options);
  return code ? *code : fail(code.error());
}
