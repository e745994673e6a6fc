/* maps_allocator TIMES: maps the page in which malloc() begins so often, says "ready", waits for a byte,
 * keeps 64 MiB in small blocks and says "grown". Then it waits for its end. A breakpoint there visits each of
 * these mappings, and one that is for this process copies a page in each. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned long kPage = 4096;

/* The mapping of malloc(), as /proc/self/maps has it. */
static int find_allocator(char* path, unsigned long* offset) {
  char line[4096], mapped[4096];
  unsigned long begin, end, from, function = (unsigned long)&malloc;
  FILE* maps = fopen("/proc/self/maps", "r");
  int found = 0;
  while (!found && maps && fgets(line, sizeof(line), maps))
    if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %4095s", &begin, &end, &from, mapped) == 4 &&
        begin <= function && function < end) {
      *offset = (from + function - begin) & ~(kPage - 1);
      strcpy(path, mapped);
      found = 1;
    }
  if (maps) fclose(maps);
  return found;
}

__attribute__((noinline)) static void culprit(unsigned long bytes) {
  static char* kept;
  for (unsigned long done = 0; done < bytes; done += 4096) {
    char* block = malloc(4000);
    memset(block, 1, 4000);
    memcpy(block, &kept, sizeof(kept));
    kept = block;
    if (done % (1 << 18) == 0) usleep(5000);
  }
}

int main(int argc, char** argv) {
  char path[4096];
  unsigned long offset = 0, times = argc > 1 ? strtoul(argv[1], 0, 10) : 0, made = 0;
  if (!find_allocator(path, &offset)) return 2;
  int file = open(path, O_RDONLY);
  char* at = mmap(0, (times + 1) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (file < 0 || at == MAP_FAILED) return 2;
  for (unsigned long i = 0; i < times; ++i)
    made += mmap(at + i * kPage, kPage, PROT_READ | (i % 2 ? 0 : PROT_EXEC), MAP_PRIVATE | MAP_FIXED, file,
                 (off_t)offset) != MAP_FAILED;
  printf("{\"event\":\"ready\",\"mapped\":%lu,\"begin\":%lu,\"end\":%lu}\n", made, (unsigned long)at,
         (unsigned long)at + times * kPage);
  fflush(stdout);
  char go;
  if (read(0, &go, 1) == 1) culprit(64UL << 20);
  printf("{\"event\":\"grown\"}\n");
  fflush(stdout);
  pause();
  return 0;
}
