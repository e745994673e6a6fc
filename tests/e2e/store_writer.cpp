// A store under load, to be killed: `store_writer write DIR FIRST` adds samples and kills, numbered from
// FIRST, and prints each kill's number when another connection can read it; `store_writer list DIR` prints
// the numbers that are there.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "store/store.h"
#include "store/writer.h"

using namespace oomcast;
using namespace std::chrono_literals;

namespace {

Nanos clock_of(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return std::chrono::seconds(t.tv_sec) + Nanos(t.tv_nsec);
}

int write(const std::string& dir, unsigned long number) {
  Nanos zero = clock_of(CLOCK_REALTIME) - clock_of(CLOCK_MONOTONIC);
  RunInfo info{"test", "test", "whole machine", Hierarchy::v2, 1s, zero, zero, 10ms, std::nullopt, 0, "boot"};
  auto writer = StoreWriter::keep(dir, info);
  if (!writer) return std::fprintf(stderr, "%s\n", writer.error().message.c_str()), 1;
  auto job = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 7}, "/job", name_cgroup("/job")});
  unsigned long told = number, first = number;
  for (unsigned long i = 0;; ++i) {
    MonoTime now(clock_of(CLOCK_MONOTONIC));
    Sample s;
    s.time = now;
    s.cgroup = job;
    s.usage = s.pinned = Bytes{MiB(1).count * static_cast<std::int64_t>(i % 1000)};
    (*writer)->add(s);
    (*writer)->add(TickFact{now});
    if (i % 10 == 0) {
      OomEvent line;
      line.episode.serial = ++number - first;
      line.episode.id = std::to_string(number);
      line.episode.time = now;
      line.episode.limit_cgroup = job;
      Victim v;
      v.tid = static_cast<std::uint32_t>(number);
      v.process.id = {v.tid, number};
      v.process.comm = "victim";
      line.episode.victims.push_back(v);
      (*writer)->add(EpisodeFact{line});
    }
    usleep(1000);
    if (i % 20 != 19) continue;
    for (const std::string& notice : (*writer)->take_notices()) std::fprintf(stderr, "%s\n", notice.c_str());
    auto store = Store::open(dir);
    while (store && told < number && store->episode(std::to_string(told + 1), 0s))
      std::printf("%lu\n", ++told);
    std::fflush(stdout);
  }
}

int list(const std::string& dir) {
  auto store = Store::open(dir);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().message.c_str()), 1;
  auto all = store->episodes();
  if (!all) return std::fprintf(stderr, "%s\n", all.error().message.c_str()), 1;
  for (const EpisodeSummary& e : *all) std::printf("%s\n", e.episode.id.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "write") return write(argv[2], std::strtoul(argv[3], nullptr, 10));
  if (argc == 3 && std::string(argv[1]) == "list") return list(argv[2]);
  return 2;
}
