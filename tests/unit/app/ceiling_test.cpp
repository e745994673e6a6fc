#include "app/ceiling.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Tracer {
  std::optional<Bytes> use = MiB(20);
  Ceiling ceiling{[this] { return use; }};
  MonoTime now{1h};
  /// What it said in that time, looked at each 50 ms.
  std::vector<double> go_on(Nanos time) {
    std::vector<double> out;
    for (MonoTime end = now + time; now < end; now += 50ms)
      if (auto part = ceiling.advance(now)) out.push_back(*part);
    return out;
  }
};

TEST(Ceiling, leaves_everybody_alone_who_is_far_from_it) {
  Tracer tracer;
  EXPECT_TRUE(tracer.go_on(1h).empty());
  tracer.use = Ceiling::kTight - Bytes{1};
  EXPECT_TRUE(tracer.go_on(1min).empty());
}

TEST(Ceiling, halves_all_bounds_until_enough_is_given_back) {
  Tracer tracer;
  tracer.use = Ceiling::kTight;
  EXPECT_EQ(tracer.go_on(500ms), (std::vector{0.5, 0.25}));
  tracer.use = Ceiling::kTight - MiB(1);
  EXPECT_TRUE(tracer.go_on(1min).empty());
}

TEST(Ceiling, leaves_a_sixteenth) {
  Tracer tracer;
  tracer.use = MiB(500);
  EXPECT_EQ(tracer.go_on(1min), (std::vector{0.5, 0.25, 0.125, 0.0625}));
}

TEST(Ceiling, gives_back_in_steps_once_little_is_in_use) {
  Tracer tracer;
  tracer.use = MiB(60);
  tracer.go_on(2s);
  tracer.use = Ceiling::kEase - Bytes{1};
  EXPECT_TRUE(tracer.go_on(7s).empty());
  EXPECT_EQ(tracer.go_on(50s), (std::vector{0.125, 0.25, 0.5, 1.0}));
}

TEST(Ceiling, changes_nothing_where_what_is_in_use_cannot_be_read) {
  Tracer tracer;
  tracer.use = std::nullopt;
  EXPECT_TRUE(tracer.go_on(1min).empty());
}

TEST(MemoryInUse, has_what_this_process_touches_and_not_what_it_has_freed) {
  // Not by malloc(), which may take pieces that it has had for long.
  auto touch = [](Bytes bytes) {
    auto size = static_cast<std::size_t>(bytes.count);
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) std::memset(memory, 1, size);
    return memory;
  };
  void* first = touch(Ceiling::kEase);  // from there on what is free is left out
  ASSERT_NE(first, MAP_FAILED);
  auto before = memory_in_use();
  ASSERT_TRUE(before);
  void* second = touch(MiB(32));
  ASSERT_NE(second, MAP_FAILED);
  EXPECT_GE(*memory_in_use(), *before + MiB(28));
  munmap(second, static_cast<std::size_t>(MiB(32).count));

  std::vector<std::unique_ptr<std::vector<char>>> blocks;
  for (int k = 0; k < 512; ++k) blocks.push_back(std::make_unique<std::vector<char>>(64 << 10, 'x'));
  auto last = std::move(blocks.back());  // the heap does not shrink below it
  blocks.clear();
  EXPECT_LE(*memory_in_use(), *before + MiB(4));
  munmap(first, static_cast<std::size_t>(Ceiling::kEase.count));
}

}  // namespace
}  // namespace oomcast
