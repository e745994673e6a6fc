#include "present/report_html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "present/web_page.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;

const WebPage kPage{"s{}", "STYLEHASH", "f()", "SCRIPTHASH"};

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  from += begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string data_of(const std::string& html) {
  return between(html, "id=\"data\">", "</script>");
}

// What charts.js reads of a column.
std::vector<std::optional<std::int64_t>> values_of(std::string text) {
  std::int64_t unit = 1, known = 0;
  std::vector<std::optional<std::int64_t>> out;
  if (!text.empty() && text[0] == '#') unit = 4096, text.erase(0, 1);
  std::istringstream in(text);
  for (std::string token; in >> token;) {
    if (token[0] == '*')
      out.insert(out.end(), std::stoul(token.substr(1), nullptr, 36), std::optional(out.back()));
    else if (token == "~")
      out.push_back(std::nullopt);
    else
      out.push_back((known += std::stoll(token, nullptr, 36)) * unit);
  }
  return out;
}

PostMortem with_curve(const Column& total) {
  PostMortem out;
  Curve curve;
  curve.name = "/job";
  curve.total = total;
  for (std::size_t i = 0; i < total.size(); ++i) out.timeline.at.push_back(static_cast<double>(i) - 10);
  out.timeline.curves.push_back(std::move(curve));
  return out;
}

class ReportHtml : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!to_html(PostMortem{})) GTEST_SKIP() << "built with OOMCAST_HTML=OFF";
  }
  static Json data(const PostMortem& report) {
    Result<std::string> html = to_html(report);
    EXPECT_TRUE(html.ok());
    return Json::parse(data_of(*html));
  }
};

TEST(WebPage, data_can_neither_end_its_element_nor_begin_a_comment_in_it) {
  Json value = {"</script><script>", "<!--", "\u2028\u2029", "&lt;", "\"\\"};
  std::string html = to_html(kPage, "t", value.dump());
  std::string inside = data_of(html);
  EXPECT_EQ(inside.find_first_of("<>&"), std::string::npos) << inside;
  EXPECT_EQ(inside.find("\xe2\x80"), std::string::npos) << inside;
  EXPECT_EQ(Json::parse(inside), value);
}

TEST(WebPage, its_title_is_text) {
  std::string html = to_html(kPage, "</title><script>&", "{}");
  EXPECT_EQ(between(html, "<title>", "</title>"), "&lt;/title>&lt;script>&amp;");
}

TEST(WebPage, its_policy_lets_only_its_own_style_and_script_run) {
  std::string html = to_html(kPage, "t", "{}");
  EXPECT_NE(
      html.find("content=\"default-src 'none'; script-src 'sha256-SCRIPTHASH'; style-src 'sha256-STYLEHASH'; "
                "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'\""),
      std::string::npos);
  EXPECT_EQ(html.find("http:"), std::string::npos);
}

TEST_F(ReportHtml, columns_are_read_as_they_were_written) {
  const std::vector<Column> columns = {
      {MiB(1), MiB(1), MiB(1), std::nullopt, std::nullopt, MiB(3), MiB(2)},
      {std::nullopt, Bytes{1}, Bytes{4097}, Bytes{0}},
      {Bytes{INT64_MIN}, Bytes{INT64_MAX - 4095}, Bytes{0}},
      {Bytes{5}},
  };
  for (const Column& column : columns) {
    Json json = data(with_curve(column));
    auto read = values_of(json["timeline"]["curves"][0]["total"]);
    ASSERT_EQ(read.size(), column.size());
    for (std::size_t i = 0; i < column.size(); ++i) {
      EXPECT_EQ(read[i], column[i] ? std::optional(column[i]->count) : std::nullopt);
    }
    EXPECT_EQ(values_of(json["timeline"]["at_ms"]).size(), column.size());
  }
}

TEST_F(ReportHtml, a_column_of_which_nothing_is_known_is_empty) {
  Json json = data(with_curve({std::nullopt, std::nullopt}));
  EXPECT_EQ(json["timeline"]["curves"][0]["total"], "");
}

