#include "wire/fault.h"

#include <gtest/gtest.h>
#include <wire.h>

#include <cstring>
#include <limits>
#include <memory>

namespace oomcast::wire {
namespace {

constexpr Units kFaultUnits{4096, 10'000'000};
constexpr std::size_t kFixed = offsetof(oc_fault, user) + offsetof(oc_user_stack, stack);

std::vector<std::byte> record_bytes(oc_fault& r, std::size_t stack) {
  r.header.type = OC_FAULT;
  r.header.size = static_cast<unsigned short>(kFixed + stack);
  r.user.stack_bytes = static_cast<unsigned>(stack);
  std::vector<std::byte> out(kFixed + stack);
  std::memcpy(out.data(), &r, out.size());
  return out;
}

std::unique_ptr<oc_fault> fault() {
  auto r = std::make_unique<oc_fault>();
  std::memset(r.get(), 0, sizeof(*r));
  return r;
}

TEST(ScopeKey, is_of_one_process_of_a_number_and_of_no_cgroup) {
  EXPECT_EQ(scope_key({100, 1234}), oc_scope_of_process(100, 1234));
  EXPECT_NE(scope_key({100, 1234}), scope_key({100, 1235})) << "another process of that number";
  EXPECT_NE(scope_key({100, 1234}), scope_key({101, 1234}));
  EXPECT_NE(scope_key({(1u << 22) - 1, 1}), scope_key({0, 2}));
  EXPECT_GE(scope_key({1, 0}), 1ull << 63) << "no cgroup's id";
}

TEST(DecodeFault, carries_weight_registers_stack_and_python_frames) {
  auto r = fault();
  r->task.tgid = 7;
  r->address = 0x7000;
  r->weight_pages = 64;
  r->faults = 9;
  r->user.registers[16] = 0x401000;
  r->user.stack[1] = 5;
  r->user.python.state = OC_PYTHON_READ;
  r->user.python.count = 3;
  r->user.python.entries = 4;
  r->user.python.frames[0] = {0x10, 0x20, 0x30};
  r->user.python.frames[1] = {0, 0, 0};
  r->user.python.frames[2] = {0x40, 0x50, 0x60};
  auto record = decode_fault(record_bytes(*r, 2), kFaultUnits);
  ASSERT_TRUE(record) << record.error().message;
  const auto* out = std::get_if<Fault>(&*record);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->task.id.tgid, 7u);
  EXPECT_EQ(out->weight, KiB(256));
  EXPECT_EQ(out->faults, 9u);
  EXPECT_EQ(out->registers[16], 0x401000u);
  ASSERT_EQ(out->stack.size(), 2u);
  EXPECT_EQ(out->stack[1], std::byte{5});
  ASSERT_EQ(out->python.size(), 2u) << "a shim between native frames is no frame";
  EXPECT_EQ(out->python[1].code, 0x40u);
  EXPECT_FALSE(out->python[0].outermost);
  EXPECT_TRUE(out->python[1].outermost);
}

TEST(DecodeFault, refuses_a_record_that_contradicts_itself) {
  auto r = fault();
  auto good = record_bytes(*r, 8);
  EXPECT_TRUE(decode_fault(good, kFaultUnits));
  EXPECT_FALSE(decode_fault(std::span(good).first(good.size() - 1), kFaultUnits));
  EXPECT_FALSE(decode_fault(std::span(good).first(kFixed - 1), kFaultUnits));
  r->user.python.count = OC_PYTHON_DEPTH + 1;
  EXPECT_FALSE(decode_fault(record_bytes(*r, 8), kFaultUnits));
}

TEST(DecodeFault, an_allocation_says_what_it_stands_for_and_since_when_it_lives) {
  auto r = std::make_unique<oc_allocation>();
  std::memset(r.get(), 0, sizeof(*r));
  constexpr std::size_t fixed = offsetof(oc_allocation, user) + offsetof(oc_user_stack, stack);
  r->header = {};
  r->header.type = OC_ALLOCATION;
  r->header.size = fixed;
  r->header.time_ns = 900;
  r->born_ns = 500;
  r->address = 0x7000;
  r->bytes = 100;
  r->base_bytes = 60;
  r->weight_bytes = std::numeric_limits<long long>::max();
  r->function = OC_REALLOC;
  auto decode = [&] {
    return decode_fault(std::as_bytes(std::span(reinterpret_cast<const char*>(r.get()), fixed)), kFaultUnits);
  };
  auto record = decode();
  ASSERT_TRUE(record) << record.error().message;
  const auto* out = std::get_if<Allocation>(&*record);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->function, Allocates::realloc);
  EXPECT_EQ(out->time - out->born, Nanos(400));
  EXPECT_EQ(out->size, Bytes{100});
  EXPECT_GT(out->weight, GiB(1)) << "as much as it says,";
  EXPECT_LT(out->weight.count, std::int64_t{1} << 50) << "but sums of it do not overflow";
  EXPECT_EQ(out->base, Bytes{60});
  r->weight_bytes = -40;
  EXPECT_EQ(std::get<Allocation>(*decode()).weight, Bytes{-40}) << "realloc() made it smaller";
  r->function = OC_ALLOCATING_FUNCTIONS;
  EXPECT_FALSE(decode()) << "no function that is known";
}

