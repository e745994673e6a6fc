#include "model/machine_model.h"

#include <gtest/gtest.h>

#include "model/machine.h"
#include "model/model_events.h"

namespace oomcast {
namespace {

using namespace test;

// / (1), /job (10) with /job/step (11), /other (20)
MachineModel a_model(ScopeRoots scope = {}, Hierarchy hierarchy = Hierarchy::v1) {
  MachineConfig config;
  config.hierarchy = hierarchy;
  config.scope = std::move(scope);
  config.rss_error = KiB(256);
  MachineModel model(std::move(config));
  model.on_cgroup({{hierarchy, 1}, std::nullopt, "/"});
  model.on_cgroup({{hierarchy, 10}, CgroupId{hierarchy, 1}, "/job"});
  model.on_cgroup({{hierarchy, 11}, CgroupId{hierarchy, 10}, "/job/step"});
  model.on_cgroup({{hierarchy, 20}, CgroupId{hierarchy, 1}, "/other"});
  return model;
}

template <typename T>
std::vector<T> facts_of(MachineModel& model) {
  std::vector<T> out;
  for (ModelFact& fact : test::facts_of(model))
    if (auto* f = std::get_if<T>(&fact)) out.push_back(std::move(*f));
  return out;
}

CgroupReading reading(std::int64_t at_ms, Bytes usage) {
  CgroupReading r;
  r.time = ms(at_ms);
  r.usage = usage;
  MemoryStat stat;
  stat.anon = usage;
  stat.active_file = stat.inactive_file = Bytes{};
  r.stat = stat;
  return r;
}

void oom_kill(MachineModel& model, std::int64_t at_ms, const wire::Task& victim,
              std::vector<wire::Memcg> chain) {
  model.on_record(kernel_kill(ms(at_ms), victim, victim));
  model.on_record(mark(ms(at_ms), victim, victim, std::move(chain)));
}

std::vector<wire::Memcg> job_is_full() {
  return {level(11, MiB(99), std::nullopt, true), level(10, MiB(100), MiB(100), true),
          level(1, GiB(1), std::nullopt)};
}

wire::ProcessSample process_sample(std::int64_t at_ms, wire::Task of, Bytes anon) {
  return {ms(at_ms), std::move(of), memory(anon)};
}

GpuUuid card_one() {
  GpuUuid uuid;
  uuid.bytes.fill(1);
  return uuid;
}

GpuOp gpu_op(GpuOp::What what) {
  GpuOp op;
  op.what = what;
  if (what == GpuOp::What::managed_map)
    op.kind = GpuMemoryKind::managed;
  else
    op.device = card_one();
  op.address = 0x7e0000000000;
  op.bytes = MiB(64);
  return op;
}

TEST(MachineModel, names_the_program_of_a_gpu_call_that_was_read_before_its_exec) {
  MachineModel model = a_model();
  wire::Task trainer = task(100);
  model.on_gpu(ms(1010), trainer, gpu_op(GpuOp::What::context));
  model.on_record(wire::Exec{ms(1000), trainer, wire::Args{{"python3", "train.py"}, false}});
  auto told = facts_of<GpuFact>(model);
  ASSERT_EQ(told.size(), 1u);
  ASSERT_TRUE(told[0].process);
  EXPECT_EQ(told[0].process->cmdline, (std::vector<std::string>{"python3", "train.py"}));
}

TEST(MachineModel, tells_of_an_oversubscribed_card_with_the_reading_that_shows_it) {
  MachineModel model = a_model();
  GpuCard card;
  card.uuid = card_one();
  card.memory = MiB(8);
  card.migrated_pages_out = 0;
  model.gpu().on_cards(ms(1000), {card}, KiB(4));
  model.on_gpu(ms(1010), task(100), gpu_op(GpuOp::What::context));
  model.on_gpu(ms(1010), task(100), gpu_op(GpuOp::What::managed_map));
  facts_of<GpuFact>(model);
  card.migrated_pages_out = 512;
  model.gpu().on_cards(ms(2000), {card}, KiB(4));
  model.sample_gpu(ms(2000));
  auto told = facts_of<GpuFact>(model);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].event.op, GpuEvent::Op::oversubscribed);
  EXPECT_EQ(told[0].event.bytes, MiB(2));
}

TEST(MachineModel, gpu_calls_that_are_read_after_the_end_of_who_made_them_hold_nothing) {
  MachineModel model = a_model();
  model.on_gpu(ms(1000), task(100), gpu_op(GpuOp::What::context));
  model.on_record(death(ms(1020), task(100)));
  model.on_gpu(ms(1010), task(100), gpu_op(GpuOp::What::managed_map));
  EXPECT_EQ(model.gpu().of(task(100).id), nullptr) << "nobody would end it again";
}

TEST(MachineModel, tells_an_error_of_a_card_to_whoever_has_something_on_it) {
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.cgroups = {10};
  MachineModel model = a_model(scope);
  auto tells = [&] {
    model.gpu().on_xid({ms(2000), 79, "0000:01:00.0", ""}, card_one(), std::nullopt);
    return facts_of<GpuFact>(model);
  };
  EXPECT_TRUE(tells().empty()) << "nobody in scope has";
  wire::Task elsewhere = task(200);
  elsewhere.cgroup = 20;
  model.on_gpu(ms(1000), elsewhere, gpu_op(GpuOp::What::context));
  EXPECT_TRUE(tells().empty()) << "nobody in scope has";
  wire::Task trainer = task(100);
  trainer.cgroup = 11;
  model.on_gpu(ms(1000), trainer, gpu_op(GpuOp::What::context));
  auto told = tells();
  ASSERT_EQ(told.size(), 2u) << "its context, and the error";
  EXPECT_EQ(told[1].event.op, GpuEvent::Op::xid);
  EXPECT_FALSE(told[1].process) << "the driver blames nobody";
}

