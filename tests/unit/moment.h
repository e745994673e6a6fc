#pragma once

#include "base/clock.h"

namespace oomcast::test {

// `s` seconds after the clock began.
inline MonoTime at_s(double s) {
  return MonoTime(std::chrono::duration_cast<Nanos>(Seconds(s)));
}

}  // namespace oomcast::test
