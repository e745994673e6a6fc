#include "forecast/book.h"

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

Book::Config tree_of(TaskId root) {
  Book::Config config;
  config.tree = root;
  return config;
}

TEST(Book, tells_a_verdict_when_it_is_new_and_a_deadline_when_it_moves) {
  Book book({});
  auto cgroup = job();
  std::vector<ForecastFact> all;
  for (int i = 0; i < 30; ++i) {
    book.on(sample(cgroup, i, Bytes{i * MiB(20).count}));
    for (auto& f : book.take()) all.push_back(f);
  }
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all.front().forecast.verdict, Verdict::unknown);
  EXPECT_EQ(all.back().forecast.verdict, Verdict::leak);
  EXPECT_EQ(all.back().cgroup, cgroup);
  ASSERT_TRUE(all.back().forecast.eta);
  EXPECT_NEAR(all.back().forecast.eta->count(), 51.2 - 29, 3);
}

TEST(Book, says_of_a_process_whose_limit_it_is_held_against) {
  Book book({});
  auto cgroup = job();
  std::vector<ForecastFact> of_it;
  for (int i = 0; i < 30; ++i) {
    Sample around = sample(cgroup, i, Bytes{i * MiB(20).count});
    around.limit_cgroup = cgroup;
    book.on(around);
    ProcessSampleFact p = process(7, i, Bytes{i * MiB(20).count});
    p.process.cgroup = cgroup;
    book.on(p);
    for (auto& f : book.take())
      if (f.process) of_it.push_back(f);
  }
  ASSERT_FALSE(of_it.empty());
  EXPECT_EQ(of_it.back().limit_cgroup, cgroup);
  EXPECT_EQ(of_it.back().forecast.limit, GiB(1));
}

TEST(Book, knows_what_had_been_predicted_before_a_kill) {
  Book book({});
  auto cgroup = job();
  for (int i = 0; i < 50; ++i) book.on(sample(cgroup, i, Bytes{i * MiB(20).count}));
  auto before = book.before(cgroup->id, at_s(49.5));
  ASSERT_TRUE(before);
  EXPECT_LT(before->first, at_s(15));
  EXPECT_LT(before->forecast.time, at_s(49.5));
  EXPECT_FALSE(book.before({Hierarchy::v2, 99}, at_s(49.5)));
}

TEST(Book, takes_a_series_that_gives_no_samples_for_one_that_stands_still) {
  Book book({});
  auto cgroup = job();
  for (int i = 0; i < 20; ++i) book.on(sample(cgroup, i, Bytes{i * MiB(20).count}));
  ASSERT_EQ(book.of(cgroup->id)->verdict, Verdict::leak);
  for (int i = 20; i < 60; ++i) book.tick(at_s(i));
  EXPECT_NE(book.of(cgroup->id)->verdict, Verdict::leak);
}

TEST(Book, lives_through_a_recording_whose_times_are_decades_apart) {
  Book book({});
  auto cgroup = job();
  for (double decade : {0.0, 1.0, 5.0}) {
    for (int i = 0; i < 5; ++i) book.on(sample(cgroup, decade * 315e6 + i, MiB(20 + i)));
    book.tick(at_s(decade * 315e6 + 5));
  }
  EXPECT_FALSE(book.take().empty());
}

TEST(Book, says_the_same_of_the_same_facts) {
  auto run = [] {
    Book book({});
    auto cgroup = job();
    std::string said;
    for (int i = 0; i < 200; ++i) {
      if (i % 7) book.on(sample(cgroup, i, Bytes{MiB(100).count + i * MiB(3).count + i % 5 * MiB(1).count}));
      auto p = process(5, i, Bytes{i * MiB(3).count});
      book.on(p);
      book.tick(at_s(i + 0.5));
      for (auto& f : book.take())
        said += f.forecast.why + std::to_string(f.forecast.eta ? f.forecast.eta->count() : -1);
    }
    return said;
  };
  EXPECT_EQ(run(), run());
}

