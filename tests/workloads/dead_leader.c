/* The main thread leaves with pthread_exit; another thread grows until the process is killed. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

static char leader_state(void) {
  char path[64], text[512];
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
  if (fd >= 0) close(fd);
  if (bytes <= 0) return 'X';
  text[bytes] = 0;
  char* end = strrchr(text, ')');
  return end ? end[2] : '?';
}

static void* run(void* unused) {
  (void)unused;
  while (leader_state() != 'Z' && leader_state() != 'X') sleep_ms(1);
  tell("leader_gone", "%s", "\"grows\":true");
  wait_for_go();
  grow_until_killed(64 << 10);
}

int main(void) {
  pthread_t thread;
  tell_cmdline("ready");
  if (pthread_create(&thread, NULL, run, NULL)) die("pthread_create");
  pthread_exit(NULL);
}
