// How much of a thread's stack comes with a page fault.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "collect/bpf_source_faults.h"

namespace oomcast {
namespace {

constexpr std::size_t kTouched = 16 << 20;
constexpr std::size_t kMostOfAStack = 24 * 1024;
constexpr std::size_t kStackPointer = 7;  // among a UserStack's registers

// New memory, whose faults tell where the thread was.
class NewMemory {
 public:
  NewMemory() : at_(mmap(nullptr, kTouched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~NewMemory() { munmap(at_, kTouched); }
  NewMemory(const NewMemory&) = delete;
  void touch() const { memset(at_, 1, kTouched); }
  bool has(std::uint64_t address) const { return address - reinterpret_cast<std::uint64_t>(at_) < kTouched; }

 private:
  void* at_;
};

// The process's own thread touches new memory in `work`.
std::vector<wire::Fault> faults_while(const std::function<void(const NewMemory&)>& work, std::string& why) {
  FaultOptions options;
  options.processes = {static_cast<std::uint32_t>(getpid())};
  options.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  NewMemory memory;
  std::vector<wire::Fault> out;
  auto source = FaultSource::open(options);
  Status begun = source ? (*source)->begin(mono_now()) : Status(source.error());
  if (!begun) {
    why = begun.error().message;
    return out;
  }
  work(memory);
  Status drained = (*source)->drain(
      [&](std::span<const std::byte> record) {
        auto decoded = wire::decode_fault(record, options.units);
        auto* fault = decoded ? std::get_if<wire::Fault>(&*decoded) : nullptr;
        if (fault && memory.has(fault->address)) out.push_back(std::move(*fault));
      },
      mono_now());
  if (!drained) why = drained.error().message;
  return out;
}

// Where the kernel put the number of its arguments: /proc/PID/stat, field 28.
std::uint64_t start_of_arguments() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 28; ++number) rest >> field;
  return std::stoull(field);
}

void expect_stacks_to_end_at(std::uint64_t end, const std::vector<wire::Fault>& faults) {
  ASSERT_FALSE(faults.empty());
  for (const auto& fault : faults) EXPECT_EQ(fault.registers[kStackPointer] + fault.stack.size(), end);
}

class FaultStacks : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
  }
  std::string why_;
};

TEST_F(FaultStacks, of_the_first_thread_end_where_its_arguments_begin) {
  auto faults = faults_while([](const NewMemory& memory) { memory.touch(); }, why_);
  if (!why_.empty()) GTEST_SKIP() << why_;
  expect_stacks_to_end_at(start_of_arguments(), faults);
}

TEST_F(FaultStacks, of_another_thread_end_at_what_the_c_library_knows_of_it) {
  pthread_t self{};
  auto faults = faults_while(
      [&](const NewMemory& memory) {
        std::thread([&] {
          self = pthread_self();
          memory.touch();
        }).join();
      },
      why_);
  if (!why_.empty()) GTEST_SKIP() << why_;
  expect_stacks_to_end_at(static_cast<std::uint64_t>(self), faults);
}

// Down to where nothing that is copied has its callers' frames.
[[gnu::noinline]] void touch_deep(const NewMemory& memory, int calls) {
  volatile char frame[1024];
  frame[0] = 1;
  if (calls > 0)
    touch_deep(memory, calls - 1);
  else
    memory.touch();
  frame[1] = frame[0];
}

TEST_F(FaultStacks, that_are_deeper_than_there_is_room_for_are_cut) {
  auto faults = faults_while([](const NewMemory& memory) { touch_deep(memory, 64); }, why_);
  if (!why_.empty()) GTEST_SKIP() << why_;
  ASSERT_FALSE(faults.empty());
  for (const auto& fault : faults) EXPECT_EQ(fault.stack.size(), kMostOfAStack);
}

// A fiber's, of which nobody says where it ends.
const NewMemory* to_touch;
void touch_in_fiber() {
  to_touch->touch();
}

TEST_F(FaultStacks, that_nobody_tells_the_end_of_are_copied_to_the_end_of_their_memory) {
  constexpr std::size_t kPages = 4;
  auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* all = mmap(nullptr, (kPages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(all, MAP_FAILED);
  char* end = static_cast<char*>(all) + kPages * page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  memset(all, 0, kPages * page);
  auto faults = faults_while(
      [&](const NewMemory& memory) {
        to_touch = &memory;
        ucontext_t here{}, fiber{};
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = all;
        fiber.uc_stack.ss_size = kPages * page;
        fiber.uc_link = &here;
        makecontext(&fiber, touch_in_fiber, 0);
        swapcontext(&here, &fiber);
      },
      why_);
  if (why_.empty()) expect_stacks_to_end_at(reinterpret_cast<std::uint64_t>(end), faults);
  munmap(all, (kPages + 1) * page);
  if (!why_.empty()) GTEST_SKIP() << why_;
}

TEST(FaultSource, does_not_begin_where_its_event_opens_and_never_fires) {
  FaultOptions options;
  options.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  options.page_faults = Events::that_never_fire;
  auto source = FaultSource::open(options);
  if (!source) GTEST_SKIP() << source.error().message;
  Status begun = (*source)->begin(mono_now());
  ASSERT_FALSE(begun);
  EXPECT_NE(begun.error().message.find("does not fire"), std::string::npos) << begun.error().message;
}

}  // namespace
}  // namespace oomcast
