#include "wire/records.h"

#include <gtest/gtest.h>
#include <wire.h>

#include <cstring>
#include <random>

#include "wire/gpu_maps.h"

namespace oomcast::wire {
namespace {

constexpr Units kUnits{4096, 10'000'000};

template <typename T>
T record_of(oc_record_type type) {
  T r;
  std::memset(&r, 0, sizeof(r));
  r.header.type = type;
  r.header.size = sizeof(T);
  r.header.time_ns = 5'000'000'000;
  return r;
}

template <typename T>
std::vector<std::byte> bytes_of(const T& r) {
  std::vector<std::byte> out(sizeof(T));
  std::memcpy(out.data(), &r, sizeof(T));
  return out;
}

// Of a record that is sent as far as it is filled.
template <typename T>
std::vector<std::byte> bytes_of(T r, std::size_t size) {
  r.header.size = static_cast<unsigned short>(size);
  auto out = bytes_of(r);
  out.resize(size);
  return out;
}

template <typename Out, typename In>
Out decoded(const In& r, std::size_t size = sizeof(In), const Units& units = kUnits) {
  auto result = decode(bytes_of(r, size), units);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  auto* out = std::get_if<Out>(&*result);
  if (!out) ADD_FAILURE() << "decoded as another type, index " << result->index();
  return out ? *out : Out{};
}

oc_task a_task(std::uint32_t tgid = 100) {
  oc_task t{};
  t.tgid = tgid;
  t.tid = tgid + 3;
  t.start_ns = 12'345'678'901;
  t.parent_tgid = 50;
  t.parent_start_ns = 9'999'999'999;
  t.ns_tgid = 7;
  t.cgroup_id = 4242;
  t.uid = 1000;
  t.oom_score_adj = -500;
  std::memcpy(t.comm, "python3", 8);
  return t;
}

oc_memory some_memory() {
  return {10, 20, 30, 40, 500, 8192, 0xabc};
}

oc_memory no_memory() {
  oc_memory m{};
  m.anon_pages = m.file_pages = m.shmem_pages = m.swap_entries = OC_UNKNOWN_BYTES;
  m.total_vm_pages = m.pgtables_bytes = OC_UNKNOWN_BYTES;
  return m;
}

// One of each type, as large as the type may be.
std::vector<std::vector<std::byte>> one_of_each() {
  std::vector<std::vector<std::byte>> out;
  out.push_back(bytes_of(record_of<oc_cgroup_sample>(OC_CGROUP_SAMPLE)));
  out.push_back(bytes_of(record_of<oc_process_sample>(OC_PROCESS_SAMPLE)));
  out.push_back(bytes_of(record_of<oc_fork>(OC_FORK)));
  auto exec = record_of<oc_exec>(OC_EXEC);
  exec.args_bytes = OC_ARGS_LEN;
  out.push_back(bytes_of(exec));
  out.push_back(bytes_of(record_of<oc_exit>(OC_EXIT)));
  out.push_back(bytes_of(record_of<oc_exit>(OC_VICTIM_EXIT)));
  auto event = record_of<oc_cgroup_event>(OC_CGROUP_EVENT);
  event.op = OC_CGROUP_MKDIR;
  out.push_back(bytes_of(event));
  out.push_back(bytes_of(record_of<oc_cgroup_attach>(OC_CGROUP_ATTACH)));
  auto mark = record_of<oc_oom_mark>(OC_OOM_MARK);
  mark.levels = mark.victim_levels = OC_CHAIN_LEN;
  out.push_back(bytes_of(mark));
  out.push_back(bytes_of(record_of<oc_kernel_kill>(OC_KERNEL_KILL)));
  auto dying = record_of<oc_dying>(OC_DYING);
  dying.stack_frames = OC_STACK_DEPTH;
  dying.args_bytes = OC_ARGS_LEN;
  out.push_back(bytes_of(dying));
  out.push_back(bytes_of(record_of<oc_user_kill>(OC_USER_KILL)));
  auto reaper = record_of<oc_reaper>(OC_REAPER);
  reaper.op = OC_REAP_DONE;
  out.push_back(bytes_of(reaper));
  out.push_back(bytes_of(record_of<oc_oom_decision>(OC_OOM_DECISION)));
  return out;
}

TEST(Decode, reads_a_task_with_its_units) {
  auto r = record_of<oc_fork>(OC_FORK);
  r.child = a_task();
  r.child.flags = OC_TASK_EXITING | OC_TASK_WORKQUEUE;
  Fork fork = decoded<Fork>(r);
  EXPECT_EQ(fork.time, mono_from_ns(5'000'000'000));
  EXPECT_EQ(fork.child.id, (TaskId{100, 1234})) << "start in clock ticks, rounded down";
  EXPECT_EQ(fork.child.tid, 103u);
  EXPECT_EQ(fork.child.parent, (TaskId{50, 999}));
  EXPECT_EQ(fork.child.ns_tgid, 7u);
  EXPECT_EQ(fork.child.cgroup, 4242u);
  EXPECT_EQ(fork.child.uid, 1000u);
  EXPECT_EQ(fork.child.oom_score_adj, -500);
  EXPECT_TRUE(fork.child.exiting);
  EXPECT_TRUE(fork.child.workqueue);
  EXPECT_EQ(fork.child.comm, "python3");
}

TEST(Decode, makes_a_task_without_parent_or_cgroup_unknown_not_zero) {
  auto r = record_of<oc_fork>(OC_FORK);
  r.child = a_task();
  r.child.parent_tgid = 0;
  r.child.cgroup_id = OC_NO_CGROUP;
  Fork out = decoded<Fork>(r);
  EXPECT_EQ(out.child.parent, std::nullopt);
  EXPECT_EQ(out.child.cgroup, std::nullopt);
}

TEST(Decode, does_not_read_past_a_comm_without_its_nul) {
  auto r = record_of<oc_fork>(OC_FORK);
  std::memset(r.child.comm, 'x', sizeof(r.child.comm));
  EXPECT_EQ(decoded<Fork>(r).child.comm, std::string(OC_COMM_LEN, 'x'));
}

TEST(Decode, multiplies_memory_by_the_page_size_it_was_told) {
  auto r = record_of<oc_process_sample>(OC_PROCESS_SAMPLE);
  r.memory = some_memory();
  auto out = decoded<ProcessSample>(r, sizeof(r), Units{65536, 10'000'000});
  ASSERT_TRUE(out.memory);
  EXPECT_EQ(out.memory->anon.count, 10 * 65536);
  EXPECT_EQ(out.memory->file.count, 20 * 65536);
  EXPECT_EQ(out.memory->shmem.count, 30 * 65536);
  EXPECT_EQ(out.memory->swap.count, 40 * 65536);
  EXPECT_EQ(out.memory->total_vm.count, 500 * 65536);
  EXPECT_EQ(out.memory->pgtables.count, 8192) << "these are bytes already";
  EXPECT_EQ(out.memory->rss().count, 60 * 65536);
  EXPECT_EQ(out.memory->mm_key, 0xabcu);
}

TEST(Decode, a_task_without_mm_has_no_memory) {
  auto sample = record_of<oc_process_sample>(OC_PROCESS_SAMPLE);
  sample.memory = no_memory();
  EXPECT_EQ(decoded<ProcessSample>(sample).memory, std::nullopt);
  auto mark = record_of<oc_oom_mark>(OC_OOM_MARK);
  mark.memory = no_memory();
  mark.levels = mark.victim_levels = OC_CHAIN_LEN;
  EXPECT_EQ(decoded<OomMark>(mark).memory, std::nullopt);
  auto kill = record_of<oc_kernel_kill>(OC_KERNEL_KILL);
  kill.memory = no_memory();
  EXPECT_EQ(decoded<KernelKill>(kill).memory, std::nullopt);
  auto dying = record_of<oc_dying>(OC_DYING);
  dying.memory = no_memory();
  dying.stack_frames = OC_STACK_DEPTH;
  dying.args_bytes = OC_ARGS_LEN;
  EXPECT_EQ(decoded<Dying>(dying).memory, std::nullopt);
}

TEST(Decode, a_process_of_zero_pages_has_memory) {
  auto r = record_of<oc_process_sample>(OC_PROCESS_SAMPLE);
  ASSERT_TRUE(decoded<ProcessSample>(r).memory);
  EXPECT_EQ(decoded<ProcessSample>(r).memory->rss().count, 0);
}

TEST(Decode, reads_a_cgroup_sample) {
  auto r = record_of<oc_cgroup_sample>(OC_CGROUP_SAMPLE);
  r.memcg = {77, 1000, 2000, 1500, 1, 1};
  r.parent_id = 70;
  r.moved = 1;
  auto out = decoded<CgroupSample>(r);
  EXPECT_EQ(out.memcg.inode, 77u);
  EXPECT_EQ(out.memcg.usage.count, 4'096'000);
  ASSERT_TRUE(out.memcg.limit);
  EXPECT_EQ(out.memcg.limit->count, 8'192'000);
  EXPECT_EQ(out.memcg.watermark.count, 6'144'000);
  EXPECT_TRUE(out.memcg.oom_lock);
  EXPECT_TRUE(out.memcg.oom_group);
  EXPECT_EQ(out.parent, 70u);
  EXPECT_TRUE(out.moved);
}

TEST(Decode, tells_no_limit_from_a_huge_one_with_pages_of_any_size) {
  auto r = record_of<oc_cgroup_sample>(OC_CGROUP_SAMPLE);
  for (unsigned long long none :
       {OC_NO_LIMIT_FROM_PAGES, (1ull << 63) / 4096 - 1, (1ull << 63) / 65536 - 1}) {
    r.memcg.limit_pages = none;
    EXPECT_EQ(decoded<CgroupSample>(r).memcg.limit, std::nullopt) << none;
  }
  r.memcg.limit_pages = OC_NO_LIMIT_FROM_PAGES - 1;
  EXPECT_TRUE(decoded<CgroupSample>(r).memcg.limit);
  r.memcg.limit_pages = 0;
  EXPECT_EQ(decoded<CgroupSample>(r).memcg.limit, Bytes{0}) << "a limit of nothing is a limit";
  EXPECT_EQ(decoded<CgroupSample>(r).parent, std::nullopt);
}

TEST(Decode, reads_an_exec_that_ends_with_its_arguments) {
  auto r = record_of<oc_exec>(OC_EXEC);
  r.task = a_task();
  std::string_view args("python3\0-m\0train\0", 17);
  std::memcpy(r.args, args.data(), args.size());
  r.args_bytes = 17;
  r.header.size = sizeof(r) - OC_ARGS_LEN + 17;
  auto bytes = bytes_of(r);
  bytes.resize(r.header.size);
  auto result = decode(bytes, kUnits);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const auto& exec = std::get<Exec>(*result);
  ASSERT_TRUE(exec.args);
  EXPECT_EQ(exec.args->argv, (std::vector<std::string>{"python3", "-m", "train"}));
  EXPECT_FALSE(exec.args->truncated);
}

TEST(Decode, an_exec_whose_arguments_could_not_be_read_has_none) {
  auto r = record_of<oc_exec>(OC_EXEC);
  r.header.size = sizeof(r) - OC_ARGS_LEN;
  auto bytes = bytes_of(r);
  bytes.resize(r.header.size);
  auto result = decode(bytes, kUnits);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_FALSE(std::get<Exec>(*result).args);
}

TEST(Decode, refuses_an_exec_that_claims_more_arguments_than_it_has) {
  auto r = record_of<oc_exec>(OC_EXEC);
  for (unsigned int claimed : {11u, unsigned{OC_ARGS_LEN}, unsigned{OC_ARGS_LEN} + 1, 0xffffffffu}) {
    r.args_bytes = claimed;
    r.header.size = sizeof(r) - OC_ARGS_LEN + 10;
    auto bytes = bytes_of(r);
    bytes.resize(r.header.size);
    EXPECT_FALSE(decode(bytes, kUnits).ok()) << claimed;
  }
}

TEST(Decode, tells_that_arguments_were_cut) {
  auto r = record_of<oc_exec>(OC_EXEC);
  std::memset(r.args, 'a', sizeof(r.args));
  r.args_bytes = OC_ARGS_LEN;
  r.args_truncated = 1;
  auto exec = decoded<Exec>(r);
  ASSERT_TRUE(exec.args);
  EXPECT_TRUE(exec.args->truncated);
  EXPECT_EQ(exec.args->argv, std::vector<std::string>{std::string(OC_ARGS_LEN, 'a')});
}

TEST(Decode, tells_the_exit_of_a_victim_from_another) {
  auto r = record_of<oc_exit>(OC_VICTIM_EXIT);
  r.exit_code = 9 | 0x80;
  Exit victim = decoded<Exit>(r);
  EXPECT_TRUE(victim.killed_by_kernel);
  EXPECT_TRUE(victim.by_sigkill());
  r.header.type = OC_EXIT;
  r.exit_code = 9 << 8;
  Exit plain = decoded<Exit>(r);
  EXPECT_FALSE(plain.killed_by_kernel);
  EXPECT_FALSE(plain.by_sigkill()) << "exit status 9 is no signal";
}

TEST(Decode, reads_what_happened_to_a_cgroup) {
  auto r = record_of<oc_cgroup_event>(OC_CGROUP_EVENT);
  r.id = 9;
  r.parent_id = 1;
  std::memset(r.name, 'n', sizeof(r.name));
  for (auto [op, as] : {std::pair(OC_CGROUP_MKDIR, CgroupEvent::Op::mkdir),
                        std::pair(OC_CGROUP_RMDIR, CgroupEvent::Op::rmdir),
                        std::pair(OC_CGROUP_RENAME, CgroupEvent::Op::rename)}) {
    r.op = op;
    auto out = decoded<CgroupEvent>(r);
    EXPECT_EQ(out.op, as);
    EXPECT_EQ(out.inode, 9u);
    EXPECT_EQ(out.parent, 1u);
    EXPECT_EQ(out.name, std::string(OC_NAME_LEN, 'n')) << "a name without its NUL ends with the field";
  }
  for (unsigned op : {0u, 4u, 0xffffffffu}) {
    r.op = op;
    EXPECT_FALSE(decode(bytes_of(r), kUnits).ok()) << op;
  }
}

TEST(Decode, reads_a_move_between_cgroups) {
  auto r = record_of<oc_cgroup_attach>(OC_CGROUP_ATTACH);
  r.task = a_task(8);
  r.to_id = 99;
  auto out = decoded<CgroupAttach>(r);
  EXPECT_EQ(out.task.id.tgid, 8u);
  EXPECT_EQ(out.to, 99u);
}

std::size_t mark_of(std::size_t levels) {
  return offsetof(oc_oom_mark, chains) + levels * sizeof(oc_memcg);
}

TEST(Decode, reads_a_mark_with_both_chains_up_to_their_ends) {
  auto r = record_of<oc_oom_mark>(OC_OOM_MARK);
  r.victim = a_task(200);
  r.trigger = a_task(201);
  r.memory = some_memory();
  r.levels = 2;
  r.chains[0] = {30, 5, 6, 7, 0, 0};
  r.chains[1] = {20, 5, OC_NO_LIMIT_FROM_PAGES, 7, 1, 0};
  r.victim_levels = OC_CHAIN_LEN;
  for (std::size_t i = 0; i < OC_CHAIN_LEN; ++i) r.chains[2 + i] = {i + 1, 1, 2, 3, 0, 0};
  auto out = decoded<OomMark>(r, mark_of(2 + OC_CHAIN_LEN));
  EXPECT_EQ(out.victim.id.tgid, 200u);
  EXPECT_EQ(out.trigger.id.tgid, 201u);
  ASSERT_TRUE(out.memory);
  ASSERT_EQ(out.chain.size(), 2u);
  EXPECT_EQ(out.chain[0].inode, 30u);
  EXPECT_EQ(out.chain[0].limit, Bytes{6 * 4096});
  EXPECT_FALSE(out.chain[0].oom_lock);
  EXPECT_EQ(out.chain[1].limit, std::nullopt);
  EXPECT_TRUE(out.chain[1].oom_lock);
  ASSERT_EQ(out.victim_chain.size(), std::size_t{OC_CHAIN_LEN});
  EXPECT_EQ(out.victim_chain[0].inode, 1u);
}

TEST(Decode, a_victim_of_the_triggers_cgroup_has_its_chain) {
  auto r = record_of<oc_oom_mark>(OC_OOM_MARK);
  r.levels = 1;
  r.victim_levels = OC_SAME_CHAIN;
  r.chains[0] = {30, 5, 6, 7, 0, 0};
  auto out = decoded<OomMark>(r, mark_of(1));
  ASSERT_EQ(out.chain.size(), 1u);
  ASSERT_EQ(out.victim_chain.size(), 1u);
  EXPECT_EQ(out.victim_chain[0].inode, 30u);
}

TEST(Decode, refuses_a_mark_that_claims_other_chains_than_it_has) {
  for (auto [levels, victim_levels] :
       {std::pair(2u, 1u), std::pair(1u, 0u), std::pair(0u, 3u), std::pair(3u, unsigned{OC_SAME_CHAIN}),
        std::pair(OC_CHAIN_LEN + 1u, 0u), std::pair(0xffffffffu, 3u), std::pair(1u, 0xfffffffeu)}) {
    auto r = record_of<oc_oom_mark>(OC_OOM_MARK);
    r.levels = levels;
    r.victim_levels = victim_levels;
    EXPECT_FALSE(decode(bytes_of(r, mark_of(2)), kUnits).ok()) << levels << ", " << victim_levels;
  }
}

TEST(Decode, reads_the_kernels_kill_and_users) {
  auto kernel = record_of<oc_kernel_kill>(OC_KERNEL_KILL);
  kernel.victim = a_task(1);
  kernel.sender = a_task(2);
  kernel.memory = some_memory();
  auto k = decoded<KernelKill>(kernel);
  EXPECT_EQ(k.victim.id.tgid, 1u);
  EXPECT_EQ(k.sender.id.tgid, 2u);
  EXPECT_EQ(k.memory->mm_key, 0xabcu);

  auto user = record_of<oc_user_kill>(OC_USER_KILL);
  user.victim = a_task(3);
  user.sender = a_task(4);
  user.si_code = 0;
  auto u = decoded<UserKill>(user);
  EXPECT_EQ(u.victim.id.tgid, 3u);
  EXPECT_EQ(u.sender.id.tgid, 4u);
  EXPECT_EQ(u.si_code, 0) << "SI_USER is known, and is zero";
  EXPECT_FALSE(u.may_kill_anybody || u.by_tracer);
  user.no_siginfo = user.by_tracer = 1;
  EXPECT_EQ(decoded<UserKill>(user).si_code, std::nullopt);
  EXPECT_TRUE(decoded<UserKill>(user).by_tracer);
  EXPECT_FALSE(decoded<UserKill>(user).may_kill_anybody);
}

TEST(Decode, reads_last_words_and_refuses_them_where_they_claim_more_than_there_is) {
  auto r = record_of<oc_dying>(OC_DYING);
  r.task = a_task();
  r.memory = some_memory();
  const std::uint64_t stack[] = {0x1000, 0x2000};
  std::memcpy(r.words, stack, sizeof(stack));
  r.stack_frames = 2;
  std::memcpy(r.words + sizeof(stack), "a\0b", 4);
  r.args_bytes = 4;
  const std::size_t size = offsetof(oc_dying, words) + sizeof(stack) + 4;
  auto out = decoded<Dying>(r, size);
  ASSERT_TRUE(out.args);
  EXPECT_EQ(out.args->argv, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(out.stack, (std::vector<std::uint64_t>{0x1000, 0x2000}));
  for (auto [frames, args] : {std::pair(2u, 5u), std::pair(1u, 4u), std::pair(0xffffffffu, 12u),
                              std::pair(0u, OC_ARGS_LEN + 1u), std::pair(3u, 0xfffffffcu)}) {
    r.stack_frames = frames;
    r.args_bytes = args;
    EXPECT_FALSE(decode(bytes_of(r, size), kUnits).ok()) << frames << ", " << args;
  }
}

TEST(Decode, reads_the_reaper) {
  auto r = record_of<oc_reaper>(OC_REAPER);
  r.tid = 5;
  for (auto [op, as] :
       {std::pair(OC_REAP_QUEUED, Reaper::Op::queued), std::pair(OC_REAP_DONE, Reaper::Op::done),
        std::pair(OC_REAP_SKIPPED, Reaper::Op::skipped)}) {
    r.op = op;
    EXPECT_EQ(decoded<Reaper>(r).op, as);
  }
  EXPECT_EQ(decoded<Reaper>(r).tid, 5u);
  for (unsigned op : {0u, 4u}) {
    r.op = op;
    EXPECT_FALSE(decode(bytes_of(r), kUnits).ok()) << op;
  }
}

TEST(Decode, reads_a_decision_and_leaves_a_new_constraint_unknown) {
  auto r = record_of<oc_oom_decision>(OC_OOM_DECISION);
  r.trigger = a_task(1);
  r.victim = a_task(2);
  r.limit_cgroup_id = 33;
  r.gfp_mask = 0xcc0;
  r.order = -1;
  r.constraint = 3;
  auto out = decoded<OomDecision>(r);
  EXPECT_EQ(out.limit_cgroup, 33u);
  EXPECT_EQ(out.gfp_mask, 0xcc0u);
  EXPECT_EQ(out.order, -1);
  EXPECT_EQ(out.constraint, OomDecision::Constraint::memcg);
  r.constraint = 4;
  r.limit_cgroup_id = OC_NO_CGROUP;
  EXPECT_EQ(decoded<OomDecision>(r).constraint, std::nullopt);
  EXPECT_EQ(decoded<OomDecision>(r).limit_cgroup, std::nullopt);
}

TEST(Decode, knows_every_type) {
  for (const auto& bytes : one_of_each()) {
    auto result = decode(bytes, kUnits);
    EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_LE(bytes.size(), max_record_bytes());
  }
}

TEST(Decode, refuses_a_record_cut_at_any_byte) {
  for (const auto& whole : one_of_each())
    for (std::size_t size = 0; size < whole.size(); ++size) {
      // Its own allocation, so that the sanitizer sees a read behind it.
      std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      cut.shrink_to_fit();
      auto as_told = decode(cut, kUnits);
      ASSERT_FALSE(as_told.ok()) << "the header says " << whole.size() << ", there are " << size;
      if (size < sizeof(oc_header)) continue;
      auto said = static_cast<unsigned short>(size);
      std::memcpy(cut.data() + offsetof(oc_header, size), &said, sizeof(said));
      ASSERT_FALSE(decode(cut, kUnits).ok()) << "of " << whole.size() << " bytes, " << size << " and says so";
    }
}

TEST(Decode, refuses_a_record_that_is_longer_than_it_says) {
  for (auto bytes : one_of_each()) {
    bytes.push_back({});
    EXPECT_FALSE(decode(bytes, kUnits).ok());
  }
}

TEST(Decode, refuses_a_record_that_is_longer_than_its_type_though_it_says_so) {
  for (auto bytes : one_of_each()) {
    auto said = static_cast<unsigned short>(bytes.size() + 8);
    std::memcpy(bytes.data() + offsetof(oc_header, size), &said, sizeof(said));
    bytes.resize(said);
    EXPECT_FALSE(decode(bytes, kUnits).ok()) << "type " << static_cast<int>(bytes[0]);
  }
}

TEST(Decode, refuses_an_unknown_type_and_names_it) {
  auto r = record_of<oc_dying>(OC_DYING);
  for (int type : {0, 9, 15, 23, 0xffff}) {
    r.header.type = static_cast<unsigned short>(type);
    auto result = decode(bytes_of(r), kUnits);
    ASSERT_FALSE(result.ok()) << type;
    EXPECT_NE(result.error().message.find("type " + std::to_string(type)), std::string::npos);
  }
}

TEST(Decode, reads_a_record_at_any_address) {
  // Behind an exec, whose size is any, the next record of a batch is not aligned.
  for (const auto& whole : one_of_each()) {
    std::vector<std::byte> batch(1);
    batch.insert(batch.end(), whole.begin(), whole.end());
    EXPECT_TRUE(decode(std::span(batch).subspan(1), kUnits).ok());
  }
}

TEST(Decode, survives_any_content) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round)
    for (auto bytes : one_of_each()) {
      for (std::size_t i = sizeof(oc_header); i < bytes.size(); ++i)
        if (random() % 4) bytes[i] = static_cast<std::byte>(random());
      auto result = decode(bytes, kUnits);
      if (!result) continue;
      // Whatever is in it: nothing is longer than its place in the record.
      std::visit(
          [](const auto& r) {
            if constexpr (requires { r.task.comm; }) {
              EXPECT_LE(r.task.comm.size(), sizeof(oc_task::comm));
            }
            if constexpr (requires { r.args->argv; }) {
              std::size_t length = 0;
              if (r.args)
                for (std::string_view word : r.args->argv) length += word.size();
              EXPECT_LE(length, std::size_t{OC_ARGS_LEN});
            }
            if constexpr (requires { r.stack.size(); }) {
              EXPECT_LE(r.stack.size(), std::size_t{OC_STACK_DEPTH});
            }
          },
          *result);
    }
}

TEST(LostReasons, name_every_counter_of_the_kernel_side) {
  EXPECT_EQ(lost_reasons().size(), std::size_t{OC_LOST_REASONS});
  EXPECT_EQ(lost_reasons()[OC_LOST_SAMPLES_RING_FULL], "samples_ring_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_EVENTS_RING_FULL], "events_ring_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_CGROUP_TABLE_FULL], "cgroup_table_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_PROCESS_TABLE_FULL], "process_table_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_VICTIM_TABLE_FULL], "victim_table_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_STALL_TABLE_FULL], "stall_table_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_USER_KILLS_RING_FULL], "user_kills_ring_full");
  EXPECT_EQ(lost_reasons()[OC_LOST_USER_KILLS_OVER_RATE], "user_kills_over_rate");
  EXPECT_EQ(lost_reasons()[OC_LOST_EXIT_KILLS_OVER_RATE], "exit_kills_over_rate");
  EXPECT_EQ(lost_reasons()[OC_LOST_DYING_CODE_NO_ROOM], "dying_code_no_room");
  EXPECT_EQ(lost_reasons()[OC_LOST_KERNEL_KILLS_OVER_RATE], "kernel_kills_over_rate");
}

