#include "model/gpu_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using What = GpuOp::What;

constexpr TaskId kTrainer{100, 1}, kOther{200, 2};
constexpr std::uint32_t kClient = 0xc1d00024, kDevice = 0x5c000001;

GpuUuid card(std::uint8_t n) {
  GpuUuid out;
  out.bytes.fill(n);
  return out;
}

struct GpuMachine {
  GpuMemory memory;
  MonoTime now{1h};

  void call(const GpuOp& op, TaskId task = kTrainer) {
    memory.on(now, task, op);
    now += 10ms;
  }
  void alloc(std::uint32_t object, Bytes bytes, GpuMemoryKind kind = GpuMemoryKind::device,
             std::uint32_t status = 0, TaskId task = kTrainer) {
    GpuOp op;
    op.what = What::alloc;
    op.object = {kClient, object};
    op.parent = kDevice;
    op.kind = kind;
    op.bytes = bytes;
    op.status = status;
    call(op, task);
  }
  void registers(std::uint32_t object) {
    GpuOp op;
    op.what = What::registers;
    op.object = {kClient, object};
    call(op);
  }
  void free(std::uint32_t object) { free_of(kTrainer, {kClient, object}); }
  void free_of(TaskId task, GpuObject object) {
    GpuOp op;
    op.what = What::free;
    op.object = object;
    op.status = 0;
    call(op, task);
  }
  void give(TaskId task, GpuObject object, GpuObject source) {
    GpuOp op;
    op.what = What::duplicate;
    op.object = object;
    op.source = source;
    op.status = 0;
    call(op, task);
  }
  void context(const GpuUuid& on, TaskId task = kTrainer) {
    GpuOp op;
    op.what = What::context;
    op.device = on;
    call(op, task);
  }
  void managed(What what, std::uint64_t address, Bytes bytes, std::uint32_t status = 0) {
    GpuOp op;
    op.what = what;
    op.kind = GpuMemoryKind::managed;
    op.address = address;
    op.bytes = bytes;
    op.status = status;
    call(op);
  }
  const GpuHeld& held(TaskId task = kTrainer) { return *memory.of(task); }
  std::vector<GpuEvent::Op> ops() {
    std::vector<GpuEvent::Op> out;
    for (const GpuEvent& e : memory.take()) out.push_back(e.op);
    return out;
  }
};

TEST(GpuMemory, counts_device_and_pinned_bytes_until_they_are_freed) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.alloc(2, MiB(8), GpuMemoryKind::pinned);
  EXPECT_EQ(m.held().device, MiB(64));
  EXPECT_EQ(m.held().pinned, MiB(8));
  m.free(1);
  EXPECT_EQ(m.held().device, Bytes{});
  EXPECT_EQ(m.held().pinned, MiB(8));
}

TEST(GpuMemory, knows_which_handles_a_process_still_has) {
  GpuMachine m;
  m.alloc(1, MiB(2));
  EXPECT_TRUE(m.memory.holds(kTrainer, {kClient, 1}));
  EXPECT_FALSE(m.memory.holds(kTrainer, {kClient, 2}));
  EXPECT_FALSE(m.memory.holds(kOther, {kClient, 1}));
  m.free(1);
  EXPECT_FALSE(m.memory.holds(kTrainer, {kClient, 1}));
}

TEST(GpuMemory, a_free_that_the_driver_refused_frees_nothing) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  GpuOp op;
  op.what = What::free;
  op.object = {kClient, 1};
  op.status = 0x1B;
  m.call(op);
  EXPECT_EQ(m.held().device, MiB(64));
}

TEST(GpuMemory, an_allocation_with_a_warning_counts_and_one_that_failed_does_not) {
  GpuMachine m;
  m.alloc(1, MiB(2), GpuMemoryKind::device, 0x10006);
  m.alloc(2, MiB(4), GpuMemoryKind::device, 0x1E);
  EXPECT_EQ(m.held().device, MiB(2));
}

TEST(GpuMemory, the_free_of_a_device_or_client_frees_what_lies_below_it) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.alloc(2, MiB(32));
  m.free(kDevice);
  EXPECT_EQ(m.held().device, Bytes{});
  m.alloc(3, MiB(16));
  m.free(kClient);
  EXPECT_EQ(m.held().device, Bytes{});
}

