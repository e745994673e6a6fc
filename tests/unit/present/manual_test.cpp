// The man page has a line of each type, of a real run. What no line has any more, or has besides, fails here.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "stream/facts_of_each_type.h"
#include "stream/json.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;

std::string unescaped(std::string roff) {
  for (auto [from, to] : {std::pair("\\-", "-"), std::pair("\\(aq", "'"), std::pair("\\e", "\\")})
    for (std::size_t at = 0; (at = roff.find(from, at)) != std::string::npos; ++at)
      roff.replace(at, std::string_view(from).size(), to);
  return roff;
}

// By type. A line is broken behind commas.
std::map<std::string, Json> examples() {
  std::ifstream file(OOMCAST_TESTS "/../packaging/oomcast.8");
  std::ostringstream page;
  page << file.rdbuf();
  std::string text = page.str(), line;
  constexpr std::string_view begin = "\n.SS A line of each type\n";
  std::size_t from = text.find(begin), to = text.find("\n.fi\n", from);
  EXPECT_NE(to, std::string::npos);
  if (to == std::string::npos) return {};
  from = text.find("\n.nf\n", from) + 5;
  std::istringstream lines(unescaped(text.substr(from, to - from)));
  std::map<std::string, Json> out;
  std::string whole;
  auto take = [&] {
    if (whole.empty()) return;
    Json json = Json::parse(whole);
    EXPECT_TRUE(out.emplace(json.at("type"), json).second) << "twice: " << whole;
  };
  while (std::getline(lines, line)) {
    if (line.starts_with("{")) {
      take();
      whole.clear();
    }
    whole += line;
  }
  take();
  return out;
}

// By a name: of a reason, of a scope.
const std::set<std::string_view> kCounts = {"end.lost", "totals.lost", "totals.kills", "totals.episodes"};

void expect_alike(const Json& example, const Json& ours, const std::string& where) {
  if (example.is_array() && ours.is_array() && !example.empty() && !ours.empty())
    return expect_alike(example[0], ours[0], where + "[]");
  if (!example.is_object() || !ours.is_object() || kCounts.contains(where)) return;
  for (const auto& [key, value] : example.items()) {
    EXPECT_TRUE(ours.contains(key)) << where << "." << key << " is in the manual alone";
    if (ours.contains(key)) expect_alike(value, ours[key], where + "." + key);
  }
  for (const auto& [key, value] : ours.items())
    EXPECT_TRUE(example.contains(key)) << where << "." << key << " is not in the manual's line";
}

std::vector<Fact> one_of_each_type() {
  std::vector<Fact> out = test::known_facts();
  CgroupPtr job = test::cgroup(10, "/job");
  ProcessRef process = test::process(100, "python3", {"python3", "train.py"}, job);
  std::erase_if(out, [](const Fact& fact) { return std::holds_alternative<ForecastFact>(fact); });
  out.emplace_back(ForecastFact{{}, job, std::nullopt, job, test::known_forecast()});
  out.emplace_back(LimitChangedFact{{}, job, job, LimitKind::max, MiB(1), MiB(2)});
  out.emplace_back(ExitFact{{}, process});
  GpuEvent event;
  event.op = GpuEvent::Op::alloc;
  out.emplace_back(GpuFact{{}, process, event});
  GpuSample held;
  held.process = process;
  out.emplace_back(held);
  return out;
}

TEST(Manual, has_a_line_of_each_type_with_the_fields_that_such_lines_have) {
  auto there = examples();
  for (std::string_view type : fact_types()) EXPECT_TRUE(there.contains(std::string(type))) << type;
  EXPECT_EQ(there.size(), fact_types().size());
  for (const Fact& fact : one_of_each_type()) {
    std::string type(type_of(fact));
    if (there.contains(type)) expect_alike(there[type], Json::parse(to_json(fact, ClockMap{})), type);
  }
}

}  // namespace
}  // namespace oomcast
