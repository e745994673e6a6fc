#include "base/task_id.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace oomcast {
namespace {

TEST(TaskId, of_a_recycled_pid_is_another_task) {
  EXPECT_NE((TaskId{7, 100}), (TaskId{7, 200}));
  std::unordered_set<TaskId> seen{{7, 100}};
  EXPECT_FALSE(seen.contains({7, 200}));
  EXPECT_TRUE(seen.contains({7, 100}));
}

TEST(CgroupId, of_the_same_inode_in_another_hierarchy_is_another_cgroup) {
  EXPECT_NE((CgroupId{Hierarchy::v1, 8}), (CgroupId{Hierarchy::v2, 8}));
  std::unordered_set<CgroupId> seen{{Hierarchy::v1, 8}};
  EXPECT_FALSE(seen.contains({Hierarchy::v2, 8}));
}

}  // namespace
}  // namespace oomcast
