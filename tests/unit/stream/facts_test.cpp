#include "stream/facts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "stream/json.h"
#include "stream/text.h"

namespace oomcast {
namespace {

template <std::size_t... I>
std::vector<Fact> one_of_each(std::index_sequence<I...>) {
  return {Fact(std::in_place_index<I>)...};
}

TEST(FactKind, of_what_is_never_written_is_internal_and_every_other_type_is_its_lines) {
  for (const Fact& fact : one_of_each(std::make_index_sequence<std::variant_size_v<Fact>>())) {
    std::string json = to_json(fact, ClockMap{});
    if (kind_of(fact) == FactKind::internal) {
      EXPECT_EQ(json + to_text(fact, ClockMap{}, TextStyle{}), "");
      EXPECT_EQ(type_of(fact), "");
    } else {
      EXPECT_EQ(nlohmann::json::parse(json)["type"], type_of(fact));
    }
  }
}

TEST(FactKind, of_a_gpu_is_an_event_where_somebody_wants_to_read_of_it) {
  GpuFact fact;
  fact.event.op = GpuEvent::Op::alloc;
  EXPECT_EQ(kind_of(fact), FactKind::state) << "one of thousands";
  fact.event.op = GpuEvent::Op::oom;
  EXPECT_EQ(kind_of(fact), FactKind::event);
}

}  // namespace
}  // namespace oomcast
