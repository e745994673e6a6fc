/* forker SECONDS [PROCESSES]: each process forks children that exit at once, as fast as it can. */
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

int main(int argc, char** argv) {
  uint64_t seconds = argc > 1 ? parse_number(argv[1]) : 10, processes = argc > 2 ? parse_number(argv[2]) : 2;
  uint64_t until = now_ns() + seconds * 1000000000u;
  tell_cmdline("ready");
  for (uint64_t i = 1; i < processes; i++)
    if (fork() == 0) break;
  uint64_t forks = 0;
  while (now_ns() < until) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0) {
      sleep_ms(1);
      continue;
    }
    waitpid(child, NULL, 0);
    forks++;
  }
  tell("forked", "\"count\":%llu,\"seconds\":%llu", (unsigned long long)forks, (unsigned long long)seconds);
  while (wait(NULL) > 0) {
  }
  return 0;
}
