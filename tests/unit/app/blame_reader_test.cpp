#include "app/blame_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "app/file_message.h"
#include "base/clock.h"
#include "collect/files.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kAskedPid = 7, kOtherPid = 8;

// As in blame_reader.cpp.
struct TenantsReply {
  std::uint32_t said = 0, pid = 0;
  std::int64_t bytes = 0;
};
constexpr std::uint32_t kSaysDone = 0, kSaysAllocator = 6, kSaysNoAllocator = 7;
constexpr std::size_t kPlacesBytes =
    sizeof(Allocator::allocates) + sizeof(Allocator::free) + sizeof(OtherFunctions);

void say(const TenantsReply& reply) {
  if (send(STDOUT_FILENO, &reply, sizeof(reply), MSG_NOSIGNAL) < 0) _exit(1);
}

// A reader in the hands of a tenant: it answers once for a process that nobody asked about, and twice for the
// one that was asked about.
[[noreturn]] void be_a_tenants_reader() {
  std::array<std::byte, 4096> request{};
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  while (recv(STDOUT_FILENO, request.data(), request.size(), 0) > 0) {
    std::array<std::byte, sizeof(TenantsReply) + kPlacesBytes> found{};
    TenantsReply reply{kSaysAllocator, kOtherPid, 0};
    std::memcpy(found.data(), &reply, sizeof(reply));
    if (send_with_file(STDOUT_FILENO, found, file.get()) < 0) _exit(1);
    say({kSaysNoAllocator, kAskedPid, 0});
    say({kSaysNoAllocator, kAskedPid, 0});
    say({kSaysDone, 0, 0});
  }
  _exit(0);
}

// BlameReader executes the program that it is in: here, the tests.
[[maybe_unused]] const bool kIsNoReader = [] {
  auto words = read_file_at(AT_FDCWD, "/proc/self/cmdline", 4096);
  if (words && words->find("--blame-reader") != std::string::npos) be_a_tenants_reader();
  return true;
}();

TEST(BlameReader, takes_one_answer_for_a_process_that_it_asked_about_and_none_for_another) {
  std::vector<std::uint32_t> told;
  BlameReader::Events events;
  events.on_allocator = [&](std::uint32_t pid, const Result<Allocator>&) { told.push_back(pid); };
  BlameReader reader("", "0", GiB(1), std::move(events));
  ASSERT_TRUE(reader.start({}));
  reader.find_allocator(kAskedPid);
  MonoTime begin = mono_now();
  while (!reader.idle() && !reader.lost() && mono_now() - begin < 20s) {
    reader.advance(mono_now());
    std::this_thread::sleep_for(5ms);
  }
  if (reader.lost()) GTEST_SKIP() << "this program does not run within 512 MiB of data, as with a sanitizer";
  EXPECT_TRUE(reader.idle());
  EXPECT_EQ(told, std::vector<std::uint32_t>{kAskedPid});
}

}  // namespace
}  // namespace oomcast
