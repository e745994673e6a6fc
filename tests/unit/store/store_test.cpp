// What a store gives back.
#include "store/store.h"

#include <gtest/gtest.h>

#include "store/kept_store.h"

namespace oomcast {
namespace {

using namespace test;

TEST_F(StoreTest, gives_back_what_the_kernels_report_says_of_the_machine) {
  auto writer = keep();
  OomEvent told = kill(1, 1000, 77, job_);
  told.episode.machine = two_zones();
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  auto machine = last().told.episode.machine;
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->cpuset, "batch");
  EXPECT_EQ(machine->mems_allowed, "1");
  EXPECT_EQ(machine->nodemask, std::nullopt);
  EXPECT_EQ(machine->ram, GiB(2));
  EXPECT_EQ(machine->free, MiB(40));
  EXPECT_EQ(machine->swap_total, Bytes{});
  EXPECT_EQ(machine->swap_free, std::nullopt) << "unknown is not 0";
  ASSERT_EQ(machine->zones.size(), 2u);
  EXPECT_EQ(machine->zones[0].node, std::nullopt);
  EXPECT_EQ(machine->zones[0].present, MiB(16));
  EXPECT_EQ(machine->zones[1].node, 1u);
  EXPECT_EQ(machine->zones[1].zone, "Normal");
  EXPECT_EQ(machine->zones[1].high, MiB(60));
  EXPECT_EQ(machine->zones[1].managed, std::nullopt);
  ASSERT_EQ(machine->slabs.size(), 1u);
  EXPECT_EQ(machine->slabs[0].name, "dentry");
  EXPECT_EQ(machine->slabs[0].total, MiB(710));
}

TEST_F(StoreTest, gives_back_an_episode_as_it_was_told) {
  auto writer = keep();
  OomEvent told = kill(1, 1000, 77, job_);
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  StoredEpisode stored = last();
  const Episode &a = told.episode, &b = stored.told.episode;
  EXPECT_TRUE(stored.complete);
  EXPECT_EQ(stored.source, EpisodeSource::live);
  EXPECT_EQ(stored.run.boot_id, "boot-1");
  EXPECT_EQ(b.id, a.id);
  EXPECT_EQ(b.time, a.time);
  EXPECT_EQ(b.scope, a.scope);
  EXPECT_EQ(b.limit_cgroup->path, "/job");
  EXPECT_EQ(b.limit, a.limit);
  EXPECT_EQ(b.trigger->comm, "asks");
  EXPECT_EQ(b.request.order, 0);
  EXPECT_EQ(b.request.gfp, a.request.gfp);
  EXPECT_EQ(b.group_kill, false);
  ASSERT_EQ(b.victims.size(), 1u);
  EXPECT_EQ(b.victims[0].process.id, a.victims[0].process.id);
  EXPECT_EQ(b.victims[0].process.cmdline, a.victims[0].process.cmdline);
  EXPECT_EQ(b.victims[0].process.cgroup->path, "/job");
  EXPECT_EQ(b.victims[0].anon, MiB(500));
  EXPECT_EQ(b.victims[0].file, std::nullopt) << "unknown is not 0";
  EXPECT_EQ(b.victims[0].oom_score_adj, -5);
  EXPECT_EQ(b.victims[0].killed, true);
  EXPECT_EQ(b.victims[0].freed_after, Seconds(0.25));
  EXPECT_EQ(b.victims[0].stack, a.victims[0].stack);
  ASSERT_EQ(b.also_killed.size(), 1u);
  EXPECT_EQ(b.also_killed[0].comm, "shares");
  ASSERT_EQ(b.grew_most.size(), 1u);
  EXPECT_EQ(b.grew_most[0].grew, MiB(400));
  ASSERT_EQ(b.grew_from.sites.size(), 2u);
  EXPECT_EQ(b.grew_from.sites[0].process.id, a.victims[0].process.id);
  EXPECT_EQ(b.grew_from.sites[0].code, a.grew_from.sites[0].code);
  EXPECT_EQ(b.grew_from.sites[0].grown, MiB(30));
  EXPECT_EQ(b.grew_from.sites[0].of, MiB(40));
  EXPECT_EQ(b.grew_from.sites[0].watched, Seconds(4));
  EXPECT_EQ(b.grew_from.sites[0].from, a.grew_from.sites[0].from);
  EXPECT_EQ(b.grew_from.sites[0].to, a.grew_from.sites[0].to);
  EXPECT_EQ(b.grew_from.sites[1].code, a.grew_from.sites[1].code);
  const GrowthEvidence &kept = b.grew_from.sites[0].evidence, &touched = b.grew_from.sites[1].evidence;
  EXPECT_EQ(kept.held_by, "cache in __main__");
  EXPECT_EQ(kept.sure, MiB(29));
  EXPECT_EQ(kept.kept, MiB(29));
  EXPECT_EQ(kept.kept_error, MiB(1));
  EXPECT_EQ(kept.touched, MiB(70));
  EXPECT_TRUE(kept.adds);
  EXPECT_EQ(b.grew_from.sites[0].samples, 200u);
  EXPECT_EQ(b.grew_from.sites[0].lost, 3u);
  EXPECT_EQ(b.grew_from.sites[0].faults_watched, 0.75);
  EXPECT_EQ(touched.kept, std::nullopt) << "unknown is not 0";
  EXPECT_EQ(touched.touched, std::nullopt);
  EXPECT_EQ(touched.kept_unknown, "no breakpoints");
  EXPECT_EQ(touched.kind(), GrowthEvidence::Kind::touched);
  EXPECT_EQ(b.grew_from.sites[1].samples, std::nullopt);
  EXPECT_TRUE(touched.held_by.empty());
  ASSERT_EQ(b.grew_from.holders.size(), 1u);
  const GrownHolder &holder = b.grew_from.holders[0], &was = a.grew_from.holders[0];
  EXPECT_EQ(holder.process.id, was.process.id);
  EXPECT_EQ(std::tie(holder.path, holder.type, holder.added_type, holder.containers, holder.length),
            std::tie(was.path, was.type, was.added_type, was.containers, was.length));
  EXPECT_EQ(std::tie(holder.added, holder.least, holder.of, holder.watched, holder.from, holder.to),
            std::tie(was.added, was.least, was.of, was.watched, was.from, was.to));
  EXPECT_EQ(std::tie(holder.adder, holder.adder_seen, holder.adds_seen),
            std::tie(was.adder, was.adder_seen, was.adds_seen));
  ASSERT_EQ(b.chain.size(), 2u);
  EXPECT_EQ(b.chain[1].limit, std::nullopt);
  EXPECT_EQ(b.checks.mark_victim, 1u);
  EXPECT_EQ(b.checks.vmstat, std::nullopt);
  ASSERT_TRUE(stored.told.forecast_before);
  const Forecast& f = stored.told.forecast_before->forecast;
  EXPECT_EQ(stored.told.forecast_before->time, at_s(997));
  EXPECT_EQ(stored.told.forecast_before->limit_cgroup->path, "/job");
  EXPECT_EQ(f.verdict, Verdict::leak);
  EXPECT_EQ(f.growth->low.value, 90);
  EXPECT_EQ(f.growth->samples, 42u);
  EXPECT_EQ(f.eta, Seconds(3));
  EXPECT_EQ(f.eta_high, std::nullopt);
  EXPECT_EQ(f.why, "it grew");
  EXPECT_EQ(f.evidence.floor, MiB(7));
  EXPECT_EQ(f.evidence.peaks, 3u);
  ASSERT_TRUE(f.evidence.near_limit && f.evidence.thrashing);
  EXPECT_EQ(f.evidence.near_limit->left, MiB(2));
  EXPECT_EQ(f.evidence.near_limit->moved, MiB(9));
  EXPECT_EQ(f.evidence.near_limit->within, Seconds(8));
  EXPECT_EQ(f.evidence.thrashing->since, at_s(985));
  EXPECT_EQ(f.evidence.thrashing->waiting, 1.5);
  EXPECT_EQ(f.evidence.thrashing->reclaimed.value, 4096);
  EXPECT_EQ(stored.told.first_forecast, at_s(970));
}

TEST_F(StoreTest, gives_what_led_to_an_episode_and_nothing_of_others) {
  auto writer = keep();
  for (int s = 0; s < 100; ++s) {
    writer->add(sample(job_, 900 + s, MiB(100 + s)));
    writer->add(sample(worker_, 900 + s, MiB(50 + s)));
    writer->add(sample(other_, 900 + s, MiB(10 + s)));
    ProcessSampleFact p;
    p.time = at_s(900 + s);
    p.process = process(77, "python3", worker_);
    p.rss = p.anon = MiB(40 + s);
    writer->add(p);
    writer->add(TickFact{at_s(900 + s)});
  }
  writer->add(ReclaimFact{at_s(999), job_, 5, Seconds(0.5), MiB(3)});
  writer->add(PressureFact{at_s(999), nullptr, {PressureLine{1, 2, 3, 4}, std::nullopt}});
  writer->add(UserKillFact{at_s(999), process(5, "other", job_), process(6, "bash", other_), "earlyoom"});
  AlertFact alert;
  alert.time = at_s(998);
  alert.rule = "level>100M";
  alert.cgroup = job_;
  alert.message = "act";
  alert.actions.push_back({ActionRun::Kind::exec, "true", ActionRun::Result::running});
  writer->add(alert);
  alert.actions[0].result = ActionRun::Result::ok;
  alert.actions[0].exit_code = 0;
  writer->add(alert);
  writer->add(LostFact{at_s(500), "samples_ring_full", 3});
  writer->add(LostFact{at_s(600), "samples_ring_full", 4});
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  writer->add(ExitFact{at_s(1000.5), process(77, "python3", worker_)});
  ASSERT_TRUE(writer->finish());

  StoredEpisode e = last(60s);
  std::size_t of_job = 0, of_worker = 0;
  MonoTime before{};
  for (const Sample& s : e.samples) {
    EXPECT_GE(s.time, at_s(940));
    EXPECT_GE(s.time, before) << "oldest first";
    before = s.time;
    of_job += s.cgroup->path == "/job";
    of_worker += s.cgroup->path == "/job/worker";
  }
  EXPECT_EQ(of_job, 60u);
  EXPECT_EQ(of_worker, 60u);
  EXPECT_EQ(e.samples.size(), 120u);
  EXPECT_EQ(e.processes.size(), 60u);
  EXPECT_EQ(e.processes.back().process.comm, "python3");
  EXPECT_EQ(e.exits.size(), 1u);
  ASSERT_EQ(e.reclaim.size(), 1u);
  EXPECT_EQ(e.reclaim[0].stalls, 5u);
  ASSERT_EQ(e.pressure.size(), 1u);
  EXPECT_EQ(e.pressure[0].pressure.some->avg300, 3);
  EXPECT_FALSE(e.pressure[0].pressure.full);
  ASSERT_EQ(e.kills.size(), 1u);
  EXPECT_EQ(e.kills[0].sender.comm, "bash");
  EXPECT_EQ(e.kills[0].cause, "earlyoom");
  ASSERT_EQ(e.alerts.size(), 1u) << "told twice, it is one";
  ASSERT_EQ(e.alerts[0].actions.size(), 1u);
  EXPECT_EQ(e.alerts[0].actions[0].result, ActionRun::Result::ok);
  EXPECT_EQ(e.lost["samples_ring_full"], 7u);
}

TEST_F(StoreTest, says_how_many_cgroups_it_leaves_out_of_an_episode) {
  auto writer = keep();
  for (std::uint64_t i = 0; i < 100; ++i)
    writer->add(
        sample(group("/job/" + std::to_string(i), 1000 + i), 990, MiB(1 + static_cast<std::int64_t>(i))));
  writer->add(EpisodeFact{kill(1, 1000, 100, job_)});
  ASSERT_TRUE(writer->finish());
  StoredEpisode e = last();
  EXPECT_EQ(e.left_out.cgroups, 102u - 64u) << "100, the owner and the root, which had no samples";
  EXPECT_FALSE(e.left_out.more);
}

TEST_F(StoreTest, says_which_parts_of_an_episode_could_not_be_read) {
  auto writer = keep();
  for (int s = 0; s < 10; ++s) writer->add(sample(job_, 980 + s, MiB(100 + s)));
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  writer.reset();
  EXPECT_TRUE(last().unread.empty());
  damage("samples");
  damage("cgroups");
  StoredEpisode e = last();
  ASSERT_EQ(e.told.episode.victims.size(), 1u);
  EXPECT_TRUE(e.samples.empty());
  ASSERT_EQ(e.unread.size(), 2u);
  EXPECT_EQ(e.unread[0], "samples: database disk image is malformed");
  EXPECT_EQ(e.unread[1], "names, commands and forecasts: database disk image is malformed");
}

TEST_F(StoreTest, says_that_kills_are_missing_in_its_list) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  ask("DELETE FROM runs RETURNING 1");
  Store store = read();
  EXPECT_TRUE(store.episodes()->empty());
  EXPECT_EQ(store.take_unread(), (std::vector<std::string>{"kills: the run that saw them cannot be read"}));
  EXPECT_TRUE(store.take_unread().empty());
}

