// What a test takes from the model, by kind. Each call takes everything.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "model/machine_model.h"

namespace oomcast::test {

template <typename Event>
std::vector<Event> events_of(MachineModel& model) {
  std::vector<Event> out;
  for (ModelEvent& event : model.take())
    if (auto* wanted = std::get_if<Event>(&event)) out.push_back(std::move(*wanted));
  return out;
}

inline std::vector<ModelFact> facts_of(MachineModel& model) {
  return events_of<ModelFact>(model);
}

}  // namespace oomcast::test
