/* sleeper [SECONDS]: says that it is there and does nothing. */
#include <unistd.h>

#include "truth.h"

int main(int argc, char** argv) {
  tell_cmdline("ready");
  if (argc > 1) {
    sleep_ms(parse_number(argv[1]) * 1000);
    tell("done", "%s", "\"slept\":true");
    return 0;
  }
  for (;;) pause();
}
