/* Its allocator is none: it returns what no allocator does, and is called with what nobody asks of one. What
 * grows is mapped elsewhere. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "corpus.h"

static const uintptr_t kLies[] = {
    0, 1, 8, 4096, 1ul << 46, 0x7ffffffff000, 1ul << 47, 0xffff888000000000, UINTPTR_MAX, UINTPTR_MAX - 4095};
enum { kAll = sizeof(kLies) / sizeof(*kLies) };
static unsigned told;

static void* lie(void) {
  return (void*)kLies[told++ % kAll];
}

__attribute__((noinline)) void* malloc(size_t size) {
  (void)size;
  return lie();
}
__attribute__((noinline)) void* calloc(size_t count, size_t size) {
  (void)count, (void)size;
  return lie();
}
__attribute__((noinline)) void* realloc(void* block, size_t size) {
  (void)block, (void)size;
  return lie();
}
__attribute__((noinline)) int posix_memalign(void** out, size_t alignment, size_t size) {
  (void)out, (void)alignment, (void)size;
  return 0;
}
__attribute__((noinline)) void free(void* block) {
  __asm__ volatile("" : : "r"(block) : "memory");
}

__attribute__((noinline)) static void boast(unsigned i) {
  volatile size_t sizes[] = {0, 1, 4096, 1ul << 40, SIZE_MAX / 2, SIZE_MAX};
  size_t size = sizes[i % 6];
  void* volatile block = malloc(size);
  block = calloc(size, size);
  block = realloc((void*)kLies[(i + 3) % kAll], size);
  if (posix_memalign((void**)kLies[i % kAll], size, size)) return;
  free((void*)kLies[(i + 5) % kAll]);
  (void)block;
}

__attribute__((noinline)) static void map_tile(int i) {
  char* tile = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (tile == MAP_FAILED) _exit(1);
  memset(tile, i, 65536);
  corpus_keeps(65536);
}

int main(void) {
  corpus_ready("map_tile");
  for (unsigned i = 0;; ++i) {
    for (unsigned k = 0; k < 10; ++k) boast(10 * i + k);
    map_tile((int)i);
    corpus_step(4000);
  }
}
