/* What a user without any privilege can do to whoever watches: hostile WHAT SECONDS [WORD…]. Further words
 * are only there to be seen.
 *
 *   kills_zombie   SIGKILLs to a child of its own that has ended
 *   kills_living   children that are made to be killed
 *   exit_kills     ends while it traces the zombies of its children: the kernel kills those, 300 each time
 *   exit_kills_living  the same of children that live
 *   cpu_limit_kills  children that the kernel kills because they may use no CPU time
 *   renames        gives itself another name all the time, with 70 MiB to be worth looking at
 *   gpu_calls      maps a page of the file that its first word names where its offset says, and unmaps it, as
 *                  managed memory of a GPU is
 *   children       400 at a time, which execute it anew with its words, hold 1 MiB for 2 s, and end
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

static uint64_t end_ns;
static int goes_on(void) {
  return now_ns() < end_ns;
}

static uint64_t kills_zombie(void) {
  uint64_t count = 0;
  pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  waitid(P_PID, child, &info, WEXITED | WNOWAIT);
  while (goes_on()) count += kill(child, SIGKILL) == 0;
  return count;
}

static uint64_t kills_living(void) {
  uint64_t count = 0;
  while (goes_on()) {
    pid_t child = fork();
    if (child < 0) continue;
    if (child == 0)
      for (;;) pause();
    count += kill(child, SIGKILL) == 0;
    waitpid(child, NULL, 0);
  }
  return count;
}

/* The tracer is not their parent: a zombie is the tracer's until that ends, and is killed with it. */
static uint64_t exit_kills(int living) {
  enum { MANY = 300 };
  uint64_t count = 0;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  while (goes_on()) {
    pid_t tracer = fork();
    if (tracer == 0) {
      for (int i = 0; i < MANY; i++) {
        pid_t child = fork();
        if (child == 0) {
          ptrace(PTRACE_TRACEME, 0, 0, 0);
          raise(SIGSTOP);
          while (living) pause();
          _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL);
        ptrace(PTRACE_CONT, child, 0, 0);
        siginfo_t info;
        if (!living) waitid(P_PID, child, &info, WEXITED | WNOWAIT);
      }
      _exit(0);
    }
    /* A machine's init may reap more slowly than these come, until there is no pid left for anybody. */
    while (waitpid(-1, NULL, 0) > 0) {
    }
    count += MANY;
  }
  return count;
}

static uint64_t cpu_limit_kills(void) {
  uint64_t count = 0;
  while (goes_on()) {
    pid_t child = fork();
    if (child < 0) continue;
    if (child == 0) {
      struct rlimit none = {0, 0};
      setrlimit(RLIMIT_CPU, &none);
      for (;;) { /* until the kernel's next tick */
      }
    }
    waitpid(child, NULL, 0);
    count++;
  }
  return count;
}

static uint64_t renames(void) {
  uint64_t count = 0;
  char* held = reserve(MEMORY_ANON, 70 << 20);
  touch(held, 70 << 20);
  char name[16];
  while (goes_on()) {
    snprintf(name, sizeof(name), "name %llu", (unsigned long long)count++);
    prctl(PR_SET_NAME, name);
    /* Something moves, so that it is looked at. */
    char* more = reserve(MEMORY_ANON, 4 << 20);
    touch(more, 4 << 20);
    munmap(more, 4 << 20);
    sleep_ms(10);
  }
  return count;
}

static uint64_t gpu_calls(const char* path) {
  uint64_t count = 0;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int file = open(path, O_RDONLY);
  if (file < 0) die("hostile: the file cannot be opened");
  char* place = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (; goes_on(); count += 2) {
    if (mmap(place, page, PROT_READ, MAP_SHARED | MAP_FIXED, file, (off_t)place) != place)
      die("hostile: mmap");
    munmap(place, page);
  }
  return count;
}

static uint64_t holds(void) {
  touch(reserve(MEMORY_ANON, 1 << 20), 1 << 20);
  while (goes_on()) sleep_ms(50);
  return 1;
}

static uint64_t children(char** argv) {
  enum { MANY = 400 };
  uint64_t count = 0;
  for (int living = 0;; living--) {
    for (; goes_on() && living < MANY; living++, count++) {
      pid_t child = fork();
      if (child < 0) break;
      if (child) continue;
      argv[1] = "holds";
      argv[2] = "2";
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      execv("/proc/self/exe", argv);
      _exit(1);
    }
    if (waitpid(-1, NULL, 0) < 0) return count;
  }
}

int main(int argc, char** argv) {
  if (argc < 3) die("hostile WHAT SECONDS");
  tell("ready", "\"what\":\"%s\"", argv[1]);
  end_ns = now_ns() + parse_number(argv[2]) * 1000000000ull;
  uint64_t count = 0;
  if (!strcmp(argv[1], "kills_zombie"))
    count = kills_zombie();
  else if (!strcmp(argv[1], "kills_living"))
    count = kills_living();
  else if (!strcmp(argv[1], "exit_kills"))
    count = exit_kills(0);
  else if (!strcmp(argv[1], "exit_kills_living"))
    count = exit_kills(1);
  else if (!strcmp(argv[1], "cpu_limit_kills"))
    count = cpu_limit_kills();
  else if (!strcmp(argv[1], "renames"))
    count = renames();
  else if (!strcmp(argv[1], "gpu_calls") && argc > 3)
    count = gpu_calls(argv[3]);
  else if (!strcmp(argv[1], "children"))
    count = children(argv);
  else if (!strcmp(argv[1], "holds"))
    count = holds();
  else
    die("hostile: no such thing");
  tell("did", "\"count\":%llu", (unsigned long long)count);
  return 0;
}
