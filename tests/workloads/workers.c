/* workers SIZE WORKERS WRITERS [MAPPED]: loads SIZE of anonymous memory and forks WORKERS that share it, as a
 * DataLoader does. The first WRITERS of them copy a page in a thousand each five seconds; the others sleep.
 * MAPPED: what one process more has in memory, 64 MiB of a file again and again: as much page tables, and
 * hardly any memory. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "truth.h"

#define PAGE 4096
#define FILE_BYTES (64ull << 20)

static void map_again_and_again(uint64_t bytes) {
  int fd = memfd_create("workers", 0);
  if (fd < 0 || ftruncate(fd, FILE_BYTES)) die("memfd_create");
  for (uint64_t done = 0; done < bytes; done += FILE_BYTES)
    if (mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0) == MAP_FAILED)
      die("mmap");
  tell("mapped", "\"bytes\":%llu", (unsigned long long)bytes);
}

static void write_slowly(char* at, uint64_t bytes) {
  for (uint64_t round = 0;; round++) {
    for (uint64_t page = round % 256; page * PAGE < bytes; page += 1024) at[page * PAGE] = (char)round;
    sleep_ms(5000);
  }
}

int main(int argc, char** argv) {
  if (argc < 4) die("usage: workers SIZE WORKERS WRITERS [MAPPED]");
  uint64_t bytes = parse_size(argv[1]), workers = parse_number(argv[2]), writers = parse_number(argv[3]);
  tell_cmdline("ready");
  char* at = reserve(MEMORY_ANON, bytes);
  touch(at, bytes);
  for (uint64_t i = 0; i < workers + (argc > 4); i++) {
    pid_t child = fork();
    if (child < 0) die("fork");
    if (child) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (i == workers) map_again_and_again(parse_size(argv[4]));
    if (i < writers) write_slowly(at, bytes);
    for (;;) sleep_ms(1000);
  }
  tell("holds", "\"workers\":%llu", (unsigned long long)workers);
  for (;;) sleep_ms(1000);
}
