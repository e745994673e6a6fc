/* hostile_name [hold|grow]: a comm that breaks lines, terminals and JSON; then it holds, or grows until it is
 * killed. */
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "truth.h"

int main(int argc, char** argv) {
  prctl(PR_SET_NAME, "a\n\x1b[31m\"\\\xff\xc3)");
  tell_cmdline("ready");
  wait_for_go();
  if (argc > 1 && !strcmp(argv[1], "hold")) {
    touch(reserve(MEMORY_ANON, 8 << 20), 8 << 20);
    for (;;) pause();
  }
  grow_until_killed(64 << 10);
}
