#include "forecast/alerts.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

AlertInput cgroup(std::string path, std::optional<Bytes> level = {}, std::optional<Bytes> limit = {}) {
  auto ref = std::make_shared<CgroupRef>();
  ref->id = {Hierarchy::v2, std::hash<std::string>{}(path) | 1};
  ref->path = std::move(path);
  AlertInput in;
  in.cgroup = ref;
  in.level = level;
  in.limit = limit;
  return in;
}

AlertInput host(std::optional<Bytes> level) {
  AlertInput in = cgroup("/", level);
  in.host = true;
  return in;
}

AlertInput growing(AlertInput in, std::optional<double> rate, std::optional<double> eta = {}) {
  Forecast f;
  f.verdict = rate ? Verdict::leak : Verdict::stable;
  if (rate) f.growth = Growth{{*rate}, {*rate}, {*rate}, Seconds(30), 30};
  if (eta) f.eta = Seconds(*eta);
  in.forecast = f;
  return in;
}

// Looks once a second at what it is given, and counts what is told.
class Watch {
 public:
  explicit Watch(std::vector<std::string> rules) : engine_(parsed(rules)) {}

  std::vector<Alert> operator()(const std::vector<AlertInput>& all) {
    now_ += 1s;
    return engine_.check(now_, all);
  }
  std::size_t told(const std::vector<AlertInput>& all, int seconds = 1) {
    std::size_t count = 0;
    for (int i = 0; i < seconds; ++i) count += (*this)(all).size();
    return count;
  }
  bool still(const Alert& alert) const { return engine_.is_still_true(alert); }
  void kill_at(const AlertInput& one) { engine_.on_kill(*one.cgroup); }
  std::vector<Alert> between(const AlertInput& one) { return engine_.check_one(now_ += 1ms, one); }

 private:
  static std::vector<AlertRule> parsed(const std::vector<std::string>& texts) {
    std::vector<AlertRule> out;
    for (const std::string& text : texts)
      out.push_back(text == "forecast" ? AlertRule{} : *parse_alert_rule(text));
    return out;
  }
  AlertEngine engine_;
  MonoTime now_ = mono_from_ns(1'000'000'000'000);
};

TEST(Alerts, fire_once_while_a_level_stays_above) {
  Watch watch({"level>100M"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(100))}, 5), 0u);
  auto first = watch({cgroup("/a", MiB(101))});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].of.cgroup->path, "/a");
  EXPECT_EQ(first[0].rule.text, "level>100M");
  EXPECT_TRUE(first[0].acts);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(150))}, 3600), 0u);
}

TEST(Alerts, are_known_to_be_true_still_until_they_are_not) {
  Watch watch({"level>100M", "level>50M"});
  auto first = watch({cgroup("/a", MiB(101)), cgroup("/b", MiB(60))});
  ASSERT_EQ(first.size(), 3u);
  for (const Alert& alert : first) EXPECT_TRUE(watch.still(alert));
  (void)watch({cgroup("/a", MiB(60)), cgroup("/b", MiB(60))});
  for (const Alert& alert : first)
    EXPECT_EQ(watch.still(alert), alert.rule.text == "level>50M") << alert.rule.text;
  (void)watch({cgroup("/a", MiB(60))});
  for (const Alert& alert : first)
    EXPECT_EQ(watch.still(alert), alert.rule.text == "level>50M" && alert.of.cgroup->path == "/a");
}

TEST(Alerts, do_not_fire_again_for_a_level_that_swings_around_the_threshold) {
  Watch watch({"level>100M"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}), 1u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(watch.told({cgroup("/a", MiB(96))}, 10), 0u);  // not below 95 %
    EXPECT_EQ(watch.told({cgroup("/a", MiB(50))}, 20), 0u);  // not for long enough
    EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}, 1), 0u);
  }
}

TEST(Alerts, fire_again_after_the_episode_was_over) {
  Watch watch({"level>100M"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}), 1u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(94))}, 31), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}), 1u);
}

TEST(Alerts, stay_in_the_episode_while_the_level_is_unknown) {
  Watch watch({"level>100M"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}), 1u);
  EXPECT_EQ(watch.told({cgroup("/a")}, 100), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}), 0u);
}

TEST(Alerts, wait_until_a_rule_was_true_for_its_duration_without_a_break) {
  Watch watch({"level>100M for 10s"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}, 10), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(99))}), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}, 10), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}), 1u);
}

