#include "app/cgroup_samples.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "fixture_tree.h"
#include "model/model_events.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

MonoTime at_ms(int ms) {
  return MonoTime(std::chrono::milliseconds(ms));
}

// /job with a limit, and /job/step in it.
struct CgroupSampling {
  FixtureTree tree;
  std::optional<CgroupFs> fs;
  std::optional<MachineModel> model;
  std::optional<CgroupSamples> samples;
  std::uint64_t job = 0, step = 0;

  explicit CgroupSampling(bool only_the_step = false) {
    tree.mount_v1();
    holds("job", 100, 1000);
    holds("job/step", 80, 1'000'000);
    fs.emplace(*CgroupFs::open(tree.roots()));
    job = fs->lookup("/job")->id.inode;
    step = fs->lookup("/job/step")->id.inode;
    MachineConfig config;
    config.hierarchy = Hierarchy::v1;
    config.scope.whole_machine = !only_the_step;
    if (only_the_step) config.scope.cgroups = {step};
    model.emplace(config);
    auto known = fs->list();
    for (const CgroupEntry& entry : known->cgroups) model->on_cgroup(entry);
    samples.emplace(*model, *fs, 64);
  }
  void holds(const std::string& path, int usage_mib, int limit_mib) {
    auto bytes = [](int mib) { return std::to_string(MiB(mib).count) + "\n"; };
    std::string dir = "sys/fs/cgroup/memory/" + path;
    tree.cgroup(dir, {{"memory.usage_in_bytes", bytes(usage_mib)},
                      {"memory.limit_in_bytes", bytes(limit_mib)},
                      {"memory.stat",
                       "total_rss " + bytes(usage_mib) + "total_active_file 0\ntotal_inactive_file 0\n"}});
  }
  // Usage in MiB of what was told since the last call, and the tightest limit with it, by path.
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> told() {
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> out;
    for (const ModelFact& fact : test::facts_of(*model))
      if (auto* s = std::get_if<Sample>(&fact); s && s->cgroup && s->usage)
        out[s->cgroup->path] = {s->usage->count >> 20, s->limit ? s->limit->count >> 20 : -1};
    return out;
  }
};
using Told = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

TEST(CgroupSamples, tells_of_all_at_first_and_then_of_what_moved) {
  CgroupSampling f;
  f.samples->sample_all(at_ms(0), false);
  EXPECT_EQ(f.told(), (Told{{"/job", {100, 1000}}, {"/job/step", {80, 1000}}}));
  f.samples->sample_all(at_ms(1000), false);
  EXPECT_EQ(f.told(), Told{});
  f.holds("job/step", 90, 1'000'000);
  f.samples->sample_all(at_ms(2000), false);
  EXPECT_EQ(f.told(), (Told{{"/job/step", {90, 1000}}}));
}

TEST(CgroupSamples, notices_a_limit_that_was_changed_while_nothing_moved) {
  CgroupSampling f;
  f.samples->sample_all(at_ms(0), false);
  f.told();
  f.holds("job", 100, 500);
  Told seen;
  for (int s = 1; s <= 11; ++s) {
    f.samples->sample_all(at_ms(1000 * s), false);
    seen.merge(f.told());
  }
  EXPECT_EQ(seen, (Told{{"/job", {100, 500}}, {"/job/step", {80, 500}}}));
}

TEST(CgroupSamples, knows_the_limit_above_what_is_in_scope) {
  CgroupSampling f(true);
  f.samples->sample(f.step, at_ms(0));
  EXPECT_EQ(f.told(), (Told{{"/job/step", {80, 1000}}}));
}

