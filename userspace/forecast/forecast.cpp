#include "forecast/forecast.h"

#include <array>

namespace oomcast {

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, kVerdicts> names = {"stable", "leak", "spikes", "step",
                                                             "ramp",   "cow",  "cache",  "unknown"};
  static_assert(!names.back().empty());
  return names[static_cast<std::size_t>(verdict)];
}

std::string_view name_of(std::optional<LimitKind> kind) {
  return kind == LimitKind::high ? "memory.high" : "limit";
}

}  // namespace oomcast
