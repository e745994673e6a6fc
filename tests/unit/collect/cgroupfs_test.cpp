#include "collect/cgroupfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "base/unique_fd.h"
#include "collect/procfs.h"
#include "fixture_tree.h"

namespace oomcast {
namespace {

const std::string v1_top = "sys/fs/cgroup/memory";
const std::string v2_top = "sys/fs/cgroup";

CgroupFs open_fs(const FixtureTree& tree) {
  auto fs = CgroupFs::open(tree.roots());
  if (!fs.ok()) throw std::runtime_error(fs.error().message);
  return *std::move(fs);
}

std::uint64_t inode(const std::string& path) {
  struct stat st {};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
  return st.st_ino;
}

std::vector<std::string> paths(const CgroupListing& tree) {
  std::vector<std::string> out;
  for (const CgroupEntry& entry : tree.cgroups) out.push_back(entry.path);
  return out;
}

// ---- The walk ----

TEST(CgroupWalk, parents_come_first_and_identity_is_the_directorys_inode) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup(v1_top + "/b");
  tree.cgroup(v1_top + "/a/x");
  tree.cgroup(v1_top + "/a");
  auto walk = open_fs(tree).list();
  ASSERT_TRUE(walk.ok());
  std::vector<std::string> seen = paths(*walk);
  auto at = [&](const char* path) {
    return static_cast<std::size_t>(std::ranges::find(seen, path) - seen.begin());
  };
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(at("/"), 0u);
  ASSERT_LT(at("/a"), at("/a/x"));
  const auto& cgroups = walk->cgroups;
  EXPECT_EQ(cgroups.at(at("/a/x")).id, (CgroupId{Hierarchy::v1, inode(tree.path(v1_top + "/a/x"))}));
  EXPECT_EQ(cgroups.at(at("/a/x")).parent, cgroups.at(at("/a")).id);
  EXPECT_EQ(cgroups.at(at("/b")).parent, cgroups[0].id);
  EXPECT_EQ(cgroups[0].parent, std::nullopt);
  EXPECT_TRUE(walk->not_all_below.empty());
  EXPECT_EQ(walk->vanished + walk->unreadable + walk->too_deep, 0u);
}

TEST(CgroupWalk, paths_of_a_mounted_part_are_the_kernel_logs) {
  FixtureTree tree;
  tree.mount_v1("/docker/abc");
  tree.cgroup(v1_top + "/x");
  CgroupFs fs = open_fs(tree);
  EXPECT_EQ(paths(*fs.list()), (std::vector<std::string>{"/docker/abc", "/docker/abc/x"}));
  EXPECT_EQ(fs.lookup("/docker/abc/x")->parent, fs.lookup("/docker/abc")->id);
  EXPECT_FALSE(fs.open_dir("/elsewhere").ok());
}

TEST(CgroupWalk, names_are_bytes) {
  FixtureTree tree;
  tree.mount_v2();
  const std::vector<std::string> names = {"a\nb", "a\x1b[2J", "\xff\xfe", "...", "..x", "-rf", "a b"};
  for (const std::string& name : names) tree.cgroup(v2_top + "/" + name);
  CgroupFs fs = open_fs(tree);
  auto seen = paths(*fs.list());
  for (const std::string& name : names) {
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "/" + name), 1);
    EXPECT_TRUE(fs.open_dir("/" + name).ok());
  }
  EXPECT_EQ(seen.size(), names.size() + 1);
}

TEST(CgroupWalk, no_symlink_is_followed) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup("outside/secret");
  tree.link(v2_top + "/link", tree.path("outside"));
  CgroupFs fs = open_fs(tree);
  EXPECT_EQ(paths(*fs.list()), std::vector<std::string>{"/"});
  EXPECT_FALSE(fs.open_dir("/link").ok());
  EXPECT_FALSE(fs.open_dir("/link/secret").ok());
}