TEST(MachineModel, samples_of_a_process_say_what_its_pages_did_where_they_are_followed) {
  MachineModel model = a_model();
  model.on_gpu(ms(1010), task(100), gpu_op(GpuOp::What::context));
  auto samples = [&](std::int64_t at) {
    model.sample_gpu(ms(at));
    auto all = facts_of<GpuSample>(model);
    std::erase_if(all, [](const GpuSample& s) { return !s.process; });
    return all;
  };
  auto first = samples(1100);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_FALSE(first[0].moved_in || first[0].evicted || first[0].faults) << "not followed is not none";
  model.gpu().on_activity(task(100).id, GpuActivity{MiB(2), MiB(4), MiB(3), 7, 1});
  auto busy = samples(2000);
  ASSERT_EQ(busy.size(), 1u);
  EXPECT_EQ(busy[0].moved_in, MiB(2));
  EXPECT_EQ(busy[0].moved_out, MiB(4));
  EXPECT_EQ(busy[0].evicted, MiB(3));
  EXPECT_EQ(busy[0].faults, 7u);
  EXPECT_EQ(busy[0].cpu_faults, 1u);
  model.gpu().on_activity(task(100).id, GpuActivity{MiB(2), MiB(4), MiB(3), 7, 1});
  EXPECT_TRUE(samples(3000).empty()) << "nothing moved since";
}

TEST(MachineModel, shows_a_sample_only_when_something_changed) {
  MachineModel model = a_model();
  model.on_reading(10, reading(1000, MiB(5)));
  ASSERT_EQ(facts_of<Sample>(model).size(), 1u);
  model.on_reading(10, reading(2000, MiB(5)));
  EXPECT_TRUE(facts_of<Sample>(model).empty());
  model.on_reading(10, reading(3000, MiB(6)));
  EXPECT_EQ(facts_of<Sample>(model).size(), 1u);
  model.on_reading(10, reading(4000, MiB(6)), true);
  EXPECT_EQ(facts_of<Sample>(model).size(), 1u) << "asked for";
  CgroupReading limited = reading(5000, MiB(6));
  limited.limit = std::optional(MiB(64));
  model.on_reading(10, limited);
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 1u) << "the limit changed";
  EXPECT_EQ(samples[0].limit, MiB(64));
  EXPECT_EQ(samples[0].limit_cgroup->path, "/job");
}

TEST(MachineModel, a_parents_new_limit_changes_the_child) {
  MachineModel model = a_model();
  model.on_reading(11, reading(1000, MiB(5)));
  facts_of<Sample>(model);
  wire::CgroupSample limited;
  limited.memcg = level(10, MiB(5), MiB(64));
  model.on_record(limited);
  model.on_reading(11, reading(2000, MiB(5)));
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].limit_cgroup->path, "/job");
}

// What /job/step can still take, of 100 MiB that /job may and of which 10 MiB are others', on a machine with
// 1 GiB of swap.
Bytes room_of_the_step(MachineModel& model, std::optional<SwapUse> of_job, std::optional<SwapUse> of_step,
                       std::optional<std::uint64_t> swappiness = {}) {
  MemInfo info;
  info.total = GiB(8);
  info.swap_total = info.swap_free = GiB(1);
  model.on_host(ms(500), info);
  CgroupReading job = reading(1000, MiB(60)), step = reading(1000, MiB(50));
  job.limit = std::optional(MiB(100));
  job.swap = of_job;
  step.swap = of_step;
  step.swappiness = swappiness;
  model.on_reading(10, job);
  model.on_reading(11, step);
  const CgroupState* state = model.cgroups().find(11);
  return *state->headroom_limit - state->pinned->value;
}

TEST(MachineModel, swap_that_an_ancestor_may_not_use_is_no_room) {
  MachineModel model = a_model({}, Hierarchy::v2);
  EXPECT_EQ(room_of_the_step(model, SwapUse{}, SwapUse{}), MiB(40) + GiB(1));
  EXPECT_EQ(room_of_the_step(model, SwapUse{{}, Bytes{}, {}}, SwapUse{}), MiB(40));
  MachineModel another = a_model({}, Hierarchy::v2);
  EXPECT_EQ(room_of_the_step(another, SwapUse{MiB(5), MiB(25), {}}, SwapUse{}), MiB(60));
}

TEST(MachineModel, swap_is_no_room_where_reclaim_for_a_limit_may_not_use_it) {
  MachineModel model = a_model({}, Hierarchy::v2);
  model.on_swappiness(60);
  EXPECT_EQ(room_of_the_step(model, SwapUse{}, SwapUse{}), MiB(40) + GiB(1));
  model.on_swappiness(0);
  EXPECT_EQ(room_of_the_step(model, SwapUse{}, SwapUse{}), MiB(40));
}

TEST(MachineModel, on_v1_each_cgroup_has_a_swappiness_and_memory_with_swap_a_limit) {
  MachineModel model = a_model();
  model.on_swappiness(0);  // of the machine: not theirs
  EXPECT_EQ(room_of_the_step(model, SwapUse{}, SwapUse{}, 60), MiB(40) + GiB(1));
  EXPECT_EQ(room_of_the_step(model, SwapUse{{}, {}, MiB(120)}, SwapUse{}, 60), MiB(60));
  EXPECT_EQ(room_of_the_step(model, SwapUse{}, SwapUse{}, 0), MiB(50)) << "which it has without any swap";
}

