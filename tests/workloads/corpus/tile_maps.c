/* Tiles that are mapped and never unmapped, beside a heap that is used and stays as it is. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "corpus.h"

__attribute__((noinline)) static void load_tile(int i) {
  size_t size = 256 << 10;
  char* tile = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (tile == MAP_FAILED) _exit(1);
  memset(tile, i, size);
  corpus_keeps(size);
}

__attribute__((noinline)) static void draw(int i) {
  char* pixels = malloc(5000);
  memset(pixels, i, 5000);
  __asm__ volatile("" : : "r"(pixels) : "memory");
  free(pixels);
}

int main(void) {
  corpus_ready("load_tile");
  for (int i = 0;; ++i) {
    draw(i);
    if (i % 20 == 0) load_tile(i);
    corpus_step(3000);
  }
}