TEST_F(StoreTest, lists_kills_with_all_that_was_told_of_them_where_that_is_asked_for) {
  auto writer = keep();
  OomEvent told = kill(1, 1000, 77, job_);
  ASSERT_FALSE(told.episode.grew_from.sites.empty() || told.episode.chain.empty());
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  auto store = read();
  auto names = store.episodes(), all = store.episodes(EpisodeParts::all);
  ASSERT_TRUE(names && all);
  EXPECT_FALSE(names->at(0).forecast_before);
  const EpisodeSummary& whole = all->at(0);
  ASSERT_TRUE(whole.forecast_before);
  EXPECT_EQ(whole.forecast_before->time, told.forecast_before->time);
  EXPECT_EQ(whole.first_forecast, told.first_forecast);
  EXPECT_EQ(whole.episode.grew_from.sites.size(), told.episode.grew_from.sites.size());
  EXPECT_EQ(whole.episode.grew_most.size(), told.episode.grew_most.size());
  EXPECT_EQ(whole.episode.chain.size(), told.episode.chain.size());
}

TEST_F(StoreTest, finds_an_episode_by_the_beginning_of_its_id_and_names_near_ones) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  writer->add(EpisodeFact{kill(2, 2000, 780, other_)});
  ASSERT_TRUE(writer->finish());
  Store store = read();
  EXPECT_EQ(store.episode("2020-780")->told.episode.id, "2020-780");
  EXPECT_EQ(store.episode("2020-78")->told.episode.id, "2020-780");
  EXPECT_EQ(store.episode(std::nullopt)->told.episode.id, "2020-780") << "the last";
  auto none = store.episode("2020");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exit_code, 1);
  EXPECT_NE(none.error().message.find("2020-77"), std::string::npos) << none.error().message;
}

