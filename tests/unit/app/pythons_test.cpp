#include "app/pythons.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "app/fake_bpf_source.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Looks {
  std::vector<std::uint32_t> asked;
  Reader reader{"",
                {},
                [this](const TaskId& id) {
                  asked.push_back(id.tgid);
                  return false;
                },
                [] { return pause(); }};
  test::FakeBpfSource source{std::make_shared<test::FakePrograms>()};
  Pythons pythons{reader, source};
  MonoTime now = mono_now();

  void sampled(std::uint32_t pid, std::uint32_t uid) {
    ProcessRef process;
    process.id = {pid, 1};
    process.uid = uid;
    pythons.on_sample(process, MiB(100), now);
  }
  // Who is looked at after `wait`; 0: nobody.
  std::uint32_t next(Nanos wait = {}) {
    now += wait;
    asked.clear();
    pythons.advance(now);
    return asked.empty() ? 0 : asked[0];
  }
  void answered(std::uint32_t pid, Nanos took) {
    Reader::Answer answer{Reader::What::python, {pid, 1}};
    answer.took = took;
    now += took;
    pythons.on_answer(answer, now);
  }
};

TEST(Pythons, are_looked_at_one_after_the_other_and_once) {
  Looks f;
  for (std::uint32_t pid : {1, 2, 1}) f.sampled(pid, 1000);
  EXPECT_EQ(f.asked.at(0), 1u);
  EXPECT_EQ(f.next(100ms), 0u) << "one at a time";
  f.answered(1, 5ms);
  EXPECT_EQ(f.next(1s), 2u) << "who was sampled once, too";
  f.answered(2, 5ms);
  f.sampled(1, 1000);
  EXPECT_EQ(f.next(1s), 0u);
}

TEST(Pythons, whose_files_are_dear_to_read_make_their_user_wait_and_others_little) {
  Looks f;
  for (std::uint32_t pid = 1; pid < 100; ++pid) f.sampled(pid, 1000);
  f.sampled(200, 1001);
  f.answered(1, Reader::kPythonPatience);
  EXPECT_EQ(f.next(1s), 0u);
  EXPECT_EQ(f.next(2s), 200u);
  f.answered(200, 5ms);
  EXPECT_EQ(f.next(1s), 0u);
  EXPECT_EQ(f.next(25s), 2u);
}

}  // namespace
}  // namespace oomcast
