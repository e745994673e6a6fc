/* A log in a linked list. Linked with musl, and static. */
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

struct entry {
  struct entry* next;
  char text[900];
};
static struct entry* newest;

__attribute__((noinline)) static void log_entry(int i) {
  struct entry* made = malloc(sizeof(*made));
  memset(made->text, i, sizeof(made->text));
  made->next = newest;
  newest = made;
  corpus_keeps(sizeof(*made));
}

__attribute__((noinline)) static void handle_request(int i) {
  void* parts[20];
  for (int k = 0; k < 20; ++k) {
    parts[k] = malloc((size_t)(200 + 37 * k));
    memset(parts[k], i, (size_t)(200 + 37 * k));
  }
  for (int k = 0; k < 20; ++k) free(parts[k]);
}

int main(void) {
  corpus_ready("log_entry");
  for (int i = 0;; ++i) {
    handle_request(i);
    log_entry(i);
    corpus_step(500);
  }
}
