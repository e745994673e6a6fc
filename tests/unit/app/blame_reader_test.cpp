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

#include "app/blame_protocol.h"
#include "app/file_message.h"
#include "base/clock.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using namespace blame_protocol;

constexpr std::uint32_t kAskedPid = 7, kOtherPid = 8;

void say(const BlameReply& reply) {
  if (send(STDOUT_FILENO, &reply, sizeof(reply), MSG_NOSIGNAL) < 0) _exit(1);
}

// A reader in the hands of a tenant: it answers once for a process that nobody asked about, and twice for the
// one that was asked about.
int be_a_tenants_reader() {
  std::array<std::byte, 4096> request{};
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  while (recv(STDOUT_FILENO, request.data(), request.size(), 0) > 0) {
    std::array<std::byte, sizeof(BlameReply) + sizeof(AllocatorPlaces)> found{};
    BlameReply reply{kAllocator, kOtherPid, 0};
    std::memcpy(found.data(), &reply, sizeof(reply));
    if (send_with_file(STDOUT_FILENO, found, file.get()) < 0) _exit(1);
    say({kNoAllocator, kAskedPid, 0});
    say({kNoAllocator, kAskedPid, 0});
    say({kDone, 0, 0});
  }
  return 0;
}

TEST(BlameReader, takes_one_answer_for_a_process_that_it_asked_about_and_none_for_another) {
  std::vector<std::uint32_t> told;
  BlameReader::Events events;
  events.on_allocator = [&](std::uint32_t pid, const Result<Allocator>&) { told.push_back(pid); };
  BlameReader reader("", {}, GiB(1), std::move(events), be_a_tenants_reader);
  ASSERT_TRUE(reader.start({}));
  reader.find_allocator(kAskedPid);
  MonoTime begin = mono_now();
  while (!reader.idle() && !reader.lost() && mono_now() - begin < 20s) {
    reader.advance(mono_now());
    std::this_thread::sleep_for(5ms);
  }
  ASSERT_FALSE(reader.lost());
  EXPECT_TRUE(reader.idle());
  EXPECT_EQ(told, std::vector<std::uint32_t>{kAskedPid});
}

}  // namespace
}  // namespace oomcast
