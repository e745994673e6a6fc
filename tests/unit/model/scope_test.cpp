#include "model/scope.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace oomcast {
namespace {

const std::string id_1 = "abcd1" + std::string(59, '0');
const std::string id_2 = "abcd2" + std::string(59, '0');

CgroupId id(std::uint64_t inode) {
  return {Hierarchy::v1, inode};
}
using Ids = std::vector<CgroupId>;

// Inodes count from 1 in the order given. Root named all but those that are below a user's directory.
std::vector<KnownCgroup> known(const std::vector<std::string>& paths) {
  std::vector<KnownCgroup> out;
  for (const std::string& path : paths) {
    std::uint32_t uid = path.starts_with("/user.slice/user-1000.slice/") ? 1000 : 0;
    out.push_back({id(out.size() + 1), path, name_cgroup(path), {}, uid});
  }
  return out;
}

CgroupMount v1_mount() {
  CgroupMount mount;
  mount.hierarchy = Hierarchy::v1;
  mount.mount_point = "/host/sys/fs/cgroup/memory";
  mount.machine_mount_point = "/sys/fs/cgroup/memory";
  return mount;
}

TEST(MatchCgroup, a_path_is_the_hierarchys_or_the_shells) {
  auto all = known({"/", "/foo", "/foo/bar", "/foobar"});
  for (auto wanted : {"/foo", "/foo/", "foo", "/sys/fs/cgroup/memory/foo", "/sys/fs/cgroup/memory/foo/",
                      "/host/sys/fs/cgroup/memory/foo"}) {
    auto found = match_cgroup(all, v1_mount(), wanted);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(*found, Ids{id(2)}) << wanted;
  }
  EXPECT_EQ(*match_cgroup(all, v1_mount(), "/"), Ids{id(1)});
  EXPECT_EQ(*match_cgroup(all, v1_mount(), "/sys/fs/cgroup/memory"), Ids{id(1)});
}

TEST(MatchCgroup, a_path_of_the_hierarchy_comes_before_the_mount_points) {
  auto all = known({"/", "/foo", "/sys/fs/cgroup/memory/foo"});
  EXPECT_EQ(*match_cgroup(all, v1_mount(), "/sys/fs/cgroup/memory/foo"), Ids{id(3)});
}

TEST(MatchCgroup, below_a_mounted_part_the_shells_path_is_completed) {
  CgroupMount mount = v1_mount();
  mount.mount_root = "/docker/abc";
  auto all = known({"/docker/abc", "/docker/abc/foo"});
  EXPECT_EQ(*match_cgroup(all, mount, "/sys/fs/cgroup/memory/foo"), Ids{id(2)});
}

TEST(MatchCgroup, near_paths_are_named) {
  auto found = match_cgroup(known({"/", "/training", "/other"}), v1_mount(), "/sys/fs/cgroup/memory/trainig");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().exit_code, 1);
  EXPECT_EQ(found.error().message, "no cgroup matches --cgroup '/trainig'; near: /training");
}

TEST(MatchContainer, an_id_or_a_prefix_of_four_digits_is_enough) {
  auto all = known({"/docker/" + id_1, "/docker/" + id_1 + "/init", "/docker/" + id_2});
  EXPECT_EQ(*match_container(all, id_1), Ids{id(1)});
  EXPECT_EQ(*match_container(all, "abcd1"), Ids{id(1)});
  EXPECT_EQ(*match_container(all, "abcd2000"), Ids{id(3)});
  EXPECT_FALSE(match_container(known({"/docker/" + id_1}), "abc").ok());
}

TEST(MatchContainer, an_ambiguous_prefix_lists_what_it_could_mean) {
  auto found = match_container(known({"/docker/" + id_1, "/docker/" + id_2}), "abcd");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find(id_1), std::string::npos);
  EXPECT_NE(found.error().message.find(id_2), std::string::npos);
}

TEST(MatchContainer, a_name_comes_before_a_prefix) {
  auto all = known({"/docker/" + id_1, "/lxc/abcd", "/docker/" + id_2});
  all[2].aliases = {"web"};
  EXPECT_EQ(*match_container(all, "abcd"), Ids{id(2)});
  EXPECT_EQ(*match_container(all, "web"), Ids{id(3)});
}

TEST(MatchContainer, runcs_containers_are_plain_directories) {
  EXPECT_EQ(*match_container(known({"/", "/mybox", "/mybox/x"}), "mybox"), Ids{id(2)});
}

TEST(MatchContainer, a_users_cgroup_of_the_same_name_or_id_is_not_meant) {
  const std::string user = "/user.slice/user-1000.slice/user@1000.service/";
  auto all = known({user + "lxc/abcd1", "/docker/" + id_1, user + id_1, user + "mybox", "/mybox"});
  EXPECT_EQ(*match_container(all, "abcd1"), Ids{id(2)}) << "an id of root's comes before a name of another's";
  EXPECT_EQ(*match_container(all, id_1), Ids{id(2)});
  EXPECT_EQ(*match_container(all, "mybox"), Ids{id(5)});
  EXPECT_EQ(*match_container(known({user + id_1}), "abcd1"), Ids{id(1)}) << "rootless, and the only one";
}

