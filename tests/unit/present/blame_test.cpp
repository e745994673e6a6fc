#include "present/blame.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace oomcast {
namespace {

Frame native(const char* function, const char* file) {
  return {Frame::Kind::native, function, file, std::nullopt};
}
Frame python(const char* function, const char* file, std::uint32_t line) {
  return {Frame::Kind::python, function, file, line};
}

BlameReport report() {
  BlameReport out;
  out.scope = "--pid 7";
  out.window = Seconds(10);
  out.grown = MiB(100);
  out.samples = 4;
  out.frames = 12;
  out.processes.emplace_back();
  BlameProcess& p = out.processes.back();
  p.process.id = {7, 1};
  p.process.comm = "py;thon\n";
  p.grown_anon = MiB(100);
  p.unseen = MiB(10);
  p.sites.push_back({{native("_start", "python3.11"), python("<module>", "/app/train.py", 9),
                      python("keep", "/app/train.py", 3), native("memset", "/lib/libc.so.6")},
                     MiB(80),
                     MiB(90),
                     3});
  p.sites.push_back(
      {{native("_start", "python3.11"), python("<module>", "/app/train.py", 10)}, MiB(10), MiB(10), 1});
  return out;
}

TEST(Culprit, is_the_innermost_python_line_outside_of_libraries) {
  Stack stack = {python("step", "/app/train.py", 3),
                 python("ones", "/usr/lib/python3/dist-packages/numpy/n.py", 8),
                 python("api", "<__array_function__ internals>", 1), native("memset", "libc.so.6")};
  EXPECT_EQ(culprit(stack)->function, "step");
  stack.erase(stack.begin());
  EXPECT_EQ(culprit(stack)->function, "api") << "a library's line is better than none";
}

TEST(Culprit, of_native_code_is_the_caller_of_the_allocator) {
  Stack stack = {native("main", "prog"), native("grow", "prog"), native("malloc", "prog"),
                 native("_int_malloc", "/usr/lib/x86_64-linux-gnu/libc.so.6")};
  EXPECT_EQ(culprit(stack)->function, "grow");
  EXPECT_EQ(culprit({}), nullptr);
}

TEST(BlameText, names_the_line_its_bytes_and_what_no_fault_showed) {
  std::string text = to_text(report());
  EXPECT_NE(text.find("keep (/app/train.py:3)"), std::string::npos) << text;
  EXPECT_NE(text.find("+8.00 MiB/s   80%"), std::string::npos) << text;
  EXPECT_NE(text.find("10%  unseen by faults"), std::string::npos) << text;
  EXPECT_EQ(text.find("_start"), std::string::npos) << "what only runs Python is left out\n" << text;
}

TEST(BlameText, is_safe_on_a_terminal) {
  BlameReport r = report();
  r.processes[0].sites[0].stack[2].function = "evil\x1b[2J";
  EXPECT_EQ(to_text(r).find('\x1b'), std::string::npos);
}

TEST(BlameFolded, has_one_line_a_stack_whatever_the_names) {
  std::string text = to_folded(report());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "py:thon\\n[7];_start (python3.11);<module> (/app/train.py:9);keep (/app/train.py:3);memset "
            "(libc.so.6) "
            "83886080");
}

TEST(BlameJson, says_each_site_in_bytes) {
  auto json = nlohmann::json::parse(to_json(report(), {}, MonoTime{}));
  EXPECT_EQ(json["type"], "blame");
  EXPECT_EQ(json["processes"][0]["grown_bytes"], MiB(100).count);
  EXPECT_EQ(json["processes"][0]["sites"][0]["culprit"]["line"], 3);
  EXPECT_EQ(json["processes"][0]["sites"][0]["grown_bytes"], MiB(80).count);
  EXPECT_EQ(json["cgroup_grown_bytes"], nullptr);
}

}  // namespace
}  // namespace oomcast