TEST(Book, begins_anew_below_a_limit_that_was_met_and_nowhere_else) {
  Book book({});
  auto cgroup = job();
  auto other = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 11}, "/jobs", {}});
  for (int i = 0; i < 30; ++i)
    for (const CgroupPtr& c : {cgroup, CgroupPtr(other)}) book.on(sample(c, i, Bytes{i * MiB(20).count}));
  book.on_kill(*cgroup);
  for (const CgroupPtr& c : {cgroup, CgroupPtr(other)}) book.on(sample(c, 30, MiB(10)));
  EXPECT_EQ(book.of(cgroup->id)->verdict, Verdict::unknown);
  EXPECT_NE(book.of(other->id)->verdict, Verdict::unknown);
  EXPECT_TRUE(book.before(cgroup->id, at_s(30))) << "what had been predicted stays known";
}

TEST(Book, alerts_of_a_cgroup_that_thrashes_at_its_limit_and_tells_how_long_until_it_is_over) {
  Book book({});
  auto cgroup = job();
  std::vector<ForecastFact> all;
  auto second = [&](int i, Seconds waited) {
    book.on(sample(cgroup, i, Bytes{GiB(1).count - MiB(10).count}));
    if (waited.count() > 0) book.on(ReclaimFact{at_s(i), cgroup, 7000, waited, MiB(415)});
    for (auto& f : book.take()) all.push_back(f);
  };
  int i = 0;
  for (; i < 30; ++i) second(i, Seconds(0));
  EXPECT_FALSE(book.of(cgroup->id)->alert) << "full, and no more: " << book.of(cgroup->id)->why;
  for (; i < 40; ++i) second(i, Seconds(0.75));
  ASSERT_TRUE(book.of(cgroup->id)->evidence.thrashing);
  EXPECT_TRUE(book.of(cgroup->id)->alert);
  EXPECT_EQ(book.of(cgroup->id)->why.rfind("it has thrashed at its limit for 9", 0), 0u)
      << book.of(cgroup->id)->why;
  ASSERT_TRUE(all.back().forecast.evidence.thrashing);
  EXPECT_DOUBLE_EQ(all.back().forecast.evidence.thrashing->lasts.count(), 9) << "the last that was told";
  for (; i < 140; ++i) second(i, Seconds(0.75));
  std::size_t told = all.size();
  for (; i < 148; ++i) second(i, Seconds(0.75));
  EXPECT_LE(all.size(), told + 1) << "after minutes, not every second";
  for (int end = i + 60; i < end; ++i) book.tick(at_s(i));  // it stands still, and nothing is told of it
  for (auto& f : book.take()) all.push_back(f);
  EXPECT_FALSE(book.of(cgroup->id)->alert);
  EXPECT_FALSE(all.back().forecast.alert) << "its end is news";
}