MemInfo machine_of(Bytes total, Bytes held) {
  MemInfo info;
  info.total = total;
  info.free = total - held;
  info.active_file = info.inactive_file = info.slab_reclaimable = info.swap_total = info.swap_free = Bytes{};
  return info;
}

TEST(MachineModel, a_cgroup_without_a_limit_runs_against_what_others_leave_of_the_machine) {
  MachineModel model = a_model();
  model.on_host(ms(1000), machine_of(GiB(32), GiB(20)));
  model.on_reading(10, reading(1001, GiB(8)));
  auto samples = facts_of<Sample>(model);
  EXPECT_EQ(samples.back().headroom_limit, GiB(20)) << "others hold 12 GiB";
  EXPECT_EQ(samples.back().headroom_cgroup, nullptr);
  EXPECT_EQ(samples.back().limit, std::nullopt);
  model.on_reading(10, reading(1500, GiB(9)));
  EXPECT_EQ(facts_of<Sample>(model).back().headroom_limit, GiB(20))
      << "since the machine was read it has grown";
}

TEST(MachineModel, a_limit_that_the_machine_cannot_give_is_not_the_one_that_is_met) {
  MachineModel model = a_model();
  model.on_host(ms(1000), machine_of(GiB(32), GiB(20)));
  CgroupReading of_job = reading(1001, GiB(8));
  of_job.limit = std::optional(GiB(24));
  model.on_reading(10, of_job);
  Sample sample = facts_of<Sample>(model).back();
  EXPECT_EQ(sample.headroom_limit, GiB(20));
  EXPECT_EQ(sample.headroom_cgroup, nullptr) << "the machine's";
  EXPECT_EQ(sample.limit_cgroup->path, "/job");
  of_job.time = ms(2001);
  of_job.limit = std::optional(GiB(12));
  model.on_reading(10, of_job);
  sample = facts_of<Sample>(model).back();
  EXPECT_EQ(sample.headroom_limit, GiB(12));
  EXPECT_EQ(sample.headroom_cgroup->path, "/job");
}

TEST(MachineModel, what_is_throttled_before_its_limit_runs_against_memory_high) {
  MachineModel model = a_model();
  model.on_host(ms(500), machine_of(GiB(32), GiB(2)));
  CgroupReading of_job = reading(1000, MiB(700)), of_step = reading(1001, MiB(300));
  of_job.limit = of_step.limit = std::optional(GiB(1));
  model.cgroups().find(10)->high.size = MiB(800);
  facts_of<Sample>(model);  // the machine's
  model.on_reading(10, of_job);
  model.on_reading(11, of_step);
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 2u);
  ASSERT_TRUE(samples[0].throttle && samples[1].throttle);
  EXPECT_EQ(samples[0].throttle->limit, MiB(800));
  EXPECT_EQ(samples[0].limit, GiB(1)) << "where it is killed";
  EXPECT_EQ(samples[1].throttle->limit, MiB(400)) << "others hold 400 MiB below the parent's";
  EXPECT_EQ(next_limit(samples[1]).owner->path, "/job");
  EXPECT_EQ(next_limit(samples[1]).kind, LimitKind::high);
  model.cgroups().find(10)->high.size = GiB(2);
  of_job.time = ms(3000);
  model.on_reading(10, of_job, true);
  Sample sample = facts_of<Sample>(model).back();
  EXPECT_FALSE(sample.throttle) << "it is killed before";
  EXPECT_EQ(next_limit(sample).kind, LimitKind::max);
}

TEST(MachineModel, tells_of_a_limit_that_changed_what_it_was) {
  MachineModel model = a_model();
  CgroupReading of_job = reading(1000, MiB(70));
  of_job.limit = std::optional(GiB(1));
  model.on_reading(10, of_job);
  model.on_reading(11, reading(1001, MiB(50)));
  EXPECT_TRUE(facts_of<LimitChangedFact>(model).empty()) << "it is the first that is known";
  of_job.time = ms(3000);
  of_job.limit = std::optional(MiB(512));
  model.on_reading(10, of_job);
  model.cgroups().find(11)->high.size = MiB(100);
  model.on_reading(11, reading(3001, MiB(50)));
  auto changes = facts_of<LimitChangedFact>(model);
  ASSERT_EQ(changes.size(), 3u) << "of the job, and of the step that is below both";
  EXPECT_EQ(changes[0].cgroup->path, "/job");
  EXPECT_EQ(changes[0].before, GiB(1));
  EXPECT_EQ(changes[0].limit, MiB(512));
  EXPECT_EQ(changes[1].cgroup->path, "/job/step");
  EXPECT_EQ(changes[1].limit_cgroup->path, "/job");
  EXPECT_EQ(changes[2].kind, LimitKind::high);
  EXPECT_EQ(changes[2].before, std::nullopt);
  EXPECT_EQ(changes[2].limit, MiB(100));
}

TEST(MachineModel, what_others_hold_below_a_parents_limit_is_not_left_to_the_child) {
  MachineModel model = a_model();
  model.on_host(ms(500), machine_of(GiB(32), GiB(2)));
  CgroupReading of_job = reading(1000, MiB(700)), of_step = reading(1001, MiB(300));
  of_job.limit = std::optional(GiB(1));
  of_step.limit = std::optional(MiB(900));
  model.on_reading(10, of_job);
  model.on_reading(11, of_step);
  Sample sample = facts_of<Sample>(model).back();
  EXPECT_EQ(sample.headroom_limit, MiB(624));
  EXPECT_EQ(sample.headroom_cgroup->path, "/job");
  EXPECT_EQ(sample.limit_cgroup->path, "/job/step") << "the smaller";
}

