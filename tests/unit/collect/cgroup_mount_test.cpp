#include "collect/cgroup_mount.h"

#include <gtest/gtest.h>

#include "fixture_tree.h"

namespace oomcast {
namespace {

TEST(MemoryHierarchy, v1_is_the_mount_with_the_memory_option) {
  FixtureTree tree;
  tree.mount_v1();
  auto mount = find_memory_hierarchy(tree.roots());
  ASSERT_TRUE(mount.ok()) << mount.error().message;
  EXPECT_EQ(mount->hierarchy, Hierarchy::v1);
  EXPECT_EQ(mount->mount_point, tree.path("sys/fs/cgroup/memory"));
  EXPECT_EQ(mount->machine_mount_point, "/sys/fs/cgroup/memory");
  EXPECT_EQ(mount->mount_root, "/");
  EXPECT_EQ(mount->hierarchy_id, 4u);
  EXPECT_FALSE(mount->namespaced);
  EXPECT_TRUE(mount->sees_root);
}

TEST(MemoryHierarchy, of_a_container_begins_with_the_containers_cgroup) {
  FixtureTree tree;
  tree.mount_v1("/docker/abc");
  EXPECT_FALSE(find_memory_hierarchy(tree.roots())->sees_root);
}

TEST(MemoryHierarchy, v2_is_the_mount_whose_controllers_list_memory) {
  FixtureTree tree;
  tree.mount_v2();
  auto mount = find_memory_hierarchy(tree.roots());
  ASSERT_TRUE(mount.ok()) << mount.error().message;
  EXPECT_EQ(mount->hierarchy, Hierarchy::v2);
  EXPECT_EQ(mount->mount_point, tree.path("sys/fs/cgroup"));
  EXPECT_EQ(mount->hierarchy_id, 0u);
}

TEST(MemoryHierarchy, memory_may_stand_anywhere_among_the_controllers) {
  for (auto controllers : {"memory\n", "cpu memory\n", "memory pids\n"}) {
    FixtureTree tree;
    tree.mount_v2();
    tree.write("sys/fs/cgroup/cgroup.controllers", controllers);
    EXPECT_TRUE(find_memory_hierarchy(tree.roots()).ok()) << controllers;
  }
}

TEST(MemoryHierarchy, a_hybrid_machine_is_v1_though_a_v2_tree_is_mounted_first) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup("sys/fs/cgroup/unified", {{"cgroup.controllers", "hugetlb\n"}});
  tree.write("proc/1/mountinfo",
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  auto mount = find_memory_hierarchy(tree.roots());
  ASSERT_TRUE(mount.ok());
  EXPECT_EQ(mount->hierarchy, Hierarchy::v1);
}

TEST(MemoryHierarchy, the_whole_tree_is_preferred_to_a_part_of_it) {
  FixtureTree tree;
  tree.mount_v1();
  tree.make_dir("a");
  tree.make_dir("b");
  tree.write("proc/1/mountinfo",
             "1 0 0:32 /docker/x /a rw - cgroup cgroup rw,memory\n"
             "2 0 0:32 / /b rw - cgroup cgroup rw,memory\n"
             "3 0 0:32 /docker/y /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(find_memory_hierarchy(tree.roots())->machine_mount_point, "/b");
}

TEST(MemoryHierarchy, a_mount_point_with_odd_bytes_is_decoded) {
  FixtureTree tree;
  tree.mount_v1();
  tree.make_dir("odd \n\\dir");
  tree.write("proc/1/mountinfo", "1 0 0:32 / /odd\\040\\012\\134dir rw - cgroup cgroup rw,memory\n");
  auto mount = find_memory_hierarchy(tree.roots());
  ASSERT_TRUE(mount.ok()) << mount.error().message;
  EXPECT_EQ(mount->mount_point, tree.path("odd \n\\dir"));
}

TEST(MemoryHierarchy, the_machines_own_table_is_read_before_that_of_this_process) {
  FixtureTree tree;
  tree.mount_v1();
  tree.write("proc/self/mountinfo", "1 0 0:32 / /nowhere rw - cgroup cgroup rw,memory\n");
  EXPECT_EQ(find_memory_hierarchy(tree.roots())->machine_mount_point, "/sys/fs/cgroup/memory");
  tree.remove("proc/1");
  EXPECT_FALSE(find_memory_hierarchy(tree.roots()).ok());
}

TEST(MemoryHierarchy, what_is_missing_is_named_with_the_command_that_helps) {
  struct {
    const char* controllers;
    const char* mounts;
    const char* says;
  } const cases[] = {
      {"memory\t4\t9\t1\n", "1 0 0:1 / /proc rw - proc proc rw\n", "mount -t cgroup -o memory"},
      {"memory\t0\t9\t1\n", "1 0 0:1 / /proc rw - proc proc rw\n", "mount -t cgroup2"},
      {"memory\t0\t9\t0\n", "1 0 0:1 / /proc rw - proc proc rw\n", "cgroup_enable=memory"},
      {"cpu\t0\t9\t1\n", "1 0 0:1 / /proc rw - proc proc rw\n", "CONFIG_MEMCG"},
      {"memory\t0\t9\t1\n", "1 0 0:1 / /cg2 rw - cgroup2 cgroup2 rw\n",
       "cgroup.controllers does not list memory"},
  };
  for (const auto& c : cases) {
    FixtureTree tree;
    tree.write("proc/cgroups", c.controllers);
    tree.write("proc/1/mountinfo", c.mounts);
    tree.cgroup("cg2", {{"cgroup.controllers", "cpu memory_x\n"}});
    auto mount = find_memory_hierarchy(tree.roots());
    ASSERT_FALSE(mount.ok());
    EXPECT_EQ(mount.error().exit_code, 3);
    EXPECT_NE(mount.error().message.find(c.says), std::string::npos) << mount.error().message;
  }
}

TEST(MemoryHierarchy, no_mount_table_is_an_error_that_names_it) {
  FixtureTree tree;
  auto mount = find_memory_hierarchy(tree.roots());
  ASSERT_FALSE(mount.ok());
  EXPECT_EQ(mount.error().exit_code, 3);
  EXPECT_NE(mount.error().message.find("mountinfo"), std::string::npos);
}

CgroupMount mounted(std::string root) {
  CgroupMount mount;
  mount.mount_root = std::move(root);
  return mount;
}

TEST(CgroupPath, of_a_whole_hierarchy_is_what_is_below_the_mount_point) {
  CgroupMount mount = mounted("/");
  EXPECT_EQ(mount.kernel_path(""), "/");
  EXPECT_EQ(mount.kernel_path("/a/b"), "/a/b");
  EXPECT_EQ(mount.relative_path("/a/b"), "/a/b");
  EXPECT_EQ(mount.relative_path("/"), "");
  EXPECT_EQ(mount.relative_path("a"), std::nullopt);
}

TEST(CgroupPath, of_a_mounted_part_has_the_parts_path_before_it) {
  CgroupMount mount = mounted("/docker/abc");
  EXPECT_EQ(mount.kernel_path(""), "/docker/abc");
  EXPECT_EQ(mount.kernel_path("/x"), "/docker/abc/x");
  EXPECT_EQ(mount.relative_path("/docker/abc/x"), "/x");
  EXPECT_EQ(mount.relative_path("/docker/abcd"), std::nullopt);
  EXPECT_EQ(mount.relative_path("/"), std::nullopt);
}

TEST(CgroupPath, above_a_namespace_starts_at_what_is_mounted) {
  CgroupMount mount = mounted("/../..");
  EXPECT_EQ(mount.kernel_path(""), "/");
  EXPECT_EQ(mount.kernel_path("/system.slice"), "/system.slice");
  EXPECT_EQ(mount.from_proc_path("/../../system.slice/a"), "/system.slice/a");
  EXPECT_EQ(mount.from_proc_path("/../.."), "/");
  EXPECT_EQ(mount.from_proc_path("/inside"), std::nullopt);
  EXPECT_EQ(mounted("/").from_proc_path("/../other"), std::nullopt);
  EXPECT_EQ(mounted("/").from_proc_path("/..name/a"), "/..name/a");
}

TEST(CgroupPath, above_a_namespace_is_noted) {
  FixtureTree tree;
  tree.mount_v2("/../..");
  EXPECT_TRUE(find_memory_hierarchy(tree.roots())->namespaced);
}

}  // namespace
}  // namespace oomcast
