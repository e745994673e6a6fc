#include "forecast/alert_rule.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

AlertRule rule(const std::string& text) {
  auto parsed = parse_alert_rule(text);
  if (!parsed) {
    ADD_FAILURE() << text << ": " << parsed.error().message;
    return {};
  }
  return *parsed;
}

void expect_refused(const std::string& text, const std::string& mention) {
  auto parsed = parse_alert_rule(text);
  ASSERT_FALSE(parsed.ok()) << text << " was accepted";
  EXPECT_EQ(parsed.error().exit_code, 2);
  const std::string& message = parsed.error().message;
  EXPECT_NE(message.find("'" + mention + "'"), std::string::npos) << message;
  for (const char* form : {"level>40G", "level>80%", "growth>500M/m", "eta<20m", "for 2m"})
    EXPECT_NE(message.find(form), std::string::npos) << message;
}

TEST(AlertRule, takes_the_forms_of_the_contract) {
  AlertRule level = rule("level>40G");
  EXPECT_EQ(level.quantity, Quantity::level);
  EXPECT_EQ(level.threshold, 40.0 * (1 << 30));
  EXPECT_EQ(level.hold, Nanos{});
  EXPECT_EQ(level.text, "level>40G");
  AlertRule growth = rule("growth>500M/m for 2m");
  EXPECT_EQ(growth.quantity, Quantity::growth);
  EXPECT_DOUBLE_EQ(growth.threshold, 500.0 * (1 << 20) / 60);
  EXPECT_EQ(growth.hold, std::chrono::minutes(2));
  AlertRule eta = rule("eta<20m");
  EXPECT_EQ(eta.quantity, Quantity::eta);
  EXPECT_EQ(eta.threshold, 1200);
  AlertRule share = rule("level>80%");
  EXPECT_EQ(share.quantity, Quantity::share);
  EXPECT_DOUBLE_EQ(share.threshold, 0.8);
}

TEST(AlertRule, takes_every_unit_of_sizes_rates_and_durations) {
  EXPECT_EQ(rule("level>512M").threshold, 512 << 20);
  EXPECT_EQ(rule("level>32GiB").threshold, 32.0 * (1 << 30));
  EXPECT_EQ(rule("level>4096B").threshold, 4096);
  EXPECT_EQ(rule("level>42949672960").threshold, 42949672960);
  EXPECT_EQ(rule("level>99.5%").threshold, 0.995);
  EXPECT_EQ(rule("growth>1M/s").threshold, 1 << 20);
  EXPECT_DOUBLE_EQ(rule("growth>1GiB/h").threshold, (1 << 30) / 3600.0);
  EXPECT_DOUBLE_EQ(rule("growth>1G/d").threshold, (1 << 30) / 86400.0);
  EXPECT_EQ(rule("eta<500ms").threshold, 0.5);
  EXPECT_EQ(rule("eta<2h").threshold, 7200);
  EXPECT_EQ(rule("eta<3d").threshold, 3 * 86400);
  EXPECT_EQ(rule("eta<1m30s").threshold, 90);
}

TEST(AlertRule, lets_spaces_be_where_they_are_written) {
  for (const char* text :
       {"level>40Gfor10s", " level > 40 G  for  10 s ", "level >40G for 10s", "level\t>\t40G for 10s"}) {
    AlertRule r = rule(text);
    EXPECT_EQ(r.threshold, 40.0 * (1 << 30)) << text;
    EXPECT_EQ(r.hold, std::chrono::seconds(10)) << text;
  }
  EXPECT_EQ(rule("growth > 500 M / m").threshold, rule("growth>500M/m").threshold);
}

TEST(AlertRule, names_the_part_that_it_does_not_understand) {
  expect_refused("", "");
  expect_refused("memory>40G", "memory");
  expect_refused("level", "level");
  expect_refused("level<40G", "level");
  expect_refused("growth<1M/s", "growth");
  expect_refused("eta>20m", "eta");
  expect_refused("level>", "");
  expect_refused("level>lots", "lots");
  expect_refused("level>0", "0");
  expect_refused("level>80", "80");
  expect_refused("level>-1G", "-1G");
  expect_refused("level>4 0G", "4 0G");
  expect_refused("level>101%", "101%");
  expect_refused("level>0%", "0%");
  expect_refused("level>%", "%");
  expect_refused("level>nan%", "nan%");
  expect_refused("level>40G/m", "40G/m");
  expect_refused("growth>500M", "500M");
  expect_refused("growth>500M/week", "500M/week");
  expect_refused("growth>20%", "20%");
  expect_refused("eta<20 parsecs", "20parsecs");
  expect_refused("eta<0s", "0s");
  expect_refused("eta<20%", "20%");
  expect_refused("level>40G for", "");
  expect_refused("level>40G for ever", "ever");
  expect_refused("level>40G, eta<20m", "40G,eta<20m");
  expect_refused("level>=40G", "=40G");
}

}  // namespace
}  // namespace oomcast
