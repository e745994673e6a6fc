// Attaches and detaches oomcast's kernel programs and runs slices of loads, as scripts/bench asks on stdin.
// One request a line, one JSON object a line in answer:
//   attach PIECES | detach | slice LOAD MICROSECONDS | count on|off | programs | own
// Ends with its input, and everything attached ends with it.
#include <sched.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

#include "loads.h"
#include "programs.h"

namespace {

struct Options {
  std::string cgroup_procs;
  int cpu = 0;
  bool programs = true;
  bool here = false;  // the loads in this process, for tools that start what they measure
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--loads-only") {
      options.programs = false;
    } else if (flag == "--here") {
      options.here = true;
    } else if (flag == "--cgroup-procs" && i + 1 < argc) {
      options.cgroup_procs = argv[++i];
    } else if (flag == "--cpu" && i + 1 < argc) {
      options.cpu = std::atoi(argv[++i]);
    } else {
      return std::nullopt;
    }
  }
  return options;
}

// The reader and this loop stay off the load's CPU where there is another.
void leave_cpu(int cpu) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) < 2) return;
  CPU_CLR(static_cast<std::size_t>(cpu), &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

void fail(const char* what) {
  std::printf("{\"error\":\"%s\"}\n", what);
}

void print(const std::optional<Slice>& slice) {
  if (!slice) return fail("no such load");
  std::printf("{\"iterations\":%llu,\"wall_ns\":%llu,\"cpu_ns\":%llu}\n",
              static_cast<unsigned long long>(slice->iterations),
              static_cast<unsigned long long>(slice->wall_ns),
              static_cast<unsigned long long>(slice->cpu_ns));
}

int serve_here(int cpu) {
  std::printf("{\"realtime\":%s}\n", settle_on(cpu) ? "true" : "false");
  std::fflush(stdout);
  std::string verb, load;
  for (std::uint64_t microseconds = 0; std::cin >> verb >> load >> microseconds;) {
    print(run_load(load, microseconds * 1000));
    std::fflush(stdout);
  }
  return 0;
}

void answer(const std::string& line, LoadProcess& loads, Programs& programs) {
  std::istringstream words(line);
  std::string verb, what;
  words >> verb >> what;
  if (verb == "attach" || verb == "detach") {
    const auto begin = std::chrono::steady_clock::now();
    bool done = true;
    if (verb == "attach")
      done = programs.attach(what);
    else
      programs.detach();
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    if (!done) return fail("cannot attach");
    std::printf("{\"took_ns\":%lld}\n", static_cast<long long>(took.count()));
  } else if (verb == "slice") {
    std::uint64_t microseconds = 0;
    words >> microseconds;
    print(loads.run(what, microseconds * 1000));
  } else if (verb == "count") {
    if (!programs.count_runs(what == "on")) return fail("the kernel does not count program runs");
    std::printf("{}\n");
  } else if (verb == "programs") {
    const char* separator = "";
    std::printf("{\"programs\":[");
    for (const ProgramCost& cost : programs.costs()) {
      std::printf("%s{\"name\":\"%s\",\"runs\":%llu,\"run_ns\":%llu}", separator, cost.name.c_str(),
                  static_cast<unsigned long long>(cost.runs), static_cast<unsigned long long>(cost.run_ns));
      separator = ",";
    }
    std::printf("]}\n");
  } else if (verb == "own") {
    std::printf("{\"cpu_ns\":%llu,\"records\":%llu,\"lost\":%llu}\n",
                static_cast<unsigned long long>(programs.reader_cpu_ns()),
                static_cast<unsigned long long>(programs.records()),
                static_cast<unsigned long long>(programs.lost()));
  } else {
    fail("no such request");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: bench_cost [--cgroup-procs FILE] [--cpu N] [--loads-only | --here]; see scripts/bench\n");
    return 2;
  }
  std::signal(SIGINT, SIG_IGN);  // scripts/bench ends this by closing its input
  if (options->here) return serve_here(options->cpu);
  LoadProcess loads(options->cgroup_procs, options->cpu);
  leave_cpu(options->cpu);
  Programs programs;
  if (options->programs && !programs.load()) return 3;
  std::printf("{\"realtime\":%s}\n", loads.realtime() ? "true" : "false");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    answer(line, loads, programs);
    std::fflush(stdout);
  }
  return 0;
}
