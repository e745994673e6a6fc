/* Its own malloc() counts calls and passes them on to libc's; one function keeps. */
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void __libc_free(void* block);

static unsigned long calls;

void* malloc(size_t size) {
  ++calls;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++calls;
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  ++calls;
  return __libc_realloc(block, size);
}
void free(void* block) {
  ++calls;
  __libc_free(block);
}

__attribute__((noinline)) static char* scratch_row(int i) {
  char* row = malloc(3000);
  memset(row, i, 3000);
  __asm__ volatile("" : : "r"(row) : "memory");
  return row;
}

__attribute__((noinline)) static void remember_row(int i) {
  char* row = malloc(3000);
  memset(row, i, 3000);
  __asm__ volatile("" : : "r"(row) : "memory");
  corpus_keeps(3000);
}

int main(void) {
  corpus_ready("remember_row");
  for (int i = 0;; ++i) {
    char* row = scratch_row(i);
    if (i % 4 == 0) remember_row(i);
    free(row);
    corpus_step(400);
  }
}
