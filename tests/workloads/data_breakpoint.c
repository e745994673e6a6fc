/* data_breakpoint: how many of 100 writes to a variable of its own a data breakpoint sees; -1: none can be
 * set. */
#include "data_breakpoint.h"

#include "truth.h"

int main(void) {
  tell("tried", "\"writes\":%d,\"seen\":%ld", 100, data_breakpoint_sees(100));
  return 0;
}
