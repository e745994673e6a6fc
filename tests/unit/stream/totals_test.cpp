#include "stream/totals.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

TEST(Totals, have_every_scope_from_the_start_at_zero) {
  TotalsFact totals = Totals(MonoTime(1s)).now(MonoTime(5s));
  EXPECT_EQ(totals.since, MonoTime(1s));
  EXPECT_EQ(totals.time, MonoTime(5s));
  for (const char* scope : {"memcg", "global", "cpuset", "mempolicy", "sysrq"}) {
    ASSERT_TRUE(totals.kills.contains(scope)) << scope;
    EXPECT_EQ(totals.kills[scope], 0u);
    EXPECT_EQ(totals.episodes[scope], 0u);
  }
}

TEST(Totals, count_processes_and_decisions_apart_and_what_was_lost_by_its_reason) {
  Totals counted(MonoTime{});
  OomEvent kill;
  kill.episode.scope = OomScope::memcg;
  kill.episode.victims.resize(3);
  kill.episode.group_kill = true;
  counted.on(kill);
  OomEvent unknown;
  unknown.episode.victims.resize(1);
  counted.on(unknown);
  counted.on(UserKillFact{});
  counted.on(AlertFact{});
  counted.on(LostFact{MonoTime(), "a", 2});
  counted.on(LostFact{MonoTime(), "a", 3});
  TotalsFact totals = counted.now(MonoTime());
  EXPECT_EQ(totals.kills["memcg"], 3u);
  EXPECT_EQ(totals.episodes["memcg"], 1u);
  EXPECT_EQ(totals.kills["unknown"], 1u) << "a scope that nothing tells is none of the others";
  EXPECT_EQ(totals.group_kills, 1u);
  EXPECT_EQ(totals.user_kills, 1u);
  EXPECT_EQ(totals.alerts, 1u);
  EXPECT_EQ(totals.lost["a"], 5u);
}

}  // namespace
}  // namespace oomcast
