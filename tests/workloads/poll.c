/* poll HZ FILE: reads a number from a file at that rate and prints "T_NS VALUE", T_NS the middle of the read,
 * until SIGTERM or until the file is gone. Sums up nothing and interprets nothing: it is a witness. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "truth.h"

static volatile sig_atomic_t stop;
static void on_term(int signal_number) {
  (void)signal_number;
  stop = 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  static char buffer[1 << 20];
  setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
  signal(SIGTERM, on_term);
  uint64_t period = 1000000000u / parse_number(argv[1]);
  int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(argv[2]);
  for (uint64_t next = now_ns(); !stop; next = next + period < now_ns() ? now_ns() : next + period) {
    char text[64];
    uint64_t before = now_ns();
    ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    uint64_t after = now_ns();
    if (bytes <= 0) break;
    text[bytes] = 0;
    printf("%llu %llu\n", (unsigned long long)(before + (after - before) / 2), strtoull(text, NULL, 10));
    sleep_until_ns(next + period);
  }
  return 0;
}
