#include "blame/unwinder.h"

#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

namespace oomcast {
namespace {

/// A thread's registers in DWARF's order and its stack, as the kernel program copies them.
struct Copy {
  std::array<std::uint64_t, 17> registers{};
  std::vector<std::byte> stack;
  std::vector<std::uint64_t> callers;  // by glibc's own unwinder
};
Copy copy;

// By the C library's word for where the stack ends.
std::uint64_t end_of_stack() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  std::size_t size = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<std::uint64_t>(begin) + size;
}

void take(const mcontext_t& at) {
  constexpr int kOrder[17] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                              REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (std::size_t i = 0; i < 17; ++i) copy.registers[i] = static_cast<std::uint64_t>(at.gregs[kOrder[i]]);
  std::uint64_t top = copy.registers[7];
  copy.stack.resize(end_of_stack() - top);
  // By the kernel: AddressSanitizer has poisoned what lies between variables.
  iovec to{copy.stack.data(), copy.stack.size()}, from{reinterpret_cast<void*>(top), copy.stack.size()};
  copy.stack.resize(static_cast<std::size_t>(
      std::max(0L, syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 0UL))));
  std::array<void*, 64> frames{};
  int count = backtrace(frames.data(), frames.size());
  copy.callers.clear();
  for (int i = 0; i < count; ++i) copy.callers.push_back(reinterpret_cast<std::uint64_t>(frames[i]));
}

void on_signal(int, siginfo_t*, void* context) {
  take(static_cast<ucontext_t*>(context)->uc_mcontext);
}

Unwinder::Frames unwound() {
  ProcessMemory memory(Roots{}, static_cast<std::uint32_t>(getpid()));
  auto maps = *memory.maps();
  MappedFiles files;
  return Unwinder(memory, maps, files).unwind(copy.registers, copy.stack);
}

bool may_open() {
  ProcessMemory memory(Roots{}, static_cast<std::uint32_t>(getpid()));
  auto maps = *memory.maps();
  return std::ranges::any_of(maps, [&](const Mapping& m) { return m.inode && memory.open_file(m); });
}

// The callers of what was interrupted are as glibc's unwinder has them, which stands behind the handler's own
// frames and the signal's; there they are behind the call, here within it.
void expect_callers() {
  auto frames = unwound();
  EXPECT_TRUE(frames.complete);
  ASSERT_GE(frames.addresses.size(), 3u);
  EXPECT_EQ(frames.addresses[0], copy.registers[16]);
  auto first = std::ranges::find(copy.callers, copy.registers[16]);
  ASSERT_NE(first, copy.callers.end());
  std::vector<std::uint64_t> expected(first + 1, copy.callers.end());
  for (std::uint64_t& at : expected) --at;
  std::vector<std::uint64_t> got(frames.addresses.begin() + 1, frames.addresses.end());
  got.resize(std::min(got.size(), expected.size()));
  EXPECT_EQ(got, expected);
}

struct Handled {
  Handled() {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR2, &action, nullptr);
  }
  ~Handled() { std::signal(SIGUSR2, SIG_DFL); }
};

TEST(Unwinder, finds_the_callers_that_glibc_finds) {
  if (!may_open()) GTEST_SKIP() << "what is mapped may not be opened: needs root";
  Handled handled;
  raise(SIGUSR2);
  expect_callers();
}

int compare(const void* a, const void* b) {
  static bool once = false;
  if (!std::exchange(once, true)) raise(SIGUSR2);
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

TEST(Unwinder, passes_through_a_library_without_frame_pointers) {
  if (!may_open()) GTEST_SKIP() << "what is mapped may not be opened: needs root";
  Handled handled;
  std::array<int, 64> numbers{};
  for (int i = 0; i < 64; ++i) numbers[static_cast<std::size_t>(i)] = 64 - i;
  std::qsort(numbers.data(), numbers.size(), sizeof(int), compare);
  expect_callers();
}

void* in_thread(void*) {
  raise(SIGUSR2);
  return nullptr;
}

TEST(Unwinder, ends_where_a_thread_begins) {
  if (!may_open()) GTEST_SKIP() << "what is mapped may not be opened: needs root";
  Handled handled;
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, in_thread, nullptr), 0);
  pthread_join(thread, nullptr);
  expect_callers();
}

// The handler's own frame leads through the signal's to what was interrupted, whose address is not behind a
// call.
void in_handler(int, siginfo_t*, void*) {
  ucontext_t here;
  getcontext(&here);
  take(here.uc_mcontext);
}

TEST(Unwinder, passes_through_a_signal_handler) {
  if (!may_open()) GTEST_SKIP() << "what is mapped may not be opened: needs root";
  struct sigaction action {};
  action.sa_sigaction = in_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR2, &action, nullptr);
  raise(SIGUSR2);
  std::signal(SIGUSR2, SIG_DFL);
  auto frames = unwound();
  EXPECT_TRUE(frames.complete);
  EXPECT_GE(frames.addresses.size() + 3, copy.callers.size());
}

}  // namespace
}  // namespace oomcast
