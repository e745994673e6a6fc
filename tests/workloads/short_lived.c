/* Meets the limit as soon as it runs: all of it in one system call. */
#include <sys/mman.h>

#include "truth.h"

int main(int argc, char** argv) {
  uint64_t bytes = argc > 1 ? parse_size(argv[1]) : 64 << 20;
  tell_cmdline("ready");
  mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  tell("survived", "\"bytes\":%llu", (unsigned long long)bytes);
  return 1;
}