TEST_F(StoreTest, knows_earlier_kills_of_the_same_workload_and_those_before_it_at_the_same_limit) {
  auto writer = keep();
  auto script = [](OomEvent of, const std::string& name) {
    of.episode.victims[0].process.cmdline = {"/usr/bin/python3", name, "--lr",
                                             std::to_string(of.episode.serial)};
    of.episode.victims[0].process.uid = 1000;
    return EpisodeFact{of};
  };
  writer->add(script(kill(1, 1000, 77, other_), "train.py"));
  writer->add(script(kill(2, 1100, 78, job_), "evaluate.py"));
  writer->add(script(kill(3, 1200, 79, job_), "train.py"));
  writer->add(script(kill(4, 1300, 80, job_), "train.py"));
  ASSERT_TRUE(writer->finish());
  StoredEpisode e = last();
  ASSERT_EQ(e.before.of_workload.size(), 2u) << "another script has only the name python3 in common";
  EXPECT_EQ(e.before.of_workload[0].time, at_s(1000)) << "at another limit";
  EXPECT_EQ(e.before.of_workload[1].time, at_s(1200));
  ASSERT_EQ(e.before.at_limit.size(), 2u);
  EXPECT_EQ(e.before.at_limit[0].time, at_s(1100));
  EXPECT_EQ(e.before.at_limit[1].time, at_s(1200));
}

