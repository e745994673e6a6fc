#include "store/sieve.h"

#include <gtest/gtest.h>

#include "moment.h"

namespace oomcast {
namespace {

using test::at_s;
using namespace std::chrono_literals;

class SieveTest : public ::testing::Test {
 protected:
  Sample sample(double s, Bytes usage, Bytes limit = GiB(1)) {
    Sample out;
    out.time = at_s(s);
    out.cgroup = job_;
    out.usage = out.pinned = usage;
    out.limit = limit;
    return out;
  }
  ProcessSampleFact process(double s, Bytes rss) {
    ProcessSampleFact out;
    out.time = at_s(s);
    out.process.id = {7, 70};
    out.process.cgroup = job_;
    out.rss = out.anon = rss;
    return out;
  }
  template <typename Fact>
  std::vector<Fact> kept() const {
    std::vector<Fact> out;
    for (const StoreItem& item : items_)
      if (auto* fact = std::get_if<Fact>(&item)) out.push_back(*fact);
    return out;
  }
  std::vector<double> times() const {
    std::vector<double> out;
    for (const Sample& s : kept<Sample>()) out.push_back(Seconds(s.time.time_since_epoch()).count());
    return out;
  }

  CgroupPtr job_ = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 7}, "/job", name_cgroup("/job")});
  std::vector<StoreItem> items_;
  Sieve sieve_{1s, [this](StoreItem item) { items_.push_back(std::move(item)); }};
};

TEST_F(SieveTest, leaves_out_what_moves_less_than_can_be_seen_but_not_for_long) {
  for (int s = 0; s < 25; ++s) sieve_.pass(sample(s, MiB(100) + KiB(s)));
  EXPECT_EQ(times(), (std::vector<double>{0, 9, 10, 19, 20}));
}

TEST_F(SieveTest, keeps_the_moment_before_a_jump) {
  sieve_.pass(sample(0, MiB(100)));
  sieve_.pass(sample(1, MiB(100) + KiB(4)));
  sieve_.pass(sample(2, MiB(100) + KiB(8)));
  sieve_.pass(sample(3, MiB(300)));
  EXPECT_EQ(times(), (std::vector<double>{0, 2, 3}));
}

TEST_F(SieveTest, says_until_when_nothing_changed_before_a_jump) {
  sieve_.pass(sample(0, MiB(100)));
  for (int s = 1; s < 60; ++s) sieve_.pass(TickFact{at_s(s)});
  sieve_.pass(sample(59.5, MiB(300)));
  ASSERT_EQ(times(), (std::vector<double>{0, 59, 59.5})) << "no ramp from 100 to 300 over a minute";
  EXPECT_EQ(kept<Sample>()[1].usage, MiB(100));
}

TEST_F(SieveTest, keeps_every_change_of_the_limit) {
  sieve_.pass(sample(0, MiB(100)));
  sieve_.pass(sample(1, MiB(100), GiB(2)));
  EXPECT_EQ(times().size(), 2u);
}

TEST_F(SieveTest, keeps_all_that_was_left_out_when_a_kill_comes) {
  sieve_.pass(sample(0, MiB(100)));
  sieve_.pass(sample(1, MiB(100) + KiB(4)));
  sieve_.pass(EpisodeFact{});
  EXPECT_EQ(times(), (std::vector<double>{0, 1}));
  EXPECT_EQ(kept<Boxed<EpisodeFact>>().size(), 1u);
}

TEST_F(SieveTest, keeps_processes_that_matter_in_their_cgroup) {
  sieve_.pass(process(0, MiB(8)));
  EXPECT_TRUE(kept<ProcessSampleFact>().empty());
  sieve_.pass(ExitFact{at_s(1), process(0, MiB(8)).process});
  EXPECT_TRUE(kept<ExitFact>().empty()) << "nobody knows it";
  sieve_.pass(process(2, MiB(17)));
  EXPECT_EQ(kept<ProcessSampleFact>().size(), 1u);
  sieve_.pass(process(3, MiB(2)));
  EXPECT_EQ(kept<ProcessSampleFact>().size(), 2u) << "once it mattered, it goes on to";
  sieve_.pass(ExitFact{at_s(4), process(0, MiB(8)).process});
  EXPECT_EQ(kept<ExitFact>().size(), 1u);
  sieve_.pass(sample(5, MiB(10), MiB(64)));
  sieve_.pass(process(6, MiB(5)));
  EXPECT_EQ(kept<ProcessSampleFact>().size(), 3u) << "a 16th of a small limit";
}

TEST_F(SieveTest, sums_reclaim_and_keeps_the_newest_pressure) {
  for (int s = 0; s < 10; ++s) {
    sieve_.pass(ReclaimFact{at_s(s), job_, 2, Seconds(0.5), MiB(1)});
    sieve_.pass(PressureFact{at_s(s), job_, {PressureLine{double(s), 0, 0, 1}, std::nullopt}});
    sieve_.pass(TickFact{at_s(s)});
  }
  EXPECT_TRUE(kept<ReclaimFact>().empty());
  sieve_.pass(TickFact{at_s(10)});
  ASSERT_EQ(kept<ReclaimFact>().size(), 1u);
  EXPECT_EQ(kept<ReclaimFact>()[0].stalls, 20u);
  EXPECT_EQ(kept<ReclaimFact>()[0].stalled, Seconds(5));
  EXPECT_EQ(kept<ReclaimFact>()[0].reclaimed, MiB(10));
  ASSERT_EQ(kept<PressureFact>().size(), 1u);
  EXPECT_EQ(kept<PressureFact>()[0].pressure.some->avg10, 9);
}

TEST_F(SieveTest, takes_another_cgroup_with_the_same_inode_for_another) {
  sieve_.pass(sample(0, MiB(100)));
  sieve_.pass(ForgottenFact{at_s(1), job_->id});
  sieve_.pass(sample(2, MiB(100)));
  EXPECT_EQ(times(), (std::vector<double>{0, 1, 2}));
}

TEST_F(SieveTest, ends_the_curve_of_a_cgroup_that_is_gone) {
  sieve_.pass(ForgottenFact{at_s(0), job_->id});
  EXPECT_TRUE(times().empty()) << "nothing of it was kept";
  sieve_.pass(sample(1, MiB(100)));
  sieve_.pass(sample(2, MiB(100) + KiB(4)));
  sieve_.pass(ForgottenFact{at_s(3), job_->id});
  ASSERT_EQ(times(), (std::vector<double>{1, 2, 3}));
  Sample end = kept<Sample>().back();
  EXPECT_EQ(end.cgroup, job_);
  EXPECT_FALSE(end.usage || end.pinned || end.limit || end.stat.anon) << "unknown is not 0";
}

}  // namespace
}  // namespace oomcast
