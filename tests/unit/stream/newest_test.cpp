#include "stream/newest.h"

#include <gtest/gtest.h>

#include <string>

#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using namespace test;

Sample sample_of(const CgroupPtr& of, std::int64_t mib) {
  Sample s = known_sample();
  s.cgroup = of;
  s.usage = MiB(mib);
  return s;
}

std::string types_of(const NewestFacts& newest) {
  std::string out;
  for (const Fact& fact : newest.all()) out += std::string(type_of(fact)) + " ";
  return out;
}

TEST(NewestFacts, give_the_start_and_of_each_cgroup_the_newest_sample_and_then_forecast) {
  NewestFacts newest;
  CgroupPtr job = cgroup(10, "/job"), other = cgroup(20, "/other");
  newest.on(StartFact{mono_from_ns(1), "0.1.0", "6.1.0", {"bpf"}});
  newest.on(ForecastFact{mono_from_ns(2), job, std::nullopt, job, known_forecast()});
  for (int mib : {50, 51, 52}) newest.on(sample_of(job, mib));
  newest.on(sample_of(other, 7));
  EXPECT_EQ(types_of(newest), "start sample sample forecast ");
  EXPECT_EQ(std::get<Sample>(newest.all()[1]).usage, MiB(52));
}

TEST(NewestFacts, give_no_event_since_one_that_comes_late_has_missed_it) {
  NewestFacts newest;
  ProcessRef p = process(100, "python3", {}, cgroup(10, "/job"));
  newest.on(known_oom(p, p.cgroup));
  newest.on(UserKillFact{mono_from_ns(2), p, p, std::nullopt});
  newest.on(ReclaimFact{mono_from_ns(2), p.cgroup, 3, Seconds(1), MiB(1)});
  EXPECT_EQ(types_of(newest), "");
}

TEST(NewestFacts, forget_a_cgroup_that_is_gone_and_a_process_that_ended_and_no_other) {
  NewestFacts newest;
  CgroupPtr job = cgroup(10, "/job"), other = cgroup(11, "/other");
  ProcessRef p = process(100, "python3", {}, job), q = process(101, "python3", {}, job);
  for (const CgroupPtr& each : {job, other}) {
    newest.on(sample_of(each, 5));
    newest.on(ForecastFact{mono_from_ns(2), each, std::nullopt, each, known_forecast()});
  }
  for (const ProcessRef& each : {p, q})
    newest.on(ForecastFact{mono_from_ns(2), job, each, job, known_forecast()});
  newest.on(ForgottenFact{mono_from_ns(3), job->id});
  EXPECT_EQ(types_of(newest), "sample forecast forecast forecast ");
  newest.on(ExitFact{mono_from_ns(3), p});
  EXPECT_EQ(types_of(newest), "sample forecast forecast ");
  EXPECT_EQ(std::get<Sample>(newest.all()[0]).cgroup->path, "/other");
}

TEST(NewestFacts, add_losses_up_by_their_reason) {
  NewestFacts newest;
  newest.on(LostFact{mono_from_ns(1), "samples_ring_full", 12});
  newest.on(LostFact{mono_from_ns(2), "samples_ring_full", 3});
  newest.on(LostFact{mono_from_ns(2), "model_full", 1});
  ASSERT_EQ(types_of(newest), "lost lost ");
  EXPECT_EQ(std::get<LostFact>(newest.all()[1]).count, 15u);
}

TEST(NewestFacts, are_bounded_and_count_what_they_leave_out) {
  NewestFacts newest;
  for (std::uint64_t inode = 1; inode <= NewestFacts::kMost + 5; ++inode)
    newest.on(PressureFact{mono_from_ns(1), cgroup(inode, "/c"), {}});
  EXPECT_EQ(newest.all().size(), NewestFacts::kMost);
  EXPECT_EQ(newest.left_out(), 5u);
}

}  // namespace
}  // namespace oomcast
