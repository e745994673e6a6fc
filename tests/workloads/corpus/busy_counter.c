/* Half a million calls of malloc() a second, of which one in fifty stays. */
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

struct bucket {
  struct bucket* next;
  char data[56];
};
static struct bucket* table[4096];

__attribute__((noinline)) static void count_key(unsigned i) {
  struct bucket* made = malloc(sizeof(*made));
  memset(made->data, 1, sizeof(made->data));
  made->next = table[i % 4096];
  table[i % 4096] = made;
  corpus_keeps(sizeof(*made));
}

__attribute__((noinline)) static void* make_key(size_t size) {
  void* key = malloc(size);
  __asm__ volatile("" : : "r"(key) : "memory");
  return key;
}

int main(void) {
  corpus_ready("count_key");
  for (unsigned i = 0;; ++i) {
    void* key = make_key(64 + i % 512);
    if (i % 50 == 0) count_key(i);
    free(key);
    if (i % 5000 == 0) corpus_step(5000);
  }
}
