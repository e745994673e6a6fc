#include "model/growth_at_kill.h"

#include <gtest/gtest.h>

#include "model/episode_machine.h"

namespace oomcast {
namespace {

using namespace test;

TEST(GrewMost, tells_who_grew_below_the_limit_before_the_kill) {
  Machine m;
  auto grow = [&](std::uint32_t pid, std::uint64_t cgroup, Bytes from, Bytes to) {
    TaskState& t = m.tasks.note(task(pid, cgroup));
    t.rss.add({ms(2000), from});
    t.rss.add({ms(4000), to});
    t.rss.add({ms(5500), GiB(9)});  // after the kill
  };
  grow(100, 11, MiB(10), MiB(90));
  grow(101, 10, MiB(10), MiB(95));
  grow(102, 11, MiB(50), MiB(40));
  grow(103, 1, MiB(10), MiB(500));
  m.kill(ms(5000), task(100, 11));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->grew_most.size(), 2u);
  EXPECT_EQ(e->grew_most[0].process.id.tgid, 101u);
  EXPECT_EQ(e->grew_most[0].grew, MiB(85));
  EXPECT_EQ(e->grew_most[0].over, Seconds(2));
  EXPECT_EQ(e->grew_most[1].process.id.tgid, 100u);
}

TEST(GrewMost, accuses_nobody_who_was_dead_by_then) {
  Machine m;
  for (std::uint32_t pid : {100u, 101u}) {
    TaskState& t = m.tasks.note(task(pid, 11));
    t.rss.add({ms(2000), MiB(10)});
    t.rss.add({ms(4000), MiB(90)});
  }
  m.tasks.mark_dead(task(100, 11).id, ms(4100));
  m.kill(ms(5000), task(101, 11));
  m.tasks.mark_dead(task(101, 11).id, ms(5001));
  auto e = m.only_episode(ms(7000));
  ASSERT_EQ(e->grew_most.size(), 1u);
  EXPECT_EQ(e->grew_most[0].process.id.tgid, 101u);
}

TEST(GrewMost, tells_it_of_one_whose_end_was_seen_in_many_steps) {
  Machine m;
  TaskState& t = m.tasks.note(task(100, 11));
  for (int s = 0; s < 9; ++s) t.rss.add({ms(1000 * s), MiB(10 + 10 * s)});
  m.kill(ms(8500), task(100, 11));
  for (int i = 0; i < 80; ++i) t.rss.add({ms(8510 + i), MiB(80 - i)});
  auto e = m.only_episode(ms(10500));
  ASSERT_EQ(e->grew_most.size(), 1u) << "a series keeps few points";
  EXPECT_EQ(e->grew_most[0].grew, MiB(80));
}

}  // namespace
}  // namespace oomcast
