#include "model/cgroup_name.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

const std::string id_a(64, 'a');
const std::string id_b = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string kPodUid = "1b2c3d4e-1111-2222-3333-444455556666";
const std::string uid_systemd = "1b2c3d4e_1111_2222_3333_444455556666";

TEST(CgroupName, the_root_is_a_slash) {
  for (auto path : {"/", ""}) {
    CgroupName n = name_cgroup(path);
    EXPECT_EQ(n.kind, CgroupKind::root);
    EXPECT_EQ(n.name, "/");
  }
}

TEST(CgroupName, a_plain_directory_is_its_last_component) {
  CgroupName n = name_cgroup("/process_api/9779413723fbef8a00cffca08f9978df");
  EXPECT_EQ(n.kind, CgroupKind::plain);
  EXPECT_EQ(n.name, "9779413723fbef8a00cffca08f9978df");
  EXPECT_FALSE(n.container);
}

TEST(CgroupName, containers_of_every_runtime_and_driver) {
  for (const std::string& path : {
           "/docker/" + id_b,
           "/system.slice/docker-" + id_b + ".scope",
           "/machine.slice/libpod-" + id_b + ".scope",
           "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id_b + ".scope",
           "/libpod_parent/libpod-" + id_b,
           "/system.slice/cri-containerd-" + id_b + ".scope",
           "/system.slice/crio-" + id_b + ".scope",
           "/system.slice/nerdctl-" + id_b + ".scope",
           "/custom/parent/" + id_b,
       }) {
    CgroupName n = name_cgroup(path);
    EXPECT_EQ(n.kind, CgroupKind::container) << path;
    EXPECT_EQ(n.container, id_b) << path;
    EXPECT_EQ(n.name, "0123456789ab") << path;
  }
}

TEST(CgroupName, a_containers_monitor_is_no_container) {
  for (const std::string& scope : {"libpod-conmon-" + id_b + ".scope", "crio-conmon-" + id_b + ".scope"}) {
    CgroupName n = name_cgroup("/machine.slice/" + scope);
    EXPECT_EQ(n.kind, CgroupKind::unit);
    EXPECT_FALSE(n.container);
    EXPECT_EQ(n.unit, scope);
  }
}

TEST(CgroupName, what_is_nearly_an_id_is_none) {
  EXPECT_FALSE(name_cgroup("/docker/" + id_a.substr(1)).container);
  EXPECT_FALSE(name_cgroup("/docker/" + id_a + "a").container);
  EXPECT_FALSE(name_cgroup("/docker/" + std::string(64, 'g')).container);
  EXPECT_FALSE(name_cgroup("/docker/" + std::string(64, 'A')).container);
}

TEST(CgroupName, kubernetes_pods_of_both_drivers) {
  for (const std::string& path : {
           "/kubepods/burstable/pod" + kPodUid,
           "/kubepods/pod" + kPodUid,
           "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid_systemd + ".slice",
           "/kubepods.slice/kubepods-pod" + uid_systemd + ".slice",
           "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort-pod" + uid_systemd + ".slice",
       }) {
    CgroupName n = name_cgroup(path);
    EXPECT_EQ(n.kind, CgroupKind::pod) << path;
    EXPECT_EQ(n.pod, kPodUid) << path;
    EXPECT_EQ(n.name, "pod " + kPodUid) << path;
    EXPECT_FALSE(n.container) << path;
    n = name_cgroup(path + "/" + id_b);
    EXPECT_EQ(n.kind, CgroupKind::container) << path;
    EXPECT_EQ(n.pod, kPodUid) << path;
    EXPECT_EQ(n.container, id_b) << path;
  }
}

TEST(CgroupName, a_static_pods_uid_is_a_hash) {
  CgroupName n = name_cgroup("/kubepods/burstable/pod9779413723fbef8a00cffca08f9978df");
  EXPECT_EQ(n.kind, CgroupKind::pod);
  EXPECT_EQ(n.pod, "9779413723fbef8a00cffca08f9978df");
}

TEST(CgroupName, a_pod_and_container_in_one_component_are_both) {
  CgroupName n = name_cgroup("/system.slice/containerd.service/kubepods-burstable-pod" + uid_systemd +
                             ".slice:cri-containerd:" + id_b);
  EXPECT_EQ(n.kind, CgroupKind::container);
  EXPECT_EQ(n.pod, kPodUid);
  EXPECT_EQ(n.container, id_b);
  EXPECT_EQ(n.unit, "containerd.service");
}

TEST(CgroupName, podman_pods) {
  CgroupName n = name_cgroup("/machine.slice/machine-libpod_pod_" + id_b + ".slice");
  EXPECT_EQ(n.kind, CgroupKind::pod);
  EXPECT_EQ(n.pod, id_b);
  EXPECT_EQ(n.name, "pod 0123456789ab");
}

TEST(CgroupName, words_that_start_with_pod_are_plain) {
  EXPECT_EQ(name_cgroup("/podman").kind, CgroupKind::plain);
  EXPECT_EQ(name_cgroup("/kubepods/pods").kind, CgroupKind::plain);
}

TEST(CgroupName, lxc_lxd_and_machined_containers_have_names) {
  struct {
    const char* path;
    const char* name;
  } const cases[] = {{"/lxc/web1", "web1"},
                     {"/lxc.payload.web1", "web1"},
                     {"/lxc.payload/web1", "web1"},
                     {"/machine.slice/machine-debian\\x2dtest.scope", "debian-test"}};
  for (const auto& c : cases) {
    CgroupName n = name_cgroup(c.path);
    EXPECT_EQ(n.kind, CgroupKind::container) << c.path;
    EXPECT_EQ(n.container, c.name) << c.path;
    EXPECT_EQ(n.name, c.name) << c.path;
  }
  EXPECT_EQ(name_cgroup("/lxc.monitor.web1").kind, CgroupKind::plain);
  EXPECT_EQ(name_cgroup("/lxc").kind, CgroupKind::plain);
}

