// Reading the NVIDIA driver's calls from this kernel: a file of a stand-in is enough, as it is the call that
// is read, whatever the file answers.
#include "collect/gpu_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.h"
#include "collect/tracepoint_ids.h"

namespace oomcast {
namespace {

constexpr unsigned long kUvmFree = 34;

struct StandIn {
  UniqueFd file;
  GpuSourceOptions options;

  StandIn() {
    std::string path = "/tmp/oomcast-uvm-XXXXXX";
    file.reset(mkstemp(path.data()));
    unlink(path.c_str());
    struct stat info {};
    fstat(file.get(), &info);
    // The kernel's own form of a device number.
    std::uint64_t device = static_cast<std::uint64_t>(major(info.st_dev)) << 20 | minor(info.st_dev);
    options.btf_path = Roots{}.kernel_types();
    options.version = GpuDriverVersion{535, 54, 3};
    options.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
    options.test_files = {{device, info.st_ino, wire::GpuCall::Device::uvm}};
  }
};

void expect_every_call_once(GpuSource& source, int fd) {
  auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Managed memory is mapped where its offset says.
  void* wish = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(munmap(wish, page), 0);
  auto address = reinterpret_cast<std::uintptr_t>(wish);
  std::array<std::uint64_t, 8> argument{0x7f0000000000};
  ASSERT_EQ(ioctl(fd, kUvmFree, argument.data()), -1);
  int failed_with = errno;
  ASSERT_EQ(mmap(wish, page, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, static_cast<off_t>(address)),
            wish);
  ASSERT_EQ(munmap(wish, page), 0);

  std::vector<wire::GpuCall> calls;
  EXPECT_FALSE(source.drain([&](const wire::GpuCall& call) { calls.push_back(call); }, 100));
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].call, wire::GpuCall::Call::ioctl);
  EXPECT_EQ(calls[0].command, kUvmFree);
  EXPECT_EQ(calls[0].result, -failed_with);
  EXPECT_EQ(calls[0].task.id.tgid, static_cast<std::uint32_t>(getpid()));
  ASSERT_GE(calls[0].head.size(), sizeof(argument[0]));
  EXPECT_EQ(std::memcmp(calls[0].head.data(), argument.data(), sizeof(argument[0])), 0);
  EXPECT_EQ(calls[1].call, wire::GpuCall::Call::mmap);
  EXPECT_EQ(calls[1].address, address);
  EXPECT_EQ(calls[1].length, page);
  EXPECT_EQ(calls[2].call, wire::GpuCall::Call::munmap);
  EXPECT_EQ(calls[2].address, address);
  EXPECT_EQ(source.lost(), 0u);
}

TEST(GpuSource, reads_calls_by_the_cheapest_hook_this_kernel_has) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  StandIn driver;
  driver.options.tracepoint_ids = read_tracepoint_ids(Roots{}, GpuSource::tracepoints());
  auto source = GpuSource::load(driver.options);
  ASSERT_TRUE(source) << source.error().message;
  if (driver.options.tracepoint_ids.size() == 3) {
    EXPECT_NE((*source)->hook(), "sys_exit");
  }
  expect_every_call_once(**source, driver.file.get());
}

TEST(GpuSource, reads_the_same_calls_where_tracefs_is_closed) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  StandIn driver;
  auto source = GpuSource::load(driver.options);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_NE((*source)->hook(), "tracepoints");
  expect_every_call_once(**source, driver.file.get());
}

TEST(GpuSource, is_left_by_a_reader_although_calls_go_on) {
  if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  StandIn driver;
  auto source = GpuSource::load(driver.options);
  ASSERT_TRUE(source) << source.error().message;
  std::array<std::uint64_t, 8> argument{0x7f0000000000};
  auto call = [&] { return ioctl(driver.file.get(), kUvmFree, argument.data()); };
  call();
  int seen = 0;
  auto one_more = [&](const wire::GpuCall&) {
    ++seen;
    if (seen < 1000) call();
  };
  EXPECT_TRUE((*source)->drain(one_more, 100));
  EXPECT_EQ(seen, 100);
}

TEST(TracepointIds, of_the_calls_differ_and_one_that_is_not_there_has_none) {
  if (geteuid() != 0) GTEST_SKIP() << "tracefs is root's";
  auto ids = read_tracepoint_ids(Roots{}, {"syscalls/sys_exit_ioctl", "syscalls/sys_exit_mmap", "no/such"});
  if (ids.empty()) GTEST_SKIP() << "tracefs cannot be read here";
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_NE(ids["syscalls/sys_exit_ioctl"], ids["syscalls/sys_exit_mmap"]);
}

}  // namespace
}  // namespace oomcast