TEST(GpuMemory, memory_with_two_handles_is_counted_once_and_goes_to_who_has_the_last) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.give(kOther, {kClient + 1, 7}, {kClient, 1});
  EXPECT_EQ(m.held().device, MiB(64));
  EXPECT_EQ(m.held(kOther).device, Bytes{});
  m.free(1);
  EXPECT_EQ(m.held().device, Bytes{});
  EXPECT_EQ(m.held(kOther).device, MiB(64));
  m.free_of(kOther, {kClient + 1, 7});
  EXPECT_EQ(m.held(kOther).device, Bytes{});
  EXPECT_EQ(m.ops(), (std::vector{GpuEvent::Op::alloc, GpuEvent::Op::free, GpuEvent::Op::free}));
}

TEST(GpuMemory, what_was_given_to_another_is_that_ones_when_the_process_ends) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.alloc(2, MiB(8));
  m.give(kOther, {kClient + 1, 7}, {kClient, 1});
  m.memory.on_exit(m.now, kTrainer);
  EXPECT_EQ(m.held(kOther).device, MiB(64));
  m.memory.on_exit(m.now, kOther);
  m.alloc(1, MiB(2));
  EXPECT_EQ(m.held().device, MiB(2));
}

// Arguments are read from memory of the program's, which can say anything.
TEST(GpuMemory, no_process_frees_or_takes_over_what_another_holds) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.free_of(kOther, {kClient, 1});
  m.free_of(kOther, {kClient, kDevice});
  m.free_of(kOther, {kClient, kClient});
  m.alloc(1, MiB(2), GpuMemoryKind::device, 0, kOther);
  GpuOp map;
  map.what = What::map;
  map.object = {kClient, 1};
  map.device = card(9);
  m.call(map, kOther);
  EXPECT_EQ(m.held().device, MiB(64));
  EXPECT_TRUE(m.held().by_device.empty());
  m.memory.on_exit(m.now, kOther);
  EXPECT_EQ(m.held().device, MiB(64));
  m.free(1);
  EXPECT_EQ(m.held().device, Bytes{});
}

TEST(GpuMemory, a_forked_child_has_its_parents_handles) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.alloc(2, MiB(8));
  constexpr TaskId kChild{101, 3}, kGrandchild{102, 4};
  GpuOp map;
  map.what = What::map;
  map.object = {kClient, 1};
  map.device = card(9);
  m.memory.on(m.now, kChild, map, std::array{kTrainer});
  EXPECT_EQ(m.held().by_device.at(card(9)), MiB(64));
  GpuOp op;
  op.what = What::free;
  op.object = {kClient, 1};
  op.status = 0;
  m.memory.on(m.now, kGrandchild, op, std::array{kChild, kTrainer});
  EXPECT_EQ(m.held().device, MiB(8));
  op.object = {kClient, kClient};
  m.memory.on(m.now, kChild, op, std::array{kTrainer});
  EXPECT_EQ(m.held().device, Bytes{});
}

TEST(GpuMemory, a_process_that_claims_more_than_its_address_space_is_not_believed) {
  GpuMachine m;
  for (std::uint32_t i = 0; i < 1000; ++i) m.alloc(i + 1, GiB(1 << 16));
  EXPECT_EQ(m.held().device, GpuMemory::kMaxOfOne);
  EXPECT_EQ(m.memory.dropped(), 998u);
  for (std::uint64_t i = 0; i < 1000; ++i) m.managed(What::managed_map, i << 50, GiB(1 << 16));
  EXPECT_EQ(m.held().managed, GpuMemory::kMaxOfOne);
}

TEST(GpuMemory, a_process_that_names_cards_without_end_is_on_a_bounded_number) {
  GpuMachine m;
  for (std::uint32_t i = 0; i < 200; ++i) {
    m.alloc(i + 1, MiB(2));
    GpuOp op;
    op.what = i % 2 ? What::map : What::context;
    op.object = {kClient, i + 1};
    op.device = card(static_cast<std::uint8_t>(i + 1));
    m.call(op);
  }
  EXPECT_EQ(m.held().by_device.size(), GpuMemory::kMaxCards);
}

