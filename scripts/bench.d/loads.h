// The programs whose speed is measured, in a process of their own that is forked before anything is loaded,
// so that it is small, and that stays on one CPU.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What one slice of a load did. `cpu_ns` counts the load's children too.
struct Slice {
  std::uint64_t iterations = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;
};

/// Runs a load for about `duration_ns`, after a twentieth of it unmeasured. nullopt: no load of that name.
///   fault    map 4 MiB, touch each 4 KiB page, unmap; an iteration is one page
///   malloc   allocate, touch and free blocks of 16 B to 512 KiB; an iteration is one block
///   fork     fork, exit, wait
///   exec     fork, exec of the smallest program, wait
///   getpid   the cheapest system call; nothing of ours is on its way
///   idle     sleep
std::optional<Slice> run_load(std::string_view load, std::uint64_t duration_ns);
/// Stays on `cpu`, at real-time priority where that is allowed: then true.
bool settle_on(int cpu);

class LoadProcess {
 public:
  /// Forks the process, moves it into the cgroup whose cgroup.procs is given (none: stays), pins it to `cpu`
  /// and gives it SCHED_FIFO where that is allowed. Call it before there are threads.
  LoadProcess(const std::string& cgroup_procs, int cpu);
  LoadProcess(const LoadProcess&) = delete;
  LoadProcess& operator=(const LoadProcess&) = delete;
  ~LoadProcess();

  /// run_load() there; nullopt, too, if the process is gone.
  std::optional<Slice> run(std::string_view load, std::uint64_t duration_ns);

  bool realtime() const { return realtime_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  bool realtime_ = false;
};
