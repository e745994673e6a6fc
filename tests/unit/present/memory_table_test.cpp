#include "present/memory_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "model/logged_kill.h"
#include "parse/oom_reports.h"

namespace oomcast {
namespace {

Episode kill_in(const std::string& name) {
  std::ifstream in(OOMCAST_TESTS "/unit/parse/logs/" + name);
  EXPECT_TRUE(in) << name;
  OomReports reports;
  for (std::string line; std::getline(in, line);) reports.line(line);
  for (const LoggedOom& oom : reports.finish())
    if (auto kill = logged_kill(oom.dump)) return *kill;
  ADD_FAILURE() << "no kill in " << name;
  return {};
}

TEST(MemoryTable, of_real_kernels_counts_nearly_all_of_the_ram_and_nothing_twice) {
  for (const char* name : {"5.10-real-global.log", "6.1-real-global.log", "6.12-real-global.log"}) {
    auto table = memory_table(kill_in(name));
    ASSERT_TRUE(table) << name;
    EXPECT_TRUE(table->of_machine);
    double whole = table->whole.as_double(), sum = 0;
    for (const MemoryRow& row : table->rows) {
      sum += row.size.as_double();
      EXPECT_FALSE(row.meaning.empty()) << row.name;
    }
    EXPECT_NEAR(sum, whole, 0.02 * whole) << name;
    EXPECT_LE(table->counted.as_double(), 1.02 * whole) << name;
    EXPECT_GE(table->counted.as_double(), 0.9 * whole) << name;
    EXPECT_EQ(table->rows.front().name, "anon");
  }
}

TEST(MemoryTable, of_a_cgroup_is_against_its_usage) {
  Episode kill = kill_in("6.12-real-memcg.log");
  auto table = memory_table(kill);
  ASSERT_TRUE(table);
  EXPECT_FALSE(table->of_machine);
  EXPECT_EQ(table->whole, *kill.usage);
  EXPECT_NEAR(table->counted.as_double(), table->whole.as_double(), 0.02 * table->whole.as_double());
}

TEST(MemoryTable, has_a_row_for_what_no_counter_has) {
  Episode e;
  e.scope = OomScope::global;
  e.memory.emplace();
  e.memory->parts = {{"anon", GiB(2)}, {"free", GiB(1)}};
  EXPECT_FALSE(memory_table(e)) << "of how much they are is not known";
  e.machine.emplace();
  e.machine->ram = GiB(64);
  auto table = memory_table(e);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->rows.front().name, "uncounted");
  EXPECT_EQ(table->rows.front().size, GiB(61));
}

TEST(MemoryTable, of_a_kill_of_unknown_scope_is_the_machines_only_if_its_counters_are_there) {
  Episode e;
  e.memory.emplace();
  e.memory->parts = {{"anon", GiB(2)}};
  e.usage = GiB(3);
  e.machine.emplace();
  e.machine->ram = GiB(64);
  auto table = memory_table(e);
  ASSERT_TRUE(table);
  EXPECT_FALSE(table->of_machine) << "a usage is a cgroup's";
  EXPECT_EQ(table->whole, GiB(3));
  e.usage.reset();
  EXPECT_TRUE(memory_table(e).value().of_machine);
}

TEST(TaskGroups, without_a_known_size_have_no_sum_rather_than_nothing) {
  Episode::Tasks tasks;
  tasks.rows.resize(2);
  tasks.rows[0].rss = MiB(3);
  auto groups = task_groups(tasks);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].rss, MiB(3));
  EXPECT_FALSE(groups[0].swap);
}

TEST(TaskGroups, are_by_command_where_no_cgroups_are_known) {
  Episode::Tasks tasks;
  for (std::uint32_t pid = 1; pid <= 3; ++pid) {
    TaskAtKill& task = tasks.rows.emplace_back();
    task.process.id.tgid = pid;
    task.process.comm = pid == 1 ? "init" : "worker";
    task.rss = MiB(pid);
  }
  auto groups = task_groups(tasks);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "worker");
  EXPECT_EQ(groups[0].count, 2u);
  EXPECT_EQ(groups[0].rss, MiB(5));
  EXPECT_FALSE(groups[0].cgroup);
}

TEST(TaskGroups, are_parts_of_the_whole_table_only_if_all_of_it_is_kept) {
  Episode::Tasks tasks;
  tasks.rows.resize(64);
  tasks.listed = 64;
  EXPECT_EQ(of_which(tasks), "of it");
  tasks.listed = 300;
  EXPECT_EQ(of_which(tasks), "of its 64 largest");
}

}  // namespace
}  // namespace oomcast