TEST(MachineModel, a_spike_that_one_of_two_readings_missed_moves_no_limit) {
  MachineModel model = a_model();
  auto limit_after = [&](std::int64_t at_ms, Bytes of_machine, Bytes of_job) {
    model.on_host(ms(at_ms), machine_of(GiB(32), of_machine));
    model.on_reading(10, reading(at_ms + 1, of_job));
    return *facts_of<Sample>(model).back().headroom_limit;
  };
  for (int s = 1; s < 4; ++s) limit_after(1000 * s, GiB(20) + MiB(s), GiB(8) + MiB(s));
  EXPECT_EQ(limit_after(4000, GiB(26), GiB(8)), GiB(20));
  EXPECT_EQ(limit_after(5000, GiB(20), GiB(14)), GiB(20));
}

TEST(MachineModel, tells_no_peak_below_what_is_used_now) {
  MachineModel model = a_model();
  wire::CgroupSample sample;
  sample.memcg.inode = 10;
  sample.memcg.watermark = MiB(4);
  model.on_record(sample);
  model.on_reading(10, reading(1000, MiB(5)));
  model.on_reading(10, reading(2000, MiB(3)));
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].peak, MiB(5));
  EXPECT_EQ(samples[1].peak, MiB(5));
}

TEST(MachineModel, leaves_unknown_what_was_not_read) {
  MachineModel model = a_model();
  CgroupReading nothing;
  nothing.time = ms(1000);
  model.on_reading(10, nothing);
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].usage, std::nullopt);
  EXPECT_EQ(samples[0].pinned, std::nullopt);
  EXPECT_EQ(samples[0].limit, std::nullopt);
  EXPECT_EQ(samples[0].peak, std::nullopt);
  EXPECT_EQ(samples[0].stat.anon, std::nullopt);
  EXPECT_FALSE(model.cgroups().find(10)->pinned);
}

TEST(MachineModel, a_failed_read_keeps_what_was_known) {
  MachineModel model = a_model();
  model.on_reading(10, reading(1000, MiB(5)));
  CgroupReading nothing;
  nothing.time = ms(2000);
  model.on_reading(10, nothing, true);
  EXPECT_EQ(facts_of<Sample>(model).back().usage, MiB(5));
  EXPECT_EQ(model.cgroups().find(10)->pinned->time, ms(1000)) << "an old reading is no new point";
}

TEST(MachineModel, tells_the_parent_of_an_unknown_cgroup_that_holds_something) {
  MachineModel model = a_model();
  auto sample = [&](std::uint64_t inode, Bytes usage, std::uint64_t parent) {
    wire::CgroupSample one;
    one.memcg = level(inode, usage, std::nullopt);
    one.parent = parent;
    model.on_record(one);
  };
  sample(77, MiB(5), 10);
  sample(78, KiB(5), 10);
  sample(79, MiB(5), 99);
  EXPECT_EQ(model.take_growing_unknown(), (std::map<std::uint64_t, std::uint64_t>{{77, 10}}))
      << "neither an idle one, nor one below another that is not known";
  EXPECT_TRUE(model.take_growing_unknown().empty());
  for (std::uint64_t inode = 100; inode < 200; ++inode) sample(inode, MiB(5), 10);
  EXPECT_EQ(model.take_growing_unknown().size(), 16u);
}

TEST(MachineModel, does_not_show_what_is_removed_or_unknown) {
  MachineModel model = a_model();
  wire::CgroupEvent gone;
  gone.op = wire::CgroupEvent::Op::rmdir;
  gone.inode = 10;
  gone.time = ms(500);
  model.on_record(gone);
  model.on_reading(10, reading(1000, MiB(5)));
  model.on_reading(99, reading(1000, MiB(5)));
  EXPECT_TRUE(test::facts_of(model).empty());
}

TEST(MachineModel, tells_that_a_record_named_a_cgroup_it_does_not_know) {
  MachineModel model = a_model();
  EXPECT_FALSE(model.take_unknown_cgroups());
  wire::CgroupSample sample;
  sample.memcg = level(77, MiB(5), std::nullopt);
  model.on_record(sample);
  EXPECT_TRUE(model.take_unknown_cgroups());
  EXPECT_FALSE(model.take_unknown_cgroups()) << "told once";
  wire::CgroupEvent made;
  made.inode = 78;
  made.parent = 77;
  made.name = "x";
  model.on_record(made);
  EXPECT_TRUE(model.take_unknown_cgroups());
}

TEST(MachineModel, follows_the_life_of_a_cgroup) {
  MachineModel model = a_model();
  wire::CgroupEvent event;
  event.op = wire::CgroupEvent::Op::mkdir;
  event.inode = 30;
  event.parent = 11;
  event.name = "task";
  model.on_record(event);
  EXPECT_EQ(model.cgroups().find(30)->ref->path, "/job/step/task");
  event.op = wire::CgroupEvent::Op::rename;
  event.inode = 11;
  event.name = "phase";
  model.on_record(event);
  EXPECT_EQ(model.cgroups().find(30)->ref->path, "/job/phase/task");
  event.op = wire::CgroupEvent::Op::rmdir;
  event.inode = 30;
  event.time = ms(1000);
  model.on_record(event);
  model.advance(ms(2000));
  EXPECT_TRUE(events_of<CgroupDropped>(model).empty()) << "records about it still arrive";
  model.advance(ms(60'000));
  auto dropped = events_of<CgroupDropped>(model);
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].inode, 30u);
}