TEST(CgroupSamples, knows_what_swap_is_left_by_who_is_above_the_scope) {
  CgroupSampling f(true);
  MemInfo host;
  host.total = GiB(8);
  host.swap_total = host.swap_free = GiB(1);
  f.model->on_host(at_ms(0), host);
  auto limit = [&](int now_s) {
    f.samples->sample(f.step, at_ms(1000 * now_s));
    return *f.model->cgroups().find(f.step)->headroom_limit;
  };
  EXPECT_EQ(limit(1), MiB(1000) + GiB(1));
  for (std::string path : {"job", "job/step"})
    f.tree.cgroup("sys/fs/cgroup/memory/" + path,
                  {{"memory.memsw.usage_in_bytes", std::to_string(MiB(100).count) + "\n"},
                   {"memory.memsw.limit_in_bytes", std::to_string(MiB(1200).count) + "\n"},
                   {"memory.swappiness", "60\n"}});
  for (int s = 2; s < 13; ++s) f.samples->sample_all(at_ms(1000 * s), false);
  EXPECT_EQ(limit(20), MiB(1200));
  f.tree.write("sys/fs/cgroup/memory/job/step/memory.swappiness", "0\n");
  EXPECT_EQ(limit(21), MiB(1020)) << "the 20 MiB of it that are there stay there";
}

TEST(CgroupSamples, knows_what_is_held_below_the_same_limit_outside_of_the_scope) {
  CgroupSampling f(true);
  MemInfo host;
  host.total = GiB(8);
  host.swap_total = host.swap_free = Bytes{};
  f.model->on_host(at_ms(0), host);
  f.holds("job", 300, 1000);
  for (int s = 1; s < 3; ++s) f.samples->sample_all(at_ms(1000 * s), false);
  EXPECT_EQ(f.model->cgroups().find(f.step)->headroom_limit, MiB(780))
      << "220 MiB of the job's are not the step's";
  EXPECT_EQ(f.told(), (Told{{"/job/step", {80, 1000}}})) << "and that is nobody's sample";
}

TEST(CgroupSamples, believes_the_kernels_word_on_usage) {
  CgroupSampling f;
  f.samples->on_usage(f.step, MiB(85), at_ms(0), at_ms(0));
  EXPECT_EQ(f.told(), (Told{{"/job/step", {85, 1000}}}));
}

TEST(CgroupSamples, reads_the_statistics_once_for_what_the_kernel_tells_of_a_moment) {
  CgroupSampling f;
  auto anon = [&](int usage_mib, MonoTime when, MonoTime now) {
    f.samples->on_usage(f.step, MiB(usage_mib), when, now);
    auto facts = test::facts_of(*f.model);
    return std::get<Sample>(facts.at(0)).stat.anon;
  };
  EXPECT_EQ(anon(81, at_ms(10), at_ms(1000)), MiB(80));
  f.holds("job/step", 90, 1'000'000);
  EXPECT_EQ(anon(82, at_ms(500), at_ms(1003)), MiB(80)) << "a record that waited";
  EXPECT_EQ(anon(90, at_ms(1004), at_ms(1004)), MiB(90));
}

TEST(CgroupSamples, follows_for_a_moment_what_moved) {
  CgroupSampling f;
  f.samples->sample_all(at_ms(0), false);
  f.told();
  f.samples->mark_hot(f.step, at_ms(0));
  f.holds("job/step", 81, 1'000'000);
  f.samples->poll_hot(at_ms(50));
  EXPECT_EQ(f.told(), Told{}) << "a step that no tick tells of either";
  f.holds("job/step", 90, 1'000'000);
  f.samples->poll_hot(at_ms(100));
  EXPECT_EQ(f.told(), (Told{{"/job/step", {90, 1000}}}));
  EXPECT_TRUE(f.samples->any_hot());
  f.holds("job/step", 200, 1'000'000);
  f.samples->poll_hot(at_ms(200));
  EXPECT_EQ(f.told(), Told{});
  EXPECT_FALSE(f.samples->any_hot());
}

TEST(CgroupSamples, lives_with_a_cgroup_that_has_gone) {
  CgroupSampling f;
  f.samples->sample_all(at_ms(0), false);
  f.told();
  f.samples->mark_hot(f.step, at_ms(0));
  f.samples->forget({Hierarchy::v1, f.step});
  f.tree.remove("sys/fs/cgroup/memory/job/step");
  f.samples->poll_hot(at_ms(10));
  f.samples->sample_all(at_ms(1000), false);
  EXPECT_EQ(f.told(), Told{});
}

}  // namespace
}  // namespace oomcast
