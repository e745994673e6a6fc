#include "blame/breakpoint_place.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace oomcast {
namespace {

using Code = std::vector<std::uint8_t>;

void expect_place(const Code& code, unsigned arguments, std::size_t behind_entry, bool stepped) {
  BreakpointPlace place = find_breakpoint_place(code, code.size(), arguments);
  EXPECT_EQ(place.behind_entry, behind_entry);
  EXPECT_EQ(place.stepped, stepped);
}

TEST(BreakpointPlace, is_the_entry_where_the_kernel_emulates_what_is_there) {
  expect_place({0x41, 0x54, 0x55, 0x53}, kRdi, 0, false);              // push %r12: malloc of glibc
  expect_place({0xe9, 0x6b, 0x19, 0x00, 0x00}, kRdi, 0, false);        // jmp: malloc of musl
  expect_place({0x53, 0xb8, 0x16, 0x00, 0x00, 0x00}, kRdi, 0, false);  // push %rbx
}

TEST(BreakpointPlace, is_behind_what_only_tests_or_fills_a_register_that_carries_no_argument) {
  // test %rdi,%rdi; je: free of glibc
  expect_place({0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0x00, 0x00, 0x00}, kRdi, 3, false);
  // cmpb $0,…(%rip); push %r12: posix_memalign of glibc
  expect_place({0x80, 0x3d, 0x01, 0x02, 0x14, 0x00, 0x00, 0x41, 0x54}, kRdi | kRdx, 7, false);
  // cmp $0x1000,%rdi; ja: malloc of jemalloc
  expect_place({0x48, 0x81, 0xff, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x87, 0x93, 0x00, 0x00, 0x00}, kRdi, 7,
               false);
  // mov …(%rip),%rax; test %rax,%rax; jne: malloc of tcmalloc
  expect_place({0x48, 0x8b, 0x05, 0x59, 0xab, 0x00, 0x00, 0x48, 0x85, 0xc0, 0x75, 0x75}, kRdi, 10, false);
  // mov %rdi,%rcx; test %rdi,%rdi; je: free of mimalloc
  expect_place({0x48, 0x89, 0xf9, 0x48, 0x85, 0xff, 0x74, 0x5d}, kRdi, 6, false);
  // lea -1(%rsi),%rax; or $7,%rax; test %rsi,%rax; jne
  expect_place({0x48, 0x8d, 0x46, 0xff, 0x48, 0x83, 0xc8, 0x07, 0x48, 0x85, 0xf0, 0x75, 0x10}, kRdi | kRdx,
               11, false);
  // endbr64; push %rbp: any function of a distribution that compiles with -fcf-protection
  expect_place({0xf3, 0x0f, 0x1e, 0xfa, 0x55}, kRdi, 4, false);
  // mov %fs:0x10(,%rax,8),%r11; push
  expect_place({0x64, 0x4c, 0x8b, 0x1c, 0xc5, 0x10, 0x00, 0x00, 0x00, 0x55}, kRdi, 9, false);
}

TEST(BreakpointPlace, is_not_behind_what_changes_an_argument_the_stack_or_memory) {
  expect_place({0x48, 0x89, 0xfe, 0x55}, kRdi | kRsi, 0, true);                         // mov %rdi,%rsi
  expect_place({0x48, 0x8b, 0x15, 0x00, 0x00, 0x00, 0x00, 0x55}, kRdx, 0, true);        // mov …(%rip),%rdx
  expect_place({0x48, 0x83, 0xec, 0x18, 0x55}, kRdi, 0, true);                          // sub $24,%rsp
  expect_place({0x48, 0x89, 0x07, 0x55}, kRdi, 0, true);                                // mov %rax,(%rdi)
  expect_place({0x48, 0x83, 0x07, 0x01, 0x55}, kRdi, 0, true);                          // add $1,(%rdi)
  expect_place({0x80, 0xce, 0x01, 0x55}, kRdi | kRdx, 0, true);                         // or $1,%dh
  expect_place({0x48, 0x83, 0xc7, 0x0f, 0x55}, kRdi, 0, true);                          // add $15,%rdi
  expect_place({0xf0, 0x48, 0xff, 0x05, 0x00, 0x00, 0x00, 0x00, 0x55}, kRdi, 0, true);  // lock incq …(%rip)
}

TEST(BreakpointPlace, is_the_entry_where_a_jump_leads_behind_it) {
  // test %rdi,%rdi; je +8; sub $1,%rbx; jmp to the je
  expect_place({0x48, 0x85, 0xff, 0x74, 0x08, 0x48, 0x83, 0xeb, 0x01, 0xeb, 0xf8}, kRdi, 0, true);
  // The same, far.
  expect_place({0x48, 0x85, 0xff, 0x74, 0x08, 0x0f, 0x85, 0xf8, 0xff, 0xff, 0xff}, kRdi, 0, true);
}

// test %rdi,%rdi; add $8,%rsi, and the next function: push %rbp
TEST(BreakpointPlace, is_not_in_the_function_that_this_one_goes_on_in) {
  Code code{0x48, 0x85, 0xff, 0x48, 0x83, 0xc6, 0x08, 0x55};
  EXPECT_EQ(find_breakpoint_place(code, 8, kRdi).behind_entry, 7u);
  EXPECT_EQ(find_breakpoint_place(code, 7, kRdi).behind_entry, 0u);
  EXPECT_EQ(find_breakpoint_place(code, 0, kRdi).behind_entry, 0u) << "a symbol without a size";
}

TEST(BreakpointPlace, of_code_that_ends_or_is_none_is_the_entry) {
  expect_place({}, kRdi, 0, true);
  expect_place({0x48, 0x85}, kRdi, 0, true);
  expect_place(Code(512, 0x00), kRdi, 0, true);
  expect_place(Code(512, 0x48), kRdi, 0, true);
}

TEST(BreakpointPlace, of_any_bytes_is_within_a_few_instructions_of_the_entry) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    Code code(random() % 64);
    for (std::uint8_t& byte : code) byte = static_cast<std::uint8_t>(random());
    BreakpointPlace place = find_breakpoint_place(code, code.size(), kRdi);
    EXPECT_LE(place.behind_entry, code.size());
    EXPECT_LE(place.behind_entry, 32u);
    if (place.stepped) {
      EXPECT_EQ(place.behind_entry, 0u);
    }
  }
}

}  // namespace
}  // namespace oomcast