TEST(MachineModel, argv_of_a_victim_is_what_it_last_showed) {
  MachineModel model = a_model();
  wire::Task victim = task(100, 11);
  model.on_record(wire::Exec{ms(1000), victim, wire::Args{{"python3", "start.py"}, false}});
  // Its death can be recorded before the mark is.
  wire::Dying dying;
  dying.time = ms(4999);
  dying.task = victim;
  dying.args = wire::Args{{"renamed: step 7"}, true};
  model.on_record(dying);
  oom_kill(model, 5000, victim, job_is_full());
  model.on_record(death(ms(5001), victim));
  model.advance(ms(7000));
  auto episodes = facts_of<Episode>(model);
  ASSERT_EQ(episodes.size(), 1u);
  const ProcessRef& p = episodes[0].victims[0].process;
  EXPECT_EQ(p.cmdline, std::vector<std::string>{"renamed: step 7"});
  EXPECT_EQ(p.cmdline_source, CmdlineSource::shown);
  EXPECT_TRUE(p.cmdline_truncated);
}

TEST(MachineModel, argv_that_cannot_be_read_falls_back_to_execs_and_says_so) {
  MachineModel model = a_model();
  wire::Task victim = task(100, 11);
  model.on_record(wire::Exec{ms(1000), victim, wire::Args{{"python3", "start.py"}, false}});
  wire::Dying dying;
  dying.time = ms(4999);
  dying.task = victim;
  model.on_record(dying);
  oom_kill(model, 5000, victim, job_is_full());
  model.advance(ms(7000));
  auto episodes = facts_of<Episode>(model);
  ASSERT_EQ(episodes.size(), 1u);
  const ProcessRef& p = episodes[0].victims[0].process;
  EXPECT_EQ(p.cmdline, (std::vector<std::string>{"python3", "start.py"}));
  EXPECT_EQ(p.cmdline_source, CmdlineSource::exec);
}

TEST(MachineModel, argv_of_another_program_is_not_kept_over_an_exec) {
  MachineModel model = a_model();
  wire::Task p = task(100, 11);
  model.on_record(wire::Exec{ms(1000), p, wire::Args{{"sh"}, false}});
  model.on_record(wire::Exec{ms(2000), p, std::nullopt});
  const TaskState* state = model.tasks().find(p.id);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->cmdline.empty());
  EXPECT_FALSE(state->cmdline_source);
}

TEST(MachineModel, a_process_that_shows_no_arguments_keeps_those_that_are_known) {
  MachineModel model = a_model();
  wire::Task p = task(100, 11);
  model.on_record(wire::Exec{ms(1000), p, wire::Args{{"sh", "-c", "x"}, false}});
  model.on_arguments(p.id, {}, ms(2000));
  EXPECT_EQ(model.tasks().find(p.id)->cmdline.size(), 3u);
  model.on_arguments(p.id, {{"older"}, false}, ms(999));
  EXPECT_EQ(model.tasks().find(p.id)->cmdline.size(), 3u) << "they were read before it executed this";
  model.on_arguments(p.id, {{"newer"}, false}, ms(2000));
  EXPECT_EQ(model.tasks().find(p.id)->cmdline.size(), 1u);
  model.on_arguments({999, 9}, {{"nobody"}, false}, ms(2000));
  EXPECT_EQ(model.tasks().find({999, 9}), nullptr);
}

TEST(MachineModel, of_the_whole_machine_tells_of_small_processes_in_followed_cgroups_and_only_of_so_many) {
  MachineModel model = a_model();
  auto many = static_cast<std::uint32_t>(MachineModel::kMaxSmall + 10);
  auto tell_all = [&](std::int64_t at_ms) {
    for (std::uint32_t i = 0; i < many; ++i)
      model.on_record(process_sample(at_ms, task(1000 + i, 11), MiB(12)));
    model.on_record(process_sample(at_ms, task(200, 10), MiB(12)));
    return test::facts_of(model).size();
  };
  EXPECT_EQ(tell_all(1000), 0u);
  model.follow({11});
  EXPECT_EQ(tell_all(2000), MachineModel::kMaxSmall);
  EXPECT_EQ(tell_all(3000), MachineModel::kMaxSmall) << "the same ones again, so that their growth is known";
  model.follow({});
  EXPECT_EQ(tell_all(4000), 0u);
}

TEST(MachineModel, of_the_whole_machine_tells_of_every_large_process_and_the_host) {
  MachineModel model = a_model();
  model.on_record(process_sample(1000, task(100, 11), MiB(65)));
  model.on_record(process_sample(1000, task(200), MiB(65)));
  model.on_record(process_sample(1000, task(300), MiB(62)));  // with 1 MiB of files still under 64
  MemInfo info;
  info.total = GiB(8);
  info.free = GiB(3);
  model.on_host(ms(1000), info);
  auto facts = test::facts_of(model);
  ASSERT_EQ(facts.size(), 3u);
  const auto& process = std::get<ProcessSampleFact>(facts[0]);
  EXPECT_EQ(process.rss, MiB(66)) << "with 1 MiB of files";
  EXPECT_EQ(process.rss_error, KiB(256));
  EXPECT_EQ(process.private_bytes, std::nullopt);
  const auto& host = std::get<Sample>(facts[2]);
  EXPECT_EQ(host.usage, GiB(5));
  EXPECT_EQ(host.cgroup->path, "/");
  EXPECT_EQ(host.stat.swap, std::nullopt);
  EXPECT_EQ(host.pinned, std::nullopt) << "file lists were not read";
}

