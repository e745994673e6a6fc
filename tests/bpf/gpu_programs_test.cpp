// The programs inside the NVIDIA driver: that this kernel takes them, although there is no driver to attach
// to.
#include <bpf/libbpf.h>
#include <gpu_pages.skel.h>
#include <gpu_xid.skel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

namespace oomcast {
namespace {

TEST(GpuPrograms, that_count_page_events_are_taken_by_the_verifier) {
  std::unique_ptr<gpu_pages_bpf, decltype(&gpu_pages_bpf__destroy)> programs(gpu_pages_bpf__open(),
                                                                             &gpu_pages_bpf__destroy);
  ASSERT_TRUE(programs);
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  EXPECT_EQ(gpu_pages_bpf__load(programs.get()), 0);
}

TEST(GpuPrograms, that_tell_of_xids_are_taken_by_the_verifier_and_attach_only_where_the_driver_has_them) {
  std::unique_ptr<gpu_xid_bpf, decltype(&gpu_xid_bpf__destroy)> programs(gpu_xid_bpf__open(),
                                                                         &gpu_xid_bpf__destroy);
  ASSERT_TRUE(programs);
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  ASSERT_EQ(gpu_xid_bpf__load(programs.get()), 0);
  if (access("/sys/module/nvidia", F_OK) == 0) GTEST_SKIP() << "there is a driver";
  EXPECT_EQ(bpf_program__attach(programs->progs.on_xid), nullptr);
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace oomcast
