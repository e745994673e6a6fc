/* Changes what it shows as its command line, then grows until it is killed.
 *
 *   rewrites_argv words WORD…   each argument is overwritten in place, at its own length
 *   rewrites_argv title WORD…   one text over all of them and beyond into the environment, as setproctitle
 * does
 */
#include <stdio.h>
#include <string.h>

#include "truth.h"

int main(int argc, char** argv, char** envp) {
  tell_cmdline("ready");
  if (argc > 1 && !strcmp(argv[1], "title")) {
    char* start = argv[0];
    char* end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
    for (char** e = envp; *e; e++)
      if (*e == end) end += strlen(*e) + 1;
    size_t room = (size_t)(end - start);
    memset(start, 0, room);
    /* Past the end of argv, but not to the end of what may be overwritten: the kernel shows it up to its NUL.
     */
    snprintf(start, room, "trainer: step 1200 of 9000, a title that is longer than what it was started with");
  } else {
    for (int i = 1; i < argc; i++)
      for (char* c = argv[i]; *c; c++) *c = (char)('a' + i);
  }
  tell_cmdline("rewritten");
  wait_for_go();
  grow_until_killed(64 << 10);
}