TEST(MachineModel, takes_the_top_of_a_containers_tree_for_a_cgroup_and_not_for_the_host) {
  MachineConfig config;
  config.sees_root = false;
  MachineModel model(std::move(config));
  model.on_cgroup({{Hierarchy::v2, 4711}, std::nullopt, "/"});
  MemInfo info;
  info.total = GiB(8);
  info.free = GiB(3);
  model.on_host(ms(500), info);
  CgroupReading top = reading(1000, MiB(60));
  top.limit = std::optional(MiB(100));
  model.on_reading(4711, top);
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].cgroup->name.kind, CgroupKind::root);
  EXPECT_NE(samples[0].cgroup->id.inode, 4711u);
  EXPECT_EQ(samples[1].cgroup->id.inode, 4711u);
  EXPECT_EQ(samples[1].cgroup->name.kind, CgroupKind::plain);
  EXPECT_EQ(samples[1].limit, MiB(100));
}

TEST(MachineModel, a_process_without_memory_is_no_sample) {
  MachineModel model = a_model();
  model.on_record(wire::ProcessSample{ms(1000), task(100, 11), std::nullopt});
  EXPECT_TRUE(test::facts_of(model).empty());
}

TEST(Scope, of_a_cgroup_has_its_children_and_their_processes) {
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.cgroups = {10};
  MachineModel model = a_model(scope);
  for (std::uint64_t inode : {1, 10, 11, 20}) model.on_reading(inode, reading(1000, MiB(5)));
  auto samples = facts_of<Sample>(model);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].cgroup->path, "/job");
  EXPECT_EQ(samples[1].cgroup->path, "/job/step");
  model.on_record(process_sample(1000, task(100, 11), MiB(5)));
  model.on_record(process_sample(1000, task(200, 20), MiB(5)));
  model.on_record(process_sample(1000, task(201), MiB(5)));
  auto processes = facts_of<ProcessSampleFact>(model);
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].process.id.tgid, 100u);
  MemInfo info;
  info.total = GiB(8);
  model.on_host(ms(1000), info);
  model.on_pressure(ms(1000), std::nullopt, {});
  EXPECT_TRUE(test::facts_of(model).empty()) << "the host is not in it";
}

TEST(Scope, of_a_process_has_its_descendants_and_its_cgroup) {
  wire::Task top = task(100, 11), child = task(101, 20), stranger = task(102, 11);
  child.parent = top.id;
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.tasks = {top.id};
  MachineModel model = a_model(scope);
  for (const wire::Task& t : {top, child, stranger}) model.on_record(process_sample(1000, t, MiB(5)));
  auto processes = facts_of<ProcessSampleFact>(model);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].process.id, top.id);
  EXPECT_EQ(processes[1].process.id, child.id);
  EXPECT_TRUE(model.cgroup_in_scope(11));
  EXPECT_FALSE(model.cgroup_in_scope(10)) << "a parent is not its child's scope";
  wire::Task recycled = top;
  recycled.id.start_ticks += 1;
  model.on_record(process_sample(2000, recycled, MiB(5)));
  EXPECT_TRUE(test::facts_of(model).empty()) << "another process of that pid";
}

TEST(Scope, tells_an_episode_whose_victim_is_in_it_though_the_limit_is_above) {
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.cgroups = {11};
  MachineModel model = a_model(scope);
  oom_kill(model, 5000, task(100, 11), job_is_full());
  model.advance(ms(7000));
  EXPECT_EQ(facts_of<Episode>(model).size(), 1u);
}

TEST(Scope, does_not_tell_an_episode_elsewhere) {
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.cgroups = {20};
  MachineModel model = a_model(scope);
  oom_kill(model, 5000, task(100, 11), job_is_full());
  model.advance(ms(7000));
  EXPECT_TRUE(test::facts_of(model).empty());
  EXPECT_FALSE(model.episodes().any_open()) << "though it was followed";
}

TEST(UserKill, names_its_cause_where_it_can_be_told) {
  MachineModel model = a_model();
  auto cause = [&](std::string sender, std::optional<int> si_code, bool may_kill_anybody = true) {
    model.on_record(
        wire::UserKill{ms(1000), task(100, 11), task(200, 20, std::move(sender)), si_code, may_kill_anybody});
    auto kills = facts_of<UserKillFact>(model);
    return kills.size() == 1 ? kills[0].cause : "no fact";
  };
  EXPECT_EQ(cause("bash", 0), std::nullopt);
  EXPECT_EQ(cause("earlyoom", 0), "earlyoom");
  EXPECT_EQ(cause("systemd-oomd", 0), "systemd-oomd");
  EXPECT_EQ(cause("systemd-oomd", 0, false), std::nullopt) << "who may not kill others gave himself the name";
  EXPECT_EQ(cause("bash", std::nullopt), "cgroup.kill");
}

TEST(UserKill, of_ones_own_helpers_is_not_told) {
  MachineModel model = a_model();
  wire::Task own = task(50, {}, "oomcast"), helper = task(51, {}, "oomcast"),
             of_helper = task(52, {}, "oomcast"), command = task(53, {}, "train"),
             other = task(60, {}, "oomcast");
  helper.parent = command.parent = own.id;
  of_helper.parent = helper.id;
  for (const wire::Task& each : {own, helper, of_helper, command, other})
    model.on_record(wire::Fork{ms(1), each});
  model.set_own(own.id);
  auto told = [&](const wire::Task& victim, const wire::Task& sender) {
    model.on_record(wire::UserKill{ms(1000), victim, sender, 0});
    return facts_of<UserKillFact>(model).size();
  };
  EXPECT_EQ(told(helper, own), 0u);
  EXPECT_EQ(told(of_helper, helper), 0u);
  EXPECT_EQ(told(command, own), 1u) << "at the end of run --for";
  EXPECT_EQ(told(helper, other), 1u);
  wire::Task of_other = task(61, {}, "oomcast"), its_command = task(62, {}, "train");
  of_other.parent = its_command.parent = other.id;
  for (const wire::Task& each : {of_other, its_command}) model.on_record(wire::Fork{ms(1), each});
  EXPECT_EQ(told(of_other, other), 0u) << "of another oomcast";
  EXPECT_EQ(told(its_command, other), 1u);
  EXPECT_EQ(told(other, own), 1u) << "of the same name, and none of its helpers";
}