TEST(CgroupName, systemd_units_are_decoded_for_the_eye_only) {
  struct {
    const char* path;
    const char* unit;
    const char* name;
  } const cases[] = {
      {"/system.slice/sshd.service", "sshd.service", "sshd.service"},
      {"/system.slice/foo\\x2dbar.service", "foo\\x2dbar.service", "foo-bar.service"},
      {"/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", "getty@tty1.service"},
      {"/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-x.scope", "app-gnome-x.scope",
       "app-gnome-x.scope"},
      {"/user.slice/user-1000.slice", "user-1000.slice", "user-1000.slice"},
      {"/init.scope", "init.scope", "init.scope"},
      {"/system.slice/a\\x0ab\\xc3\\xa9\\xzz\\x2.service", "a\\x0ab\\xc3\\xa9\\xzz\\x2.service",
       "a\\x0ab\xc3\xa9\\xzz\\x2.service"},
  };
  for (const auto& c : cases) {
    CgroupName n = name_cgroup(c.path);
    EXPECT_EQ(n.kind, CgroupKind::unit) << c.path;
    EXPECT_EQ(n.unit, c.unit) << c.path;
    EXPECT_EQ(n.name, c.name) << c.path;
  }
}

TEST(CgroupName, slurm_jobs_and_steps_of_both_hierarchies) {
  struct {
    const char* path;
    const char* step;  // nullptr: none
    const char* name;
  } const cases[] = {
      {"/slurm/uid_1000/job_42", nullptr, "job 42"},
      {"/slurm/uid_1000/job_42/step_0/task_0", "0", "job 42.0/task_0"},
      {"/slurm_node7/uid_0/job_42/step_extern", "extern", "job 42.extern"},
      {"/system.slice/slurmstepd.scope/job_42", nullptr, "job 42"},
      {"/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0", "batch", "job 42.batch/user/task_0"},
      {"/system.slice/node7_slurmstepd.scope/job_42/step_1", "1", "job 42.1"},
  };
  for (const auto& c : cases) {
    CgroupName n = name_cgroup(c.path);
    EXPECT_EQ(n.kind, CgroupKind::slurm) << c.path;
    EXPECT_EQ(n.slurm_job, "42") << c.path;
    EXPECT_EQ(n.slurm_step, c.step ? std::optional<std::string>(c.step) : std::nullopt) << c.path;
    EXPECT_EQ(n.name, c.name) << c.path;
  }
}

TEST(CgroupName, a_job_directory_outside_of_slurm_is_plain) {
  for (auto path : {"/ci/job_42", "/slurm/job_x", "/slurm/a/job_42", "/system.slice/slurmstepd.scope/system"})
    EXPECT_FALSE(name_cgroup(path).slurm_job) << path;
  EXPECT_EQ(name_cgroup("/ci/job_42").kind, CgroupKind::plain);
}

TEST(CgroupName, the_innermost_decides_and_the_rest_stays_known) {
  CgroupName n =
      name_cgroup("/docker/" + id_a + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" +
                  uid_systemd + ".slice/cri-containerd-" + id_b + ".scope");
  EXPECT_EQ(n.kind, CgroupKind::container);
  EXPECT_EQ(n.container, id_b);
  EXPECT_EQ(n.pod, kPodUid);

  n = name_cgroup("/docker/" + id_a + "/system.slice/nginx.service");
  EXPECT_EQ(n.kind, CgroupKind::unit);
  EXPECT_EQ(n.container, id_a);
  EXPECT_EQ(n.unit, "nginx.service");
}

TEST(CgroupName, what_is_below_the_deciding_component_follows_it) {
  EXPECT_EQ(name_cgroup("/system.slice/nginx.service/worker/1").name, "nginx.service/worker/1");
  EXPECT_EQ(name_cgroup("/docker/" + id_b + "/init").name, "0123456789ab/init");
  EXPECT_EQ(name_cgroup("/kubepods/pod" + kPodUid + "/odd").name, "pod " + kPodUid + "/odd");
}

TEST(CgroupName, hostile_names_pass_as_bytes) {
  EXPECT_EQ(name_cgroup("/a\n\x1b[2J\xff").name, "a\n\x1b[2J\xff");
  EXPECT_EQ(name_cgroup("/.service").name, ".service");
  EXPECT_EQ(name_cgroup("//a///b//").name, "b");
  EXPECT_EQ(name_cgroup("/machine-.scope").kind, CgroupKind::unit);
  EXPECT_EQ(name_cgroup("/x/" + std::string(100000, 'y')).name.size(), 100000u);
}

TEST(CgroupName, a_series_goes_on_in_the_pod_job_or_unit_that_comes_back) {
  auto series = [](const std::string& path) { return path.substr(0, name_cgroup(path).series_bytes); };
  EXPECT_EQ(series("/system.slice/nginx.service/worker"), "/system.slice/nginx.service");
  EXPECT_EQ(series("/slurm/uid_1000/job_42/step_0/task_0"), "/slurm/uid_1000/job_42");
  const std::string pod = "/kubepods/burstable/pod01234567-0123-0123-0123-0123456789ab";
  EXPECT_EQ(series(pod + "/" + std::string(64, 'a')), pod);
  EXPECT_EQ(series("/docker/" + std::string(64, 'a')), "") << "another container is another series";
  EXPECT_EQ(series("/a/b"), "");
}

}  // namespace
}  // namespace oomcast
