/* poll HZ FILE [FIELD]: reads a number from a file at that rate and prints "BEFORE_NS AFTER_NS VALUE", the
 * times around the read, until SIGTERM or until the file is gone. FIELD: the number behind "FIELD:", in kB,
 * printed in bytes. A witness: it sums up nothing. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

static volatile sig_atomic_t stop;
static void on_term(int signal_number) {
  (void)signal_number;
  stop = 1;
}

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  static char buffer[1 << 20];
  setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
  signal(SIGTERM, on_term);
  struct sched_param urgent = {.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &urgent); /* if it may: a witness that comes late has seen nothing */
  uint64_t period = 1000000000u / parse_number(argv[1]);
  int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(argv[2]);
  for (uint64_t next = now_ns(); !stop; next = next + period < now_ns() ? now_ns() : next + period) {
    static char text[8192];
    uint64_t before = now_ns();
    ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    uint64_t after = now_ns();
    if (bytes <= 0) break;
    text[bytes] = 0;
    const char* number = text;
    if (argc == 4) {
      number = strstr(text, argv[3]);
      if (!number) break; /* a zombie has no memory */
      number += strlen(argv[3]) + 1;
    }
    unsigned long long value = strtoull(number, NULL, 10) * (argc == 4 ? 1024 : 1);
    printf("%llu %llu %llu\n", (unsigned long long)before, (unsigned long long)after, value);
    sleep_until_ns(next + period);
  }
  return 0;
}
