// A machine of many cgroups, simulated: what its days take in a store, and how long a report on it takes to load.
// Prints `NAME VALUE` per line. Arguments: DIRECTORY HOURS CGROUPS BUSY%
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "store/open.h"
#include "store/retention.h"
#include "store/schema.h"
#include "store/sieve.h"
#include "store/writer.h"

using namespace oomcast;

namespace {

double cpu_s() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  auto s = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return s(use.ru_utime) + s(use.ru_stime);
}

std::int64_t size_of(const std::string& path) {
  struct stat what {};
  return stat(path.c_str(), &what) == 0 ? what.st_size : 0;
}

// Not ru_maxrss, which begins with that of the process that forked this one.
double peak_rss() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) * 1024;
  return 0;
}

void show(const char* name, double value) {
  std::printf("%s %.6g\n", name, value);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  std::string dir = argv[1], path = dir + "/" + kStoreFile;
  const int seconds = std::atoi(argv[2]) * 3600, cgroups = std::atoi(argv[3]), busy = std::atoi(argv[4]);
  constexpr Nanos zero = std::chrono::hours(24 * 365 * 50);
  RunInfo info{"bench", "6.1", "whole machine", Hierarchy::v2, std::chrono::seconds(1), zero, zero,
               std::chrono::milliseconds(10), std::nullopt, 0, "bench"};
  StoreOpening opened = open_store(dir);
  if (!opened.db) return std::fprintf(stderr, "%s\n", opened.why.c_str()), 1;
  sqlite3* db = opened.db.get();
  std::int64_t run = 0;
  add_run(db, info, zero.count(), run);
  StoreLimits limits;
  Tables tables(db, run, info, false);
  Retention retention(db, path, limits);
  std::uint64_t rows = 0, told = 0;
  Sieve sieve(info.interval, [&](StoreItem item) {
    ++rows;
    std::visit([&](const auto& i) { tables.write(i); }, item);
  });

  // Of each hundred, `busy` move each second, three times as many each ten seconds, the rest hardly.
  std::mt19937_64 random(1);
  std::vector<CgroupPtr> refs;
  std::vector<std::int64_t> level(static_cast<std::size_t>(cgroups), MiB(300).count);
  for (int i = 0; i < cgroups; ++i) {
    std::string name = "/kubepods/pod" + std::to_string(i / 4) + "/container" + std::to_string(i);
    refs.push_back(std::make_shared<CgroupRef>(
        CgroupRef{{Hierarchy::v2, static_cast<std::uint64_t>(i + 2)}, name, name_cgroup(name)}));
  }
  std::int64_t most = 0;
  double begun = cpu_s();
  std::uint64_t kills = 0;
  for (int s = 1; s <= seconds; ++s) {
    MonoTime now{std::chrono::seconds(s)};
    if (!execute(db, "BEGIN IMMEDIATE")) return 1;
    for (int i = 0; i < cgroups; ++i) {
      int kind = i % 100;
      bool moves = kind < busy || (kind < 4 * busy && (s + i) % 10 == 0) || (s + i) % 600 == 0;
      if (!moves) continue;
      auto& at = level[static_cast<std::size_t>(i)];
      at += static_cast<std::int64_t>(random() % MiB(8).count) - MiB(4).count;
      at = std::min(std::max(at, MiB(50).count), MiB(1000).count);
      Sample sample;
      sample.time = now;
      sample.cgroup = sample.limit_cgroup = refs[static_cast<std::size_t>(i)];
      sample.usage = Bytes{at + MiB(20).count};
      sample.limit = sample.headroom_limit = GiB(1);
      sample.stat.anon = Bytes{at};
      sample.stat.file = MiB(20);
      sample.stat.shmem = Bytes{};
      sample.stat.kernel = KiB(700);
      sample.stat.swap = Bytes{};
      sample.pinned = Bytes{at};
      sample.peak = GiB(1);
      ++told;
      if (i % 5 == 0) {
        ProcessSampleFact p;
        p.time = now;
        p.process.id = {static_cast<std::uint32_t>(1000 + i), 5};
        p.process.comm = "python3";
        p.process.cgroup = sample.cgroup;
        p.rss = p.anon = Bytes{at};
        sieve.pass(std::move(p));
      }
      sieve.pass(std::move(sample));
    }
    sieve.pass(TickFact{now});
    if (s % 3600 == 1800) {
      OomEvent line;
      const auto& ref = refs[random() % refs.size()];
      line.episode.serial = ++kills;
      line.episode.id = "kill-" + std::to_string(kills);
      line.episode.time = now;
      line.episode.limit_cgroup = ref;
      Victim v;
      v.tid = static_cast<std::uint32_t>(kills);
      v.process.id = {v.tid, 1};
      v.process.comm = "python3";
      v.process.cgroup = ref;
      line.episode.victims.push_back(v);
      sieve.pass(EpisodeFact{line});
    }
    if (auto failure = tables.take_failure()) return std::fprintf(stderr, "%s\n", failure->what.c_str()), 1;
    if (!execute(db, "COMMIT")) return 1;
    tables.on_commit();
    if (auto code = retention.keep_within((now.time_since_epoch() + zero).count()))
      return std::fprintf(stderr, "retention: %d\n", *code), 1;
    if (s % 60 == 0) most = std::max(most, size_of(path) + size_of(path + "-wal"));
  }
  show("told", double(told));
  show("rows_written", double(rows));
  show("cpu_percent", (cpu_s() - begun) / seconds * 100);
  show("most_bytes", double(most));
  show("end_bytes", double(size_of(path)));
  show("peak_rss_bytes", peak_rss());
  for (const char* id : {"", "kill-1"}) {
    auto from = std::chrono::steady_clock::now();
    auto store = Store::open(dir);
    auto episode = store->episode(*id ? std::optional<std::string>(id) : std::nullopt);
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    if (!episode) return std::fprintf(stderr, "%s\n", episode.error().message.c_str()), 1;
    show(*id ? "first_report_s" : "last_report_s", took);
    show(*id ? "first_report_samples" : "last_report_samples", double(episode->samples.size()));
  }
  auto from = std::chrono::steady_clock::now();
  auto store = Store::open(dir);
  auto all = store->episodes();
  show("list_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
  show("episodes", all ? double(all->size()) : -1);
  from = std::chrono::steady_clock::now();
  auto day = store->episode(std::nullopt, std::chrono::hours(24));
  show("day_report_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
  show("day_report_samples", day ? double(day->samples.size()) : -1);
  return 0;
}