TEST(GpuMemory, a_handle_that_is_given_out_again_replaces_the_old_one) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.alloc(1, MiB(2));
  EXPECT_EQ(m.held().device, MiB(2));
}

TEST(GpuMemory, a_mapping_tells_which_card_the_memory_is_on) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  EXPECT_TRUE(m.held().by_device.empty());
  GpuOp op;
  op.what = What::map;
  op.object = {kClient, 1};
  op.kind = GpuMemoryKind::external;
  op.address = 0x7f0000000000;
  op.bytes = MiB(64);
  op.device = card(3);
  op.status = 0;
  m.call(op);
  m.call(op);
  EXPECT_EQ(m.held().by_device.at(card(3)), MiB(64));
  EXPECT_EQ(m.held().device, MiB(64));
  m.free(1);
  EXPECT_EQ(m.held().by_device.at(card(3)), Bytes{});
}

TEST(GpuMemory, managed_memory_goes_with_munmap_also_in_part_and_across_ranges) {
  GpuMachine m;
  m.managed(What::managed_map, 0x10000000, MiB(8));
  m.managed(What::managed_map, 0x20000000, MiB(4));
  EXPECT_EQ(m.held().managed, MiB(12));
  m.managed(What::unmapped, 0x10000000 + MiB(2).count, MiB(2));
  EXPECT_EQ(m.held().managed, MiB(10));
  m.managed(What::unmapped, 0x10000000 + MiB(6).count, Bytes{0x10000000});
  EXPECT_EQ(m.held().managed, MiB(4)) << "the last 2 MiB of the first and all of the second are gone";
  m.managed(What::unmapped, 0x10000000, MiB(8));
  EXPECT_EQ(m.held().managed, Bytes{});
  m.managed(What::unmapped, 0x30000000, MiB(8));
  EXPECT_EQ(m.held().managed, Bytes{});
}

TEST(GpuMemory, a_range_that_is_cut_into_ever_smaller_ones_is_followed_up_to_a_bound) {
  GpuMachine m;
  const Bytes piece{4096};
  auto pieces = static_cast<std::int64_t>(3 * GpuMemory::kMaxRanges);
  m.managed(What::managed_map, 0x10000000, Bytes{pieces * piece.count});
  for (std::int64_t i = 1; i < pieces; i += 2)
    m.managed(What::unmapped, 0x10000000 + static_cast<std::uint64_t>(i * piece.count), piece);
  EXPECT_GT(m.memory.dropped(), 0u);
  EXPECT_LE(m.held().managed.count, pieces / 2 * piece.count + piece.count);
  EXPECT_GE(m.held().managed.count, 0);
}

TEST(GpuMemory, a_mapping_that_the_driver_does_not_know_is_not_managed_memory) {
  GpuMachine m;
  m.managed(What::managed_map, 0x10000000, MiB(8));
  m.managed(What::check_range, 0x10000000, MiB(8), 0x1E);
  EXPECT_EQ(m.held().managed, Bytes{});
}

TEST(GpuMemory, a_mapping_over_an_older_one_replaces_it) {
  GpuMachine m;
  m.managed(What::managed_map, 0x10000000, MiB(8));
  m.managed(What::managed_map, 0x10000000, MiB(2));
  EXPECT_EQ(m.held().managed, MiB(8)) << "2 MiB new and 6 MiB left";
}

TEST(GpuMemory, an_out_of_memory_is_told_and_recovered_if_as_much_is_had_within_a_second) {
  GpuMachine m;
  m.alloc(1, MiB(64), GpuMemoryKind::device, 0x51);
  EXPECT_EQ(m.ops(), std::vector{GpuEvent::Op::oom});
  m.alloc(1, MiB(32));
  EXPECT_EQ(m.ops(), std::vector{GpuEvent::Op::alloc});
  m.alloc(2, MiB(64));
  EXPECT_EQ(m.ops(), (std::vector{GpuEvent::Op::alloc, GpuEvent::Op::recovered}));
  m.alloc(3, MiB(64), GpuMemoryKind::device, 0x51);
  m.now += 2s;
  m.alloc(3, MiB(64));
  EXPECT_EQ(m.ops(), (std::vector{GpuEvent::Op::oom, GpuEvent::Op::alloc}));
}

