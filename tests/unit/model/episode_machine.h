// A machine on which kills happen, for tests of the episodes that are made of them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "model/episodes.h"
#include "model/machine.h"

namespace oomcast::test {

// A machine with /job (10) and its child /job/step (11), and /c0, /c1 … (100, 101 …).
struct Machine {
  explicit Machine(EpisodeSources sources = {}) : builder(sources, tasks, cgroups) {
    cgroups.add(1, std::nullopt, "/");
    cgroups.add_child(10, 1, "job");
    cgroups.add_child(11, 10, "step");
  }

  // In /job/step, by the limit of /job.
  static std::vector<wire::Memcg> chain_of_job(bool group = false) {
    return {level(11, MiB(99), std::nullopt, true), level(10, MiB(100), MiB(100), true, group),
            level(1, GiB(2), std::nullopt)};
  }
  void kill(MonoTime when, const wire::Task& victim, const wire::Task& trigger,
            std::vector<wire::Memcg> chain) {
    builder.on_kernel_kill(kernel_kill(when, victim, trigger));
    builder.on_mark(mark(when + Nanos(20'000), victim, trigger, std::move(chain)));
  }
  void kill(MonoTime when, const wire::Task& victim) {
    kill(when, victim, task(500, 11, "dd"), chain_of_job());
  }
  // All that makes it complete.
  void confirm(MonoTime when, const wire::Task& victim) {
    builder.on_exit(death(when, victim));
    builder.on_reaper(reaped(when, victim.tid));
    builder.on_dump(dump({line(victim.tid)}, "/job"), when);
  }
  std::optional<Episode> only_episode(MonoTime now) {
    auto closed = builder.take_closed(now);
    EXPECT_EQ(closed.size(), 1u);
    if (closed.size() != 1) return std::nullopt;
    return std::move(closed[0]);
  }

  CgroupTree cgroups{Hierarchy::v1};
  TaskTable tasks;
  EpisodeBuilder builder;
};

}  // namespace oomcast::test
