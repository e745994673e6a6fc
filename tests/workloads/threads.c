/* N threads (9) fault at once until the process is killed: several of them are in the kernel when the limit
 * is met. */
#include <pthread.h>
#include <stdlib.h>

#include "truth.h"

static pthread_barrier_t barrier;

static void* run(void* unused) {
  (void)unused;
  tell("thread", "%s", "\"grows\":true");
  pthread_barrier_wait(&barrier);
  grow_until_killed(64 << 10);
}

int main(int argc, char** argv) {
  unsigned count = argc > 1 ? (unsigned)parse_number(argv[1]) : 9;
  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, count);
  tell_cmdline("ready");
  wait_for_go();
  for (unsigned i = 1; i < count; i++)
    if (pthread_create(&thread, NULL, run, NULL)) die("pthread_create");
  run(NULL);
}
