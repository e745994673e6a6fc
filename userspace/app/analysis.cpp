#include "app/analysis.h"

namespace oomcast {

void analyse(Book& book, Fact& fact, const Sink& sink) {
  if (auto* process = std::get_if<ProcessSampleFact>(&fact)) book.on(*process);
  sink(fact);
  if (auto* sample = std::get_if<Sample>(&fact)) book.on(*sample);
  if (auto* gpu = std::get_if<GpuSample>(&fact)) book.on(*gpu);
  if (auto* exit = std::get_if<ExitFact>(&fact)) book.on(*exit);
  if (auto* reclaim = std::get_if<ReclaimFact>(&fact)) book.on(*reclaim);
  if (auto* forgotten = std::get_if<ForgottenFact>(&fact)) book.on(*forgotten);
  if (auto* tick = std::get_if<TickFact>(&fact)) {
    if (tick->killed)
      book.on_kill(*tick->killed);
    else
      book.tick(tick->time);
  }
  for (const ForecastFact& forecast : book.take()) sink(forecast);
}

}  // namespace oomcast
