#include "present/gpu_at_kill.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

GpuUuid card(std::uint8_t n) {
  GpuUuid out;
  out.bytes.fill(n);
  return out;
}

constexpr MonoTime kKill{1h};

// A victim that held 1 GiB on card 1.
StoredEpisode an_episode() {
  StoredEpisode e;
  e.told.episode.time = kKill;
  Victim victim;
  victim.process = test::process(77, "python3", {"python3"}, nullptr);
  e.told.episode.victims = {victim};
  GpuSample held;
  held.time = kKill - 1s;
  held.process = victim.process;
  held.device = card(1);
  held.held = GiB(1);
  e.gpu = {held};
  return e;
}

bool is_told(const StoredEpisode& e, std::string_view what) {
  auto finding = who_held_gpu_memory(e);
  if (!finding) return false;
  return std::any_of(finding->evidence.begin(), finding->evidence.end(),
                     [&](const std::string& line) { return line.find(what) != std::string::npos; });
}

TEST(GpuAtKill, tells_of_an_error_of_a_victims_card_in_the_minute_before_the_kill_and_of_no_other) {
  auto with_xid = [](Nanos before, std::optional<GpuUuid> device) {
    StoredEpisode e = an_episode();
    GpuFact xid{kKill - before, std::nullopt, {}};
    xid.event.op = GpuEvent::Op::xid;
    xid.event.status = 31;
    xid.event.message = "MMU Fault:\n0x1234";
    xid.event.device = device;
    e.gpu_events = {xid};
    return e;
  };
  EXPECT_TRUE(is_told(with_xid(30s, card(1)),
                      "the driver reported Xid 31 (memory page fault on the card) on " + to_string(card(1))));
  EXPECT_TRUE(is_told(with_xid(30s, card(1)), ": MMU Fault:")) << "the driver's words";
  EXPECT_FALSE(is_told(with_xid(30s, card(1)), "\n"));
  EXPECT_TRUE(is_told(with_xid(30s, std::nullopt), "Xid 31")) << "perhaps of this card";
  EXPECT_FALSE(is_told(with_xid(30s, card(2)), "Xid")) << "another card";
  EXPECT_FALSE(is_told(with_xid(61s, card(1)), "Xid")) << "too long ago";
  EXPECT_FALSE(is_told(with_xid(-1s, card(1)), "Xid")) << "after the kill";
}

}  // namespace
}  // namespace oomcast
