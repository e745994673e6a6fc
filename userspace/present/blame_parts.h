// What the text and the JSON of a blame report share.
#pragma once

#include "base/units.h"

namespace oomcast {

constexpr double kMinShare = 0.01;  // of a process's growth, to be told of

inline BytesPerSec rate(Bytes bytes, Seconds window) {
  return {window.count() > 0 ? bytes.as_double() / window.count() : 0};
}

inline double share(Bytes part, Bytes whole) {
  return whole > Bytes{} ? part.as_double() / whole.as_double() : 0;
}

}  // namespace oomcast
