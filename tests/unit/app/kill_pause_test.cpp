#include "app/kill_pause.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "fixture_tree.h"
#include "model/machine.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Paused {
  FixtureTree tree;
  ProcFs procfs{tree.roots()};
  MachineModel model{MachineConfig{}};
  Reader reader{"", ChildLimits()};
  KillPause pause{model, procfs, reader};
  std::vector<bool> stood_still;

  Paused() {
    model.on_cgroup({{Hierarchy::v2, 1}, std::nullopt, "/"});
    model.on_cgroup({{Hierarchy::v2, 10}, CgroupId{Hierarchy::v2, 1}, "/job"});
    model.on_cgroup({{Hierarchy::v2, 11}, CgroupId{Hierarchy::v2, 10}, "/job/step"});
    model.on_cgroup({{Hierarchy::v2, 20}, CgroupId{Hierarchy::v2, 1}, "/other"});
    for (auto [pid, cgroup] : {std::pair(100u, 11ull), {200u, 20ull}}) {
      SeenProcess seen;
      seen.id = test::task(pid).id;
      seen.cgroup = cgroup;
      model.on_process(seen);
    }
    available(8192);
  }
  void available(int mib) {
    tree.write("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: " + std::to_string(mib << 10) +
                                   " kB\nMemAvailable: " + std::to_string(mib << 10) + " kB\n");
  }
  // The victim's memory comes back while oomcast stands still.
  void run() {
    pause.pause([this](bool still) {
      stood_still.push_back(still);
      available(4096);
    });
  }
};

TEST(KillPause, has_nothing_read_near_a_limit_that_was_just_hit_and_of_what_nobody_knows) {
  Paused p;
  MonoTime now = mono_now();
  p.pause.on_kill({10}, now);
  EXPECT_TRUE(p.pause.is_near_a_kill(test::task(100).id, now + 10ms)) << "below it";
  EXPECT_FALSE(p.pause.is_near_a_kill(test::task(200).id, now + 10ms));
  EXPECT_TRUE(p.pause.is_near_a_kill(test::task(300).id, now + 10ms)) << "it may be anywhere";
  EXPECT_FALSE(p.pause.is_near_a_kill(test::task(100).id, now + 1s));
  EXPECT_FALSE(p.pause.is_due()) << "a cgroup's limit is no reason to stand still";
}

TEST(KillPause, keeps_others_readable_however_many_limits_are_hit) {
  Paused p;
  MonoTime now = mono_now();
  for (std::uint64_t inode = 1000; inode < 3000; ++inode) p.pause.on_kill({inode}, now);
  p.pause.on_kill({20}, now + 1s);  // those before are over by now
  EXPECT_FALSE(p.pause.is_near_a_kill(test::task(100).id, now + 1s));
  EXPECT_TRUE(p.pause.is_near_a_kill(test::task(200).id, now + 1s));
}

TEST(KillPause, stands_still_after_a_kill_of_the_machines_until_memory_is_back) {
  Paused p;
  p.available(16);
  p.pause.on_kill({}, mono_now());
  ASSERT_TRUE(p.pause.is_due());
  p.run();
  EXPECT_EQ(p.stood_still, (std::vector<bool>{true, false}));
  EXPECT_FALSE(p.pause.is_due());
}

TEST(KillPause, does_not_stand_still_where_the_memory_is_back_already) {
  Paused p;
  p.pause.on_kill({}, mono_now());
  p.run();
  EXPECT_TRUE(p.stood_still.empty());
}

TEST(KillPause, stands_still_for_half_of_the_time_at_most) {
  Paused p;
  MonoTime before = mono_now();
  p.available(16);
  p.pause.on_kill({}, before);
  p.run();
  ASSERT_EQ(p.stood_still.size(), 2u);
  p.pause.on_kill({}, before);
  EXPECT_FALSE(p.pause.is_due());
  p.pause.on_kill({}, mono_now() + 1h);
  EXPECT_TRUE(p.pause.is_due());
}

}  // namespace
}  // namespace oomcast