TEST_F(StoreTest, keeps_what_a_victim_held_on_its_card_and_how_it_came_to_it) {
  auto writer = keep();
  auto victim = process(77, "python3", job_);
  GpuFact again{at_s(990), victim, {}};
  again.event.op = GpuEvent::Op::again;
  again.event.bytes = GiB(6);
  again.event.first = at_s(900);
  again.event.code = {{"load", "/job/model.py", 12}, {"main", "/job/train.py", std::nullopt}};
  GpuFact alloc = again;
  alloc.event.op = GpuEvent::Op::alloc;
  writer->add(again);
  writer->add(alloc);
  writer->add(on_card(995, GiB(20), victim));
  writer->add(on_card(995, GiB(24), std::nullopt));
  writer->add(on_card(995, GiB(4), process(99, "other", other_)));
  auto last_of_it = on_card(1000.1, GiB(23), victim);
  last_of_it.ended = true;
  writer->add(last_of_it);
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  StoredEpisode stored = last();
  ASSERT_EQ(stored.gpu_events.size(), 1u) << "allocations are not kept one by one";
  EXPECT_EQ(stored.gpu_events[0].event.op, GpuEvent::Op::again);
  EXPECT_EQ(stored.gpu_events[0].event.first, at_s(900));
  EXPECT_EQ(stored.gpu_events[0].event.code, again.event.code);
  ASSERT_EQ(stored.gpu.size(), 3u) << "the victim's and the card's, not those of another cgroup";
  EXPECT_EQ(stored.gpu.back().held, GiB(23));
  EXPECT_EQ(stored.gpu.back().pinned, GiB(4));
  EXPECT_TRUE(stored.gpu.back().ended);
}

