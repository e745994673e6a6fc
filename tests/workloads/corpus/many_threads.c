/* As many threads as it is told, on small stacks; one function, in all of them, keeps. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

static void* events[1 << 20];
static unsigned long next_event;

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

__attribute__((noreturn)) static void* serve(void* unused) {
  (void)unused;
  for (;;) {
    handle_request();
    remember_event();
    sleep(2);
  }
}

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 100;
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 32768);
  for (int i = 0; i < count; ++i)
    if (pthread_create(&thread, &attributes, serve, NULL)) return 1;
  corpus_ready("remember_event");
  for (;;) corpus_step(20000);
}