TEST(GpuMemory, what_a_context_takes_is_its_overhead_until_the_calls_pause) {
  GpuMachine m;
  GpuOp context;
  context.what = What::context;
  context.status = 0;
  m.call(context);
  m.alloc(1, MiB(256));
  EXPECT_EQ(m.held().overhead, MiB(256));
  m.now += 200ms;
  m.alloc(2, MiB(64));
  EXPECT_EQ(m.held().overhead, MiB(256));
  EXPECT_EQ(m.held().device, MiB(320));
}

TEST(GpuMemory, a_second_copy_of_a_model_is_named_with_the_time_of_the_first) {
  GpuMachine m;
  MonoTime first = m.now;
  for (std::uint32_t i = 0; i < 6; ++i) m.alloc(i + 1, GiB(1));
  m.now += 1min;
  m.memory.take();
  for (std::uint32_t i = 0; i < 6; ++i) m.alloc(i + 11, GiB(1));
  auto events = m.memory.take();
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events.back().op, GpuEvent::Op::again);
  EXPECT_EQ(events.back().bytes, GiB(6));
  EXPECT_EQ(events.back().first, first);
}

TEST(GpuMemory, the_lines_of_a_call_are_those_of_what_it_brought_about_and_of_nothing_before_it) {
  GpuMachine m;
  const std::vector<CodePlace> load{{"load", "/job/model.py", 12}}, step{{"step", "/job/train.py", 41}};
  m.alloc(1, MiB(64));
  m.memory.set_code(load);
  m.alloc(2, GiB(2), GpuMemoryKind::device, 0x51);
  m.memory.set_code(step);
  m.free(1);
  m.memory.set_code(step);
  auto events = m.memory.take();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].code, load);
  EXPECT_EQ(events[1].op, GpuEvent::Op::oom);
  EXPECT_EQ(events[1].code, step);
  EXPECT_TRUE(events[2].code.empty());
}

TEST(GpuMemory, a_model_that_is_loaded_again_after_it_was_freed_is_no_copy) {
  GpuMachine m;
  for (std::uint32_t i = 0; i < 6; ++i) m.alloc(i + 1, GiB(1));
  for (std::uint32_t i = 0; i < 6; ++i) m.free(i + 1);
  m.now += 1min;
  m.memory.take();
  for (std::uint32_t i = 0; i < 6; ++i) m.alloc(i + 11, GiB(1));
  for (GpuEvent::Op op : m.ops()) EXPECT_EQ(op, GpuEvent::Op::alloc);
}

TEST(GpuMemory, the_end_of_a_process_closes_all_that_it_held_and_nothing_of_others) {
  GpuMachine m;
  m.alloc(1, MiB(64));
  m.alloc(2, MiB(32), GpuMemoryKind::device, 0, kOther);
  m.memory.on_exit(m.now, kTrainer);
  EXPECT_EQ(m.memory.of(kTrainer), nullptr);
  EXPECT_EQ(m.held(kOther).device, MiB(32));
  auto events = m.memory.take();
  EXPECT_EQ(events.back().op, GpuEvent::Op::close);
  EXPECT_EQ(events.back().bytes, MiB(64));
}

TEST(GpuMemory, a_program_that_makes_more_handles_than_are_followed_is_counted_and_leaves_room_for_others) {
  GpuMachine m;
  for (std::uint32_t i = 0; i < GpuMemory::kMaxObjectsOfOne + 5; ++i) m.alloc(i + 1, KiB(64));
  EXPECT_EQ(m.memory.dropped(), 5u);
  m.alloc(1, MiB(2), GpuMemoryKind::device, 0, kOther);
  EXPECT_EQ(m.held(kOther).device, MiB(2));
  m.memory.on_exit(m.now, kTrainer);
  for (std::uint32_t i = 0; i < GpuMemory::kMaxObjectsOfOne; ++i) m.alloc(i + 1, KiB(64));
  EXPECT_EQ(m.memory.dropped(), 5u);
}

GpuCard counters(std::uint8_t n, Bytes memory, std::uint64_t pushed_out_pages) {
  return {card(n), memory, 0, 0, pushed_out_pages};
}

