#include "app/snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "app/analysis.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

// The root, /job with a limit, and /job/step in it, on a host of 8 GiB.
struct SnapshotMachine {
  MachineModel model{[] {
    MachineConfig config;
    config.hierarchy = Hierarchy::v1;
    return config;
  }()};
  ForecastRegistry forecasts{{}};

  SnapshotMachine() {
    add(1, std::nullopt, "/");
    add(2, 1, "/job");
    add(3, 2, "/job/step");
    MemInfo host;
    host.total = GiB(8);
    host.free = GiB(2);
    host.available = GiB(3);
    host.active_file = host.inactive_file = host.slab_reclaimable = MiB(512);
    host.swap_total = host.swap_free = Bytes{};
    model.on_host(MonoTime(1s), host);
    read(2, MiB(600), MiB(1000));
    read(3, MiB(500), std::nullopt);
  }
  void add(std::uint64_t inode, std::optional<std::uint64_t> parent, const std::string& path) {
    CgroupEntry entry;
    entry.id = {Hierarchy::v1, inode};
    entry.parent = parent ? std::optional(CgroupId{Hierarchy::v1, *parent}) : std::nullopt;
    entry.path = path;
    model.on_cgroup(entry);
  }
  void read(std::uint64_t inode, Bytes usage, std::optional<Bytes> limit) {
    CgroupReading reading;
    reading.time = MonoTime(1s);
    reading.usage = usage;
    reading.limit = limit;
    MemoryStat stat;
    stat.anon = usage;
    stat.active_file = stat.inactive_file = stat.shmem = Bytes{};
    reading.stat = stat;
    model.on_reading(inode, reading, true);
  }
};

template <typename T>
const T* find(const std::vector<T>& all, const std::string& path) {
  auto at = std::ranges::find_if(all, [&](const T& x) { return x.cgroup && x.cgroup->path == path; });
  return at == all.end() ? nullptr : &*at;
}

TEST(AlertInputs, have_each_cgroup_with_the_limit_it_runs_against_and_the_host) {
  SnapshotMachine m;
  auto all = alert_inputs(m.model, m.forecasts, {});
  ASSERT_EQ(all.size(), 3u);
  const AlertInput *job = find(all, "/job"), *step = find(all, "/job/step");
  ASSERT_TRUE(job && step);
  EXPECT_EQ(job->level, MiB(600));
  EXPECT_EQ(step->limit_cgroup->path, "/job");
  EXPECT_FALSE(step->forecast) << "nothing was forecast yet";
  const AlertInput& host = all.back();
  EXPECT_TRUE(host.host);
  EXPECT_EQ(host.limit, GiB(8));
  EXPECT_EQ(host.cgroup->path, "/") << "what stands for it elsewhere";
}

TEST(AlertInputs, of_a_scope_have_what_is_in_it_and_no_host) {
  SnapshotMachine m;
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.cgroups = {3};
  m.model.set_scope(scope);
  auto all = alert_inputs(m.model, m.forecasts, {});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].cgroup->path, "/job/step");
}

TEST(OverviewRows, begin_with_the_host_and_leave_the_root_out) {
  SnapshotMachine m;
  auto rows = overview_rows(m.model, m.forecasts);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].cgroup, nullptr);
  EXPECT_EQ(rows[0].usage, GiB(6));
  ASSERT_TRUE(find(rows, "/job/step"));
  EXPECT_EQ(find(rows, "/job/step")->limit_cgroup->path, "/job");
  EXPECT_EQ(find(rows, "/job/step")->limit, MiB(1000));
}

TEST(OverviewRows, have_no_cgroup_that_was_removed) {
  SnapshotMachine m;
  m.model.cgroups().remove(3, MonoTime(2s));
  EXPECT_EQ(overview_rows(m.model, m.forecasts).size(), 2u);
}

TEST(GrowingCgroups, are_those_with_the_soonest_deadline_and_then_those_that_grow_fastest) {
  SnapshotMachine f;
  const double kRates[] = {0, 9, 2, 3, 1};  // MiB/s, of inodes 10 and more; the third has a limit near by
  for (std::uint64_t i = 0; i < 5; ++i) {
    f.add(10 + i, 1, "/grows-" + std::to_string(i));
    for (int s = 1; s <= 20; ++s) {
      Sample sample;
      sample.time = MonoTime(std::chrono::seconds(s));
      sample.cgroup = f.model.cgroups().ref(10 + i);
      sample.usage = sample.pinned = MiB(10) + Bytes{static_cast<std::int64_t>(kRates[i] * s * (1 << 20))};
      sample.limit = sample.headroom_limit = i == 2 ? MiB(120) : GiB(100);
      Fact fact = sample;
      analyse(f.forecasts, fact, [](const Fact&) {});
    }
  }
  EXPECT_EQ(growing_cgroups(f.model, f.forecasts, 1), (std::unordered_set<std::uint64_t>{12}));
  EXPECT_EQ(growing_cgroups(f.model, f.forecasts, 2), (std::unordered_set<std::uint64_t>{12, 11}));
  EXPECT_FALSE(growing_cgroups(f.model, f.forecasts, 9).contains(10)) << "does not grow";
}

}  // namespace
}  // namespace oomcast