TEST(Book, keeps_the_verdict_of_a_leak_for_as_long_as_it_thrashes_at_its_limit_and_not_after_the_kill) {
  Book book({});
  auto cgroup = job();
  int i = 0;
  auto until = [&](int end) {
    for (; i < end; ++i) {
      book.on(sample(cgroup, i, std::min(Bytes{i * MiB(20).count}, Bytes{GiB(1).count - MiB(4).count})));
      if (i > 51) book.on(ReclaimFact{at_s(i), cgroup, 7000, Seconds(0.75), MiB(415)});
    }
    return *book.of(cgroup->id);
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
  book.on_kill(*cgroup);
  book.on(sample(cgroup, i, MiB(10)));
  EXPECT_FALSE(book.of(cgroup->id)->evidence.thrashing);
  EXPECT_FALSE(book.of(cgroup->id)->alert);
}

TEST(Book, follows_a_process_tree_as_one) {
  Book book(tree_of({1, 7}));
  std::optional<ForecastFact> last;
  for (int i = 0; i < 60; ++i) {
    for (std::uint32_t pid : {1u, 2u, 3u}) {
      auto p = process(pid, i, pid == 1 ? MiB(50) : Bytes{MiB(50).count + i * MiB(4).count});
      book.on(p);
    }
    book.tick(at_s(i + 0.5));
    for (auto& f : book.take())
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

TEST(Book, takes_a_worker_that_is_not_measured_yet_for_one_that_shares_all_its_parent_has) {
  Book book(tree_of({1, 7}));
  auto parent = process(1, 0, MiB(800));
  book.on(parent);
  auto forked = worker(0, false);
  book.on(forked);
  book.tick(at_s(0.5));
  EXPECT_EQ(book.tree_holds(), MiB(800));
  auto measured = worker(1, true);
  book.on(measured);
  book.tick(at_s(1.5));
  EXPECT_EQ(book.tree_holds(), MiB(814));
}

TEST(Book, has_no_process_tree_any_more_when_all_of_it_ended) {
  Book book(tree_of({1, 7}));
  auto only = process(1, 0, MiB(800));
  book.on(only);
  book.tick(at_s(0.5));
  ASSERT_TRUE(book.tree());
  book.on(ExitFact{at_s(1), only.process});
  book.tick(at_s(1.5));
  EXPECT_FALSE(book.tree());
  EXPECT_FALSE(book.tree_holds());
}

TEST(Book, gives_a_process_tree_no_more_than_its_cgroup_holds_and_the_limit_that_is_left_to_it) {
  Book book(tree_of({1, 7}));
  auto cgroup = job();
  for (int i = 0; i < 5; ++i) {
    book.on(sample(cgroup, i, MiB(300)));
    for (std::uint32_t pid : {1u, 2u}) {
      auto p = process(pid, i, MiB(100));
      p.process.cgroup = cgroup;
      book.on(p);
    }
    book.tick(at_s(i + 0.5));
  }
  ASSERT_TRUE(book.tree());
  EXPECT_EQ(book.tree_holds(), MiB(200));
  EXPECT_EQ(book.tree()->forecast.limit, GiB(1) - MiB(100));
  book.on(sample(cgroup, 5, MiB(150)));
  book.tick(at_s(5.5));
  EXPECT_EQ(book.tree_holds(), MiB(150));
  EXPECT_EQ(book.tree()->forecast.limit, GiB(1));
}

TEST(Book, knows_no_limit_of_a_process_tree_in_several_cgroups) {
  Book book(tree_of({1, 7}));
  auto one = job();
  auto other = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 11}, "/job/step", {}});
  book.on(sample(one, 0, MiB(300)));
  for (auto& [pid, cgroup] : {std::pair{1u, one}, std::pair{2u, CgroupPtr(other)}}) {
    auto p = process(pid, 0, MiB(100));
    p.process.cgroup = cgroup;
    book.on(p);
  }
  book.tick(at_s(0.5));
  EXPECT_EQ(book.tree_holds(), MiB(200));
  EXPECT_FALSE(book.tree()->forecast.limit);
}

TEST(Book, names_copy_on_write_of_a_worker_whose_private_memory_is_measured_now_and_then) {
  Book book({});
  std::optional<Verdict> said;
  for (int i = 0; i < 90; ++i) {
    auto parent = process(1, i, MiB(800));
    book.on(parent);
    auto p = worker(i, i % 3 == 0);
    book.on(p);
    for (auto& f : book.take()) {
      EXPECT_NE(f.process->id.tgid, 1u) << "the parent does nothing of note";
      said = f.forecast.verdict;
    }
  }
  EXPECT_EQ(said, Verdict::cow);
}

TEST(Book, does_not_take_the_end_of_workers_for_growth_of_their_parent) {
  Book book({});
  for (int i = 0; i < 120; ++i) {
    auto parent = process(1, i, MiB(800));
    parent.process.ppid = 99;                                // a shell, which is not followed
    parent.private_bytes = i / 30 % 2 ? MiB(790) : MiB(20);  // while its workers are there
    book.on(parent);
    EXPECT_TRUE(book.take().empty());
  }
}

TEST(Book, counts_what_forked_workers_share_once_in_a_tree) {
  Book book(tree_of({1, 7}));
  std::optional<ForecastFact> last;
  for (int i = 0; i < 60; ++i) {
    auto parent = process(1, i, MiB(800));
    book.on(parent);
    auto p = worker(i, true);
    book.on(p);
    book.tick(at_s(i + 0.5));
    for (auto& f : book.take())
      if (f.process && f.process->id.tgid == 1) last = f;
  }
  ASSERT_TRUE(last);
  EXPECT_EQ(last->forecast.verdict, Verdict::leak);
  double t = seconds_between(at_s(0), last->time).count();
  EXPECT_NEAR(last->forecast.evidence.floor->as_double() / 1048576.0, 810 + 4 * t, 20) << "not 1600";
}