TEST(GpuMemory, what_is_not_mapped_yet_is_on_the_card_of_the_only_context_until_a_map_says_otherwise) {
  GpuMachine m;
  m.context(card(3));
  m.alloc(1, MiB(64));
  EXPECT_EQ(m.held().by_device.at(card(3)), MiB(64));
  GpuOp map;
  map.what = What::map;
  map.object = {kClient, 1};
  map.device = card(4);
  m.call(map);
  EXPECT_EQ(m.held().by_device.at(card(3)), Bytes{});
  EXPECT_EQ(m.held().by_device.at(card(4)), MiB(64));
  EXPECT_EQ(m.memory.held_by_card().at(card(4)).held, MiB(64));
}

TEST(GpuMemory, a_process_with_a_context_of_its_own_is_on_that_card_while_the_driver_lists_only_another) {
  GpuMachine m;
  m.memory.on_cards(m.now, {counters(3, GiB(1), 0)}, KiB(4));  // those in use, as of a second ago
  m.context(card(4));
  m.alloc(1, MiB(64));
  EXPECT_EQ(m.held().by_device.at(card(4)), MiB(64));
  EXPECT_FALSE(m.held().by_device.contains(card(3)));
}

TEST(GpuMemory, what_moved_on_a_card_is_told_once_when_nobody_uses_it_any_more) {
  GpuMachine m;
  m.memory.on_cards(m.now, {counters(3, GiB(1), 100)}, KiB(4));
  m.memory.on_cards(m.now, {counters(3, GiB(1), 356)}, KiB(4));
  m.memory.on_cards(m.now, {}, KiB(4));
  EXPECT_FALSE(m.memory.cards().at(card(3)).counters.migrated_pages_out);
}

TEST(GpuMemory, cards_that_programs_make_up_keep_out_none_that_the_driver_lists) {
  GpuMachine m;
  for (std::uint8_t n = 0; n < 64; ++n) {
    GpuOp seen;
    seen.what = What::free_seen;
    seen.device = card(static_cast<std::uint8_t>(100 + n));
    seen.free_bytes = seen.bytes = MiB(1);
    m.call(seen);
  }
  m.memory.on_cards(m.now, {counters(3, GiB(1), 0)}, KiB(4));
  ASSERT_TRUE(m.memory.cards().contains(card(3)));
  EXPECT_EQ(m.memory.cards().at(card(3)).memory, GiB(1));
}

TEST(GpuMemory, a_card_that_is_asked_for_more_than_it_has_and_pushes_pages_out_is_oversubscribed_once) {
  GpuMachine m;
  m.memory.on_cards(m.now, {counters(3, GiB(1), 100)}, KiB(4));
  m.alloc(1, MiB(512));
  GpuOp map;
  map.what = What::map;
  map.object = {kClient, 1};
  map.device = card(3);
  m.call(map);
  m.managed(What::managed_map, 0x7e0000000000, GiB(1));
  m.memory.take();
  m.memory.on_cards(m.now, {counters(3, GiB(1), 100)}, KiB(4));
  EXPECT_TRUE(m.ops().empty()) << "possible, but nothing was pushed out";
  m.memory.on_cards(m.now, {counters(3, GiB(1), 356)}, KiB(4));
  auto told = m.memory.take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told.front().op, GpuEvent::Op::oversubscribed);
  EXPECT_EQ(told.front().bytes, MiB(1));
  EXPECT_EQ(told.front().device, card(3));
  EXPECT_EQ(told.front().task, kTrainer);
  m.memory.on_cards(m.now + 1s, {counters(3, GiB(1), 400)}, KiB(4));
  EXPECT_TRUE(m.ops().empty()) << "told already";
}

TEST(GpuMemory, pages_that_move_while_there_is_room_are_no_oversubscription) {
  GpuMachine m;
  m.memory.on_cards(m.now, {counters(3, GiB(8), 0)}, KiB(4));
  m.managed(What::managed_map, 0x7e0000000000, GiB(1));
  m.memory.take();
  m.memory.on_cards(m.now, {counters(3, GiB(8), 500)}, KiB(4));
  EXPECT_TRUE(m.ops().empty());
}

