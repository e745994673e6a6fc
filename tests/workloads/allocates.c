/* Allocates and frees as fast as it can, and keeps one small block of fifty. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* kept;

__attribute__((noinline)) static void culprit_cache(void) {
  void** block = malloc(64);
  memset(block, 1, 64);
  *block = kept;
  kept = block;
}

__attribute__((noinline)) static void* temporary(size_t bytes) {
  void* block = malloc(bytes);
  __asm__ volatile("" : : "r"(block) : "memory");
  return block;
}

int main(void) {
  setvbuf(stdout, 0, _IOLBF, 0);
  printf("{\"event\":\"ready\"}\n");
  for (unsigned long i = 0; i < 2000000000ul; ++i) {
    void* block = temporary(64 + i % 512);
    if (i % 50 == 0) culprit_cache();
    free(block);
    if (i % 20000 == 0) usleep(5000); /* 64 KiB in 5 ms: not more than a test machine has */
  }
  return 0;
}
