/* Takes memory until it is killed, as the programs of the Linux Test Project do that look at the OOM killer.
 * `memory_hog HOW POLICY MIB`, MIB at a time.
 *   touch   one thread maps and touches
 *   mlock   a second thread locks what it maps, page by page: both want the lock of the address space as long
 * as they live merge   as touch, and the pages may be merged (KSM) POLICY: default, bind (the second node),
 * interleave or preferred (the second and third, or the second). */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static void set_policy(const char* name) {
  const unsigned long second = 1UL << 1, both = second | 1UL << 2;
  int mode = MPOL_DEFAULT;
  unsigned long nodes = 0;
  if (!strcmp(name, "bind")) mode = MPOL_BIND, nodes = second;
  if (!strcmp(name, "interleave")) mode = MPOL_INTERLEAVE, nodes = both;
  if (!strcmp(name, "preferred")) mode = MPOL_PREFERRED, nodes = second;
  if (mode != MPOL_DEFAULT && syscall(SYS_set_mempolicy, mode, &nodes, 8 * sizeof nodes))
    die("set_mempolicy");
}

int main(int argc, char** argv) {
  if (argc != 4) die("memory_hog HOW POLICY MIB");
  const char* how = argv[1];
  step = parse_number(argv[3]) << 20;
  pthread_t thread;
  set_policy(argv[2]);
  tell_cmdline("ready");
  wait_for_go();
  if (!strcmp(how, "mlock") && pthread_create(&thread, NULL, lock_it, NULL)) die("pthread_create");
  for (;;) {
    char* at = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) continue;
    if (!strcmp(how, "merge"))
      madvise(at, step, MADV_MERGEABLE); /* EINVAL: a kernel without it; then as touch */
    touch(at, step);
  }
}