TEST(GpuMemory, the_free_memory_that_a_program_asked_for_is_known_of_its_card) {
  GpuMachine m;
  m.context(card(3));
  GpuOp seen;
  seen.what = What::free_seen;
  seen.bytes = GiB(32);
  seen.free_bytes = GiB(9);
  m.call(seen);
  EXPECT_EQ(m.memory.cards().at(card(3)).memory, GiB(32));
  EXPECT_EQ(m.memory.cards().at(card(3)).free, GiB(9));
}

GpuOp free_seen(GpuObject object, Bytes total, Bytes free) {
  GpuOp seen;
  seen.what = What::free_seen;
  seen.object = object;
  seen.bytes = total;
  seen.free_bytes = free;
  return seen;
}

TEST(GpuMemory, what_cards_have_is_known_of_each_before_there_is_a_context) {
  GpuMachine m;
  for (std::uint8_t n : {std::uint8_t{3}, std::uint8_t{4}}) {
    GpuOp names;
    names.what = What::card;
    names.object = {kClient, n};
    names.device = card(n);
    m.call(names);
    m.call(free_seen({kClient, n}, GiB(10 * n), GiB(9)));
  }
  EXPECT_EQ(m.memory.cards().at(card(3)).memory, GiB(30));
  EXPECT_EQ(m.memory.cards().at(card(4)).memory, GiB(40));
  m.call(free_seen({kClient, 4}, GiB(41), GiB(9)));
  EXPECT_EQ(m.memory.cards().at(card(4)).memory, GiB(41)) << "a false word lasts until the next";
}

TEST(GpuMemory, what_is_free_on_a_card_is_what_was_told_last_less_what_was_taken_since) {
  GpuMachine m;
  m.context(card(3));
  m.alloc(1, GiB(1));
  m.call(free_seen({kClient, 9}, GiB(32), GiB(30)));
  m.alloc(2, GiB(4));
  EXPECT_EQ(m.memory.held_by_card().at(card(3)).free, GiB(26));
  m.free(1);
  EXPECT_EQ(m.memory.held_by_card().at(card(3)).free, GiB(27));
  m.alloc(3, GiB(40));
  EXPECT_EQ(m.memory.held_by_card().at(card(3)).free, Bytes{}) << "others gave back what nobody told of";
}

TEST(GpuMemory, one_refusal_that_libcuda_tries_again_and_again_is_told_once) {
  GpuMachine m;
  for (std::uint32_t n = 1; n <= 4; ++n) m.alloc(n, GiB(4), GpuMemoryKind::device, 0x51);
  EXPECT_EQ(m.ops(), std::vector{GpuEvent::Op::oom});
  m.alloc(5, GiB(2), GpuMemoryKind::device, 0x51);
  EXPECT_EQ(m.ops(), std::vector{GpuEvent::Op::oom}) << "less";
  m.now += 2s;
  m.alloc(6, GiB(2), GpuMemoryKind::device, 0x51);
  EXPECT_EQ(m.ops(), std::vector{GpuEvent::Op::oom}) << "later";
  m.alloc(7, GiB(1));
  m.alloc(8, GiB(2), GpuMemoryKind::device, 0x51);
  EXPECT_EQ(m.ops(), (std::vector{GpuEvent::Op::alloc, GpuEvent::Op::oom})) << "it had something between";
}

TEST(GpuMemory, memory_that_a_program_takes_at_once_is_its_own_and_not_its_contexts) {
  GpuMachine m;
  m.context(card(3));
  m.alloc(1, MiB(400));
  m.alloc(2, GiB(1));
  m.registers(2);
  m.alloc(3, GiB(1));
  EXPECT_EQ(m.held().overhead, MiB(400));
  EXPECT_EQ(m.held().device, GiB(2) + MiB(400));
}

TEST(GpuMemory, a_copy_of_a_model_is_named_although_its_context_grew_beside_the_first) {
  GpuMachine m;
  m.context(card(3));
  m.alloc(90, MiB(414));
  m.alloc(1, GiB(1));
  m.registers(1);
  m.now += 50ms;
  m.free(90);
  m.now -= 5ms;
  m.alloc(91, MiB(504));
  EXPECT_EQ(m.held().overhead, MiB(504));
  m.alloc(2, GiB(1));
  m.now += 5s;
  m.memory.take();
  m.alloc(11, GiB(1));
  m.alloc(12, GiB(1));
  auto told = m.memory.take();
  EXPECT_EQ(told.back().op, GpuEvent::Op::again);
  EXPECT_EQ(told.back().bytes, GiB(2));
}

