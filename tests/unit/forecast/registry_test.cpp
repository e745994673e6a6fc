#include "forecast/registry.h"

#include <gtest/gtest.h>

#include "forecast/series_of.h"

namespace oomcast {
namespace {

CgroupPtr job() {
  return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 10}, "/job", {}});
}

Sample sample(const CgroupPtr& cgroup, double t, Bytes pinned) {
  Sample s;
  s.time = at_s(t);
  s.cgroup = cgroup;
  s.usage = s.pinned = pinned;
  s.limit = s.headroom_limit = GiB(1);
  return s;
}

ProcessSampleFact process(std::uint32_t pid, double t, Bytes anon) {
  ProcessSampleFact p;
  p.time = at_s(t);
  p.process.id = {pid, 7};
  p.process.comm = "python3";
  p.anon = p.rss = anon;
  return p;
}

ForecastRegistry::Config tree_of(TaskId root) {
  ForecastRegistry::Config config;
  config.tree = root;
  return config;
}

TEST(ForecastRegistry, tells_a_verdict_when_it_is_new_and_a_deadline_when_it_moves) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  std::vector<ForecastFact> all;
  for (int i = 0; i < 30; ++i) {
    forecasts.on(sample(cgroup, i, Bytes{i * MiB(20).count}));
    for (auto& f : forecasts.take()) all.push_back(f);
  }
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all.front().forecast.verdict, Verdict::unknown);
  EXPECT_EQ(all.back().forecast.verdict, Verdict::leak);
  EXPECT_EQ(all.back().cgroup, cgroup);
  ASSERT_TRUE(all.back().forecast.eta);
  EXPECT_NEAR(all.back().forecast.eta->count(), 51.2 - 29, 3);
}

// The worker that had leaked was killed, and its memory is going while the next one begins.
TEST(ForecastRegistry, sees_the_next_leak_though_the_killed_ones_memory_was_seen_to_go) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  auto leaks = [&](double from, double lasts) {
    for (double t = 0; t < lasts; ++t)
      forecasts.on(sample(cgroup, from + t, MiB(410) + Bytes{static_cast<std::int64_t>(t * 2.05 * 1048576)}));
  };
  leaks(0, 300);
  forecasts.on_kill(*cgroup);
  for (auto [after, held] : {std::pair(0.1, MiB(1018)), {0.3, MiB(720)}, {1.0, MiB(420)}})
    forecasts.on(sample(cgroup, 300 + after, held));
  leaks(302, 200);
  EXPECT_TRUE(forecasts.of(cgroup->id)->alert) << forecasts.of(cgroup->id)->why;
}

TEST(ForecastRegistry, says_of_a_process_whose_limit_it_is_held_against) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  std::vector<ForecastFact> of_it;
  for (int i = 0; i < 30; ++i) {
    Sample around = sample(cgroup, i, Bytes{i * MiB(20).count});
    around.limit_cgroup = around.headroom_cgroup = cgroup;
    forecasts.on(around);
    ProcessSampleFact p = process(7, i, Bytes{i * MiB(20).count});
    p.process.cgroup = cgroup;
    forecasts.on(p);
    for (auto& f : forecasts.take())
      if (f.process) of_it.push_back(f);
  }
  ASSERT_FALSE(of_it.empty());
  EXPECT_EQ(of_it.back().limit_cgroup, cgroup);
  EXPECT_EQ(of_it.back().forecast.limit, GiB(1));
}

