#include "model/workload.h"

#include <gtest/gtest.h>

namespace oomcast {
namespace {

ProcessRef process(Arguments argv, std::string path = "/", std::uint32_t uid = 1000) {
  ProcessRef p;
  p.comm = "python3";
  p.cmdline = std::move(argv);
  p.uid = uid;
  p.cgroup = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 2}, path, name_cgroup(path)});
  return p;
}

std::string shared(const ProcessRef& a, const ProcessRef& b) {
  auto name = same_workload(a, b);
  return name ? name->words : "";
}

TEST(Workload, is_the_same_script_with_options_of_the_same_form) {
  auto monday = process({"/usr/bin/python3", "-u", "train.py", "--lr", "0.1", "--epochs=3", "data-1"});
  EXPECT_EQ(shared(monday, process({"python3.11", "train.py", "--epochs=90", "--lr", "1e-3", "data-2"})),
            "python3 train.py");
  EXPECT_EQ(shared(monday, process({"python3", "-u", "train.py", "--lr", "0.1", "--resume"})), "");
  EXPECT_EQ(shared(monday, process({"python3", "-u", "evaluate.py", "--lr", "0.1", "--epochs=3", "data-1"})),
            "");
}

TEST(Workload, is_a_users_own) {
  auto argv = Arguments{"python3", "train.py"};
  EXPECT_EQ(shared(process(argv, "/", 1000), process(argv, "/", 1001)), "");
  auto nobody = process(argv);
  nobody.uid.reset();
  EXPECT_EQ(shared(nobody, nobody), "");
}

TEST(Workload, is_not_what_has_the_same_name_alone) {
  EXPECT_EQ(shared(process({}), process({})), "");
  EXPECT_EQ(shared(process({"python3"}), process({"python3"})), "");
  EXPECT_EQ(shared(process({"python3", "-"}), process({"python3", "-"})), "");
  EXPECT_EQ(shared(process({"bash"}), process({"-bash"})), "");
  auto worker =
      process({"python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)",
               "--multiprocessing-fork"});
  EXPECT_EQ(shared(worker, worker), "");
}

TEST(Workload, may_be_a_module_a_text_or_a_program) {
  EXPECT_EQ(shared(process({"python3", "-m", "torch.distributed.run", "--nproc", "8", "t.py"}),
                   process({"python3", "-m", "torch.distributed.run", "--nproc", "4", "t.py"})),
            "python3 -m torch.distributed.run");
  EXPECT_EQ(shared(process({"python3", "-m", "a"}), process({"python3", "-m", "b"})), "");
  EXPECT_EQ(shared(process({"python3", "-c", "load(12)"}), process({"python3", "-c", "load(7)"})),
            "python3 -c …");
  EXPECT_EQ(shared(process({"python3", "-c", "load(12)"}), process({"python3", "-c", "save(12)"})), "");
  EXPECT_EQ(shared(process({"/opt/bin/redis-server", "*:6379"}), process({"redis-server", "*:6380"})),
            "redis-server");
  EXPECT_EQ(shared(process({"java", "-Xmx4g", "-jar", "/srv/a.jar"}),
                   process({"java", "-Xmx8g", "-jar", "/srv/a.jar"})),
            "java -jar /srv/a.jar");
}

TEST(Workload, is_a_service_a_container_a_pod_or_a_job) {
  auto a = Arguments{"nginx: worker process"}, b = Arguments{"nginx: master process", "-g"};
  EXPECT_EQ(shared(process(a, "/system.slice/nginx.service"), process(b, "/system.slice/nginx.service")),
            "nginx.service");
  std::string id(64, 'a');
  EXPECT_EQ(shared(process(a, "/system.slice/docker-" + id + ".scope"),
                   process(b, "/system.slice/docker-" + id + ".scope")),
            "container aaaaaaaaaaaa");
  EXPECT_EQ(shared(process(a, "/slurm/uid_1000/job_42/step_0"), process(b, "/slurm/uid_1000/job_42/step_1")),
            "SLURM job 42");
  EXPECT_EQ(shared(process(a, "/slurm/uid_1000/job_42/step_0"), process(b, "/slurm/uid_1000/job_43/step_0")),
            "");
}

TEST(Workload, is_not_a_place_where_one_thing_follows_another) {
  for (std::string place : {"/oomcast-run-17", "/train", "/user.slice/user-1000.slice/session-3.scope",
                            "/user.slice/user-1000.slice/user@1000.service",
                            "/system.slice/run-r12ab.service", "/system.slice/system.slice", "/"})
    EXPECT_EQ(shared(process({"a"}, place), process({"b"}, place)), "") << place;
}

}  // namespace
}  // namespace oomcast