TEST(UserKill, without_siginfo_is_not_taken_for_cgroup_kill_where_parent_or_tracer_may_have_sent_it) {
  MachineModel model = a_model();
  wire::UserKill kill{ms(1000), task(100, 11), task(200, 20), std::nullopt};
  kill.by_tracer = true;
  model.on_record(kill);
  kill.by_tracer = false;
  kill.sender.exiting = true;
  model.on_record(kill);
  auto kills = facts_of<UserKillFact>(model);
  ASSERT_EQ(kills.size(), 2u);
  EXPECT_EQ(kills[0].cause, std::nullopt);
  EXPECT_EQ(kills[1].cause, "PR_SET_PDEATHSIG");
}

TEST(UserKill, of_a_process_out_of_scope_is_not_told) {
  ScopeRoots scope;
  scope.whole_machine = false;
  scope.cgroups = {20};
  MachineModel model = a_model(scope);
  model.on_record(wire::UserKill{ms(1000), task(100, 11), task(200, 20), 0});
  EXPECT_TRUE(test::facts_of(model).empty());
  model.on_record(wire::UserKill{ms(1000), task(200, 20), task(100, 11), 0});
  EXPECT_EQ(test::facts_of(model).size(), 1u);
}

TEST(Stalls, are_told_by_what_is_new_since_the_last_look) {
  MachineModel model = a_model();
  model.on_stalls(ms(1000), 10, {3, milliseconds(30), MiB(3)});
  model.on_stalls(ms(2000), 10, {3, milliseconds(30), MiB(3)});
  model.on_stalls(ms(3000), 10, {5, milliseconds(50), MiB(4)});
  auto facts = facts_of<ReclaimFact>(model);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(facts[0].stalls, 3u);
  EXPECT_EQ(facts[1].stalls, 2u);
  EXPECT_EQ(facts[1].stalled, Seconds(0.02));
  EXPECT_EQ(facts[1].reclaimed, MiB(1));
  EXPECT_EQ(facts[1].cgroup->path, "/job");
}

TEST(Stalls, are_told_from_the_beginning_where_their_sums_made_way_in_the_kernel) {
  MachineModel model = a_model();
  model.on_stalls(ms(1000), 10, {30, milliseconds(300), MiB(30)});
  model.on_stalls(ms(2000), 10, {2, milliseconds(20), MiB(2)});
  auto facts = facts_of<ReclaimFact>(model);
  ASSERT_EQ(facts.size(), 2u);
  EXPECT_EQ(facts[1].stalls, 2u);
  EXPECT_EQ(facts[1].reclaimed, MiB(2));
}

TEST(Exit, of_the_dead_keeps_its_name_for_what_still_arrives) {
  MachineModel model = a_model();
  wire::Task p = task(100, 11, "short");
  wire::Exit exit = death(ms(1000), p, 0);
  exit.killed_by_kernel = false;
  model.on_record(exit);
  ASSERT_TRUE(model.tasks().find(p.id));
  EXPECT_TRUE(model.tasks().find(p.id)->died);
  EXPECT_EQ(model.tasks().find(p.id)->comm, "short");
}

}  // namespace
TEST(MachineModel, tells_of_the_hosts_pressure_when_somebody_stalled_since_the_last_look) {
  MachineModel model = a_model();
  Pressure calm;
  calm.some = PressureLine{0, 0, 0, 100};
  Pressure stalled;
  stalled.some = PressureLine{1.5, 0, 0, 900};
  model.on_pressure(ms(1000), std::nullopt, calm);
  model.on_pressure(ms(2000), std::nullopt, calm);
  EXPECT_TRUE(test::facts_of(model).empty());
  model.on_pressure(ms(3000), std::nullopt, stalled);
  auto facts = test::facts_of(model);
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(std::get<PressureFact>(facts[0]).cgroup, model.cgroups().ref(1))
      << "as its samples and forecasts";
}

CgroupListing listing(const std::vector<std::pair<std::uint64_t, std::string>>& found) {
  CgroupListing out;
  for (const auto& [inode, path] : found) out.cgroups.push_back({{Hierarchy::v1, inode}, std::nullopt, path});
  return out;
}