// Kubernetes sets memory.high below memory.max: there a leak is throttled to a crawl, and never killed.
TEST(ForecastRegistry, gives_the_deadline_of_what_is_throttled_before_it_is_killed) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  auto leaks = [&](int from, int to, double per_s) {
    for (int i = from; i < to; ++i) {
      Sample s = sample(cgroup, i, Bytes{static_cast<std::int64_t>(per_s * i)});
      s.limit_cgroup = s.headroom_cgroup = cgroup;
      s.throttle = Throttle{MiB(600), cgroup};
      forecasts.on(s);
    }
    return *forecasts.of(cgroup->id);
  };
  constexpr double kRate = 20 * 1048576.0;
  Forecast f = leaks(0, 20, kRate);
  EXPECT_EQ(f.limit, MiB(600));
  EXPECT_EQ(f.limit_kind, LimitKind::high);
  ASSERT_TRUE(f.eta) << f.why;
  EXPECT_NEAR(f.eta->count(), 11, 1);
  f = leaks(20, 32, kRate);
  EXPECT_TRUE(f.alert) << "it is throttled";
  EXPECT_NE(f.why.find("it is throttled: nothing is left of its memory.high"), std::string::npos) << f.why;
}

TEST(ForecastRegistry, knows_what_had_been_predicted_before_a_kill) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  for (int i = 0; i < 50; ++i) forecasts.on(sample(cgroup, i, Bytes{i * MiB(20).count}));
  auto before = forecasts.before(cgroup->id, at_s(49.5));
  ASSERT_TRUE(before);
  EXPECT_LT(before->first, at_s(15));
  EXPECT_LT(before->forecast.time, at_s(49.5));
  EXPECT_FALSE(forecasts.before({Hierarchy::v2, 99}, at_s(49.5)));
}

TEST(ForecastRegistry, takes_a_series_that_gives_no_samples_for_one_that_stands_still) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  for (int i = 0; i < 20; ++i) forecasts.on(sample(cgroup, i, Bytes{i * MiB(20).count}));
  ASSERT_EQ(forecasts.of(cgroup->id)->verdict, Verdict::leak);
  for (int i = 20; i < 60; ++i) forecasts.tick(at_s(i));
  EXPECT_NE(forecasts.of(cgroup->id)->verdict, Verdict::leak);
}

TEST(ForecastRegistry, lives_through_a_recording_whose_times_are_decades_apart) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  for (double decade : {0.0, 1.0, 5.0}) {
    for (int i = 0; i < 5; ++i) forecasts.on(sample(cgroup, decade * 315e6 + i, MiB(20 + i)));
    forecasts.tick(at_s(decade * 315e6 + 5));
  }
  EXPECT_FALSE(forecasts.take().empty());
}

TEST(ForecastRegistry, says_the_same_of_the_same_facts) {
  auto run = [] {
    ForecastRegistry forecasts({});
    auto cgroup = job();
    std::string said;
    for (int i = 0; i < 200; ++i) {
      if (i % 7)
        forecasts.on(sample(cgroup, i, Bytes{MiB(100).count + i * MiB(3).count + i % 5 * MiB(1).count}));
      auto p = process(5, i, Bytes{i * MiB(3).count});
      forecasts.on(p);
      forecasts.tick(at_s(i + 0.5));
      for (auto& f : forecasts.take())
        said += f.forecast.why + std::to_string(f.forecast.eta ? f.forecast.eta->count() : -1);
    }
    return said;
  };
  EXPECT_EQ(run(), run());
}

TEST(ForecastRegistry, begins_anew_below_a_limit_that_was_met_and_nowhere_else) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  auto other = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 11}, "/jobs", {}});
  for (int i = 0; i < 30; ++i)
    for (const CgroupPtr& c : {cgroup, CgroupPtr(other)})
      forecasts.on(sample(c, i, Bytes{i * MiB(20).count}));
  EXPECT_TRUE(forecasts.before(cgroup->id, at_s(30)));
  forecasts.on_kill(*cgroup);
  for (const CgroupPtr& c : {cgroup, CgroupPtr(other)}) forecasts.on(sample(c, 30, MiB(10)));
  EXPECT_EQ(forecasts.of(cgroup->id)->verdict, Verdict::unknown);
  EXPECT_NE(forecasts.of(other->id)->verdict, Verdict::unknown);
  EXPECT_FALSE(forecasts.before(cgroup->id, at_s(31))) << "of this life nothing is";
}

