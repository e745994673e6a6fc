/* Takes the machine's memory with two threads until one of them is killed: one locks what it maps, page by
 * page, the other maps and touches. So the lock of the address space is wanted by both for as long as it
 * lives, as by the programs of the Linux Test Project that look at the OOM killer. `mlock_hog MIB`: each maps
 * as much at a time. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "truth.h"

static uint64_t step;

static void* lock_it(void* unused) {
  (void)unused;
  for (;;) {
    char* at = reserve(MEMORY_ANON, step);
    if (mlock(at, step)) continue; /* as far as it goes */
  }
  return NULL;
}

int main(int argc, char** argv) {
  step = (argc > 1 ? parse_number(argv[1]) : 64) << 20;
  pthread_t thread;
  tell_cmdline("ready");
  wait_for_go();
  if (pthread_create(&thread, NULL, lock_it, NULL)) die("pthread_create");
  for (;;) {
    char* at = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) touch(at, step);
  }
}
