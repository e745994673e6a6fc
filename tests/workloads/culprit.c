/* culprit LIMIT: three processes in a cgroup of that limit. One holds 60 % of it and is quiet; one holds 22 %
 * and has the highest oom_score_adj, so it is the victim; one allocates the last bit and so triggers the
 * kill. Those that live on hold what they have until the end of stdin.
 * A process that exits counts as gone before the last 10,000 of its pages are given back (one batch of the
 * kernel's mmu_gather), and who allocates just then has a second process killed. So the victim holds more
 * pages than that: a LIMIT of 256M or more. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "truth.h"

static void hand_over(int fd) {
  if (write(fd, "x", 1) != 1) die("write");
}

static void await(int fd) {
  char byte;
  if (read(fd, &byte, 1) != 1) die("read");
}

int main(int argc, char** argv) {
  uint64_t limit = parse_size(argc > 1 ? argv[1] : "128M");
  int to_victim[2], to_trigger[2];
  if (pipe(to_victim) || pipe(to_trigger)) die("pipe");
  tell_cmdline("ready");

  pid_t victim = fork();
  if (victim == 0) {
    prctl(PR_SET_NAME, "the_victim");
    int fd = open("/proc/self/oom_score_adj", O_WRONLY);
    if (fd < 0 || write(fd, "1000", 4) != 4) die("oom_score_adj");
    tell("role", "%s", "\"role\":\"victim\"");
    await(to_victim[0]);
    touch(reserve(MEMORY_ANON, limit), limit / 100 * 22);
    hand_over(to_trigger[1]);
    for (;;) pause();
  }
  pid_t trigger = fork();
  if (trigger == 0) {
    prctl(PR_SET_NAME, "the_trigger");
    tell("role", "%s", "\"role\":\"trigger\"");
    await(to_trigger[0]);
    touch(reserve(MEMORY_ANON, limit), limit / 100 * 20);
    tell("survived", "%s", "\"role\":\"trigger\"");
    wait_for_go();
    return 0;
  }
  if (victim < 0 || trigger < 0) die("fork");
  tell("role", "%s", "\"role\":\"culprit\"");
  touch(reserve(MEMORY_ANON, limit), limit / 100 * 60);
  hand_over(to_victim[1]);
  wait_for_go();
  return 0;
}