TEST(ForecastRegistry, alerts_of_a_cgroup_that_thrashes_at_its_limit_and_tells_how_long_until_it_is_over) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  std::vector<ForecastFact> all;
  auto second = [&](int i, Seconds waited) {
    forecasts.on(sample(cgroup, i, Bytes{GiB(1).count - MiB(10).count}));
    if (waited.count() > 0) forecasts.on(ReclaimFact{at_s(i), cgroup, 7000, waited, MiB(415)});
    for (auto& f : forecasts.take()) all.push_back(f);
  };
  int i = 0;
  for (; i < 30; ++i) second(i, Seconds(0));
  EXPECT_FALSE(forecasts.of(cgroup->id)->alert) << "full, and no more: " << forecasts.of(cgroup->id)->why;
  for (; i < 40; ++i) second(i, Seconds(0.75));
  ASSERT_TRUE(forecasts.of(cgroup->id)->evidence.thrashing);
  EXPECT_TRUE(forecasts.of(cgroup->id)->alert);
  EXPECT_EQ(forecasts.of(cgroup->id)->why.rfind("it has thrashed at its limit for 9", 0), 0u)
      << forecasts.of(cgroup->id)->why;
  ASSERT_TRUE(all.back().forecast.evidence.thrashing);
  EXPECT_DOUBLE_EQ(all.back().forecast.evidence.thrashing->lasts.count(), 9) << "the last that was told";
  for (; i < 140; ++i) second(i, Seconds(0.75));
  std::size_t told = all.size();
  for (; i < 148; ++i) second(i, Seconds(0.75));
  EXPECT_LE(all.size(), told + 1) << "after minutes, not every second";
  for (int end = i + 60; i < end; ++i) forecasts.tick(at_s(i));  // it stands still, and nothing is told of it
  for (auto& f : forecasts.take()) all.push_back(f);
  EXPECT_FALSE(forecasts.of(cgroup->id)->alert);
  EXPECT_FALSE(all.back().forecast.alert) << "its end is news";
}

TEST(ForecastRegistry,
     keeps_the_verdict_of_a_leak_for_as_long_as_it_thrashes_at_its_limit_and_not_after_the_kill) {
  ForecastRegistry forecasts({});
  auto cgroup = job();
  int i = 0;
  auto until = [&](int end) {
    for (; i < end; ++i) {
      forecasts.on(sample(cgroup, i, std::min(Bytes{i * MiB(20).count}, Bytes{GiB(1).count - MiB(4).count})));
      if (i > 51) forecasts.on(ReclaimFact{at_s(i), cgroup, 7000, Seconds(0.75), MiB(415)});
    }
    return *forecasts.of(cgroup->id);
  };
  until(50);
  for (int end = 51; end < 200; end += 7) {
    Forecast now = until(end);
    EXPECT_EQ(now.verdict, Verdict::leak) << end << ": " << now.why;
    EXPECT_TRUE(now.alert) << end;
    ASSERT_TRUE(now.growth) << end;
    EXPECT_NEAR(now.growth->rate.value, MiB(20).as_double(), MiB(1).as_double()) << end;
    if (end > 60) {
      EXPECT_EQ(now.eta, Seconds(0)) << end;
      ASSERT_TRUE(now.evidence.regime) << end;
      EXPECT_NEAR(now.evidence.regime->count(), end - 1, 10) << end;
    }
  }
  forecasts.on_kill(*cgroup);
  forecasts.on(sample(cgroup, i, MiB(10)));
  EXPECT_FALSE(forecasts.of(cgroup->id)->evidence.thrashing);
  EXPECT_FALSE(forecasts.of(cgroup->id)->alert);
}

