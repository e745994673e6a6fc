/* fault_storm SECONDS: a process on every CPU maps, touches and unmaps memory as fast as it can. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

int main(int argc, char** argv) {
  uint64_t seconds = argc > 1 ? parse_number(argv[1]) : 10, bytes = 4 << 20;
  uint64_t until = now_ns() + seconds * 1000000000u;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  tell_cmdline("ready");
  for (long cpu = 0; cpu < cpus; cpu++) {
    if (fork()) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((int)cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
    uint64_t faults = 0;
    while (now_ns() < until) {
      char* at = reserve(MEMORY_ANON, bytes);
      touch(at, bytes);
      munmap(at, bytes);
      faults += bytes / 4096;
    }
    tell("faulted", "\"cpu\":%ld,\"count\":%llu", cpu, (unsigned long long)faults);
    return 0;
  }
  while (wait(NULL) > 0) {
  }
  return 0;
}
