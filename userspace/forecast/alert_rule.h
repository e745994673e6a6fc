// Alert rules as users write them: "level>40G", "growth>500M/m for 2m", "eta<20m".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace oomcast {

enum class Quantity : std::uint8_t {
  level,     // unreclaimable bytes
  share,     // the same, as a fraction of the limit
  growth,    // bytes per second
  eta,       // seconds to the limit, the median
  forecast,  // Forecast.alert: a person should act
};

struct AlertRule {
  Quantity quantity = Quantity::forecast;
  double threshold = 0;           // true above it; of eta: below it; unused by forecast
  Nanos hold{};                   // how long it must be true before the alert fires
  std::string text = "forecast";  // as the user wrote it
};

/// WHAT>VALUE or eta<DURATION, then optionally "for DURATION"; spaces between the parts are free. A level is
/// a size or a percentage of the limit, a growth is SIZE/s, /m, /h or /d. Error::usage names the part that
/// was not understood, and the forms.
Result<AlertRule> parse_alert_rule(std::string_view text);

}  // namespace oomcast