TEST(ForecastRegistry, follows_a_process_tree_as_one) {
  ForecastRegistry forecasts(tree_of({1, 7}));
  std::optional<ForecastFact> last;
  for (int i = 0; i < 60; ++i) {
    for (std::uint32_t pid : {1u, 2u, 3u}) {
      auto p = process(pid, i, pid == 1 ? MiB(50) : Bytes{MiB(50).count + i * MiB(4).count});
      forecasts.on(p);
    }
    forecasts.tick(at_s(i + 0.5));
    for (auto& f : forecasts.take())
      if (f.process && f.process->id.tgid == 1) last = f;
  }
  ASSERT_TRUE(last) << "named after its first process";
  EXPECT_EQ(last->forecast.verdict, Verdict::leak);
  EXPECT_NEAR(last->forecast.growth->rate.value / 1048576.0, 8, 0.5);
}

// A parent of 800 MiB and a worker that shares it, and copies 4 MiB of it a second.
ProcessSampleFact worker(double t, bool measured) {
  auto p = process(2, t, MiB(800));
  p.process.ppid = 1;
  if (measured) p.private_bytes = Bytes{MiB(10).count + static_cast<std::int64_t>(t * MiB(4).as_double())};
  return p;
}

TEST(ForecastRegistry, takes_a_worker_that_is_not_measured_yet_for_one_that_shares_all_its_parent_has) {
  ForecastRegistry forecasts(tree_of({1, 7}));
  auto parent = process(1, 0, MiB(800));
  forecasts.on(parent);
  auto forked = worker(0, false);
  forecasts.on(forked);
  forecasts.tick(at_s(0.5));
  EXPECT_EQ(forecasts.tree_holds(), MiB(800));
  auto measured = worker(1, true);
  forecasts.on(measured);
  forecasts.tick(at_s(1.5));
  EXPECT_EQ(forecasts.tree_holds(), MiB(814));
}

TEST(ForecastRegistry, has_no_process_tree_any_more_when_all_of_it_ended) {
  ForecastRegistry forecasts(tree_of({1, 7}));
  auto only = process(1, 0, MiB(800));
  forecasts.on(only);
  forecasts.tick(at_s(0.5));
  ASSERT_TRUE(forecasts.tree());
  forecasts.on(ExitFact{at_s(1), only.process});
  forecasts.tick(at_s(1.5));
  EXPECT_FALSE(forecasts.tree());
  EXPECT_FALSE(forecasts.tree_holds());
}

TEST(ForecastRegistry, gives_a_process_tree_no_more_than_its_cgroup_holds_and_the_limit_that_is_left_to_it) {
  ForecastRegistry forecasts(tree_of({1, 7}));
  auto cgroup = job();
  for (int i = 0; i < 5; ++i) {
    forecasts.on(sample(cgroup, i, MiB(300)));
    for (std::uint32_t pid : {1u, 2u}) {
      auto p = process(pid, i, MiB(100));
      p.process.cgroup = cgroup;
      forecasts.on(p);
    }
    forecasts.tick(at_s(i + 0.5));
  }
  ASSERT_TRUE(forecasts.tree());
  EXPECT_EQ(forecasts.tree_holds(), MiB(200));
  EXPECT_EQ(forecasts.tree()->forecast.limit, GiB(1) - MiB(100));
  forecasts.on(sample(cgroup, 5, MiB(150)));
  forecasts.tick(at_s(5.5));
  EXPECT_EQ(forecasts.tree_holds(), MiB(150));
  EXPECT_EQ(forecasts.tree()->forecast.limit, GiB(1));
}

TEST(ForecastRegistry, knows_no_limit_of_a_process_tree_in_several_cgroups) {
  ForecastRegistry forecasts(tree_of({1, 7}));
  auto one = job();
  auto other = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 11}, "/job/step", {}});
  forecasts.on(sample(one, 0, MiB(300)));
  for (auto& [pid, cgroup] : {std::pair{1u, one}, std::pair{2u, CgroupPtr(other)}}) {
    auto p = process(pid, 0, MiB(100));
    p.process.cgroup = cgroup;
    forecasts.on(p);
  }
  forecasts.tick(at_s(0.5));
  EXPECT_EQ(forecasts.tree_holds(), MiB(200));
  EXPECT_FALSE(forecasts.tree()->forecast.limit);
}

