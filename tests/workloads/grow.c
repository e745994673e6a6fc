/* Grows and shrinks as its arguments say, in their order.
 *
 *   --rate SIZE       bytes a second of what follows; 0, the start: as fast as it can
 *   --step SIZE       one line of truth each SIZE (start: 1M)
 *   --anon SIZE       grow private anonymous memory; --file, --shmem alike
 *   --spike-ms MS     how long a spike lasts (start: 200)
 *   --spike SIZE      grow at full speed, hold for that long, release
 *   --release         give back what grew last; --release-all: everything
 *   --hold MS         do nothing
 *   --go              wait for a byte on stdin
 *   --forever         do nothing until killed
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "truth.h"

#define BLOCKS 64
static struct {
  char* at;
  uint64_t bytes;
} blocks[BLOCKS];
static int block_count;
static uint64_t rate, step = 1 << 20, held;

static void grow(enum memory_kind kind, uint64_t bytes) {
  static const char* const names[] = {"anon", "file", "shmem"};
  if (block_count == BLOCKS) die("too many blocks");
  char* at = reserve(kind, bytes);
  blocks[block_count].at = at;
  blocks[block_count++].bytes = bytes;
  uint64_t start = now_ns();
  tell("grows", "\"kind\":\"%s\",\"bytes\":%llu,\"held\":%llu", names[kind], (unsigned long long)bytes,
       (unsigned long long)held);
  for (uint64_t done = 0; done < bytes;) {
    uint64_t now = bytes - done < step ? bytes - done : step;
    touch(at + done, now);
    done += now;
    held += now;
    tell("at", "\"held\":%llu", (unsigned long long)held);
    if (rate) sleep_until_ns(start + (uint64_t)((double)done / (double)rate * 1e9));
  }
}

static void release(void) {
  if (!block_count) return;
  block_count--;
  if (munmap(blocks[block_count].at, blocks[block_count].bytes)) die("munmap");
  held -= blocks[block_count].bytes;
  tell("released", "\"held\":%llu", (unsigned long long)held);
}

int main(int argc, char** argv) {
  uint64_t spike_ms = 200;
  tell_cmdline("ready");
  for (int i = 1; i < argc; i++) {
    const char* word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    i++;
    if (!strcmp(word, "--rate")) {
      rate = parse_size(value);
    } else if (!strcmp(word, "--step")) {
      step = parse_size(value);
    } else if (!strcmp(word, "--anon")) {
      grow(MEMORY_ANON, parse_size(value));
    } else if (!strcmp(word, "--file")) {
      grow(MEMORY_FILE, parse_size(value));
    } else if (!strcmp(word, "--shmem")) {
      grow(MEMORY_SHMEM, parse_size(value));
    } else if (!strcmp(word, "--spike-ms")) {
      spike_ms = parse_number(value);
    } else if (!strcmp(word, "--spike")) {
      uint64_t usual = rate;
      rate = 0;
      grow(MEMORY_ANON, parse_size(value));
      tell("peak", "\"held\":%llu", (unsigned long long)held);
      sleep_ms(spike_ms);
      release();
      rate = usual;
    } else if (!strcmp(word, "--hold")) {
      tell("holds", "\"held\":%llu", (unsigned long long)held);
      sleep_ms(parse_number(value));
      tell("held", "\"held\":%llu", (unsigned long long)held);
    } else {
      i--;
      if (!strcmp(word, "--release")) {
        release();
      } else if (!strcmp(word, "--release-all")) {
        while (block_count) release();
      } else if (!strcmp(word, "--go")) {
        wait_for_go();
      } else if (!strcmp(word, "--forever")) {
        tell("holds", "\"held\":%llu", (unsigned long long)held);
        for (;;) pause();
      } else {
        fprintf(stderr, "grow: unknown argument %s\n", word);
        return 2;
      }
    }
  }
  tell("done", "\"held\":%llu", (unsigned long long)held);
  return 0;
}
