/* SIZE of memory, and N threads that change its protection to and fro for ever: the lock of the address space
 * is always held, and whoever wants it waits for all of them. */
#include <pthread.h>
#include <sys/mman.h>

#include "truth.h"

static char* memory;
static uint64_t size;

static void* run(void* unused) {
  (void)unused;
  for (;;)
    if (mprotect(memory, size, PROT_READ) || mprotect(memory, size, PROT_READ | PROT_WRITE)) die("mprotect");
}

int main(int argc, char** argv) {
  size = parse_size(argc > 1 ? argv[1] : "128M");
  unsigned count = argc > 2 ? (unsigned)parse_number(argv[2]) : 64;
  pthread_t thread;
  memory = reserve(MEMORY_ANON, size);
  touch(memory, size);
  tell("ready", "\"threads\":%u", count);
  wait_for_go();
  for (unsigned i = 1; i < count; i++)
    if (pthread_create(&thread, NULL, run, NULL)) die("pthread_create");
  run(NULL);
}