TEST(ForecastRegistry, names_copy_on_write_of_a_worker_whose_private_memory_is_measured_now_and_then) {
  ForecastRegistry forecasts({});
  std::optional<Verdict> said;
  for (int i = 0; i < 90; ++i) {
    auto parent = process(1, i, MiB(800));
    forecasts.on(parent);
    auto p = worker(i, i % 3 == 0);
    forecasts.on(p);
    for (auto& f : forecasts.take()) {
      EXPECT_NE(f.process->id.tgid, 1u) << "the parent does nothing of note";
      said = f.forecast.verdict;
    }
  }
  EXPECT_EQ(said, Verdict::cow);
}

TEST(ForecastRegistry, does_not_take_the_end_of_workers_for_growth_of_their_parent) {
  ForecastRegistry forecasts({});
  for (int i = 0; i < 120; ++i) {
    auto parent = process(1, i, MiB(800));
    parent.process.ppid = 99;                                // a shell, which is not followed
    parent.private_bytes = i / 30 % 2 ? MiB(790) : MiB(20);  // while its workers are there
    forecasts.on(parent);
    EXPECT_TRUE(forecasts.take().empty());
  }
}

TEST(ForecastRegistry, counts_what_forked_workers_share_once_in_a_tree) {
  ForecastRegistry forecasts(tree_of({1, 7}));
  std::optional<ForecastFact> last;
  for (int i = 0; i < 60; ++i) {
    auto parent = process(1, i, MiB(800));
    forecasts.on(parent);
    auto p = worker(i, true);
    forecasts.on(p);
    forecasts.tick(at_s(i + 0.5));
    for (auto& f : forecasts.take())
      if (f.process && f.process->id.tgid == 1) last = f;
  }
  ASSERT_TRUE(last);
  EXPECT_EQ(last->forecast.verdict, Verdict::leak);
  double t = seconds_between(at_s(0), last->time).count();
  EXPECT_NEAR(last->forecast.evidence.floor->as_double() / 1048576.0, 810 + 4 * t, 20) << "not 1600";
}

TEST(ForecastRegistry, leaves_no_growth_of_an_earlier_sample_in_a_new_one) {
  ForecastRegistry forecasts({});
  ProcessSampleFact first = process(7, 0, MiB(1));
  first.growth = BytesPerSec{5};
  forecasts.on(first);
  EXPECT_FALSE(first.growth);
  ForecastRegistry::Config none;
  none.most_processes = 0;
  ForecastRegistry full(none);
  first.growth = BytesPerSec{5};
  full.on(first);
  EXPECT_FALSE(first.growth);
}

TEST(ForecastRegistry, gives_a_sample_of_a_process_its_growth) {
  ForecastRegistry forecasts({});
  for (int i = 0; i < 40; ++i) {
    auto p = process(5, i, Bytes{i * MiB(2).count});
    forecasts.on(p);
    if (i > 20) {
      ASSERT_TRUE(p.growth);
      EXPECT_NEAR(p.growth->value / 1048576.0, 2, 0.2);
    }
  }
}

GpuSample gpu(double t, Bytes held, std::optional<std::uint32_t> pid = std::nullopt) {
  GpuSample s;
  s.time = at_s(t);
  s.device.emplace().bytes.fill(7);
  s.held = held;
  s.limit = GiB(32);
  if (pid) {
    s.process.emplace();
    s.process->id = {*pid, 7};
  }
  return s;
}

