#include "forecast/told.h"

#include <array>

namespace oomcast {

std::string_view to_string(ActionRun::Kind kind) {
  constexpr std::array<std::string_view, 3> names = {"exec", "touch", "signal"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_string(ActionRun::Result result) {
  constexpr std::array<std::string_view, 6> names = {"running", "ok", "failed", "timeout", "left", "lost"};
  return names[static_cast<std::size_t>(result)];
}

}  // namespace oomcast
