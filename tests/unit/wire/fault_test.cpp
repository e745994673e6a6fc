#include "wire/fault.h"

#include <gtest/gtest.h>
#include <wire.h>

#include <cstring>
#include <memory>

namespace oomcast::wire {
namespace {

constexpr Units kUnits{4096, 10'000'000};
constexpr std::size_t kFixed = offsetof(oc_fault, stack);

std::vector<std::byte> bytes_of(oc_fault& r, std::size_t stack) {
  r.header.type = OC_FAULT;
  r.header.size = static_cast<unsigned short>(kFixed + stack);
  r.stack_bytes = static_cast<unsigned>(stack);
  std::vector<std::byte> out(kFixed + stack);
  std::memcpy(out.data(), &r, out.size());
  return out;
}

std::unique_ptr<oc_fault> fault() {
  auto r = std::make_unique<oc_fault>();
  std::memset(r.get(), 0, sizeof(*r));
  return r;
}

TEST(DecodeFault, carries_weight_registers_stack_and_python_frames) {
  auto r = fault();
  r->task.tgid = 7;
  r->address = 0x7000;
  r->weight_pages = 64;
  r->faults = 9;
  r->registers[16] = 0x401000;
  r->stack[1] = 5;
  r->python.state = OC_PYTHON_READ;
  r->python.count = 3;
  r->python.entries = 4;
  r->python.frames[0] = {0x10, 0x20, 0x30};
  r->python.frames[1] = {0, 0, 0};
  r->python.frames[2] = {0x40, 0x50, 0x60};
  auto out = decode_fault(bytes_of(*r, 2), kUnits);
  ASSERT_TRUE(out) << out.error().message;
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
  auto good = bytes_of(*r, 8);
  EXPECT_TRUE(decode_fault(good, kUnits));
  EXPECT_FALSE(decode_fault(std::span(good).first(good.size() - 1), kUnits));
  EXPECT_FALSE(decode_fault(std::span(good).first(kFixed - 1), kUnits));
  r->python.count = OC_PYTHON_DEPTH + 1;
  EXPECT_FALSE(decode_fault(bytes_of(*r, 8), kUnits));
}

}  // namespace
}  // namespace oomcast::wire
