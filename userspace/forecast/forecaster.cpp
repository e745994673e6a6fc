#include "forecast/forecaster.h"

#include "forecast/growth.h"

namespace oomcast {

void Forecaster::add(const Reading& reading) {
  series_.add({reading.time, reading.value});
  limit_ = reading.limit;
}

const Forecast& Forecaster::forecast() {
  latest_ = oomcast::forecast(series_.points(), limit_);
  return latest_;
}

}  // namespace oomcast
