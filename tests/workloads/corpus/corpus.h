/* What a program of this folder says about itself, one JSON object a line on stdout: first who keeps, then
 * every tenth of a second how much of it there is. Allocates nothing. */
#ifndef OOMCAST_CORPUS_H
#define OOMCAST_CORPUS_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static uint64_t corpus_kept, corpus_told_ns;

static inline uint64_t corpus_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void corpus_write(const char* line, int length) {
  if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(1);
}

/* `keeper`: the function; empty: nothing stays. */
static inline void corpus_ready(const char* keeper) {
  char line[256];
  corpus_write(line, snprintf(line, sizeof(line), "{\"event\":\"ready\",\"pid\":%d,\"keeper\":\"%s\"}\n",
                              getpid(), keeper));
}

/* Bytes as they were asked for. */
static inline void corpus_keeps(uint64_t bytes) {
  __atomic_add_fetch(&corpus_kept, bytes, __ATOMIC_RELAXED);
}

/* At the end of a step. Of several threads, one. */
static inline void corpus_step(unsigned pause_us) {
  char line[256];
  uint64_t now = corpus_now_ns();
  if (now - corpus_told_ns >= 100000000) {
    corpus_told_ns = now;
    corpus_write(
        line, snprintf(line, sizeof(line), "{\"event\":\"kept\",\"t_ns\":%llu,\"pid\":%d,\"bytes\":%llu}\n",
                       (unsigned long long)now, getpid(),
                       (unsigned long long)__atomic_load_n(&corpus_kept, __ATOMIC_RELAXED)));
  }
  if (pause_us) usleep(pause_us);
}

#endif