TEST(Alerts, end_no_episode_sooner_than_the_rules_own_duration) {
  Watch watch({"level>100M for 2m"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}, 121), 1u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(10))}, 119), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}, 200), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(10))}, 121), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(101))}, 121), 1u);
}

TEST(Alerts, see_a_level_between_two_looks) {
  Watch watch({"level>100M", "level>80%", "growth>1M/s"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(50), MiB(200))}), 0u);
  auto told = watch.between(growing(cgroup("/a", MiB(120), MiB(200)), 2e6));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rule.text, "level>100M");
  EXPECT_TRUE(watch.between(cgroup("/a", MiB(120), MiB(200))).empty());
  EXPECT_EQ(watch.told({cgroup("/a", MiB(120), MiB(200))}), 0u);
}

TEST(Alerts, measure_a_share_of_the_limit_only_where_there_is_one) {
  Watch watch({"level>80%"});
  EXPECT_EQ(watch.told({cgroup("/none", MiB(900)), cgroup("/below", MiB(80), MiB(100))}, 5), 0u);
  EXPECT_EQ(watch.told({cgroup("/none", MiB(900)), cgroup("/below", MiB(81), MiB(100))}), 1u);
}

TEST(Alerts, take_a_cgroup_that_thrashes_at_its_limit_for_one_that_has_met_it) {
  Watch watch({"eta<20m"});
  AlertInput in = growing(cgroup("/job", GiB(1)), std::nullopt);
  EXPECT_EQ(watch.told({in}, 5), 0u);
  in.forecast->evidence.thrashing = Thrashing{MonoTime{}, Seconds(12), 0.75, {4e8}};
  in.forecast->why = "it has thrashed";
  auto told = watch({in});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told.front().message.find("it has thrashed"), std::string::npos) << told.front().message;
  EXPECT_EQ(watch.told({in}, 60), 0u) << "once";
}

TEST(Alerts, never_fire_for_what_is_unknown) {
  Watch watch({"level>1B", "level>1%", "growth>1/d", "eta<3d", "forecast"});
  AlertInput early = cgroup("/early");
  early.forecast = Forecast{};
  EXPECT_EQ(watch.told({cgroup("/a"), early, growing(cgroup("/still"), std::nullopt)}, 60), 0u);
}

TEST(Alerts, fire_for_growth_above_and_end_below_four_fifths) {
  Watch watch({"growth>600M/m for 2s"});  // 10 MiB/s
  double rate = 10.0 * (1 << 20);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), rate)}, 10), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), rate * 1.1)}, 3), 1u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), rate * 0.9)}, 100), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), rate * 1.1)}, 10), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), rate * 0.7)}, 31), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), rate * 1.1)}, 3), 1u);
}

TEST(Alerts, fire_for_a_deadline_that_comes_near_and_end_when_it_is_out_of_sight) {
  Watch watch({"eta<20m"});
  EXPECT_EQ(watch.told({growing(cgroup("/a"), 1e6, 1200)}), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), 1e6, 1199)}), 1u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), 1e6, 1400)}, 100), 0u);  // within 120 %
  EXPECT_EQ(watch.told({growing(cgroup("/a"), 1e6, 60)}), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), 1e6)}, 31), 0u);
  EXPECT_EQ(watch.told({growing(cgroup("/a"), 1e6, 60)}), 1u);
}

TEST(Alerts, fire_anew_for_the_next_life_after_a_kill_but_not_for_a_level_that_stands) {
  AlertInput full = cgroup("/job", MiB(90), MiB(100));
  for (const char* rule : {"eta<20m", "growth>1M/s"}) {
    Watch watch({rule});
    EXPECT_EQ(watch.told({growing(full, 2e6, 600)}, 5), 1u) << rule;
    watch.kill_at(cgroup("/jo"));
    EXPECT_EQ(watch.told({growing(full, 2e6, 60)}, 5), 0u) << rule << ": another's kill";
    watch.kill_at(full);
    EXPECT_EQ(watch.told({cgroup("/job", MiB(10), MiB(100))}, 3), 0u) << rule;
    EXPECT_EQ(watch.told({growing(full, 2e6, 60)}, 5), 1u) << rule;
  }
  Watch level({"level>80%"});
  EXPECT_EQ(level.told({full}, 5), 1u);
  level.kill_at(full);
  EXPECT_EQ(level.told({full}, 5), 0u);
}

TEST(Alerts, follow_the_forecasts_own_alert) {
  Watch watch({"forecast"});
  AlertInput in = growing(cgroup("/a"), 1e6, 60);
  EXPECT_EQ(watch.told({in}), 0u);
  in.forecast->alert = true;
  auto told = watch({in});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rule.text, "forecast");
  EXPECT_EQ(watch.told({in}, 100), 0u);
}