TEST(ForecastRegistry,
     forecasts_a_card_against_its_memory_and_a_process_on_it_against_what_the_others_leave) {
  ForecastRegistry forecasts({});
  std::optional<ForecastFact> card, process;
  for (int i = 0; i < 60; ++i) {
    Bytes grows{i * MiB(100).count};
    forecasts.on(gpu(i, grows + GiB(10)));
    forecasts.on(gpu(i, grows, 1));
    for (auto& f : forecasts.take()) (f.process ? process : card) = f;
  }
  ASSERT_TRUE(card && process);
  EXPECT_EQ(card->forecast.limit, GiB(32));
  EXPECT_EQ(card->forecast.verdict, Verdict::leak);
  EXPECT_TRUE(card->device && process->device);
  EXPECT_FALSE(card->cgroup);
  EXPECT_EQ(process->forecast.limit, GiB(22));
  ASSERT_TRUE(card->forecast.eta && process->forecast.eta);
  EXPECT_NEAR(card->forecast.eta->count(), 32 * 1024 / 100.0 - 102.4 - 59, 20);
  ASSERT_TRUE(forecasts.of(*card->device));
  EXPECT_EQ(forecasts.of(*card->device)->limit, GiB(32));
}

TEST(ForecastRegistry, forgets_what_a_process_had_on_a_card_when_it_ends) {
  ForecastRegistry forecasts({});
  for (int i = 0; i < 60; ++i) forecasts.on(gpu(i, Bytes{i * MiB(100).count}, 1));
  EXPECT_FALSE(forecasts.take().empty());
  auto last = gpu(60, GiB(6), 1);
  last.ended = true;
  forecasts.on(last);
  for (int i = 61; i < 90; ++i) forecasts.tick(at_s(i));
  EXPECT_TRUE(forecasts.take().empty());
}

TEST(ForecastRegistry, lets_go_of_the_small_and_quiet_when_its_memory_is_full) {
  ForecastRegistry::Config config;
  config.most_bytes = 512 << 10;
  ForecastRegistry forecasts(config);
  auto leaks = job();
  std::uint64_t news_of_it = 0;
  for (int i = 0; i < 200; ++i) {
    forecasts.on(sample(leaks, i, MiB(300) + Bytes{i * MiB(3).count}));
    for (std::uint64_t n = 100; n < 300; ++n) {
      auto other = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, n}, "/o" + std::to_string(n), {}});
      forecasts.on(
          sample(other, i, MiB(1) + KiB(static_cast<std::int64_t>((n + static_cast<unsigned>(i)) % 2))));
    }
    forecasts.tick(at_s(i));
    EXPECT_LE(forecasts.bytes(), config.most_bytes);
    for (auto& f : forecasts.take()) news_of_it += f.cgroup == leaks;
  }
  EXPECT_GT(forecasts.not_followed(), 0u);
  EXPECT_GT(news_of_it, 3u);
  ASSERT_TRUE(forecasts.of(leaks->id));
  EXPECT_EQ(forecasts.of(leaks->id)->verdict, Verdict::leak);
  for (std::uint64_t n = 100; n < 300; ++n) forecasts.on(ForgottenFact{at_s(200), {Hierarchy::v2, n}});
  forecasts.on(ForgottenFact{at_s(200), leaks->id});
  EXPECT_EQ(forecasts.bytes(), 0u);
}

TEST(ForecastRegistry, follows_a_large_newcomer_in_the_place_of_a_small_one_that_does_nothing) {
  ForecastRegistry::Config config;
  config.most_bytes = 512 << 10;
  ForecastRegistry forecasts(config);
  auto group = [](std::uint64_t n) {
    return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, n}, "/o" + std::to_string(n), {}});
  };
  std::uint64_t n = 100;
  for (int i = 0; i < 10; ++i) forecasts.on(sample(group(n), i, MiB(1)));
  while (forecasts.bytes() < config.most_bytes / 8 * 7) forecasts.on(sample(group(++n), 10, MiB(1)));
  auto small = group(n + 1), large = group(n + 2);
  forecasts.on(sample(small, 11, MiB(1)));
  EXPECT_FALSE(forecasts.of(small->id));
  forecasts.on(sample(large, 11, MiB(500)));
  EXPECT_TRUE(forecasts.of(large->id));
  EXPECT_LE(forecasts.bytes(), config.most_bytes);
}

// ---- series of other tools

