/* What a workload does, told by itself: one JSON object a line on stdout, each written with one write(). */
#ifndef OOMCAST_WORKLOAD_TRUTH_H
#define OOMCAST_WORKLOAD_TRUTH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

uint64_t now_ns(void);              /* CLOCK_MONOTONIC */
void sleep_until_ns(uint64_t when); /* CLOCK_MONOTONIC */
void sleep_ms(uint64_t ms);
pid_t thread_id(void);

/* {"event":EVENT,"t_ns":…,"pid":…,"tid":…, and what `format` adds}. Allocates nothing. */
void tell(const char* event, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* The same with "cmdline": what /proc/self/cmdline shows at this moment. */
void tell_cmdline(const char* event);

/* Ends the program with exit code 2 and a message on stderr. */
void die(const char* what) __attribute__((noreturn));

uint64_t parse_size(const char* text); /* "64M", "4096", "2G" */
uint64_t parse_number(const char* text);

/* Waits for a byte, or the end, of stdin. */
void wait_for_go(void);

enum memory_kind { MEMORY_ANON, MEMORY_FILE, MEMORY_SHMEM };
/* Reserves address space; nothing is resident yet. Small pages only. */
char* reserve(enum memory_kind kind, uint64_t bytes);
/* Makes every page of the range resident. */
void touch(char* from, uint64_t bytes);
/* Grows in steps of `step` bytes, as fast as it can, until something kills the process. */
void grow_until_killed(uint64_t step) __attribute__((noreturn));

#endif