TEST_F(ReportHtml, too_many_samples_are_thinned_and_the_peak_stays) {
  Column total;
  for (std::int64_t i = 0; i < 1'000'000; ++i) total.push_back(Bytes{(i * 7919) % 1'000'003 + (i % 2 << 30)});
  total[123'457] = GiB(100);
  Result<std::string> html = to_html(with_curve(total));
  EXPECT_LT(html->size(), 3u << 20);
  Json json = Json::parse(data_of(*html));
  EXPECT_GT(json["timeline"]["every"], 1);
  auto read = values_of(json["timeline"]["curves"][0]["total"]);
  EXPECT_EQ(values_of(json["timeline"]["at_ms"]).size(), read.size());
  EXPECT_NE(std::find(read.begin(), read.end(), std::optional(GiB(100).count)), read.end());
}

TEST_F(ReportHtml, it_stays_small_whatever_strangers_do) {
  PostMortem report = with_curve({MiB(1)});
  std::string name;
  while (name.size() < 5000) name += "\xf0\x9f\x98\x80\xcc\x81\xcc\x82<\x01";
  for (std::uint32_t i = 0; i < 5000; ++i) {
    report.timeline.curves.push_back(report.timeline.curves[0]);
    report.timeline.curves.back().name = name;
    report.timeline.events.push_back({TimelineEvent::Kind::lost, -static_cast<double>(i), name});
    report.timeline.forecasts.push_back({-static_cast<double>(i), 1.0 / 3, -1.0 / 3, 2.0 / 3});
    PostMortemProcess p;
    p.process = test::process(i, name, {name, name}, test::cgroup(i, "/" + name));
    report.processes.push_back(p);
    report.findings.push_back({name, {name, name}});
    report.prevention.push_back({name, {name, name}});
    report.unknown.push_back(name);
    report.episode.told.episode.chain.push_back({p.process.cgroup, MiB(1), {}});
    report.episode.lost[name + std::to_string(i)] = i;
  }
  Result<std::string> html = to_html(report);
  EXPECT_LT(html->size(), 3u << 20);
  Json json = Json::parse(data_of(*html));
  EXPECT_GT(json["processes_left_out"], 0);
  EXPECT_EQ(json["timeline"]["curves_left_out"], 5001 - 64);
  EXPECT_EQ(json["timeline"]["events_left_out"].get<std::size_t>() + json["timeline"]["events"].size(),
            5000u);
}

TEST_F(ReportHtml, of_too_many_events_those_nearest_to_the_kill_stay) {
  PostMortem report;
  for (int i = 3000; i >= -3000; --i)
    report.timeline.events.push_back({TimelineEvent::Kind::verdict, static_cast<double>(i), "x"});
  Json events = data(report)["timeline"]["events"];
  EXPECT_LE(events.size(), 1000u);
  EXPECT_GE(events.size(), 998u);
  EXPECT_TRUE(
      std::is_sorted(events.begin(), events.end(), [](auto& a, auto& b) { return a["at"] < b["at"]; }));
  EXPECT_LE(std::abs(events[0]["at"].get<double>()), 500);
}

TEST_F(ReportHtml, what_is_not_known_is_null_and_numbers_that_are_none_are_left_out) {
  PostMortem report = with_curve({MiB(1), MiB(2)});
  report.timeline.at[0] = std::numeric_limits<double>::quiet_NaN();
  report.timeline.events.push_back({TimelineEvent::Kind::kill, std::numeric_limits<double>::infinity(), "x"});
  report.timeline.forecasts.push_back({-1, std::numeric_limits<double>::infinity(), 0, {}});
  report.processes.emplace_back().process = test::unknown_process();
  Json json = data(report);
  EXPECT_EQ(values_of(json["timeline"]["at_ms"]).size(), 1u);
  EXPECT_TRUE(json["timeline"]["events"].empty());
  EXPECT_TRUE(json["timeline"]["forecasts"].empty());
  for (const char* name :
       {"scope", "limit_cgroup", "usage", "limit", "order", "gfp", "group_kill", "foretold_s", "freed_s"})
    EXPECT_TRUE(json[name].is_null()) << name;
  for (const char* name : {"rss", "anon", "swap", "grew", "growth", "oom_score_adj", "cgroup"})
    EXPECT_TRUE(json["processes"][0][name].is_null()) << name;
}

TEST_F(ReportHtml, hostile_names_are_inert_in_the_file) {
  for (const std::string& name : test::hostile_names()) {
    PostMortem report = with_curve({MiB(1)});
    report.headline = report.timeline.curves[0].name = name;
    report.unknown = {name, "</script>"};
    report.episode.told.episode.id = name;
    Result<std::string> html = to_html(report);
    std::string inside = data_of(*html);
    for (char c : inside) EXPECT_TRUE(c >= ' ' && c < 0x7f) << static_cast<int>(c);
    EXPECT_TRUE(Json::parse(inside).is_object());
  }
}

}  // namespace
}  // namespace oomcast
