#include "model/thrashing.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

CgroupPtr group(std::uint64_t inode, std::string path) {
  CgroupRef ref;
  ref.id = {Hierarchy::v2, inode};
  ref.path = std::move(path);
  return std::make_shared<const CgroupRef>(std::move(ref));
}

const CgroupPtr kJob = group(10, "/job"), kStep = group(11, "/job/step");

Sample sample(const CgroupPtr& of, Bytes pinned, Bytes limit, const CgroupPtr& owner) {
  Sample s;
  s.cgroup = of;
  s.pinned = pinned;
  s.limit = limit;
  s.limit_cgroup = owner;
  return s;
}

struct ThrashingMachine {
  ThrashingFinder finder;
  MonoTime now{1h};

  // A second after the one before.
  void reclaim(const CgroupPtr& of, Seconds waited, Nanos after = 1s) {
    now += after;
    finder.on(ReclaimFact{now, of, 7000, waited, MiB(415)});
  }
  std::optional<Thrashing> of(const CgroupPtr& group) { return finder.of(group->id, now); }
};

TEST(Thrashing, is_waiting_for_memory_for_seconds_in_a_cgroup_full_of_what_cannot_be_dropped) {
  ThrashingMachine m;
  m.finder.on(sample(kJob, MiB(95), MiB(96), kJob));
  for (int i = 0; i < 5; ++i) {
    m.reclaim(kJob, Seconds(0.75));
    EXPECT_FALSE(m.of(kJob)) << "after " << i << " s";
  }
  m.reclaim(kJob, Seconds(0.75));
  auto found = m.of(kJob);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->lasts.count(), 5);
  EXPECT_DOUBLE_EQ(found->waiting, 0.75);
  EXPECT_DOUBLE_EQ(found->reclaimed.value, MiB(415).as_double());
}

TEST(Thrashing, is_not_reading_files_at_the_limit) {
  ThrashingMachine m;
  m.finder.on(sample(kJob, MiB(20), MiB(96), kJob));
  for (int i = 0; i < 10; ++i) m.reclaim(kJob, Seconds(0.75));
  EXPECT_FALSE(m.of(kJob));
}

TEST(Thrashing, is_not_reading_files_beside_half_a_limit_of_swap) {
  ThrashingMachine m;
  Sample half = sample(kJob, MiB(95), MiB(96), kJob);
  half.stat.swap = MiB(48);
  m.finder.on(half);
  for (int i = 0; i < 10; ++i) m.reclaim(kJob, Seconds(0.75));
  EXPECT_FALSE(m.of(kJob));
}

TEST(Thrashing, ends_when_its_tasks_run_again_or_nothing_more_is_heard) {
  ThrashingMachine m;
  m.finder.on(sample(kJob, MiB(95), MiB(96), kJob));
  for (int i = 0; i < 10; ++i) m.reclaim(kJob, Seconds(0.75));
  ASSERT_TRUE(m.of(kJob));
  EXPECT_FALSE(m.finder.of(kJob->id, m.now + 16s)) << "it ended, or was killed";
  m.reclaim(kJob, Seconds(0.1));
  EXPECT_FALSE(m.of(kJob));
  m.reclaim(kJob, Seconds(0.75));
  EXPECT_FALSE(m.of(kJob)) << "it begins anew";
}

TEST(Thrashing, at_a_limit_above_is_told_of_the_cgroup_whose_tasks_wait) {
  ThrashingMachine m;
  m.finder.on(sample(kStep, MiB(40), MiB(96), kJob));
  m.finder.on(sample(kJob, MiB(95), MiB(96), kJob));
  for (int i = 0; i < 10; ++i) m.reclaim(kStep, Seconds(1.5));
  ASSERT_TRUE(m.of(kStep));
  EXPECT_DOUBLE_EQ(m.of(kStep)->waiting, 1.5) << "two tasks";
  m.finder.on(ForgottenFact{m.now, kStep->id});
  EXPECT_FALSE(m.of(kStep));
}

}  // namespace
}  // namespace oomcast
