#include <gtest/gtest.h>

#include "blame/process_view.h"

namespace oomcast {
namespace {

Frame native(const char* function) {
  return {Frame::Kind::native, function, "python3.11", std::nullopt};
}
Frame python(const char* function) {
  return {Frame::Kind::python, function, "train.py", 3};
}
std::vector<std::string> names(const Stack& stack) {
  std::vector<std::string> out;
  for (const Frame& frame : stack) out.push_back(frame.function);
  return out;
}
wire::PythonFrame at(bool outermost) {
  return {1, 2, 3, outermost};
}
constexpr const char* kFile = "python3.11";
constexpr const char* kLoop = "_PyEval_EvalFrameDefault";
using Names = std::vector<std::string>;

TEST(Interleave, puts_each_run_of_python_frames_in_the_place_of_its_native_frame) {
  bool fits = false;
  Stack stack = interleave(
      {native("memset"), native(kLoop), native("list_sort"), native(kLoop), native("main")},
      {python("key"), python("outer"), python("<module>")}, {at(true), at(false), at(true)}, kFile, fits);
  EXPECT_EQ(names(stack), (Names{"main", "<module>", "outer", "list_sort", "key", "memset"}));
  EXPECT_TRUE(fits);
}

TEST(Interleave, keeps_native_frames_of_the_interpreter_that_no_python_frame_is_known_for) {
  bool fits = true;
  Stack stack =
      interleave({native(kLoop), native(kLoop), native("main")}, {python("f")}, {at(true)}, kFile, fits);
  EXPECT_EQ(names(stack), (Names{"main", kLoop, "f"}));
  EXPECT_FALSE(fits);
}

TEST(Interleave, puts_python_outside_of_a_native_stack_that_ends_too_early) {
  bool fits = true;
  Stack stack = interleave({{Frame::Kind::native, "memset", "libc.so.6", std::nullopt}},
                           {python("f"), python("<module>")}, {at(true), at(true)}, kFile, fits);
  EXPECT_EQ(names(stack), (Names{"<module>", "f", "memset"}));
  EXPECT_FALSE(fits);
}

TEST(Interleave, puts_python_inside_of_an_interpreter_whose_loop_has_no_name) {
  bool fits = true;
  Stack stack =
      interleave({{Frame::Kind::native, "memset", "libc.so.6", std::nullopt}, native(""), native("main")},
                 {python("f"), python("<module>")}, {at(false), at(true)}, kFile, fits);
  EXPECT_EQ(names(stack), (Names{"main", "", "<module>", "f", "memset"}));
  EXPECT_FALSE(fits);
}

TEST(Interleave, takes_the_functions_of_single_instructions_for_the_loop) {
  bool fits = false;
  Stack stack = interleave({native("list_sort"), native("_TAIL_CALL_CALL.cold"), native("main")},
                           {python("f")}, {at(true)}, kFile, fits);
  EXPECT_EQ(names(stack), (Names{"main", "f", "list_sort"}));
  EXPECT_TRUE(fits);
}

TEST(Interleave, shows_a_frame_whose_code_could_not_be_read_without_a_name) {
  bool fits = false;
  Stack stack = interleave({native(kLoop)}, {std::nullopt, python("g")}, {at(false), at(true)}, kFile, fits);
  EXPECT_EQ(names(stack), (Names{"g", ""}));
  EXPECT_TRUE(fits);
}

}  // namespace
}  // namespace oomcast
