#include "app/scope.h"

#include <gtest/gtest.h>

#include "fixture_tree.h"

namespace oomcast {
namespace {

using Pids = std::vector<std::uint32_t>;

// /job with 10 and its child 11, /job/step with 12, /other with 13, a child of 11.
struct ScopeMachine {
  FixtureTree tree;
  std::optional<CgroupFs> fs;
  std::optional<ProcFs> procfs;

  ScopeMachine() {
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

TEST(PathOfTyped, is_the_one_in_the_hierarchy_however_a_person_wrote_it) {
  for (const char* typed : {"/a/b", "a/b", "/a/b/", "/sys/fs/cgroup/a/b", "/sys/fs/cgroup/memory/a/b/"})
    EXPECT_EQ(path_of_typed(typed), "/a/b") << typed;
  for (const char* typed : {"/", "", "/sys/fs/cgroup", "/sys/fs/cgroup/memory/"})
    EXPECT_EQ(path_of_typed(typed), "/") << typed;
  EXPECT_EQ(path_of_typed("/sys/fs/cgroups"), "/sys/fs/cgroups");
}

TEST(ScopeNow, of_the_machine_is_every_process) {
  ScopeMachine m;
  auto now = m.now({});
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->pids, (Pids{1, 10, 11, 12, 13}));
  EXPECT_TRUE(now->cgroups.empty());
}

TEST(ScopeNow, of_a_cgroup_is_what_is_in_it_and_below) {
  ScopeMachine m;
  ScopeOptions scope;
  scope.cgroup = "/job";
  auto now = m.now(scope);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->pids, (Pids{10, 11, 12}));
  ASSERT_EQ(now->cgroups.size(), 1u);
  EXPECT_EQ(now->cgroups[0].path, "/job");
}

TEST(ScopeNow, of_a_process_is_it_and_its_descendants_wherever_they_are) {
  ScopeMachine m;
  ScopeOptions scope;
  scope.pid = 10;
  auto now = m.now(scope);
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->pids, (Pids{10, 11, 13}));
}

TEST(LargestFirst, those_whose_size_is_not_known_last_and_as_they_were) {
  ScopeMachine m;
  m.tree.write("proc/10/statm", "900 20 5 1 0 100 0\n");
  m.tree.write("proc/12/statm", "900 300 5 1 0 100 0\n");
  m.tree.write("proc/13/statm", "2000 100 5 1 0 100 0\n");
  EXPECT_EQ(largest_first({1, 10, 11, 12, 13}, *m.procfs), (Pids{12, 13, 10, 1, 11}));
}

TEST(ScopeNow, that_is_not_there_is_an_error) {
  ScopeMachine m;
  ScopeOptions scope;
  scope.pid = 99;
  EXPECT_FALSE(m.now(scope).ok());
  scope.pid.reset();
  scope.cgroup = "/jib";
  auto near = m.now(scope);
  ASSERT_FALSE(near.ok());
  EXPECT_NE(near.error().message.find("/job"), std::string::npos) << near.error().message;
}

CgroupEntry named(const std::string& path, std::optional<std::uint32_t> by) {
  return {{Hierarchy::v2, path.size()}, std::nullopt, path, by};
}

TEST(MayActFor, several_cgroups_of_a_name_only_if_they_have_one_owner) {
  ScopeOptions scope;
  scope.unit = "trainer";
  const std::string root = "/system.slice/trainer.service", user = "/user.slice/user-1000.slice/";
  const std::string container = "/docker/" + std::string(64, 'a') + root;
  EXPECT_TRUE(may_act_for(scope, std::vector{named(root, 0), named("/other.slice/trainer.service", 0)}));
  EXPECT_TRUE(may_act_for(scope, std::vector{named(user + "trainer.service", 1000)}));
  auto refused = may_act_for(scope, std::vector{named(root, 0), named(container, 0)});
  ASSERT_FALSE(refused) << "root of a container is not the machine's";
  EXPECT_NE(refused.error().message.find(container), std::string::npos) << refused.error().message;
  EXPECT_FALSE(may_act_for(scope, std::vector{named(user + "trainer.service", 1000), named(root, 1001)}));
}

TEST(MayActFor, who_is_waited_for_is_not_the_first_user_who_takes_the_name) {
  ScopeOptions scope;
  scope.slurm_job = "42";
  scope.wait = true;
  EXPECT_FALSE(may_act_for(scope, std::vector{named("/user.slice/slurm/uid_1000/job_42", 1000)}));
  EXPECT_TRUE(may_act_for(scope, std::vector{named("/slurm/uid_1000/job_42", 0)}));
  scope.slurm_job.reset();
  scope.cgroup = "/user.slice/job";
  EXPECT_TRUE(may_act_for(scope, std::vector{named("/user.slice/job", 1000)})) << "a path says what is meant";
}

TEST(TellMatches, says_what_a_name_was_taken_for_and_whose_it_is) {
  ScopeOptions scope;
  scope.unit = "trainer";
  EXPECT_EQ(tell_matches(scope, std::vector{named("/system.slice/trainer.service", 0)}),
            "--unit trainer is /system.slice/trainer.service");
  EXPECT_EQ(tell_matches(scope, std::vector{named("/a\x1b/trainer.service", 1000)}),
            "--unit trainer is /a\\x1b/trainer.service (below a directory of uid 1000)");
  scope = {};
  EXPECT_EQ(tell_matches(scope, {}), "");
}

}  // namespace
}  // namespace oomcast