TEST_F(StoreTest, keeps_the_errors_of_cards_also_of_those_that_blame_nobody) {
  auto writer = keep();
  auto victim = process(77, "python3", job_);
  for (std::uint32_t code : {31u, 79u}) {
    GpuFact xid{at_s(990), std::nullopt, {}};
    if (code == 31) xid.process = victim;
    xid.event.op = GpuEvent::Op::xid;
    xid.event.status = code;
    xid.event.device.emplace().bytes.fill(7);
    xid.event.bus = "PCI:0000:01:00";
    xid.event.message = code == 31 ? "MMU Fault" : "";
    writer->add(xid);
  }
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  StoredEpisode stored = last();
  ASSERT_EQ(stored.gpu_events.size(), 2u);
  EXPECT_EQ(stored.gpu_events[0].event.op, GpuEvent::Op::xid);
  EXPECT_EQ(stored.gpu_events[0].event.status, 31u);
  ASSERT_TRUE(stored.gpu_events[0].process);
  EXPECT_EQ(stored.gpu_events[0].process->id, victim.id);
  EXPECT_EQ(stored.gpu_events[0].event.bus, "PCI:0000:01:00");
  EXPECT_EQ(stored.gpu_events[0].event.message, "MMU Fault");
  EXPECT_EQ(stored.gpu_events[1].event.status, 79u);
  EXPECT_FALSE(stored.gpu_events[1].process);
}

}  // namespace
}  // namespace oomcast