TEST(DecodeStalls, has_units_and_survives_a_short_value) {
  oc_stalls s{3, 5'000'000, 100};
  Stalls out = decode_stalls(bytes_of(s), kUnits);
  EXPECT_EQ(out.count, 3u);
  EXPECT_EQ(out.time, std::chrono::milliseconds(5));
  EXPECT_EQ(out.reclaimed.count, 409'600);
  auto bytes = bytes_of(s);
  bytes.resize(8);
  EXPECT_EQ(decode_stalls(bytes, kUnits).count, 3u);
  EXPECT_EQ(stalls_bytes(), sizeof(oc_stalls));
}

TEST(GpuXid, is_read_with_its_texts_as_far_as_they_end_and_refused_when_it_is_not_one) {
  auto r = record_of<oc_gpu_xid>(OC_GPU_XID);
  r.code = 31;
  std::memcpy(r.bus, "0000:01:00.0", 13);
  std::memset(r.message, 'x', sizeof(r.message));
  auto xid = decode_gpu_xid(bytes_of(r));
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->code, 31u);
  EXPECT_EQ(xid->bus, "0000:01:00.0");
  EXPECT_EQ(xid->message, std::string(OC_GPU_MESSAGE_LEN, 'x')) << "it has no end";
  auto cut = bytes_of(r);
  cut.pop_back();
  EXPECT_FALSE(decode_gpu_xid(cut));
  r.header.type = OC_GPU_CALL;
  EXPECT_FALSE(decode_gpu_xid(bytes_of(r)));
}

TEST(GpuActivity, is_summed_up_over_the_cpus_and_of_nobody_without_a_process) {
  oc_gpu_activity_key key{12'345'678'901, 100, OC_GPU_FROM_CARD, 4};
  oc_gpu_activity one{2, 8192}, other{3, 4096};
  auto values = bytes_of(one), more = bytes_of(other);
  values.insert(values.end(), more.begin(), more.end());
  auto read = [&] {
    auto bytes = bytes_of(key);
    return decode_gpu_activity(std::span<const std::byte, kGpuActivityKeyBytes>(bytes), values, kUnits);
  };
  auto sum = read();
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->task, (TaskId{100, 1234}));
  EXPECT_EQ(sum->what, GpuPageEvents::What::from_card);
  EXPECT_EQ(sum->cause, 4);
  EXPECT_EQ(sum->count, 5u);
  EXPECT_EQ(sum->bytes, 12'288u);
  key.tgid = 0;
  EXPECT_FALSE(read()->task);
  for (unsigned what : {0u, 6u, 65535u}) {
    key.what = static_cast<unsigned short>(what);
    EXPECT_FALSE(read()) << what;
  }
}

}  // namespace
}  // namespace oomcast::wire
