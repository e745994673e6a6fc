#include "app/process_finder.h"

#include <gtest/gtest.h>

#include <set>

#include "fixture_tree.h"

namespace oomcast {
namespace {

// A machine with /job on v1 and processes as they are written.
struct FinderMachine {
  FixtureTree tree;
  std::optional<CgroupFs> fs;
  std::optional<ProcFs> procfs;
  MachineModel model{[] {
    MachineConfig config;
    config.hierarchy = Hierarchy::v1;
    return config;
  }()};
  std::vector<std::uint32_t> asked;
  bool reader_rests = false;
  std::optional<ProcessFinder> finder;
  std::uint64_t job = 0;

  FinderMachine() {
    tree.mount_v1();
    tree.cgroup("sys/fs/cgroup/memory/job");
    fs.emplace(*CgroupFs::open(tree.roots()));
    procfs.emplace(tree.roots());
    auto known = fs->list();
    for (const CgroupEntry& entry : known->cgroups) model.on_cgroup(entry);
    job = fs->lookup("/job")->id.inode;
    finder.emplace(model, *procfs, fs->mount(), [this](const TaskId& id) {
      if (!reader_rests) asked.push_back(id.tgid);
      return !reader_rests;
    });
  }
  void process(std::uint32_t pid, const std::string& cgroup, char state = 'S',
               std::uint64_t flags = 4194560) {
    std::string dir = "proc/" + std::to_string(pid);
    tree.write(dir + "/stat", std::to_string(pid) + " (grow) " + state + " 1 1 1 0 -1 " +
                                  std::to_string(flags) + " 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0 0\n");
    tree.write(dir + "/status", "Name:\tgrow\nTgid:\t" + std::to_string(pid) +
                                    "\nUid:\t7\t7\t7\t7\nNSpid:\t" + std::to_string(pid) + "\t3\n");
    tree.write(dir + "/cgroup", "4:memory:" + cgroup + "\n");
  }
  const TaskState& task(std::uint32_t pid) { return *model.tasks().find({pid, 5000}); }
};

TEST(ProcessFinder, tells_the_model_who_it_is_where_it_is_and_asks_for_its_arguments) {
  FinderMachine m;
  m.process(42, "/job");
  EXPECT_EQ(m.finder->find(42), (TaskId{42, 5000}));
  EXPECT_EQ(m.task(42).comm, "grow");
  EXPECT_EQ(m.task(42).uid, 7u);
  EXPECT_EQ(m.task(42).ns_pid, 3u);
  EXPECT_EQ(m.task(42).cgroup, m.job);
  EXPECT_EQ(m.asked, std::vector<std::uint32_t>{42});
}

TEST(ProcessFinder, forgets_the_arguments_of_the_program_before_an_exec_and_asks_for_the_new_ones) {
  FinderMachine m;
  m.process(42, "/job");
  m.finder->find(42);
  m.model.on_arguments({42, 5000}, {{"enter", "grow"}, false}, MonoTime(std::chrono::seconds(1)));
  m.asked.clear();
  m.finder->find(42, false);
  EXPECT_EQ(m.task(42).cmdline, (Arguments{"enter", "grow"}));
  EXPECT_TRUE(m.asked.empty()) << "known, and of the same name";
  m.tree.write("proc/42/stat", "42 (train) S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0 0\n");
  m.finder->find(42, false);
  EXPECT_TRUE(m.task(42).cmdline.empty());
  EXPECT_EQ(m.asked, std::vector<std::uint32_t>{42});
}

// The kernel shows it in the root by then: its kill would be of no cgroup that anybody asked for.
TEST(ProcessFinder, leaves_one_that_exits_where_it_was_and_does_not_look_at_its_memory) {
  FinderMachine m;
  m.process(42, "/job");
  m.finder->find(42);
  m.asked.clear();
  m.process(42, "/", 'Z', 4194564);
  m.finder->find(42);
  EXPECT_EQ(m.task(42).cgroup, m.job);
  EXPECT_TRUE(m.asked.empty());
}

TEST(ProcessFinder, knows_neither_kernel_threads_nor_who_is_not_there) {
  FinderMachine m;
  m.process(2, "/", 'S', 0x200000);
  EXPECT_EQ(m.finder->find(2), std::nullopt);
  EXPECT_EQ(m.finder->find(3), std::nullopt);
}

TEST(ProcessFinder, asks_later_for_what_a_resting_reader_did_not_take) {
  FinderMachine m;
  m.process(42, "/job");
  m.process(43, "/job");
  m.reader_rests = true;
  m.finder->find_all(true);
  EXPECT_TRUE(m.asked.empty());
  m.reader_rests = false;
  m.finder->ask_again();
  m.finder->ask_again();
  EXPECT_EQ(std::set(m.asked.begin(), m.asked.end()), (std::set<std::uint32_t>{42, 43}));
  EXPECT_EQ(m.asked.size(), 2u) << "each once";
}

}  // namespace
}  // namespace oomcast