SeriesReading row(std::uint32_t series, double t, Bytes value) {
  SeriesReading out{series, {at_s(t), value, GiB(1), value}, t};
  out.name = "series " + std::to_string(series);
  return out;
}

TEST(ForecastRegistry, tells_of_a_series_what_it_tells_of_a_cgroup_with_the_same_samples) {
  Noise noise;
  ForecastRegistry live({}), replayed({});
  auto cgroup = job();
  std::vector<ForecastFact> of_cgroup, of_series;
  for (int t = 0; t < 400; ++t) {
    double mib = t < 200 ? 300 : 300 + (t - 200) * 3;
    Bytes value{std::llround((mib + noise()) * 1048576)};
    live.on(sample(cgroup, t, value));
    replayed.on(row(1, t, value));
    replayed.tick(at_s(t));
    for (auto& f : live.take()) of_cgroup.push_back(f);
    for (auto& f : replayed.take()) of_series.push_back(f);
  }
  ASSERT_GT(of_cgroup.size(), 5u);
  ASSERT_EQ(of_series.size(), of_cgroup.size());
  for (std::size_t i = 0; i < of_series.size(); ++i) {
    EXPECT_EQ(of_series[i].time, of_cgroup[i].time);
    EXPECT_EQ(of_series[i].forecast.why, of_cgroup[i].forecast.why);
    EXPECT_EQ(of_series[i].forecast.eta, of_cgroup[i].forecast.eta);
    EXPECT_EQ(of_series[i].time_s, Seconds(of_series[i].time.time_since_epoch()).count() - 1);
    EXPECT_FALSE(of_series[i].cgroup);
  }
}

TEST(ForecastRegistry, tells_at_each_moment_of_every_series_with_a_row_of_it_if_asked_to) {
  ForecastRegistry::Config config;
  config.every_forecast = true;
  ForecastRegistry forecasts(config);
  for (int t = 0; t < 3; ++t) {
    forecasts.on(row(2, t, MiB(100)));
    if (t != 1) forecasts.on(row(1, t, MiB(200)));
    forecasts.tick(at_s(t));
  }
  std::vector<std::pair<double, std::string>> told;
  for (auto& f : forecasts.take()) told.emplace_back(f.time_s.value_or(-1), f.series);
  EXPECT_EQ(told, (std::vector<std::pair<double, std::string>>{
                      {0, "series 1"}, {0, "series 2"}, {1, "series 2"}, {2, "series 1"}, {2, "series 2"}}));
  EXPECT_EQ(forecasts.series().size(), 2u);
  EXPECT_EQ(forecasts.bytes(), 0u) << "they take no cgroup's place";
}

TEST(ForecastRegistry, fills_no_gap_of_a_series_and_begins_anew_where_its_columns_turned) {
  ForecastRegistry forecasts({});
  for (int t : {0, 600, 1'200}) forecasts.on(row(1, t, MiB(100)));
  EXPECT_EQ(forecasts.series()[0].forecast.why, "too early: 3 samples in 20 min 00 s");
  SeriesReading other = row(1, 1'800, MiB(900));
  other.turned = true;
  forecasts.on(other);
  EXPECT_EQ(forecasts.series()[0].forecast.why, "too early: one sample");
}

TEST(ForecastRegistry, tells_of_a_process_in_a_series_once_it_does_something_of_note) {
  auto news_of = [](Bytes pace) {
    ForecastRegistry forecasts({});
    std::size_t news = 0;
    for (int t = 0; t < 120; ++t) {
      SeriesReading reading = row(42, t, MiB(100) + Bytes{pace.count * t});
      reading.process.emplace();
      forecasts.on(reading);
      forecasts.tick(at_s(t));
      news += forecasts.take().size();
    }
    return news;
  };
  EXPECT_EQ(news_of(Bytes{}), 0u);
  EXPECT_GT(news_of(MiB(4)), 0u);
}

}  // namespace
}  // namespace oomcast
