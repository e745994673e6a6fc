#include "model/task_table.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

wire::Task task(TaskId id, std::optional<TaskId> parent = {}, std::string comm = "x") {
  wire::Task t;
  t.id = id;
  t.tid = id.tgid;
  t.parent = parent;
  t.comm = std::move(comm);
  return t;
}

TEST(TaskTable, finds_what_it_noted_by_identity_and_by_pid) {
  TaskTable table;
  table.note(task({7, 100}, TaskId{1, 1}, "python3"));
  ASSERT_TRUE(table.find({7, 100}));
  EXPECT_EQ(table.find({7, 100})->comm, "python3");
  EXPECT_EQ(table.find({7, 100})->parent, (TaskId{1, 1}));
  EXPECT_EQ(table.by_pid(7), table.find({7, 100}));
  EXPECT_EQ(table.find({7, 101}), nullptr);
  EXPECT_EQ(table.by_pid(8), nullptr);
}

TEST(TaskTable, keeps_two_processes_of_one_pid_apart_and_names_the_newest) {
  TaskTable table;
  table.note(task({7, 100}, {}, "old"));
  table.mark_dead({7, 100}, MonoTime{});
  table.note(task({7, 200}, {}, "new"));
  EXPECT_EQ(table.find({7, 100})->comm, "old");
  EXPECT_EQ(table.by_pid(7)->comm, "new");
  EXPECT_FALSE(table.by_pid(7)->died);
}

TEST(TaskTable, a_late_record_of_the_dead_does_not_take_the_pid_back) {
  TaskTable table;
  table.note(task({7, 100}, {}, "old"));
  table.mark_dead({7, 100}, MonoTime{});
  table.note(task({7, 200}, {}, "new"));
  table.note(task({7, 100}, {}, "old"));
  EXPECT_EQ(table.by_pid(7)->comm, "new");
}

TEST(TaskTable, does_not_rename_a_process_after_one_of_its_threads) {
  TaskTable table;
  table.note(task({7, 100}, {}, "main"));
  wire::Task thread = task({7, 100}, {}, "worker");
  thread.tid = 9;
  table.note(thread);
  EXPECT_EQ(table.find({7, 100})->comm, "main");
}

TEST(TaskTable, keeps_what_it_knows_when_a_record_knows_less) {
  TaskTable table;
  wire::Task full = task({7, 100}, TaskId{1, 1});
  full.cgroup = 42;
  full.ns_tgid = 3;
  table.note(full);
  table.note(task({7, 100}));
  EXPECT_EQ(table.find({7, 100})->parent, (TaskId{1, 1}));
  EXPECT_EQ(table.find({7, 100})->cgroup, 42u);
  EXPECT_EQ(table.find({7, 100})->ns_pid, 3u);
}

TEST(TaskTable, is_bounded_and_counts_what_it_forgot) {
  TaskTable table(64);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    table.note(task({i, 1}));
    ASSERT_LE(table.size(), 64u);
  }
  EXPECT_EQ(table.forgotten(), 1000u - 64u);
  EXPECT_TRUE(table.find({999, 1}));
  EXPECT_FALSE(table.find({0, 1}));
  EXPECT_EQ(table.by_pid(0), nullptr);
}

TEST(TaskTable, who_makes_thousands_of_processes_pushes_out_his_own) {
  TaskTable table(256);
  auto note = [&](std::uint32_t pid, std::uint32_t uid) {
    wire::Task t = task({pid, 100});
    t.uid = uid;
    return &table.note(t);
  };
  note(1, 1000)->rss.add({MonoTime{}, MiB(100)});
  note(2, 1000);  // a shell between two of them
  for (std::uint32_t pid = 3; pid < 9000; ++pid) note(pid, 2000);
  EXPECT_EQ(table.size() + table.forgotten(), 8999u);
  EXPECT_LE(table.size(), 256u);
  EXPECT_TRUE(table.find({1, 100}));
  EXPECT_TRUE(table.find({2, 100}));
  EXPECT_TRUE(table.find({8999, 100}));
}

TEST(TaskTable, forgets_the_dead_before_the_living) {
  TaskTable table(64);
  for (std::uint32_t i = 0; i < 64; ++i) table.note(task({i, 1}));
  table.mark_dead({40, 1}, MonoTime{});
  table.note(task({100, 1}));
  EXPECT_FALSE(table.find({40, 1}));
  EXPECT_TRUE(table.find({0, 1}));
}

TEST(TaskTable, keeps_the_dead_for_a_while_and_then_forgets_them) {
  TaskTable table(80);
  for (std::uint32_t i = 0; i < 12; ++i) {
    table.note(task({i, 1}));
    table.mark_dead({i, 1}, MonoTime{});
  }
  EXPECT_TRUE(table.find({11, 1})->died);
  EXPECT_EQ(table.size(), 10u) << "an eighth of the table";
  EXPECT_FALSE(table.find({0, 1}));
  EXPECT_EQ(table.by_pid(0), nullptr);
}

