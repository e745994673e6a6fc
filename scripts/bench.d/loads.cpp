#include "loads.h"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace {

constexpr std::size_t page_bytes = 4096;

std::uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t cpu_ns() {
  std::uint64_t sum = 0;
  for (auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    for (const timeval& t : {use.ru_utime, use.ru_stime})
      sum += static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
             static_cast<std::uint64_t>(t.tv_usec) * 1'000u;
  }
  return sum;
}

// Each load does a few hundred microseconds' work and returns how many iterations that was.

std::uint64_t fault() {
  constexpr std::size_t pages = 1024;
  void* area = mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) _exit(1);
  madvise(area, pages * page_bytes, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(area)[i * page_bytes] = 1;
  munmap(area, pages * page_bytes);
  return pages;
}

// Sizes as programs ask for them: mostly small, some of pages, a few above the mmap threshold.
std::uint64_t allocate() {
  struct Block {
    char* at = nullptr;
    std::size_t bytes = 0;
  };
  constexpr std::size_t live = 4096, steps = 2000;
  static std::vector<Block> blocks(live);
  static std::uint64_t state = 88172645463325252u;
  for (std::size_t i = 0; i < steps; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    Block& block = blocks[(state >> 20) % live];
    std::free(block.at);
    const std::uint64_t kind = state % 1000;
    const std::uint64_t spread = state >> 40;
    if (kind < 900)
      block.bytes = 16 + spread % 1008;
    else if (kind < 998)
      block.bytes = 1024 + spread % (31 * 1024);
    else
      block.bytes = 128 * 1024 + spread % (384 * 1024);
    block.at = static_cast<char*>(std::malloc(block.bytes));
    if (!block.at) _exit(1);
    for (std::size_t at = 0; at < block.bytes; at += page_bytes)
      static_cast<volatile char*>(block.at)[at] = 1;
  }
  return steps;
}

std::uint64_t fork_exit() {
  const pid_t child = fork();
  if (child < 0) _exit(1);
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return 1;
}

std::uint64_t fork_exec() {
  static std::array<char*, 2> argv{const_cast<char*>("/bin/true"), nullptr};
  pid_t child = -1;
  if (posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ)) _exit(1);
  waitpid(child, nullptr, 0);
  return 1;
}

std::uint64_t ask_pid() {
  for (int i = 0; i < 1000; ++i) syscall(SYS_getpid);
  return 1000;
}

// 20,000 system calls a second: each among 50 µs of other work.
std::uint64_t ask_pid_now_and_then() {
  for (int i = 0; i < 20; ++i) {
    syscall(SYS_getpid);
    for (const auto until = now_ns() + 50'000; now_ns() < until;) {
    }
  }
  return 20;
}

std::uint64_t sleep_on() {
  usleep(1000);
  return 1;
}

using Load = std::uint64_t (*)();
struct NamedLoad {
  std::string_view name;
  Load run;
};
constexpr NamedLoad loads[] = {{"fault", fault},    {"malloc", allocate}, {"fork", fork_exit},
                               {"exec", fork_exec}, {"getpid", ask_pid},  {"sparse", ask_pid_now_and_then},
                               {"idle", sleep_on}};

struct Request {
  std::uint32_t load;
  std::uint64_t duration_ns;
};

Slice run_slice(Load load, std::uint64_t duration_ns) {
  for (const auto warm_until = now_ns() + duration_ns / 20; now_ns() < warm_until;) load();
  Slice slice;
  const auto cpu_before = cpu_ns();
  const auto begin = now_ns();
  auto now = begin;
  while (now < begin + duration_ns) {
    slice.iterations += load();
    now = now_ns();
  }
  slice.wall_ns = now - begin;
  slice.cpu_ns = cpu_ns() - cpu_before;
  return slice;
}

[[noreturn]] void serve(int socket, const std::string& cgroup_procs, int cpu) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  if (!cgroup_procs.empty()) {
    const int file = open(cgroup_procs.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "0", 1) != 1) _exit(2);
    close(file);
  }
  const char realtime = settle_on(cpu);
  if (write(socket, &realtime, 1) != 1) _exit(1);
  Request request{};
  while (read(socket, &request, sizeof(request)) == sizeof(request)) {
    const Slice slice = run_slice(loads[request.load].run, request.duration_ns);
    if (write(socket, &slice, sizeof(slice)) != sizeof(slice)) break;
  }
  _exit(0);
}

}  // namespace

bool settle_on(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(cpu), &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  const sched_param priority{.sched_priority = 1};
  return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

std::optional<Slice> run_load(std::string_view load, std::uint64_t duration_ns) {
  for (const NamedLoad& known : loads)
    if (known.name == load) return run_slice(known.run, duration_ns);
  return std::nullopt;
}

LoadProcess::LoadProcess(const std::string& cgroup_procs, int cpu) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return;
  pid_ = fork();
  if (pid_ == 0) {
    close(pair[0]);
    serve(pair[1], cgroup_procs, cpu);
  }
  close(pair[1]);
  socket_ = pair[0];
  char realtime = 0;
  if (read(socket_, &realtime, 1) != 1) {
    close(socket_);
    socket_ = -1;
  }
  realtime_ = realtime;
}

LoadProcess::~LoadProcess() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

std::optional<Slice> LoadProcess::run(std::string_view load, std::uint64_t duration_ns) {
  for (std::uint32_t i = 0; i < std::size(loads); ++i) {
    if (loads[i].name != load) continue;
    const Request request{i, duration_ns};
    Slice slice;
    if (write(socket_, &request, sizeof(request)) != sizeof(request)) return std::nullopt;
    if (read(socket_, &slice, sizeof(slice)) != sizeof(slice)) return std::nullopt;
    return slice;
  }
  return std::nullopt;
}