TEST(Book, leaves_no_growth_of_an_earlier_sample_in_a_new_one) {
  Book book({});
  ProcessSampleFact first = process(7, 0, MiB(1));
  first.growth = BytesPerSec{5};
  book.on(first);
  EXPECT_FALSE(first.growth);
  Book::Config none;
  none.most_processes = 0;
  Book full(none);
  first.growth = BytesPerSec{5};
  full.on(first);
  EXPECT_FALSE(first.growth);
}

TEST(Book, gives_a_sample_of_a_process_its_growth) {
  Book book({});
  for (int i = 0; i < 40; ++i) {
    auto p = process(5, i, Bytes{i * MiB(2).count});
    book.on(p);
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

TEST(Book, forecasts_a_card_against_its_memory_and_a_process_on_it_against_what_the_others_leave) {
  Book book({});
  std::optional<ForecastFact> card, process;
  for (int i = 0; i < 60; ++i) {
    Bytes grows{i * MiB(100).count};
    book.on(gpu(i, grows + GiB(10)));
    book.on(gpu(i, grows, 1));
    for (auto& f : book.take()) (f.process ? process : card) = f;
  }
  ASSERT_TRUE(card && process);
  EXPECT_EQ(card->forecast.limit, GiB(32));
  EXPECT_EQ(card->forecast.verdict, Verdict::leak);
  EXPECT_TRUE(card->device && process->device);
  EXPECT_FALSE(card->cgroup);
  EXPECT_EQ(process->forecast.limit, GiB(22));
  ASSERT_TRUE(card->forecast.eta && process->forecast.eta);
  EXPECT_NEAR(card->forecast.eta->count(), 32 * 1024 / 100.0 - 102.4 - 59, 20);
  ASSERT_TRUE(book.of(*card->device));
  EXPECT_EQ(book.of(*card->device)->limit, GiB(32));
}

TEST(Book, forgets_what_a_process_had_on_a_card_when_it_ends) {
  Book book({});
  for (int i = 0; i < 60; ++i) book.on(gpu(i, Bytes{i * MiB(100).count}, 1));
  EXPECT_FALSE(book.take().empty());
  auto last = gpu(60, GiB(6), 1);
  last.ended = true;
  book.on(last);
  for (int i = 61; i < 90; ++i) book.tick(at_s(i));
  EXPECT_TRUE(book.take().empty());
}

TEST(Book, lets_go_of_the_small_and_quiet_when_its_memory_is_full) {
  Book::Config config;
  config.most_bytes = 512 << 10;
  Book book(config);
  auto leaks = job();
  std::uint64_t news_of_it = 0;
  for (int i = 0; i < 200; ++i) {
    book.on(sample(leaks, i, MiB(300) + Bytes{i * MiB(3).count}));
    for (std::uint64_t n = 100; n < 300; ++n) {
      auto other = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, n}, "/o" + std::to_string(n), {}});
      book.on(sample(other, i, MiB(1) + KiB(static_cast<std::int64_t>((n + static_cast<unsigned>(i)) % 2))));
    }
    book.tick(at_s(i));
    EXPECT_LE(book.bytes(), config.most_bytes);
    for (auto& f : book.take()) news_of_it += f.cgroup == leaks;
  }
  EXPECT_GT(book.not_followed(), 0u);
  EXPECT_GT(news_of_it, 3u);
  ASSERT_TRUE(book.of(leaks->id));
  EXPECT_EQ(book.of(leaks->id)->verdict, Verdict::leak);
  for (std::uint64_t n = 100; n < 300; ++n) book.on(ForgottenFact{at_s(200), {Hierarchy::v2, n}});
  book.on(ForgottenFact{at_s(200), leaks->id});
  EXPECT_EQ(book.bytes(), 0u);
}

}  // namespace
}  // namespace oomcast