TEST(DecodeFault, an_addition_says_which_length_grew_to_what) {
  auto r = std::make_unique<oc_addition>();
  std::memset(r.get(), 0, sizeof(*r));
  constexpr std::size_t fixed = offsetof(oc_addition, user) + offsetof(oc_user_stack, stack);
  r->header.type = OC_ADDITION;
  r->header.size = fixed + 8;
  r->task.tgid = 7;
  r->length_at = 0x7010;
  r->length = 41;
  r->user.stack_bytes = 8;
  r->user.registers[16] = 0x401000;
  auto decode = [&](std::size_t size) {
    return decode_fault(std::as_bytes(std::span(reinterpret_cast<const char*>(r.get()), size)), kFaultUnits);
  };
  auto record = decode(fixed + 8);
  ASSERT_TRUE(record) << record.error().message;
  const auto* out = std::get_if<Addition>(&*record);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->task.id.tgid, 7u);
  EXPECT_EQ(out->length_at, 0x7010u);
  EXPECT_EQ(out->length, 41u);
  EXPECT_EQ(out->registers[16], 0x401000u);
  EXPECT_EQ(out->stack.size(), 8u);
  EXPECT_FALSE(decode(fixed + 7)) << "cut";
}

TEST(WatchedLength, comes_back_as_the_kernel_programs_have_it) {
  oc_length in{41, 7, OC_LENGTH_DONE};
  auto bytes = std::as_bytes(std::span(&in, 1));
  auto out = decode_length(bytes);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->state, WatchedLength::State::done);
  EXPECT_EQ(out->writes, 7u);
  EXPECT_EQ(decode_length(encode({WatchedLength::State::open, 3}))->state, WatchedLength::State::open);
  in.state = OC_LENGTH_DONE + 1;
  EXPECT_FALSE(decode_length(bytes)) << "no state that is known";
  EXPECT_FALSE(decode_length(bytes.first(8)));
}

TEST(DecodeGpuStack, has_the_thread_and_its_stack_and_is_no_fault) {
  auto r = std::make_unique<oc_gpu_stack>();
  std::memset(r.get(), 0, sizeof(*r));
  constexpr std::size_t fixed = offsetof(oc_gpu_stack, user) + offsetof(oc_user_stack, stack);
  r->header.type = OC_GPU_STACK;
  r->header.size = fixed + 16;
  r->task.tgid = 7;
  r->task.tid = 9;
  r->user.stack_bytes = 16;
  r->user.registers[16] = 0x401000;
  auto bytes = [&](std::size_t size) {
    return std::as_bytes(std::span(reinterpret_cast<const char*>(r.get()), size));
  };
  auto stack = decode_gpu_stack(bytes(fixed + 16), kFaultUnits);
  ASSERT_TRUE(stack) << stack.error().message;
  EXPECT_EQ(stack->task.tid, 9u);
  EXPECT_EQ(stack->registers[16], 0x401000u);
  EXPECT_EQ(stack->stack.size(), 16u);
  EXPECT_TRUE(is_gpu_stack(bytes(fixed + 16)));
  EXPECT_FALSE(decode_gpu_stack(bytes(fixed + 8), kFaultUnits)) << "cut";
  EXPECT_FALSE(decode_fault(bytes(fixed + 16), kFaultUnits));
  r->header.type = OC_GPU_CALL;
  EXPECT_FALSE(is_gpu_stack(bytes(fixed + 16)));
  EXPECT_FALSE(decode_gpu_stack(bytes(fixed + 16), kFaultUnits));
}

TEST(DecodeFault, a_block_that_was_freed_is_told_by_its_address) {
  oc_freed r{};
  r.header.type = OC_FREED;
  r.header.size = sizeof(r);
  r.tgid = 7;
  r.address = 0x7000;
  auto record = decode_fault(std::as_bytes(std::span(&r, 1)), kFaultUnits);
  ASSERT_TRUE(record) << record.error().message;
  const auto* out = std::get_if<Freed>(&*record);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->tgid, 7u);
  EXPECT_EQ(out->address, 0x7000u);
}

TEST(DecodeFault, a_fault_is_told_from_the_allocators_records_by_its_header) {
  oc_header header{};
  auto is = [&](unsigned type) {
    header.type = static_cast<unsigned short>(type);
    return is_fault(std::as_bytes(std::span(&header, 1)));
  };
  EXPECT_TRUE(is(OC_FAULT));
  EXPECT_FALSE(is(OC_ALLOCATION));
  EXPECT_FALSE(is(OC_FREED));
  EXPECT_FALSE(is_fault({}));
}

TEST(DecodeHeldLocks, of_what_was_written_the_last_that_is_not_whole_is_left_out) {
  oc_held_lock locks[] = {{7, 0xffff888100000000, 5'000'000}, {8, 1, 2}};
  auto bytes = std::as_bytes(std::span(locks));
  EXPECT_EQ(decode_held_locks(bytes),
            (std::vector<HeldLock>{{7, 0xffff888100000000, Nanos(5'000'000)}, {8, 1, Nanos(2)}}));
  EXPECT_EQ(decode_held_locks(bytes.first(sizeof(locks) - 1)).size(), 1u);
}

TEST(DecodeLiving, of_what_the_kernel_programs_know_it_tells_the_blocks_of_one_process) {
  oc_block_key keys[] = {{0x7000, 7}, {0x8000, 8}, {0x9000, 7}};
  oc_block blocks[] = {{5, 0, 0, 0, 0}, {6, 0, 0, 0, 0}, {9, 0, 0, 0, 0}};
  auto living = decode_living(std::as_bytes(std::span(keys)), std::as_bytes(std::span(blocks)), 7);
  ASSERT_EQ(living.size(), 2u);
  EXPECT_EQ(living[0].address, 0x7000u);
  EXPECT_EQ(living[1].address, 0x9000u);
  EXPECT_EQ(living[1].born - living[0].born, Nanos(4));
  auto torn = std::as_bytes(std::span(blocks)).first(sizeof(blocks) - 1);
  EXPECT_EQ(decode_living(std::as_bytes(std::span(keys)), torn, 7).size(), 1u) << "the last one is not whole";
}

}  // namespace
}  // namespace oomcast::wire
