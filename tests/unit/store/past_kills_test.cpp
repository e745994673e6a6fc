#include "store/past_kills.h"

#include <gtest/gtest.h>

#include <tuple>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

PastKill past_kill(std::uint32_t tid, EpisodeSource source, std::optional<Nanos> wall,
                   std::optional<Nanos> since_boot = {}) {
  PastKill out;
  Victim v;
  v.tid = v.process.id.tgid = tid;
  v.process.comm = "python3";
  v.anon = GiB(50);
  v.file = MiB(1);
  v.total_vm = GiB(84);
  out.episode.victims.push_back(v);
  out.sources = {source};
  out.confirmed = is_confirmed(source);
  out.since_boot = since_boot;
  if (wall) set_time(out, {*wall, 1s});
  return out;
}

TEST(PastKills, seen_live_in_kmsg_in_the_journal_and_in_a_file_is_one) {
  auto once =
      each_once({past_kill(7, EpisodeSource::file, 1001s), past_kill(7, EpisodeSource::journal, 1000s, 50s),
                 past_kill(7, EpisodeSource::kmsg, 1002s, 50s), past_kill(7, EpisodeSource::live, 1000s)});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].sources, (std::vector{EpisodeSource::live, EpisodeSource::kmsg, EpisodeSource::journal,
                                          EpisodeSource::file}));
}

TEST(PastKills, the_same_pid_on_another_day_is_another) {
  EXPECT_EQ(
      each_once({past_kill(7, EpisodeSource::file, 1000s), past_kill(7, EpisodeSource::file, 90000s)}).size(),
      2u);
}

TEST(PastKills, the_same_stamp_of_another_boot_is_another) {
  auto a = past_kill(7, EpisodeSource::journal, 1000s, 50s),
       b = past_kill(7, EpisodeSource::journal, 1001s, 50s);
  a.boot_id = "a";
  b.boot_id = "b";
  EXPECT_EQ(each_once({a, b}).size(), 2u);
}

TEST(PastKills, two_kills_of_one_pid_in_one_boot_are_told_apart_by_the_kernels_stamp) {
  EXPECT_EQ(each_once({past_kill(7, EpisodeSource::kmsg, 1000s, 50s),
                       past_kill(7, EpisodeSource::kmsg, 1005s, 55s)})
                .size(),
            2u);
}

TEST(PastKills, a_log_without_time_of_day_is_joined_by_the_boots_clock) {
  auto once = each_once(
      {past_kill(7, EpisodeSource::file, {}, 50s), past_kill(7, EpisodeSource::journal, 1000s, 50s)});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].time, WallTime(1000s));
}

TEST(PastKills, who_cites_the_line_below_the_log_or_above_it_tells_of_no_other) {
  auto logged = past_kill(7, EpisodeSource::file, 1000s), cited = past_kill(7, EpisodeSource::file, {});
  logged.host = "a1";
  Victim& named = cited.episode.victims[0];
  named.anon = named.file = named.total_vm = std::nullopt;
  for (const auto& kills : {std::vector{logged, cited}, std::vector{cited, logged}}) {
    auto once = each_once(kills);
    ASSERT_EQ(once.size(), 1u);
    EXPECT_EQ(once[0].time, WallTime(1000s));
    EXPECT_EQ(once[0].host, "a1");
    EXPECT_EQ(once[0].episode.victims[0].anon, GiB(50));
  }
  named.process.comm = "java";
  EXPECT_EQ(each_once({logged, cited}).size(), 2u);
}

TEST(PastKills, seen_live_and_in_the_log_is_one_also_when_the_clock_was_set_between) {
  auto live = past_kill(7, EpisodeSource::live, 1000s);
  live.mono = 2000000s;
  auto logged = past_kill(7, EpisodeSource::kmsg, 4600s, 2000100s), journal = logged;
  journal.sources = {EpisodeSource::journal};
  set_time(journal, {1001s, 0s});
  for (PastKill* each : {&live, &logged, &journal}) each->boot_id = "a";
  EXPECT_EQ(each_once({logged, live}).size(), 1u);
  EXPECT_EQ(each_once({logged, journal}).size(), 1u);
  EXPECT_EQ(each_once({logged, journal, live}).size(), 1u);
  auto later = logged;
  later.since_boot = 2001000s;
  EXPECT_EQ(each_once({later, live}).size(), 2u) << "further apart than the clocks drift";
  logged.boot_id.reset();
  EXPECT_EQ(each_once({logged, live}).size(), 2u) << "it may be of another boot";
}

