// Output that neither throws nor kills when nobody reads it any more.
#pragma once

#include <cstdio>
#include <string>

namespace oomcast {

/// Writes `text` to `to` and flushes it. false: it could not be written (a closed pipe, a full disk).
inline bool print(std::FILE* to, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
}

}  // namespace oomcast