TEST(GpuMemory, who_asks_the_driver_and_takes_nothing_ends_without_a_word) {
  GpuMachine m;
  m.call(free_seen({kClient, 9}, GiB(32), GiB(30)));
  m.memory.take();
  m.memory.on_exit(m.now, kTrainer);
  EXPECT_TRUE(m.ops().empty());
}

GpuActivity activity(Bytes evicted, std::uint64_t faults = 0) {
  GpuActivity out;
  out.moved_out = out.evicted = evicted;
  out.faults = faults;
  return out;
}

TEST(GpuMemory, of_pages_tells_what_is_new_since_the_last_look_and_nothing_where_they_are_not_followed) {
  GpuMachine m;
  m.alloc(1, MiB(1));
  EXPECT_FALSE(m.held().activity);
  m.memory.on_activity(kTrainer, activity(MiB(2), 100));
  EXPECT_EQ(m.held().activity, activity(MiB(2), 100)) << "all since it is followed";
  m.memory.on_activity(kTrainer, activity(MiB(2), 130));
  EXPECT_EQ(m.held().activity, activity(Bytes{}, 30));
  m.memory.on_activity(kTrainer, std::nullopt);
  EXPECT_FALSE(m.held().activity) << "unknown is not 0";
  m.memory.on_activity(kOther, activity(MiB(2)));
  EXPECT_FALSE(m.memory.of(kOther)) << "it uses no card";
}

TEST(GpuMemory, an_oversubscribed_card_names_who_lost_pages_even_if_another_holds_more) {
  GpuMachine m;
  m.memory.on_cards(m.now, {counters(3, GiB(1), 0)}, KiB(4));
  m.context(card(3));
  m.context(card(3), kOther);
  m.managed(What::managed_map, 0x7e0000000000, GiB(4));
  m.memory.take();
  m.memory.on_activity(kOther, activity(MiB(2)));
  m.memory.on_cards(m.now, {counters(3, GiB(1), 512)}, KiB(4));
  auto told = m.memory.take();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told.front().task, kOther);
}

TEST(GpuMemory, an_eviction_that_was_read_a_look_before_the_cards_counters_still_names_its_process) {
  GpuMachine m;
  m.memory.on_cards(m.now, {counters(3, GiB(8), 0)}, KiB(4));
  m.context(card(3), kOther);
  m.memory.take();
  m.memory.on_activity(kOther, activity(MiB(2)));
  m.memory.on_cards(m.now, {counters(3, GiB(8), 0)}, KiB(4));
  EXPECT_TRUE(m.ops().empty());
  m.memory.on_activity(kOther, activity(MiB(2)));
  m.memory.on_cards(m.now, {counters(3, GiB(8), 512)}, KiB(4));
  auto told = m.memory.take();
  ASSERT_EQ(told.size(), 1u) << "an eviction says by itself that the card was full";
  EXPECT_EQ(told.front().task, kOther);
}

TEST(GpuMemory, an_xid_is_of_the_process_that_it_blames_if_that_one_uses_a_card) {
  GpuMachine m;
  m.alloc(1, MiB(1));
  m.memory.take();
  m.memory.on_xid({m.now, 31, "0000:01:00.0", "pid=100, MMU Fault"}, card(3), kTrainer.tgid);
  m.memory.on_xid({m.now, 79, "0000:01:00.0", "fallen off the bus"}, std::nullopt, 4711);
  auto told = m.memory.take();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].op, GpuEvent::Op::xid);
  EXPECT_EQ(told[0].task, kTrainer);
  EXPECT_EQ(told[0].status, 31u);
  EXPECT_EQ(told[0].device, card(3));
  EXPECT_EQ(told[0].message, "pid=100, MMU Fault");
  EXPECT_EQ(told[1].task, TaskId{});
  EXPECT_EQ(told[1].bus, "0000:01:00.0");
  EXPECT_TRUE(is_news(told[1].op));
}

}  // namespace
}  // namespace oomcast