TEST(MatchContainer, near_names_are_named) {
  auto all = known({"/lxc/web1", "/lxc/db"});
  auto found = match_container(all, "web2");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message, "no cgroup matches --container 'web2'; near: web1");
}

TEST(MatchUnit, the_suffix_may_be_left_out_and_escapes_decoded) {
  auto all = known({"/system.slice", "/system.slice/sshd.service", "/system.slice/sshd.service/worker",
                    "/system.slice/a\\x2db.service", "/user.slice/user-1000.slice"});
  EXPECT_EQ(*match_unit(all, "sshd"), Ids{id(2)});
  EXPECT_EQ(*match_unit(all, "sshd.service"), Ids{id(2)});
  EXPECT_EQ(*match_unit(all, "a-b"), Ids{id(4)});
  EXPECT_EQ(*match_unit(all, "a\\x2db.service"), Ids{id(4)});
  EXPECT_EQ(*match_unit(all, "user-1000.slice"), Ids{id(5)});
  EXPECT_EQ(*match_unit(all, "system.slice"), Ids{id(1)});
}

TEST(MatchUnit, the_unit_of_a_container_is_found_and_so_are_units_inside) {
  auto all = known({"/system.slice/nginx.service", "/system.slice/docker-" + id_1 + ".scope",
                    "/system.slice/docker-" + id_1 + ".scope/system.slice/nginx.service"});
  EXPECT_EQ(*match_unit(all, "docker-" + id_1 + ".scope"), Ids{id(2)});
  EXPECT_EQ(*match_unit(all, "nginx"), (Ids{id(1), id(3)}));
}

TEST(MatchUnit, a_users_unit_is_meant_only_where_root_has_none_of_the_name) {
  const std::string user = "/user.slice/user-1000.slice/user@1000.service/app.slice/";
  EXPECT_EQ(*match_unit(known({user + "trainer.service", "/system.slice/trainer.service"}), "trainer"),
            Ids{id(2)});
  EXPECT_EQ(*match_unit(known({user + "trainer.service", "/system.slice"}), "trainer"), Ids{id(1)});
}

TEST(MatchUnit, near_units_are_named_nearest_first) {
  auto found = match_unit(
      known({"/system.slice/ssh.service", "/system.slice/sshd.service", "/system.slice/postgresql.service"}),
      "sshd2");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message, "no cgroup matches --unit 'sshd2'; near: sshd.service, ssh.service");
}

TEST(MatchUnit, at_most_five_near_ones_are_named_and_none_is_said) {
  std::vector<std::string> paths;
  for (char c = 'a'; c < 'k'; ++c) paths.push_back(std::string("/system.slice/work") + c + ".service");
  std::string message = match_unit(known(paths), "works").error().message;
  EXPECT_EQ(std::count(message.begin(), message.end(), ','), 4);
  EXPECT_EQ(match_unit(known(paths), "zzzzzzzz").error().message,
            "no cgroup matches --unit 'zzzzzzzz'; none of 10 is near");
  EXPECT_EQ(match_unit({}, "ssh").error().message,
            "no cgroup matches --unit 'ssh'; there is nothing of this kind here");
}

TEST(MatchUnit, hostile_names_do_not_reach_the_terminal) {
  std::string message = match_unit(known({"/x\x1b[2J.service"}), "x\x1b[3J").error().message;
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_NE(message.find("\\x1b[2J"), std::string::npos);
}

TEST(MatchSlurmJob, a_directory_of_a_users_own_is_no_job) {
  auto all = known({"/user.slice/user-1000.slice/slurm/uid_1000/job_42", "/slurm/uid_1000/job_42"});
  EXPECT_EQ(*match_slurm_job(all, "42"), Ids{id(2)});
}

TEST(MatchSlurmJob, a_job_or_one_of_its_steps) {
  auto all = known({"/slurm/uid_1000", "/slurm/uid_1000/job_42", "/slurm/uid_1000/job_42/step_0",
                    "/slurm/uid_1000/job_42/step_0/task_0", "/slurm/uid_1000/job_421"});
  EXPECT_EQ(*match_slurm_job(all, "42"), Ids{id(2)});
  EXPECT_EQ(*match_slurm_job(all, "42.0"), Ids{id(3)});
  auto found = match_slurm_job(all, "43");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("42"), std::string::npos);
  EXPECT_FALSE(match_slurm_job(all, "").ok());
}

TEST(InScope, children_are_and_neighbours_with_the_same_beginning_are_not) {
  EXPECT_TRUE(in_scope("/foo", "/foo"));
  EXPECT_TRUE(in_scope("/foo/bar", "/foo"));
  EXPECT_FALSE(in_scope("/foobar", "/foo"));
  EXPECT_FALSE(in_scope("/", "/foo"));
  EXPECT_TRUE(in_scope("/foo", "/"));
}

}  // namespace
}  // namespace oomcast
