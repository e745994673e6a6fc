/* What a supervisor does that starts again whatever dies: crash_loop KILLS AT_ONCE PERIOD_MS SIZE. Keeps
 * AT_ONCE children alive that take SIZE each, a new one PERIOD_MS after the last, until KILLS of them were
 * killed. */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

static void take(uint64_t bytes) {
  char* all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (all != MAP_FAILED) touch(all, bytes);
  for (;;) pause();
}

int main(int argc, char** argv) {
  if (argc != 5) die("crash_loop KILLS AT_ONCE PERIOD_MS SIZE");
  uint64_t kills = parse_number(argv[1]), at_once = parse_number(argv[2]), period_ms = parse_number(argv[3]);
  uint64_t bytes = parse_size(argv[4]);
  uint64_t killed = 0, started = 0, alive = 0;
  tell_cmdline("ready");
  wait_for_go();
  while (killed < kills) {
    while (alive < at_once && started < kills) {
      if (period_ms && started) sleep_ms(period_ms);
      pid_t child = fork();
      if (child < 0) die("fork");
      if (child == 0) take(bytes);
      alive++;
      started++;
    }
    int status = 0;
    pid_t child = wait(&status);
    if (child < 0) die("wait");
    alive--;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
      killed++;
      tell("kill", "\"victim\":%d", (int)child);
    } else {
      started--;
    }
  }
  tell("killed", "\"count\":%llu", (unsigned long long)killed);
  return 0;
}