TEST(CgroupWalk, nothing_above_the_mount_point_is_reached) {
  FixtureTree tree;
  tree.mount_v1();
  CgroupFs fs = open_fs(tree);
  EXPECT_FALSE(fs.open_dir("/..").ok());
  EXPECT_FALSE(fs.open_dir("/../cpu").ok());
  EXPECT_FALSE(fs.open_dir("/a/../../cpu").ok());
}

TEST(CgroupWalk, stops_at_its_depth_limit_and_counts_what_is_below) {
  FixtureTree tree;
  tree.mount_v2();
  std::string path = v2_top;
  for (std::size_t i = 0; i < CgroupFs::max_depth + 3; ++i) path += "/d";
  tree.make_dir(path);
  auto walk = open_fs(tree).list();
  EXPECT_EQ(walk->cgroups.size(), CgroupFs::max_depth + 1);
  EXPECT_EQ(walk->too_deep, 1u);
  EXPECT_EQ(walk->not_all_below, (std::unordered_set<std::uint64_t>{walk->cgroups.back().id.inode}));
}

TEST(CgroupWalk, stops_where_a_path_is_longer_than_the_kernels_own_and_counts_what_is_below) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup(v2_top + "/after");
  const std::string name(250, 'a');
  UniqueFd at(open(tree.path(v2_top).c_str(), O_RDONLY | O_DIRECTORY));
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(mkdirat(at.get(), name.c_str(), 0755), 0);
    at.reset(openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY));
  }
  auto walk = open_fs(tree).list();
  ASSERT_TRUE(walk.ok());
  EXPECT_EQ(walk->too_deep, 1u);
  EXPECT_EQ(walk->cgroups.size(), 1 + 1 + 4096 / 251u) << "what is beside it is found";
  for (const std::string& path : paths(*walk)) EXPECT_LT(path.size(), 4096u);
}

TEST(CgroupFs, finds_one_below_its_parent_by_its_number) {
  FixtureTree tree;
  tree.mount_v2();
  for (const char* path : {"/job", "/job/step", "/other"}) tree.cgroup(v2_top + path);
  CgroupFs fs = open_fs(tree);
  CgroupEntry step = *fs.lookup("/job/step");
  auto found = fs.find_below("/job", step.id.inode);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, "/job/step");
  EXPECT_EQ(found->parent, step.parent);
  EXPECT_EQ(fs.find_below("/", fs.lookup("/other")->id.inode)->path, "/other");
  EXPECT_FALSE(fs.find_below("/", step.id.inode)) << "it is not right below it";
  EXPECT_FALSE(fs.find_below("/gone", step.id.inode));
}

TEST(CgroupWalk, knows_who_could_give_a_cgroup_its_name) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give directories away";
  FixtureTree tree;
  tree.mount_v2();
  for (const char* path : {"/job", "/job/step", "/users/deep", "/shared/x"}) tree.cgroup(v2_top + path);
  ASSERT_EQ(chown(tree.path(v2_top + "/job").c_str(), 1000, 1000), 0) << "root's, which a user may work in";
  ASSERT_EQ(chown(tree.path(v2_top + "/users").c_str(), 1001, 1001), 0);
  ASSERT_EQ(chmod(tree.path(v2_top + "/shared").c_str(), 0777), 0);
  auto walk = open_fs(tree).list();
  ASSERT_TRUE(walk.ok());
  std::map<std::string, std::optional<std::uint32_t>> named;
  for (const CgroupEntry& cgroup : walk->cgroups) named[cgroup.path] = cgroup.named_by;
  EXPECT_EQ(named["/job"], 0u);
  EXPECT_EQ(named["/job/step"], 1000u);
  EXPECT_EQ(named["/users"], 0u);
  EXPECT_EQ(named["/users/deep"], 1001u);
  EXPECT_EQ(named["/shared"], 0u);
  EXPECT_EQ(named["/shared/x"], std::nullopt);
}

