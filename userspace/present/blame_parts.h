// Shared by the text and the JSON of a blame report.
#pragma once

#include <string>

#include "base/units.h"
#include "blame/frame.h"
#include "stream/json_parts.h"

namespace oomcast {

constexpr double kMinShare = 0.01;  // of a process's growth; smaller parts are not shown

Json frame_json(const Frame& frame);

inline BytesPerSec rate(Bytes bytes, Seconds window) {
  return {window.count() > 0 ? bytes.as_double() / window.count() : 0};
}

inline std::string signed_size(Bytes bytes) {
  return bytes < Bytes{} ? "-" + format_size(-bytes) : "+" + format_size(bytes);
}

inline double share(Bytes part, Bytes whole) {
  return whole > Bytes{} ? part.as_double() / whole.as_double() : 0;
}

}  // namespace oomcast