TEST(PastKills, of_a_host_by_its_short_and_by_its_whole_name_is_one) {
  auto by_short = past_kill(7, EpisodeSource::journal, 1000s),
       whole = past_kill(7, EpisodeSource::file, 1001s), other = whole, nameless = whole;
  by_short.host = "web1";
  whole.host = "web1.example.com";
  other.host = "web1.example.org";
  EXPECT_EQ(each_once({by_short, whole}).size(), 1u);
  EXPECT_EQ(each_once({whole, other}).size(), 2u) << "two whole names";
  EXPECT_TRUE(are_of_one_host(by_short, whole, "web2"));
  EXPECT_TRUE(are_of_one_host(nameless, whole, "web1")) << "the store has no name for its own host";
  EXPECT_FALSE(are_of_one_host(nameless, whole, "web2"));
}

TEST(PastKills, another_name_is_another_process) {
  auto a = past_kill(7, EpisodeSource::kmsg, 1000s), b = past_kill(7, EpisodeSource::file, 1000s);
  b.episode.victims[0].process.comm = "java";
  EXPECT_EQ(each_once({a, b}).size(), 2u);
}

TEST(PastKills, what_one_lacks_the_other_tells) {
  auto live = past_kill(7, EpisodeSource::live, 1000s), journal = past_kill(7, EpisodeSource::journal, 1000s);
  live.episode.victims[0].anon.reset();
  journal.episode.request.gfp = "0xcc0(GFP_KERNEL)";
  journal.episode.victims.push_back(past_kill(8, EpisodeSource::journal, {}).episode.victims[0]);
  auto once = each_once({journal, live});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].episode.request.gfp, "0xcc0(GFP_KERNEL)");
  EXPECT_EQ(once[0].episode.victims[0].anon, GiB(50));
  EXPECT_EQ(once[0].episode.victims.size(), 2u);
}

TEST(PastKills, one_that_is_confirmed_takes_nothing_from_a_text_file_but_that_it_has_it) {
  auto kmsg = past_kill(7, EpisodeSource::kmsg, 1000s), file = past_kill(7, EpisodeSource::file, 1001s);
  kmsg.episode.victims[0].anon.reset();
  file.files = {"syslog"};
  file.episode.victims.push_back(past_kill(1, EpisodeSource::file, {}).episode.victims[0]);
  auto once = each_once({file, kmsg});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_TRUE(once[0].confirmed);
  EXPECT_EQ(once[0].files, std::vector<std::string>{"syslog"});
  EXPECT_EQ(once[0].episode.victims.size(), 1u) << "whoever writes to the log names a second victim";
  EXPECT_FALSE(once[0].episode.victims[0].anon);
}

TEST(PastKills, two_text_files_do_not_confirm_one_another_and_what_shows_its_writer_does) {
  auto one = past_kill(7, EpisodeSource::file, 1000s), two = past_kill(7, EpisodeSource::file, 1001s);
  auto once = each_once({one, two});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_FALSE(once[0].confirmed);
  one.episode.victims.push_back(past_kill(1, EpisodeSource::file, {}).episode.victims[0]);
  two.confirmed = true;  // of a file of journald's records
  once = each_once({one, two});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_TRUE(once[0].confirmed);
  EXPECT_EQ(once[0].episode.victims.size(), 1u);
}

TEST(PastKills, one_that_the_store_has_of_a_text_file_keeps_its_name_when_it_is_confirmed) {
  auto kept = past_kill(7, EpisodeSource::file, 1001s);
  kept.kept = true;
  kept.episode.id = "as-it-was";
  auto once = each_once({kept, past_kill(7, EpisodeSource::kmsg, 1000s)});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].episode.id, "as-it-was");
  EXPECT_TRUE(once[0].confirmed && once[0].kept && !once[0].kept_confirmed);
}

TEST(PastKills, the_newest_comes_first_and_those_without_a_time_last) {
  auto once = each_once({past_kill(1, EpisodeSource::file, {}, 9s), past_kill(2, EpisodeSource::file, 1000s),
                         past_kill(3, EpisodeSource::file, 2000s)});
  ASSERT_EQ(once.size(), 3u);
  EXPECT_EQ(once[0].episode.victims[0].tid, 3u);
  EXPECT_EQ(once[2].episode.victims[0].tid, 1u);
}

TEST(PastKills, are_of_another_host_where_the_log_names_another_with_or_without_its_domain) {
  auto logged = past_kill(7, EpisodeSource::file, 1000s);
  EXPECT_FALSE(is_of_another_host(logged, "a1")) << "it does not say";
  for (auto [host, own, other] : {std::tuple("a1", "a1", false),
                                  {"a1", "a1.example.org", false},
                                  {"a1.example.org", "a1", false},
                                  {"a1.example.org", "a1.example.com", true},
                                  {"a1", "a10", true},
                                  {"b1", "a1.example.org", true}}) {
    logged.host = host;
    EXPECT_EQ(is_of_another_host(logged, own), other) << host << " " << own;
  }
}