TEST(CgroupWalk, finds_others_beside_who_makes_more_than_can_be_listed) {
  FixtureTree tree;
  tree.mount_v2();
  tree.make_dir(v2_top + "/before/x");
  for (int i = 0; i < 800; ++i) tree.make_dir(v2_top + "/tenant/in/" + std::to_string(i));
  tree.make_dir(v2_top + "/after/x");
  auto walk = open_fs(tree).list({}, 1000);
  ASSERT_TRUE(walk.ok());
  auto seen = paths(*walk);
  for (const char* path : {"/before/x", "/after/x"})
    EXPECT_EQ(std::count(seen.begin(), seen.end(), path), 1) << path;
  EXPECT_LT(seen.size(), 600u);
  EXPECT_GT(walk->too_deep, 0u);
  EXPECT_EQ(walk->not_all_below,
            (std::unordered_set<std::uint64_t>{inode(tree.path(v2_top + "/tenant/in"))}));
}

TEST(CgroupWalk, can_start_below_the_top) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup(v2_top + "/a/x");
  tree.cgroup(v2_top + "/b");
  CgroupFs fs = open_fs(tree);
  auto walk = fs.list("/a/");
  ASSERT_TRUE(walk.ok());
  EXPECT_EQ(paths(*walk), (std::vector<std::string>{"/a", "/a/x"}));
  EXPECT_EQ(walk->cgroups[0].parent, fs.lookup("/")->id);
  EXPECT_FALSE(fs.list("/gone").ok());
}

// ---- A cgroup's files ----

