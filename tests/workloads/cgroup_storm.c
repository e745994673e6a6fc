/* cgroup_storm DIRECTORY SECONDS [A_SECOND]: makes and removes that many (500) cgroups a second below a
 * directory. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "truth.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  uint64_t seconds = parse_number(argv[2]), rate = argc > 3 ? parse_number(argv[3]) : 500, made = 0;
  char path[512];
  tell_cmdline("ready");
  uint64_t start = now_ns();
  while (now_ns() < start + seconds * 1000000000u) {
    snprintf(path, sizeof(path), "%s/storm-%llu", argv[1], (unsigned long long)made);
    if (mkdir(path, 0755) || rmdir(path)) die(path);
    made++;
    sleep_until_ns(start + made * 1000000000u / rate);
  }
  tell("made", "\"count\":%llu,\"seconds\":%llu", (unsigned long long)made, (unsigned long long)seconds);
  return 0;
}