TEST(PastKills, the_size_of_a_victim_is_what_its_limit_was_charged_for_and_not_the_files_it_mapped) {
  Victim v;
  v.file = MiB(5);
  EXPECT_FALSE(own_memory(v));
  v.anon = MiB(199);
  EXPECT_EQ(own_memory(v), MiB(199));
  v.shmem = MiB(1);
  EXPECT_EQ(own_memory(v), MiB(200));
}

TEST(PastKills, knows_of_one_log_what_another_lost) {
  PastKill cut = past_kill(7, EpisodeSource::file, 1000s),
           whole = past_kill(7, EpisodeSource::journal, 1000s);
  whole.episode.memory = MemoryAtKill{MiB(1), {}, {}, {}, {}, {}};
  whole.episode.machine.emplace().mems_allowed = "0-1";
  whole.episode.tasks.rows.resize(2);
  whole.episode.tasks.listed = 3;
  auto once = each_once({cut, whole});
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].episode.memory->anon, MiB(1));
  EXPECT_EQ(once[0].episode.machine->mems_allowed, "0-1");
  EXPECT_EQ(once[0].episode.tasks.rows.size(), 2u);
  EXPECT_EQ(once[0].episode.tasks.listed, 3u);
}

TEST(PastKills, a_logs_longer_table_leaves_what_was_known_of_the_processes) {
  Episode stored, logged;
  TaskAtKill& known = stored.tasks.rows.emplace_back();
  known.process.id.tgid = 7;
  known.process.cmdline = {"python3", "train.py"};
  stored.tasks.listed = 2;
  for (std::uint32_t pid : {3u, 7u}) logged.tasks.rows.emplace_back().process.id.tgid = pid;
  logged.tasks.rows[1].rss = MiB(5);
  logged.tasks.listed = 2;
  logged.tasks.rss = MiB(6);
  complete(stored, logged);
  ASSERT_EQ(stored.tasks.rows.size(), 2u);
  EXPECT_EQ(stored.tasks.rows[1].process.cmdline, (Arguments{"python3", "train.py"}));
  EXPECT_EQ(stored.tasks.rows[1].rss, MiB(5));
  EXPECT_EQ(stored.tasks.rss, MiB(6));
}

// As Kibana and Elasticsearch list them unless asked otherwise.
TEST(PastKills, of_a_list_that_is_newest_first_have_each_their_own_victim_limit_and_time) {
  const std::string kill =
      "Memory cgroup out of memory: Killed process 4515 (pulse) total-vm:60768kB, anon-rss:50688kB, "
      "file-rss:512kB, shmem-rss:0kB, UID:0 pgtables:136kB oom_score_adj:0";
  std::string second = kill;
  second.replace(second.find("4515"), 4, "9999");
  auto constraint = [](const std::string& cgroup, const std::string& pid) {
    return "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=" +
           cgroup + ",task_memcg=" + cgroup + ",task=pulse,pid=" + pid + ",uid=0";
  };
  auto record = [](const std::string& time, const std::string& text) {
    return R"({"_index":"a","_source":{"@timestamp":"2025-11-21T)" + time + R"(Z","message":")" + text +
           R"("}},)";
  };
  const std::string invoked =
      "pulse invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";
  constexpr Nanos kFirst = 1763702681100ms;  // 2025-11-21 05:24:41.1 UTC
  for (Nanos later : {Nanos(1h), Nanos(200ms)}) {
    const std::string late = later == Nanos(1h) ? "06:24:41.100" : "05:24:41.300", early = "05:24:41.100";
    OomReports reports;
    reports.line(R"({"took":5,"hits":{"hits":[)" + record(late, second) +
                 record(late, constraint("/b", "9999")) + record(late, invoked) + record(early, kill) +
                 record(early, constraint("/a", "4515")) + record(early, invoked) + "]}}");
    std::vector<PastKill> kills;
    for (const LoggedOom& oom : reports.finish())
      if (auto one = past_kill(oom, EpisodeSource::file)) kills.push_back(*std::move(one));
    kills = each_once(std::move(kills));
    std::erase_if(kills, [](const PastKill& k) { return k.episode.victims.empty(); });
    ASSERT_EQ(kills.size(), 2u) << late;
    EXPECT_EQ(kills[0].episode.victims.at(0).tid, 9999u);
    EXPECT_EQ(kills[1].episode.victims.at(0).tid, 4515u);
    ASSERT_TRUE(kills[0].episode.limit_cgroup && kills[1].episode.limit_cgroup) << late;
    EXPECT_EQ(kills[0].episode.limit_cgroup->path, "/b");
    EXPECT_EQ(kills[1].episode.limit_cgroup->path, "/a");
    EXPECT_EQ(kills[0].time, WallTime(kFirst + later));
    EXPECT_EQ(kills[1].time, WallTime(kFirst));
  }
}

}  // namespace
}  // namespace oomcast