TEST(TaskTable, may_see_a_death_twice_or_of_a_stranger) {
  TaskTable table;
  table.note(task({7, 100}));
  table.mark_dead({7, 100}, MonoTime{});
  table.mark_dead({7, 100}, MonoTime{});
  table.mark_dead({8, 100}, MonoTime{});
  EXPECT_EQ(table.size(), 1u);
}

TEST(TaskTable, stays_bounded_through_a_storm_of_short_lives) {
  TaskTable table(64);
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    table.note(task({i % 500, i}));
    table.mark_dead({i % 500, i}, MonoTime{});
    ASSERT_LE(table.size(), 64u);
    ASSERT_TRUE(table.find({i % 500, i})) << "the newest";
  }
}

TEST(TaskTable, follows_parents_to_the_top) {
  TaskTable table;
  table.note(task({1, 1}));
  table.note(task({2, 1}, TaskId{1, 1}));
  table.note(task({3, 1}, TaskId{2, 1}));
  table.note(task({4, 1}, TaskId{1, 1}));
  EXPECT_TRUE(table.descends_from({3, 1}, {1, 1}));
  EXPECT_TRUE(table.descends_from({3, 1}, {3, 1}));
  EXPECT_FALSE(table.descends_from({4, 1}, {2, 1}));
  EXPECT_FALSE(table.descends_from({1, 1}, {3, 1}));
  EXPECT_FALSE(table.descends_from({3, 1}, {1, 2})) << "another process of that pid";
}

TEST(TaskTable, takes_an_orphan_for_a_descendant_of_who_made_it) {
  TaskTable table;
  table.note(task({20, 200}, TaskId{10, 100}));
  table.note(task({30, 300}, TaskId{20, 200}));
  table.note(task({30, 300}, TaskId{1, 1}));  // 20 has ended
  EXPECT_TRUE(table.descends_from({30, 300}, {10, 100}));
  EXPECT_EQ(table.find({30, 300})->parent, (TaskId{1, 1}));
}

TEST(TaskTable, ends_its_search_in_a_circle_of_parents) {
  TaskTable table;
  table.note(task({1, 1}, TaskId{2, 1}));
  table.note(task({2, 1}, TaskId{1, 1}));
  table.note(task({3, 1}, TaskId{3, 1}));
  EXPECT_FALSE(table.descends_from({1, 1}, {9, 1}));
  EXPECT_FALSE(table.descends_from({3, 1}, {9, 1}));
}

TEST(TaskTable, cuts_command_lines_off_when_all_of_them_are_too_much) {
  TaskTable table;
  std::size_t held = 0;
  for (std::uint32_t pid = 1; pid <= 8000; ++pid) {
    TaskState& state = table.note(TaskId{pid, 1});
    wire::Args args{{"python3", std::string(2000, 'x')}, false};
    table.set_cmdline(state, args, CmdlineSource::exec, MonoTime{});
    held += state.cmdline.bytes().size();
    EXPECT_EQ(state.cmdline.front(), "python3");
    EXPECT_EQ(state.cmdline_truncated, state.cmdline.bytes().size() < 2000);
  }
  EXPECT_LE(held, TaskTable::kMaxArguments + 8000 * TaskTable::kCutOff);
  for (std::uint32_t pid = 1; pid <= 8000; ++pid) table.mark_dead(TaskId{pid, 1}, MonoTime{});
  table.set_cmdline(table.note(TaskId{9000, 1}), wire::Args{{std::string(2000, 'y')}, false},
                    CmdlineSource::exec, MonoTime{});
  EXPECT_FALSE(table.find(TaskId{9000, 1})->cmdline_truncated) << "the dead have made room";
}

TEST(TaskTable, that_has_less_room_forgets_the_dead_and_the_small_and_cuts_command_lines_off) {
  TaskTable table(1000);
  for (std::uint32_t pid = 1; pid <= 900; ++pid)
    table.set_cmdline(table.note(TaskId{pid, 1}), wire::Args{{std::string(2000, 'x')}, false},
                      CmdlineSource::exec, MonoTime{});
  table.mark_dead(TaskId{900, 1}, MonoTime{});
  for (std::uint32_t pid = 1; pid <= 100; ++pid)
    table.note(TaskId{pid, 1}).rss.add({MonoTime(Nanos(1)), MiB(500)});
  table.set_room(1.0 / 8);
  EXPECT_EQ(table.size(), 125u);
  EXPECT_EQ(table.forgotten(), 775u);
  EXPECT_FALSE(table.find(TaskId{900, 1}));
  for (std::uint32_t pid = 1; pid <= 100; ++pid) EXPECT_TRUE(table.find(TaskId{pid, 1})) << pid;
  std::size_t held = 0;
  table.for_each([&](const TaskState& task) { held += task.cmdline.bytes().size(); });
  EXPECT_LE(held, TaskTable::kMaxArguments / 8);
  table.set_room(1);
  for (std::uint32_t pid = 1001; pid <= 1800; ++pid) table.note(TaskId{pid, 1});
  EXPECT_EQ(table.size(), 925u);
}

}  // namespace
}  // namespace oomcast
