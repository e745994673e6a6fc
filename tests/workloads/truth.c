#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 8192

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_until_ns(uint64_t when) {
  struct timespec t = {.tv_sec = (time_t)(when / 1000000000u), .tv_nsec = (long)(when % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
  }
}

void sleep_ms(uint64_t ms) {
  sleep_until_ns(now_ns() + ms * 1000000u);
}

pid_t thread_id(void) {
  return (pid_t)syscall(SYS_gettid);
}

static void write_line(char* line, size_t used) {
  line[used] = '\n';
  if (write(STDOUT_FILENO, line, used + 1) < 0) _exit(2);
}

static size_t begin_line(char* line, const char* event) {
  return (size_t)snprintf(line, LINE_BYTES - 2, "{\"event\":\"%s\",\"t_ns\":%llu,\"pid\":%d,\"tid\":%d",
                          event, (unsigned long long)now_ns(), getpid(), thread_id());
}

void tell(const char* event, const char* format, ...) {
  char line[LINE_BYTES];
  size_t used = begin_line(line, event);
  if (*format) {
    va_list arguments;
    line[used++] = ',';
    va_start(arguments, format);
    used += (size_t)vsnprintf(line + used, sizeof(line) - used - 2, format, arguments);
    va_end(arguments);
  }
  line[used++] = '}';
  write_line(line, used);
}

void tell_cmdline(const char* event) {
  char line[LINE_BYTES], shown[1024];
  size_t used = begin_line(line, event);
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = fd < 0 ? -1 : read(fd, shown, sizeof(shown));
  if (fd >= 0) close(fd);
  used += (size_t)snprintf(line + used, 32, ",\"cmdline\":%s", bytes < 0 ? "null" : "[");
  for (ssize_t i = 0; i < bytes; i++) {
    unsigned char c = (unsigned char)shown[i];
    if (i == 0) line[used++] = '"';
    if (c)
      used += (size_t)snprintf(line + used, 8,
                               c < 0x20 || c >= 0x7f || c == '"' || c == '\\' ? "\\u%04x" : "%c", c);
    else if (i + 1 < bytes)
      used += (size_t)snprintf(line + used, 8, "\",\"");
    if (i + 1 == bytes) line[used++] = '"';
  }
  if (bytes >= 0) line[used++] = ']';
  line[used++] = '}';
  write_line(line, used);
}

void die(const char* what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(2);
}

uint64_t parse_size(const char* text) {
  char* end;
  uint64_t value = strtoull(text, &end, 10);
  if (end == text) die(text);
  if (*end == 'K') return value << 10;
  if (*end == 'M') return value << 20;
  if (*end == 'G') return value << 30;
  if (*end) {
    errno = EINVAL;
    die(text);
  }
  return value;
}

uint64_t parse_number(const char* text) {
  char* end;
  uint64_t value = strtoull(text, &end, 10);
  if (end == text || *end) {
    errno = EINVAL;
    die(text);
  }
  return value;
}

void wait_for_go(void) {
  char byte;
  while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
}

char* reserve(enum memory_kind kind, uint64_t bytes) {
  int fd = -1, flags = MAP_NORESERVE | (kind == MEMORY_ANON ? MAP_PRIVATE : MAP_SHARED);
  if (kind == MEMORY_FILE) {
    const char* folder = getenv("TMPDIR");
    char path[256];
    snprintf(path, sizeof(path), "%s/oomcast-workload-XXXXXX", folder ? folder : "/var/tmp");
    fd = mkstemp(path);
    if (fd < 0 || unlink(path) || ftruncate(fd, (off_t)bytes)) die(path);
  } else {
    flags |= MAP_ANONYMOUS;
  }
  char* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) die("mmap");
  if (fd >= 0) close(fd);
  madvise(at, bytes, MADV_NOHUGEPAGE);
  return at;
}

void touch(char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 4096) ((volatile char*)from)[i] = 1;
}

void grow_until_killed(uint64_t step) {
  uint64_t most = 16ull << 30, used = 0;
  char* at = reserve(MEMORY_ANON, most);
  for (;;) {
    if (used + step > most) {
      fprintf(stderr, "grew to %llu bytes and nothing killed it\n", (unsigned long long)used);
      exit(2);
    }
    touch(at + used, step);
    used += step;
  }
}
