#include "app/publisher.h"

#include <gtest/gtest.h>

#include <string>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Stream {
  std::vector<Fact> told;
  Publisher publisher;
  void start() {
    publisher.subscribe([this](const Fact& fact) { told.push_back(fact); });
    publisher.start({});
  }
  template <typename T>
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(told, [](const Fact& f) { return std::holds_alternative<T>(f); }));
  }
};

CgroupPtr cgroup(std::uint64_t inode) {
  auto ref = std::make_shared<CgroupRef>();
  ref->id.inode = inode;
  ref->path = "/job" + std::to_string(inode);
  return ref;
}

Sample sample(int second, Bytes level) {
  Sample out;
  out.time = MonoTime(std::chrono::seconds(second));
  out.cgroup = cgroup(1);
  out.usage = out.pinned = level;
  out.headroom_limit = GiB(1);
  return out;
}

TEST(Publisher, tells_a_sample_before_what_is_forecast_from_it) {
  Stream s;
  s.start();
  for (int i = 0; i < 120; ++i) {
    s.publisher.publish(sample(i, MiB(100 + 4 * i)));
    s.publisher.publish(TickFact{MonoTime(std::chrono::seconds(i))});
  }
  ASSERT_GT(s.count<ForecastFact>(), 0u);
  EXPECT_TRUE(std::holds_alternative<Sample>(s.told.front()));
  for (std::size_t i = 0; i < s.told.size(); ++i)
    if (auto* forecast = std::get_if<ForecastFact>(&s.told[i])) {
      ASSERT_GT(i, 0u);
      auto* before = std::get_if<Sample>(&s.told[i - 1]);
      ASSERT_TRUE(before);
      EXPECT_EQ(before->time, forecast->time);
    }
}

TEST(Publisher, gives_a_process_back_with_the_growth_that_is_told_of_it) {
  Stream s;
  s.start();
  ProcessSampleFact p, last;
  p.process.id = {42, 7};
  for (int i = 0; i < 120; ++i) {
    p.time = MonoTime(std::chrono::seconds(i));
    p.rss = p.anon = MiB(100 + 4 * i);
    last = s.publisher.publish(p);
  }
  ASSERT_TRUE(last.growth);
  EXPECT_NEAR(last.growth->value / MiB(4).as_double(), 1, 0.1);
}

TEST(Publisher, keeps_kills_of_a_thousand_processes_as_far_as_they_take_two_mebibytes) {
  Stream s;
  s.start();
  OomEvent kill;
  for (int i = 0; i < 1000; ++i) {
    Victim& victim = kill.episode.victims.emplace_back();
    victim.process.cmdline = {std::string(600, 'x')};
  }
  kill.episode.tasks.rows.resize(64);
  for (int i = 0; i < 50; ++i) {
    kill.episode.time = MonoTime(std::chrono::seconds(i));
    s.publisher.publish(kill);
  }
  EXPECT_LE(s.publisher.events().size(), 3u);
  ASSERT_FALSE(s.publisher.events().empty());
  const Episode& newest = std::get<OomEvent>(s.publisher.events().back()).episode;
  EXPECT_EQ(newest.time, MonoTime(49s));
  EXPECT_EQ(newest.victims.size(), 1000u);
  EXPECT_TRUE(newest.tasks.rows.empty());
  EXPECT_EQ(std::get<OomEvent>(s.told.back()).episode.tasks.rows.size(), 64u)
      << "whoever is told has all of it";
  AlertFact alert;
  for (int i = 0; i < 200; ++i) {
    alert.time = MonoTime(std::chrono::seconds(100 + i));
    s.publisher.publish(alert);
  }
  EXPECT_EQ(s.publisher.events().size(), Publisher::kMaxEvents);
}

TEST(Publisher, keeps_the_newest_events_and_of_an_alert_its_last_result) {
  Stream s;
  s.start();
  AlertFact alert;
  alert.time = MonoTime(1s);
  s.publisher.publish(alert);
  alert.actions.resize(1);
  s.publisher.publish(alert);
  ASSERT_EQ(s.publisher.events().size(), 1u);
  EXPECT_EQ(std::get<AlertFact>(s.publisher.events().front()).actions.size(), 1u);
  alert.message = "another card is full";
  s.publisher.publish(alert);
  EXPECT_EQ(s.publisher.events().size(), 2u) << "of the same moment and rule";
  for (std::size_t i = 0; i < 3 * Publisher::kMaxEvents; ++i) s.publisher.publish(UserKillFact{});
  EXPECT_EQ(s.publisher.events().size(), Publisher::kMaxEvents);
  EXPECT_EQ(s.count<UserKillFact>(), 3 * Publisher::kMaxEvents) << "all are told";
}

TEST(Publisher, without_a_store_is_never_behind_and_has_lost_nothing) {
  Stream s;
  s.start();
  s.publisher.store(EpisodeFact{});
  EXPECT_FALSE(s.publisher.has_store());
  EXPECT_FALSE(s.publisher.behind());
  EXPECT_EQ(s.publisher.not_stored(), 0u);
  s.publisher.tell_notices();
  s.publisher.close_store();
}

TEST(Publisher, hands_a_fact_to_each_subscriber_in_the_order_in_which_they_came) {
  Publisher publisher;
  std::string order;
  publisher.start({});
  publisher.subscribe([&](const Fact&) { order += 'a'; });
  auto second = publisher.subscribe([&](const Fact&) { order += 'b'; });
  publisher.subscribe([&](const Fact&) { order += 'c'; });
  publisher.publish(LostFact{});
  publisher.unsubscribe(second);
  publisher.publish(LostFact{});
  EXPECT_EQ(order, "abcac");
}

TEST(Publisher, lets_a_subscriber_leave_with_the_next_one_while_they_get_a_fact) {
  Publisher publisher;
  publisher.start({});
  std::string order;
  Publisher::Subscription first = 0, second = 0;
  first = publisher.subscribe([&](const Fact&) {
    order += 'a';
    publisher.unsubscribe(second);
    publisher.unsubscribe(first);
  });
  second = publisher.subscribe([&](const Fact&) { order += 'b'; });
  publisher.subscribe([&](const Fact&) { order += 'c'; });
  publisher.publish(LostFact{});
  publisher.publish(LostFact{});
  EXPECT_EQ(order, "acc");
}

}  // namespace
}  // namespace oomcast
