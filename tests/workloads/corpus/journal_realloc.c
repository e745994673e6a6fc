/* A journal in one array that realloc() makes larger by a quarter of a megabyte, beside a buffer that comes
 * and goes. */
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

static char* journal;
static size_t used, room;

__attribute__((noinline)) static void append_entry(const char* entry, size_t size) {
  if (used + size > room) {
    room += 256 << 10;
    corpus_keeps(256 << 10);
    journal = realloc(journal, room);
    if (!journal) _exit(1);
  }
  memcpy(journal + used, entry, size);
  used += size;
}

__attribute__((noinline)) static void compress(const char* entry) {
  char* buffer = malloc(200000);
  for (size_t at = 0; at < 200000; at += 4096) memcpy(buffer + at, entry, 2000);
  __asm__ volatile("" : : "r"(buffer) : "memory");
  free(buffer);
}

int main(void) {
  static char entry[5000];
  memset(entry, 'e', sizeof(entry));
  corpus_ready("append_entry");
  for (;;) {
    compress(entry);
    append_entry(entry, sizeof(entry));
    corpus_step(2000);
  }
}
