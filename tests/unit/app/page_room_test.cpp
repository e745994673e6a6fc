#include "app/page_room.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "fixture_tree.h"

namespace oomcast {
namespace {

// Process 7 in /job, which has a limit of 2 GiB, on a machine of 64.
struct JobWithALimit {
  FixtureTree tree;
  std::optional<ProcFs> procfs;
  std::optional<Result<CgroupFs>> fs;

  JobWithALimit() {
    tree.mount_v2();
    tree.write("proc/7/cgroup", "0::/job\n");
    uses(50);
    machine(GiB(32), Bytes{});
    procfs.emplace(tree.roots());
    fs.emplace(CgroupFs::open(tree.roots()));
  }
  void uses(int percent) const {
    tree.cgroup("sys/fs/cgroup/job", {{"memory.max", std::to_string(GiB(2).count) + "\n"},
                                      {"memory.current", std::to_string(GiB(2).count / 100 * percent) + "\n"},
                                      {"memory.stat", "active_file 0\ninactive_file 0\n"}});
  }
  void machine(Bytes available, Bytes swap) const {
    tree.write("proc/meminfo",
               "MemTotal: 67108864 kB\nMemAvailable: " + std::to_string(available.count >> 10) +
                   " kB\nSwapTotal: " + std::to_string(swap.count >> 10) + " kB\n");
  }
};

constexpr bool kAnon = true, kOfFile = false;

TEST(PageRoom, lets_each_page_be_read_where_cgroup_and_machine_have_room) {
  JobWithALimit job;
  PageRoom room(*job.procfs, *job.fs);
  auto guard = room.guard(7);
  EXPECT_TRUE(guard(kAnon));
  EXPECT_TRUE(guard(kOfFile));
}

TEST(PageRoom, lets_only_anonymous_pages_be_read_in_a_full_cgroup_and_on_a_full_machine) {
  JobWithALimit job;
  PageRoom room(*job.procfs, *job.fs);
  job.uses(99);
  auto in_cgroup = room.guard(7);
  EXPECT_TRUE(in_cgroup(kAnon));
  EXPECT_FALSE(in_cgroup(kOfFile));
  job.uses(50);
  job.machine(GiB(3), Bytes{});
  auto on_machine = room.guard(7);
  EXPECT_TRUE(on_machine(kAnon));
  EXPECT_FALSE(on_machine(kOfFile));
}

TEST(PageRoom, lets_none_be_read_in_a_full_cgroup_of_a_machine_with_swap) {
  JobWithALimit job;
  PageRoom room(*job.procfs, *job.fs);
  job.uses(99);
  job.machine(GiB(32), GiB(1));
  auto guard = room.guard(7);
  EXPECT_FALSE(guard(kAnon));
  EXPECT_FALSE(guard(kOfFile));
}

TEST(PageRoom, is_not_known_where_the_cgroups_cannot_be_read) {
  JobWithALimit job;
  Result<CgroupFs> none = Error::failed("no cgroups");
  PageRoom room(*job.procfs, none);
  auto guard = room.guard(7);
  EXPECT_TRUE(guard(kAnon));
  EXPECT_FALSE(guard(kOfFile));
}

}  // namespace
}  // namespace oomcast
