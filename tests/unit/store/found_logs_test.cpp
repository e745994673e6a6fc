// Excerpts that people put into public threads: tests/unit/store/found, with the thread, the form and the
// kills as a person reads them. The kernel's sentences alone, with other names and numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parse/oom_reports.h"
#include "store/past_kills.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;

template <typename T, typename Turn>
Json or_null(const std::optional<T>& value, Turn turn) {
  return value ? Json(turn(*value)) : Json(nullptr);
}

constexpr WallTime kRead{std::chrono::seconds(1'795'000'000)};  // November 2026

// As index.json has them.
Json kills_in(const std::string& file) {
  std::ifstream in(OOMCAST_TESTS "/unit/store/found/" + file);
  EXPECT_TRUE(in) << file;
  OomReports reports;
  for (std::string line; std::getline(in, line);) reports.line(line);
  std::vector<PastKill> found;
  for (const LoggedOom& oom : reports.finish())
    if (auto kill = past_kill(oom, EpisodeSource::file)) {
      if (oom.wall) set_time(*kill, reports.resolve(*oom.wall, kRead));
      found.push_back(*std::move(kill));
    }
  auto kb = [](Bytes bytes) { return bytes.count / 1024; };
  Json out = Json::array();
  for (const PastKill& kill : each_once(std::move(found)))
    for (const Victim& v : kill.episode.victims)
      out.push_back(
          {{"pid", v.process.id.tgid},
           {"comm", v.process.comm},
           {"scope", or_null(kill.episode.scope, [](OomScope s) { return to_string(s); })},
           {"trigger", or_null(kill.episode.trigger, [](const ProcessRef& p) { return p.comm; })},
           {"total_vm_kb", or_null(v.total_vm, kb)},
           {"anon_rss_kb", or_null(v.anon, kb)},
           {"file_rss_kb", or_null(v.file, kb)},
           {"shmem_rss_kb", or_null(v.shmem, kb)},
           {"cgroup", kill.episode.limit_cgroup ? Json(kill.episode.limit_cgroup->path) : Json(nullptr)}});
  return out;
}

TEST(FoundLogs, say_what_a_person_reads_in_them) {
  std::ifstream index(OOMCAST_TESTS "/unit/store/found/index.json");
  Json excerpts = Json::parse(index, nullptr, false);
  ASSERT_TRUE(excerpts.is_array() && excerpts.size() > 20);
  for (const Json& excerpt : excerpts) {
    Json kills = kills_in(excerpt["file"]), wanted = excerpt["kills"];
    auto by_pid = [](const Json& a, const Json& b) { return a["pid"] < b["pid"]; };
    std::sort(kills.begin(), kills.end(), by_pid);
    std::sort(wanted.begin(), wanted.end(), by_pid);
    EXPECT_EQ(kills, wanted) << excerpt["file"] << ": " << excerpt["form"];
  }
}

}  // namespace
}  // namespace oomcast
