// The data breakpoints by which blame learns who adds to a container.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "../workloads/data_breakpoint.h"
#include "base/clock.h"
#include "collect/bpf_source_faults.h"
#include "collect/data_breakpoint.h"

namespace oomcast {
namespace {

constexpr std::size_t kRip = 16;

// The tests' own word, whatever oomcast says. OOMCAST_TEST_WITHOUT has them run as on a machine without.
bool they_fire() {
  const char* without = std::getenv("OOMCAST_TEST_WITHOUT");
  constexpr std::uint64_t kWrites = 8;
  return !(without && std::string_view(without) == "data-breakpoints") &&
         data_breakpoint_sees(kWrites) == kWrites;
}

class Watched : public testing::Test {
 protected:
  // May skip.
  void open(Events breakpoints) {
    if (geteuid() != 0) GTEST_SKIP() << "loading kernel programs needs root";
    options_.data_breakpoints = breakpoints;
    options_.processes = {static_cast<std::uint32_t>(getpid())};
    options_.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
    auto source = FaultSource::open(options_);
    if (!source) GTEST_SKIP() << source.error().message;
    source_ = *std::move(source);
    if (auto begun = source_->begin(mono_now()); !begun) GTEST_SKIP() << begun.error().message;
  }

  Status watch(const volatile std::uint64_t& length) {
    std::uint64_t at = reinterpret_cast<std::uint64_t>(&length);
    return source_->watch_additions(options_.processes[0], {&at, 1}, mono_now());
  }

  // What was told since, at `now` by the clock of those that are armed again.
  std::vector<wire::Addition> seen(MonoTime now = mono_now()) {
    std::vector<wire::Addition> out;
    Status drained = source_->drain(
        [&](std::span<const std::byte> record) {
          auto decoded = wire::decode_fault(record, options_.units);
          auto* addition = decoded ? std::get_if<wire::Addition>(&*decoded) : nullptr;
          if (addition) out.push_back(std::move(*addition));
        },
        now);
    EXPECT_TRUE(drained);
    return out;
  }

  FaultOptions options_;
  std::unique_ptr<FaultSource> source_;
  alignas(8) volatile std::uint64_t length_ = 100;
};

class Additions : public Watched {
 protected:
  void SetUp() override {
    if (!they_fire()) GTEST_SKIP() << "data breakpoints do not fire on this machine";
    open(Events::of_this_machine);
    if (IsSkipped()) return;
    Status ok = watch(length_);
    ASSERT_TRUE(ok) << ok.error().message;
  }
};

class AdditionsWithoutBreakpoints : public Watched {
 protected:
  void SetUp() override { open(Events::that_never_fire); }
};

TEST_F(Additions, are_told_with_the_place_where_the_length_grew_and_what_it_is_then) {
  length_ = 101;  // what was there before is not known
  length_ = 102;
  length_ = 90;
  length_ = 91;
  auto told = seen();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].length, 102u);
  EXPECT_EQ(told[1].length, 91u) << "to make it shorter is no addition";
  for (const auto& addition : told) {
    EXPECT_EQ(addition.length_at, reinterpret_cast<std::uint64_t>(&length_));
    EXPECT_EQ(addition.task.id.tgid, options_.processes[0]);
    EXPECT_GT(addition.registers[kRip], 0u);
    EXPECT_FALSE(addition.stack.empty());
  }
}

TEST_F(Additions, are_a_few_at_a_time_however_many_there_are) {
  constexpr std::uint64_t kWrites = 100'000;
  for (std::uint64_t i = 0; i < kWrites; ++i) length_ = length_ + 1;
  std::size_t first = seen().size();
  EXPECT_GT(first, 4u);
  EXPECT_LT(first, 100u);
  std::size_t all = first;
  for (int second = 1; second <= 60; ++second) {
    (void)seen(mono_now() + std::chrono::seconds(second));
    for (std::uint64_t i = 0; i < kWrites / 100; ++i) length_ = length_ + 1;
    all += seen().size();
  }
  EXPECT_GT(all, 2 * first) << "they are armed again";
  EXPECT_LT(all, 20 * first) << "but not for ever";
}

TEST_F(Additions, of_a_thread_that_runs_already_are_seen_too) {
  alignas(8) static volatile std::uint64_t shared = 0;
  std::atomic<bool> go = false;
  std::thread thread([&] {
    go.wait(false);
    for (int i = 0; i < 4; ++i) shared = shared + 1;
  });
  Status ok = watch(shared);
  go = true;
  go.notify_one();
  thread.join();
  ASSERT_TRUE(ok) << ok.error().message;
  auto told = seen();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_NE(told[0].task.tid, options_.processes[0]);
}

// A queue's consumer: behind several additions that nobody saw, what it leaves would be more than before.
TEST_F(Additions, are_never_of_a_thread_that_only_takes_away) {
  alignas(8) static volatile std::uint64_t shared = 1000;
  std::binary_semaphore mine(0), theirs(0);
  std::uint32_t taker = 0;
  bool done = false;
  std::thread thread([&] {
    taker = static_cast<std::uint32_t>(gettid());
    for (mine.release(), theirs.acquire(); !done; mine.release(), theirs.acquire()) shared = shared - 1;
  });
  auto take_one = [&] {
    theirs.release();
    mine.acquire();
  };
  mine.acquire();
  Status ok = watch(shared);
  std::size_t all = 0;
  for (int round = 1; ok && round <= 6; ++round) {
    for (int i = 0; i < 200; ++i) {
      for (int added = 0; added < 3; ++added) shared = shared + 1;
      take_one();
    }
    for (const auto& addition : seen(mono_now() + std::chrono::seconds(round))) {
      ++all;
      EXPECT_NE(addition.task.tid, taker) << addition.length;
    }
  }
  done = true;
  theirs.release();
  thread.join();
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_GT(all, 16u) << "of more than one round";
}

TEST_F(AdditionsWithoutBreakpoints, are_not_looked_for_and_it_is_said_why) {
  Status ok = watch(length_);
  ASSERT_FALSE(ok);
  EXPECT_NE(ok.error().message.find("hardware breakpoints do not fire"), std::string::npos)
      << ok.error().message;
  for (int i = 0; i < 10; ++i) length_ = length_ + 1;
  EXPECT_TRUE(seen().empty());
  EXPECT_FALSE(watch(length_)) << "nor the next time";
}

TEST(DataBreakpoint, that_is_set_and_never_fires_is_no_data_breakpoint) {
  alignas(8) volatile std::uint64_t watched = 0;
  auto at = reinterpret_cast<std::uint64_t>(&watched);
  if (!open_data_breakpoint(at, 0, Events::of_this_machine))
    GTEST_SKIP() << "none can be set: " << std::strerror(errno);
  EXPECT_TRUE(open_data_breakpoint(at, 0, Events::that_never_fire)) << std::strerror(errno);
  EXPECT_FALSE(try_data_breakpoint(Events::that_never_fire));
}

TEST(DataBreakpoint, is_said_to_be_there_where_one_fires) {
  long seen = data_breakpoint_sees(8);
  EXPECT_EQ(bool(try_data_breakpoint(Events::of_this_machine)), seen == 8) << seen << " of 8 writes";
}

TEST_F(Additions, end_with_who_watches) {
  source_->end_additions();
  for (int i = 0; i < 10; ++i) length_ = length_ + 1;
  EXPECT_TRUE(seen().empty());
}

}  // namespace
}  // namespace oomcast
