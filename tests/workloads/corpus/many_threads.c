/* As many threads as it is told, on small stacks; one function, in all of them, keeps: 2,000 times a second,
 * however many there are. The stacks are of one mapping: a process has fewer of those than threads. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "corpus.h"

enum { EVERY_US = 500 };

static void* events[1 << 20];
static unsigned long next_event;
static unsigned long pause_us;

__attribute__((noinline)) static void remember_event(void) {
  char* event = malloc(1000);
  memset(event, 1, 1000);
  events[__atomic_fetch_add(&next_event, 1, __ATOMIC_RELAXED) % (1 << 20)] = event;
  corpus_keeps(1000);
}

__attribute__((noinline)) static void handle_request(void) {
  char* request = malloc(1000);
  memset(request, 2, 1000);
  __asm__ volatile("" : : "r"(request) : "memory");
  free(request);
}

static void pause_for(unsigned long us) {
  struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
  nanosleep(&t, NULL);
}

__attribute__((noreturn)) static void* serve(void* number) {
  pause_for((unsigned long)number * EVERY_US);
  for (;;) {
    handle_request();
    remember_event();
    pause_for(pause_us);
  }
}

int main(int argc, char** argv) {
  unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
  const unsigned long stack = 32768;
  char* stacks = mmap(NULL, count * stack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  if (stacks == MAP_FAILED || madvise(stacks, count * stack, MADV_NOHUGEPAGE)) return 1;
  pause_us = count * EVERY_US;
  pthread_attr_init(&attributes);
  for (unsigned long i = 0; i < count; ++i) {
    pthread_attr_setstack(&attributes, stacks + i * stack, stack);
    if (pthread_create(&thread, &attributes, serve, (void*)i)) return 1;
  }
  corpus_ready("remember_event");
  for (;;) corpus_step(20000);
}