TEST(MachineModel, takes_the_limit_that_was_hit_from_the_kernels_own_decision) {
  MachineModel model = a_model();
  wire::Task victim = task(100, 11);
  wire::OomDecision decision;
  decision.time = ms(999);
  decision.trigger = decision.victim = victim;
  decision.limit_cgroup = 10;
  model.on_record(decision);
  model.on_record(kernel_kill(ms(1000), victim, victim));
  // Of another decision the lower one is locked, and full as well.
  auto taken = model.on_record(mark(
      ms(1000), victim, victim,
      {level(11, MiB(50), MiB(50), true), level(10, MiB(100), MiB(100)), level(1, GiB(1), std::nullopt)}));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->owner, 10u);
  model.advance(ms(20'000), true);
  std::vector<CgroupPtr> hit;
  std::vector<Episode> kills;
  for (ModelEvent& event : model.take()) {
    if (auto* limit = std::get_if<LimitHit>(&event)) hit.push_back(limit->owner);
    if (auto* fact = std::get_if<ModelFact>(&event))
      if (auto* kill = std::get_if<Episode>(fact)) kills.push_back(std::move(*kill));
  }
  ASSERT_EQ(hit.size(), 1u);
  ASSERT_EQ(kills.size(), 1u);
  EXPECT_EQ(hit[0]->path, "/job");
  EXPECT_EQ(kills[0].limit_cgroup->path, "/job");
}

TEST(MachineModel, hands_over_a_limit_that_was_hit_between_the_samples_before_and_after_it) {
  MachineModel model = a_model();
  model.on_reading(10, reading(500, MiB(80)), true);
  oom_kill(model, 1000, task(100, 11), job_is_full());
  model.on_reading(10, reading(1500, MiB(5)), true);
  std::string order;
  for (const ModelEvent& event : model.take()) {
    if (std::holds_alternative<KillOpened>(event)) order += "opened ";
    if (std::holds_alternative<LimitHit>(event)) order += "hit ";
    if (auto* fact = std::get_if<ModelFact>(&event); fact && std::holds_alternative<Sample>(*fact))
      order += "sample ";
  }
  EXPECT_EQ(order, "opened sample hit sample ");
  EXPECT_TRUE(model.take().empty());
}

TEST(Tree, forgets_what_a_walk_does_not_find) {
  MachineModel model = a_model();
  model.on_tree(listing({{1, "/"}, {10, "/job"}, {30, "/new"}}), ms(1000));
  EXPECT_TRUE(model.cgroups().find(30));
  EXPECT_FALSE(model.cgroups().find(10)->removed);
  EXPECT_TRUE(model.cgroups().find(20)->removed);
  model.advance(ms(10'000));
  EXPECT_FALSE(model.cgroups().find(20));
  EXPECT_EQ(events_of<CgroupDropped>(model).size(), 2u);
}

TEST(Tree, forgets_nothing_because_of_a_walk_that_did_not_see_all) {
  MachineModel model = a_model();
  CgroupListing deep = listing({{1, "/"}});
  deep.too_deep = 1;
  deep.not_all_below = {1};
  model.on_tree(deep, ms(1000));
  EXPECT_FALSE(model.cgroups().find(20)->removed);
}

TEST(Tree, forgets_what_is_gone_although_a_walk_did_not_see_all_of_another_part) {
  MachineModel model = a_model();
  model.on_cgroup({{Hierarchy::v1, 60}, CgroupId{Hierarchy::v1, 1}, "/deep"});
  model.on_cgroup({{Hierarchy::v1, 61}, CgroupId{Hierarchy::v1, 60}, "/deep/x"});
  CgroupListing walk = listing({{1, "/"}, {60, "/deep"}});
  walk.too_deep = 1;
  walk.not_all_below = {60};
  model.on_tree(walk, ms(1000));
  EXPECT_TRUE(model.cgroups().find(20)->removed);
  EXPECT_FALSE(model.cgroups().find(61)->removed);
}

TEST(Series, counts_the_kills_of_a_limit_and_begins_again_after_a_calm) {
  MachineModel model = a_model();
  auto kill_at = [&](std::int64_t at_ms, std::uint32_t pid) {
    oom_kill(model, at_ms, task(pid, 11), job_is_full());
    model.advance(ms(at_ms + 1800));
    auto told = facts_of<Episode>(model);
    EXPECT_EQ(told.size(), 1u);
    return told.at(0).series;
  };
  EXPECT_FALSE(kill_at(5000, 100));
  auto second = kill_at(65'000, 101);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->kills, 2u);
  EXPECT_EQ(second->since, ms(5000));
  auto third = kill_at(300'000, 102);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->kills, 3u);
  EXPECT_FALSE(kill_at(700'000, 103)) << "more than five minutes of calm";
}

TEST(Series, is_not_joined_by_a_cgroup_of_the_same_name_elsewhere) {
  MachineModel model = a_model();
  auto series_of_kill = [&](std::int64_t at_ms, std::uint64_t inode, const std::string& path) {
    model.on_cgroup({{Hierarchy::v1, inode}, CgroupId{Hierarchy::v1, 1}, path});
    oom_kill(model, at_ms, task(static_cast<std::uint32_t>(inode), inode),
             {level(inode, MiB(64), MiB(64), true), level(1, GiB(3), {})});
    model.advance(ms(at_ms + 1800));
    return facts_of<Episode>(model).at(0).series;
  };
  EXPECT_FALSE(series_of_kill(5000, 50, "/system.slice/trainer.service"));
  EXPECT_FALSE(series_of_kill(10'000, 51, "/user.slice/user-1000.slice/trainer.service"));
  EXPECT_TRUE(series_of_kill(15'000, 52, "/system.slice/trainer.service")) << "restarted";
}

TEST(Pace, leaves_samples_out_and_counts_them_until_there_is_time_again) {
  MachineModel model = a_model();
  model.on_reading(10, reading(1000, MiB(10)));
  model.on_record(process_sample(1000, task(100, 11), MiB(70)));
  EXPECT_EQ(test::facts_of(model).size(), 2u) << "the first of each";
  model.set_pace(milliseconds(500));
  for (int at = 1100; at < 1500; at += 100) {
    model.on_reading(10, reading(at, MiB(at)), true);
    model.on_record(process_sample(at, task(100, 11), MiB(70 + at)));
  }
  EXPECT_TRUE(test::facts_of(model).empty());
  EXPECT_EQ(model.spared(), 8u);
  EXPECT_EQ(model.cgroups().find(10)->usage, MiB(1400)) << "it is known all the same";
  model.on_reading(10, reading(1500, MiB(1500)));
  EXPECT_EQ(facts_of<Sample>(model).size(), 1u);
  model.set_pace(Nanos{});
  model.on_reading(10, reading(1501, MiB(1501)));
  EXPECT_EQ(facts_of<Sample>(model).size(), 1u);
  EXPECT_EQ(model.spared(), 8u);
}

}  // namespace oomcast
