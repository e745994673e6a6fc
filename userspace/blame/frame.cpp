#include "blame/frame.h"

namespace oomcast {

void shorten(Frame& frame, std::size_t most) {
  constexpr std::string_view kCut = "…";
  std::string &function = frame.function, &file = frame.file;
  if (function.size() > most) function.replace(most - kCut.size(), std::string::npos, kCut);
  if (file.size() > most) file.replace(0, file.size() - most + kCut.size(), kCut);
  function.shrink_to_fit();
  file.shrink_to_fit();
}

}  // namespace oomcast
