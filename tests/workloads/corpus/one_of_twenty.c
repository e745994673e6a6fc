/* Twenty children that do the same; the thirteenth forgets to free. */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "corpus.h"

__attribute__((noinline)) static char* read_record(int i) {
  char* record = malloc(20000);
  memset(record, i, 20000);
  return record;
}

static void serve(int number) {
  for (int i = 0;; ++i) {
    char* record = read_record(i);
    __asm__ volatile("" : : "r"(record) : "memory");
    if (number == 13 && i % 2)
      corpus_keeps(20000);
    else
      free(record);
    if (number == 13)
      corpus_step(4000);
    else
      usleep(20000);
  }
}

int main(void) {
  for (int number = 0; number < 20; ++number)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, 9);
      if (number == 13) corpus_ready("read_record");
      serve(number);
    }
  for (;;) pause();
}
