#include "stream/facts.h"

#include <utility>

namespace oomcast {
namespace {

struct About {
  std::string_view type;
  FactKind kind;
};

// One for each type of fact: without it nothing compiles.
About about(const StartFact&) {
  return {"start", FactKind::stream};
}
About about(const EndFact&) {
  return {"end", FactKind::stream};
}
About about(const Sample&) {
  return {"sample", FactKind::state};
}
About about(const ProcessSampleFact&) {
  return {"process", FactKind::state};
}
About about(const ExitFact&) {
  return {"exit", FactKind::state};
}
About about(const ForecastFact&) {
  return {"forecast", FactKind::state};
}
About about(const LimitChangedFact&) {
  return {"limit_changed", FactKind::event};
}
About about(const ReclaimFact&) {
  return {"reclaim", FactKind::state};
}
About about(const PressureFact&) {
  return {"pressure", FactKind::state};
}
About about(const GpuSample&) {
  return {"gpu_sample", FactKind::state};
}
About about(const GpuFact& f) {
  return {"gpu", is_news(f.event.op) ? FactKind::event : FactKind::state};
}
About about(const OomEvent&) {
  return {"oom", FactKind::event};
}
About about(const UserKillFact&) {
  return {"kill", FactKind::event};
}
About about(const AlertFact&) {
  return {"alert", FactKind::event};
}
About about(const LostFact&) {
  return {"lost", FactKind::event};
}
About about(const TotalsFact&) {
  return {"totals", FactKind::state};
}
About about(const TickFact&) {
  return {"", FactKind::internal};
}
About about(const ForgottenFact&) {
  return {"", FactKind::internal};
}

About about_any(const Fact& fact) {
  return std::visit([](const auto& f) { return about(f); }, fact);
}

template <std::size_t... I>
std::vector<About> about_all(std::index_sequence<I...>) {
  return {about_any(Fact(std::in_place_index<I>))...};
}

const std::vector<About>& about_each_type() {
  static const std::vector<About> out = about_all(std::make_index_sequence<std::variant_size_v<Fact>>());
  return out;
}

}  // namespace

FactKind kind_of(const Fact& fact) {
  return about_any(fact).kind;
}

std::string_view type_of(const Fact& fact) {
  return about_any(fact).type;
}

const std::vector<std::string_view>& fact_types() {
  static const std::vector<std::string_view> out = [] {
    std::vector<std::string_view> names;
    for (const About& each : about_each_type())
      if (!each.type.empty()) names.push_back(each.type);
    return names;
  }();
  return out;
}

std::optional<FactKind> kind_of_type(std::string_view type) {
  auto at = std::ranges::find(about_each_type(), type, &About::type);
  return type.empty() || at == about_each_type().end() ? std::nullopt : std::optional(at->kind);
}

}  // namespace oomcast
