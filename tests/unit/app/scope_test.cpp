#include "app/scope.h"

#include <gtest/gtest.h>

#include "fixture_tree.h"

namespace oomcast {
namespace {

using Pids = std::vector<std::uint32_t>;

// /job with 10 and its child 11, /job/step with 12, /other with 13, a child of 11.
struct Machine {
  FixtureTree tree;
  std::optional<CgroupFs> fs;
  std::optional<ProcFs> procfs;

  Machine() {
    tree.mount_v2();
    for (const char* path : {"job", "job/step", "other"}) tree.cgroup(std::string("sys/fs/cgroup/") + path);
    process(10, 1, "/job");
    process(11, 10, "/job");
    process(12, 1, "/job/step");
    process(13, 11, "/other");
    fs.emplace(*CgroupFs::open(tree.roots()));
    procfs.emplace(tree.roots());
  }
  void process(int pid, int parent, const std::string& cgroup) {
    std::string dir = "proc/" + std::to_string(pid), number = std::to_string(pid);
    tree.write(dir + "/stat", number + " (a) S " + std::to_string(parent) +
                                  " 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0 0\n");
    tree.write(dir + "/cgroup", "0::" + cgroup + "\n");
  }
  Result<ScopeNow> now(const ScopeOptions& scope) { return scope_now(scope, *fs, *procfs, tree.roots()); }
};

TEST(ScopeNow, of_the_machine_is_every_process) {
  Machine m;
  auto now = m.now({});
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->pids, (Pids{1, 10, 11, 12, 13}));
  EXPECT_TRUE(now->cgroups.empty());
}

TEST(ScopeNow, of_a_cgroup_is_what_is_in_it_and_below) {
  Machine m;
  ScopeOptions scope;
  scope.cgroup = "/job";
  auto now = m.now(scope);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->pids, (Pids{10, 11, 12}));
  ASSERT_EQ(now->cgroups.size(), 1u);
  EXPECT_EQ(now->cgroups[0].path, "/job");
}

TEST(ScopeNow, of_a_process_is_it_and_its_descendants_wherever_they_are) {
  Machine m;
  ScopeOptions scope;
  scope.pid = 10;
  auto now = m.now(scope);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->pids, (Pids{10, 11, 13}));
}

TEST(ScopeNow, that_is_not_there_is_an_error) {
  Machine m;
  ScopeOptions scope;
  scope.pid = 99;
  EXPECT_FALSE(m.now(scope).ok());
  scope.pid.reset();
  scope.cgroup = "/jib";
  auto near = m.now(scope);
  ASSERT_FALSE(near.ok());
  EXPECT_NE(near.error().message.find("/job"), std::string::npos) << near.error().message;
}

}  // namespace
}  // namespace oomcast