TEST(Alerts, treat_each_rule_and_each_cgroup_by_itself) {
  Watch watch({"level>100M", "level>200M"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(150)), cgroup("/b", MiB(150))}), 2u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(250)), cgroup("/b", MiB(150))}), 1u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(250)), cgroup("/ab", MiB(150))}), 1u);
}

TEST(Alerts, tell_once_of_what_a_parent_and_its_child_hold_together) {
  Watch watch({"level>100M"});
  auto told = watch({host(MiB(120)), cgroup("/a", MiB(112)), cgroup("/a/b", MiB(110))});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].of.cgroup->path, "/a/b");
  EXPECT_EQ(watch.told({host(MiB(130)), cgroup("/a", MiB(122)), cgroup("/a/b", MiB(120))}, 100), 0u);
}

TEST(Alerts, take_a_cgroup_whose_name_begins_alike_for_another) {
  Watch watch({"level>1M"});
  auto told = watch({host(MiB(31)), cgroup("/", MiB(30)), cgroup("/a", MiB(10)), cgroup("/a-b", MiB(10)),
                     cgroup("/a/b", MiB(9)), cgroup("/a0", MiB(2))});
  std::vector<std::string> paths;
  for (const Alert& alert : told) paths.push_back(alert.of.cgroup->path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/a-b", "/a/b", "/a0", "/"}));
}

TEST(Alerts, act_once_when_the_child_comes_after_its_parent) {
  Watch watch({"level>100M"});
  auto parent = watch({cgroup("/a", MiB(101)), cgroup("/a/b", MiB(99))});
  ASSERT_EQ(parent.size(), 1u);
  EXPECT_TRUE(parent[0].acts);
  auto child = watch({cgroup("/a", MiB(103)), cgroup("/a/b", MiB(101))});
  ASSERT_EQ(child.size(), 1u);
  EXPECT_EQ(child[0].of.cgroup->path, "/a/b");
  EXPECT_FALSE(child[0].acts);
}

TEST(Alerts, act_for_a_child_whose_parent_is_full_of_others) {
  Watch watch({"level>100M"});
  EXPECT_EQ(watch.told({host(GiB(1)), cgroup("/a", MiB(10))}), 1u);
  auto told = watch({host(GiB(1)), cgroup("/a", MiB(101))});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].acts);
}

TEST(Alerts, act_for_a_child_that_comes_long_after_its_parent_at_another_limit) {
  Watch watch({"level>80%"});
  AlertInput child = cgroup("/a", MiB(95), MiB(200));
  AlertInput whole = host(MiB(100));
  whole.limit = MiB(110);
  child.limit_cgroup = child.cgroup;
  EXPECT_EQ(watch.told({whole, child}), 1u);
  EXPECT_EQ(watch.told({whole, child}, 601), 0u);
  child.limit = MiB(100);
  auto told = watch({whole, child});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].acts);
}

TEST(Alerts, tell_of_a_process_tree_rather_than_of_the_cgroup_that_it_fills) {
  Watch watch({"level>100M"});
  AlertInput in = cgroup("/a", MiB(120));
  AlertInput tree = in;
  tree.process = ProcessRef{};
  tree.process->id = {42, 7};
  tree.process->comm = "python3";
  tree.level = MiB(110);
  auto told = watch({in, tree});
  ASSERT_EQ(told.size(), 1u);
  ASSERT_TRUE(told[0].of.process);
  EXPECT_NE(told[0].message.find("python3[42]"), std::string::npos) << told[0].message;
}

TEST(Alerts, forget_what_is_gone) {
  Watch watch({"level>100M"});
  EXPECT_EQ(watch.told({cgroup("/a", MiB(120))}), 1u);
  EXPECT_EQ(watch.told({}), 0u);
  EXPECT_EQ(watch.told({cgroup("/a", MiB(120))}), 1u);  // a new one, with the old inode
}

TEST(Alerts, say_in_one_safe_line_what_happens) {
  Watch watch({"eta<20m"});
  auto told = watch({growing(cgroup("/evil\n\x1b[2J", MiB(512), GiB(1)), 1 << 20, 512)});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].message,
            "/evil\\n\\x1b[2J holds 512 MiB of 1.00 GiB that nothing can take back, grows +1.00 MiB/s: OOM "
            "in 8 min 32 s");
}

}  // namespace
}  // namespace oomcast
