/* Two processes with one memory.
 *
 *   vfork_share clone    a clone(CLONE_VM) child sleeps while the parent grows until both are killed
 *   vfork_share vfork    the parent waits in vfork while the child grows until both are killed
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

static char child_stack[64 << 10] __attribute__((aligned(16)));

static int sleep_in_child(void* unused) {
  (void)unused;
  tell("child", "%s", "\"grows\":false");
  for (;;) pause();
  return 0;
}

int main(int argc, char** argv) {
  tell_cmdline("ready");
  wait_for_go();
  if (argc > 1 && !strcmp(argv[1], "vfork")) {
    pid_t child = vfork();
    if (child < 0) die("vfork");
    if (child == 0) {
      tell("child", "%s", "\"grows\":true");
      sleep_ms(50);
      grow_until_killed(64 << 10);
    }
    waitpid(child, NULL, 0);
    return 0;
  }
  if (clone(sleep_in_child, child_stack + sizeof(child_stack), CLONE_VM | SIGCHLD, NULL) < 0) die("clone");
  sleep_ms(50);
  grow_until_killed(64 << 10);
}
