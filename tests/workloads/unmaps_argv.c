/* Unmaps the pages that hold its arguments, then grows until it is killed: its command line cannot be read
 * any more. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "truth.h"

static char* from;
static char* to;

/* Until the main thread sleeps in pthread_join: on its way there it still uses the stack. */
static void wait_for_main_to_sleep(void) {
  char path[64], line[512], state = 0;
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
  while (state != 'S') {
    usleep(20000);
    FILE* stat = fopen(path, "re");
    if (!stat || !fgets(line, sizeof(line), stat) || !strrchr(line, ')'))
      die("reading the main thread's state");
    state = strrchr(line, ')')[2];
    fclose(stat);
  }
}

static void* run(void* unused) {
  (void)unused;
  wait_for_main_to_sleep();
  if (munmap(from, (size_t)(to - from))) die("munmap");
  tell_cmdline("unmapped");
  wait_for_go();
  grow_until_killed(64 << 10);
}

int main(int argc, char** argv) {
  char line[512];
  unsigned long start, end;
  tell_cmdline("ready");
  from = (char*)((uintptr_t)argv[0] & ~4095ul);
  FILE* maps = fopen("/proc/self/maps", "re");
  while (maps && fgets(line, sizeof(line), maps))
    if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (uintptr_t)from && (uintptr_t)from < end)
      to = (char*)end;
  if (argc < 1 || !to) die("no stack in /proc/self/maps");
  fclose(maps);
  /* The main thread sleeps in the same page perhaps, so it never returns to user space. */
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL)) die("pthread_create");
  pthread_join(thread, NULL);
  return 1;
}
