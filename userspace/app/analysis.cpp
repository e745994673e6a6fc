#include "app/analysis.h"

namespace oomcast {

void analyse(ForecastRegistry& forecasts, Fact& fact, const Sink& sink) {
  if (auto* process = std::get_if<ProcessSampleFact>(&fact)) forecasts.on(*process);
  sink(fact);
  if (auto* sample = std::get_if<Sample>(&fact)) forecasts.on(*sample);
  if (auto* gpu = std::get_if<GpuSample>(&fact)) forecasts.on(*gpu);
  if (auto* exit = std::get_if<ExitFact>(&fact)) forecasts.on(*exit);
  if (auto* reclaim = std::get_if<ReclaimFact>(&fact)) forecasts.on(*reclaim);
  if (auto* forgotten = std::get_if<ForgottenFact>(&fact)) forecasts.on(*forgotten);
  if (auto* tick = std::get_if<TickFact>(&fact)) {
    if (tick->killed)
      forecasts.on_kill(*tick->killed);
    else
      forecasts.tick(tick->time);
  }
  for (const ForecastFact& forecast : forecasts.take()) sink(forecast);
}

}  // namespace oomcast
