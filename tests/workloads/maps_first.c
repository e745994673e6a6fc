/* `maps_first FILE`: becomes a program whose first mapping, by address, is FILE, then grows by 64 MiB: so
 * whoever looks for the executable of a process looks into FILE. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "truth.h"

int main(int argc, char** argv) {
  if (argc != 2) die("maps_first FILE");
  int fd = open(argv[1], O_RDONLY);
  if (fd < 0) die("open");
  void* low = (void*)0x10000; /* mmap_min_addr, as a rule */
  if (mmap(low, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED)
    die("mmap");
  close(fd);
  tell_cmdline("ready");
  wait_for_go();
  touch(reserve(MEMORY_ANON, 64 << 20), 64 << 20);
  tell("grown", "\"bytes\":%u", 64u << 20);
  for (;;) pause();
}