TEST(CgroupFiles, v1_usage_limit_and_swap) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup(v1_top + "/a", {{"memory.usage_in_bytes", "1000\n"},
                              {"memory.limit_in_bytes", "20971520\n"},
                              {"memory.memsw.usage_in_bytes", "1500\n"},
                              {"memory.memsw.limit_in_bytes", "9223372036854771712\n"},
                              {"memory.swappiness", "0\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupReader reader(fs, 10);
  CgroupEntry a = *fs.lookup("/a");
  EXPECT_EQ(*reader.usage(a), Bytes{1000});
  EXPECT_EQ(*reader.limit(a), MiB(20));
  auto swap = reader.swap(a);
  ASSERT_TRUE(swap.ok() && *swap);
  EXPECT_EQ((*swap)->used, Bytes{500});
  EXPECT_EQ((*swap)->limit, std::nullopt);
  EXPECT_EQ((*swap)->with_memory_limit, std::nullopt);
  EXPECT_EQ(*reader.swappiness(a), 0u);
}

TEST(CgroupFiles, v1_without_swap_accounting_is_unknown_and_not_zero) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup(v1_top + "/a", {{"memory.usage_in_bytes", "1000\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupReader reader(fs, 10);
  auto swap = reader.swap(*fs.lookup("/a"));
  ASSERT_TRUE(swap.ok());
  EXPECT_FALSE(*swap);
  auto swappiness = reader.swappiness(*fs.lookup("/a"));
  ASSERT_TRUE(swappiness.ok());
  EXPECT_FALSE(*swappiness);
}

TEST(CgroupFiles, v2_usage_limit_and_swap) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup(v2_top + "/a", {{"memory.current", "1000\n"},
                              {"memory.max", "max\n"},
                              {"memory.swap.current", "30\n"},
                              {"memory.swap.max", "4096\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupReader reader(fs, 10);
  CgroupEntry a = *fs.lookup("/a");
  EXPECT_EQ(*reader.usage(a), Bytes{1000});
  EXPECT_EQ(*reader.limit(a), std::nullopt);
  EXPECT_EQ((**reader.swap(a)).used, Bytes{30});
  EXPECT_EQ((**reader.swap(a)).limit, Bytes{4096});
  EXPECT_EQ(*reader.swappiness(a), std::nullopt);
}

TEST(CgroupFiles, v2s_root_has_no_usage_and_no_limit) {
  FixtureTree tree;
  tree.mount_v2();
  auto dir = open_fs(tree).open_dir("");
  EXPECT_FALSE(dir->read_usage().ok());
  ASSERT_TRUE(dir->read_limit().ok());
  EXPECT_EQ(*dir->read_limit(), std::nullopt);
}

TEST(CgroupFiles, statistics_are_completed_from_their_neighbours) {
  FixtureTree v1;
  v1.mount_v1();
  v1.cgroup(v1_top + "/a",
            {{"memory.stat", "total_rss 5\ntotal_swap 6\n"}, {"memory.kmem.usage_in_bytes", "77\n"}});
  auto stat = open_fs(v1).open_dir("/a")->read_stat();
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(stat->kernel, Bytes{77});
  EXPECT_EQ(stat->swap, Bytes{6});

  FixtureTree v2;
  v2.mount_v2();
  v2.cgroup(v2_top + "/a", {{"memory.stat", "anon 5\nkernel 8\n"}, {"memory.swap.current", "99\n"}});
  stat = open_fs(v2).open_dir("/a")->read_stat();
  EXPECT_EQ(stat->kernel, Bytes{8});
  EXPECT_EQ(stat->swap, Bytes{99});
}

TEST(CgroupFiles, pressure_is_unknown_where_the_kernel_has_none) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup(v2_top + "/a", {{"memory.pressure", "some avg10=1.00 avg60=0.00 avg300=0.00 total=7\n"}});
  tree.cgroup(v2_top + "/b");
  CgroupFs fs = open_fs(tree);
  EXPECT_EQ((*fs.open_dir("/a")->read_pressure())->some->total_us, 7u);
  auto none = fs.open_dir("/b")->read_pressure();
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(*none);
}

TEST(CgroupFiles, a_removed_cgroup_is_an_error_and_not_a_cgroup_without_limit) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup(v1_top + "/a");
  auto dir = open_fs(tree).open_dir("/a");
  tree.remove(v1_top + "/a");
  EXPECT_FALSE(dir->read_limit().ok());
}

TEST(CgroupFiles, an_error_names_the_file_and_the_cgroup_without_control_bytes) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup(v1_top + "/a\x1b", {{"memory.usage_in_bytes", "many\n"}});
  auto usage = open_fs(tree).open_dir("/a\x1b")->read_usage();
  ASSERT_FALSE(usage.ok());
  EXPECT_EQ(usage.error().message, "memory.usage_in_bytes of cgroup /a\\x1b is not what the kernel prints");
}

// ---- Repeated reads ----

TEST(CgroupReader, sees_new_values_through_files_kept_open) {
  FixtureTree tree;
  tree.mount_v1();
  tree.cgroup(v1_top + "/a", {{"memory.usage_in_bytes", "1000\n"}, {"memory.limit_in_bytes", "5000\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupEntry a = *fs.lookup("/a");
  CgroupReader reader(fs, 10);
  EXPECT_EQ(*reader.usage(a), Bytes{1000});
  tree.write(v1_top + "/a/memory.usage_in_bytes", "7\n");
  EXPECT_EQ(*reader.usage(a), Bytes{7});
  EXPECT_EQ(*reader.limit(a), Bytes{5000});
  EXPECT_EQ(reader.open_fds(), 2u);
  reader.forget(a.id);
  EXPECT_EQ(reader.open_fds(), 0u);
  EXPECT_EQ(*reader.usage(a), Bytes{7});
}

TEST(CgroupReader, closes_what_is_read_no_more_and_opens_it_again) {
  FixtureTree tree;
  tree.mount_v2();
  for (const char* name : {"/busy", "/idle"}) tree.cgroup(v2_top + name, {{"memory.current", "5\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupEntry busy = *fs.lookup("/busy"), idle = *fs.lookup("/idle");
  CgroupReader reader(fs, 10);
  ASSERT_TRUE(reader.usage(busy).ok() && reader.usage(idle).ok());
  reader.close_unread();
  EXPECT_EQ(reader.open_fds(), 2u) << "both were just read";
  ASSERT_TRUE(reader.usage(busy).ok());
  reader.close_unread();
  EXPECT_EQ(reader.open_fds(), 1u);
  EXPECT_EQ(*reader.usage(idle), Bytes{5});
  EXPECT_EQ(reader.open_fds(), 2u);
}

TEST(CgroupReader, past_its_descriptors_still_reads) {
  FixtureTree tree;
  tree.mount_v2();
  CgroupFs fs = open_fs(tree);
  CgroupReader reader(fs, 2);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 5; ++i) {
      std::string name = "c" + std::to_string(i);
      tree.cgroup(v2_top + "/" + name, {{"memory.current", std::to_string(i * 100) + "\n"}});
      EXPECT_EQ(*reader.usage(*fs.lookup("/" + name)), Bytes{i * 100});
    }
    EXPECT_EQ(reader.open_fds(), 2u);
  }
}

TEST(CgroupReader, does_not_take_a_new_cgroup_for_an_old_one_of_the_same_path) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup(v2_top + "/a", {{"memory.current", "1\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupEntry old = *fs.lookup("/a");
  old.id.inode += 1;
  CgroupReader reader(fs, 10);
  auto usage = reader.usage(old);
  ASSERT_FALSE(usage.ok());
  EXPECT_NE(usage.error().message.find("/a"), std::string::npos);
  EXPECT_EQ(reader.open_fds(), 0u);
}

TEST(CgroupReader, reads_swap_and_statistics) {
  FixtureTree tree;
  tree.mount_v2();
  tree.cgroup(v2_top + "/a", {{"memory.current", "1\n"},
                              {"memory.stat", "anon 5\nactive_file 3\n"},
                              {"memory.swap.current", "30\n"},
                              {"memory.swap.max", "max\n"}});
  tree.cgroup(v2_top + "/no_swap", {{"memory.stat", "anon 6\n"}});
  CgroupFs fs = open_fs(tree);
  CgroupReader reader(fs, 10);
  CgroupEntry a = *fs.lookup("/a");
  EXPECT_EQ(reader.stat(a)->anon, Bytes{5});
  EXPECT_EQ(reader.stat(a)->swap, Bytes{30});
  EXPECT_EQ((*reader.swap(a))->limit, std::nullopt);
  auto none = reader.swap(*fs.lookup("/no_swap"));
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(*none);
  EXPECT_EQ(reader.stat(*fs.lookup("/no_swap"))->swap, std::nullopt);
}

// ---- This machine ----

TEST(CgroupFs, agrees_with_this_machine_where_it_has_memory_cgroups) {
  auto fs = CgroupFs::open(Roots{});
  if (!fs.ok()) GTEST_SKIP() << fs.error().message;
  auto tree = fs->list();
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  CgroupReader reader(*fs, 100);
  auto own = ProcFs(Roots{}).read_cgroup(static_cast<std::uint32_t>(::getpid()), fs->mount().hierarchy);
  ASSERT_TRUE(own.ok() && *own);
  auto path = fs->mount().from_proc_path((*own)->path);
  if (!path || !fs->lookup(*path).ok()) GTEST_SKIP() << "this process is outside of what is mounted";
  CgroupEntry entry = *fs->lookup(*path);
  EXPECT_TRUE(std::any_of(tree->cgroups.begin(), tree->cgroups.end(),
                          [&](const CgroupEntry& e) { return e.id == entry.id && e.path == entry.path; }));
  if (!entry.parent) GTEST_SKIP() << "this process is in the root";
  auto usage = reader.usage(entry);
  auto stat = reader.stat(entry);
  ASSERT_TRUE(usage.ok() && stat.ok());
  EXPECT_GT(*usage, Bytes{0});
  EXPECT_TRUE(stat->anon && stat->file && stat->shmem && stat->active_file && stat->inactive_file);
}

}  // namespace
}  // namespace oomcast
