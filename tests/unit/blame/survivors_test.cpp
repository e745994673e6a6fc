#include "blame/survivors.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

MonoTime moment(Nanos since) {
  return MonoTime{} + 100s + since;
}

struct SurvivorLook {
  Survivors survivors;
  WatchedAllocations watched;
  std::uint64_t next = 0x10000;

  SurvivorLook() {
    watched.begin = moment(0s);
    watched.until.fill(moment(10s));
    watched.frees_until = watched.end = moment(10s);
    watched.sample = Bytes{1};
  }
  // Its site is the number that its first register has.
  std::uint64_t allocate(Nanos when, std::uint64_t site, Bytes size = KiB(64), Bytes weight = {}) {
    wire::Allocation a;
    a.time = a.born = moment(when);
    a.address = next;
    a.size = size;
    a.weight = weight > Bytes{} ? weight : size;
    a.registers[0] = site;
    next += 0x100000;
    survivors.add(std::move(a));
    return next - 0x100000;
  }
  void free(Nanos when, std::uint64_t address) { survivors.freed({moment(when), 7, address}); }
  void read(Nanos now) {
    survivors.read_stacks(moment(now), true, [](const wire::Allocation& a) {
      return static_cast<std::uint32_t>(a.registers[0]);
    });
  }
  Survivors::Estimate estimate() {
    read(10s);
    survivors.settle_gone(watched);
    return survivors.estimate(watched, 10s);
  }
  // A step of 50 ms allocates a temporary, and frees it.
  void steps(Nanos from, Nanos to) {
    for (Nanos t = from; t < to; t += 50ms) free(t + 40ms, allocate(t, 1));
  }
};

TEST(Survivors, blocks_that_are_not_freed_are_their_sites_and_temporaries_are_nobodys) {
  SurvivorLook f;
  f.steps(0s, 10s);
  for (Nanos t = 500ms; t < 10s; t += 1s) f.allocate(t, 2);
  auto estimate = f.estimate();
  ASSERT_EQ(estimate.sites.size(), 1u);
  const Kept& kept = estimate.sites.at(2);
  EXPECT_EQ(kept.blocks, 10u);
  EXPECT_EQ(kept.objects, 10u);
  EXPECT_NEAR(kept.bytes.as_double(), KiB(640).as_double(), kept.error.as_double());
  EXPECT_LT(kept.error, KiB(100)) << "each was met: only the part that was not watched is left to chance";
  EXPECT_EQ(estimate.outlived, 60ms);
}

TEST(Survivors, a_program_that_has_stopped_growing_is_not_told_to_go_on) {
  SurvivorLook f;
  f.free(3s, f.allocate(0s, 1));  // what lives for 3 s may be freed
  for (Nanos t = 250ms; t < 5s; t += 500ms) f.allocate(t, 2);
  EXPECT_EQ(f.estimate().sites.at(2).bytes, KiB(640)) << "none of the last 4.5 s";
}

TEST(Survivors, of_those_too_young_to_tell_as_many_stay_as_of_the_others) {
  SurvivorLook f;
  f.free(3s, f.allocate(0s, 1));
  for (Nanos t = 250ms; t < 10s; t += 500ms) f.allocate(t, 2);
  EXPECT_NEAR(f.estimate().sites.at(2).bytes.as_double(), KiB(1280).as_double(), KiB(64).as_double());
}

// Blocks live for 6 s, and calls of malloc() were watched for 2 s only.
TEST(Survivors, of_a_queue_that_was_watched_for_less_than_its_blocks_live_little_is_sure) {
  SurvivorLook f;
  f.watched.until.fill(moment(2s));
  std::vector<std::pair<Nanos, std::uint64_t>> made;
  for (Nanos t = 0s; t < 2s; t += 20ms) made.emplace_back(t, f.allocate(t, 2));
  f.survivors.read_stacks(
      moment(3s), true, [](const wire::Allocation& a) { return static_cast<std::uint32_t>(a.registers[0]); });
  for (auto [born, address] : made)
    if (born < 1800ms) f.free(born + 6s, address);
  auto estimate = f.estimate();
  const Kept kept = estimate.sites.at(2);
  double truth = 6 * 50 * KiB(64).as_double();  // of the last 6 s
  EXPECT_LT(kept.bytes.as_double(), truth / 2) << "few of those that were seen stay";
  EXPECT_GT((kept.bytes + kept.error).as_double(), truth);
  EXPECT_GT((estimate.all.bytes + estimate.all.error).as_double(), truth);
}

TEST(Survivors, what_is_alive_at_the_end_but_younger_than_others_become_has_not_stayed) {
  SurvivorLook f;
  f.steps(0s, 10s);
  f.allocate(9990ms, 1);  // the step in which it ends
  EXPECT_TRUE(f.estimate().sites.empty());
}

TEST(Survivors, a_block_that_was_met_by_chance_stands_for_others_with_an_error) {
  SurvivorLook f;
  for (Nanos t = 100ms; t < 10s; t += 1s) f.allocate(t, 2, KiB(1), KiB(64));
  auto estimate = f.estimate();
  EXPECT_NEAR(estimate.sites.at(2).bytes.as_double(), KiB(640).as_double(), KiB(64).as_double());
  EXPECT_GT(estimate.sites.at(2).error, KiB(300));
  EXPECT_NEAR(static_cast<double>(estimate.sites.at(2).objects), 640, 64);
}

TEST(Survivors, of_functions_that_were_watched_for_a_part_the_whole_is_estimated) {
  SurvivorLook f;
  f.watched.until[0] = moment(2s);
  for (Nanos t = 100ms; t < 2s; t += 200ms) f.allocate(t, 2);
  auto estimate = f.estimate();
  EXPECT_NEAR(estimate.sites.at(2).bytes.as_double(), 5 * KiB(640).as_double(), KiB(64).as_double());
  EXPECT_GT(estimate.sites.at(2).error, KiB(640)) << "what the other part had may have been otherwise";
}

TEST(Survivors, after_frees_are_watched_no_more_a_small_block_is_known_until_then_alone) {
  SurvivorLook f;
  f.watched.frees_until = moment(1s);
  std::uint64_t old = f.allocate(100ms, 2, Bytes{100});
  f.allocate(1500ms, 3, Bytes{100});  // nobody would see it freed
  auto estimate = f.estimate();
  EXPECT_TRUE(estimate.sites.contains(2));
  EXPECT_FALSE(estimate.sites.contains(3));
  EXPECT_EQ(estimate.at(old), Survivors::Place::kept);
}

TEST(Survivors, large_blocks_are_looked_at_where_frees_are_not_watched) {
  SurvivorLook f;
  f.watched.frees_until = moment(200ms);
  std::uint64_t stays = f.allocate(1s, 2), goes = f.allocate(1s, 3);
  f.allocate(9900ms, 4);
  for (int look = 0; look < 100; ++look)
    f.survivors.check(moment(1s + look * 50ms), [&](std::uint64_t address, Bytes, bool) {
      return std::optional(address != goes || look < 20);
    });
  auto estimate = f.estimate();
  ASSERT_TRUE(estimate.sites.contains(2));
  EXPECT_FALSE(estimate.sites.contains(3)) << "free() marks its header";
  EXPECT_FALSE(estimate.sites.contains(4)) << "it is younger than the other was when it went";
  EXPECT_EQ(estimate.at(stays + 100), Survivors::Place::kept);
  EXPECT_EQ(estimate.at(goes), Survivors::Place::elsewhere);
}

// Once its function is not watched, who takes its place is not seen.
TEST(Survivors, a_temporary_that_is_found_gone_late_was_as_old_as_its_function_was_watched) {
  SurvivorLook f;
  f.watched.frees_until = moment(200ms);
  f.watched.until.fill(moment(2s));
  f.steps(0s, 1950ms);
  std::uint64_t last = f.allocate(1970ms, 1);
  for (Nanos t = 100ms; t < 2s; t += 100ms) f.allocate(t, 2);
  for (int look = 0; look < 100; ++look)
    f.survivors.check(moment(2s + look * 80ms), [&](std::uint64_t address, Bytes, bool) {
      return std::optional(address != last || look < 60);
    });
  auto estimate = f.estimate();
  const Kept kept = estimate.sites.at(2);
  EXPECT_EQ(estimate.outlived, 60ms);
  EXPECT_NEAR(kept.bytes.as_double(), 100 * KiB(64).as_double(), kept.error.as_double());
  EXPECT_LT(kept.error, KiB(3200));
}

TEST(Survivors, a_look_tells_nothing_where_another_block_may_have_taken_the_place) {
  SurvivorLook f;
  f.watched.frees_until = f.watched.until[0] = moment(1s);  // calls of malloc() are not seen after that
  f.allocate(900ms, 2);
  f.free(700ms, f.allocate(200ms, 1));
  for (int look = 0; look < 100; ++look)
    f.survivors.check(moment(1s + look * 50ms),
                      [](std::uint64_t, Bytes, bool) { return std::optional(true); });
  EXPECT_TRUE(f.estimate().sites.empty())
      << "at 1 s it was younger than the other, and in its place lives any";
}

TEST(Survivors, a_vector_that_grows_in_realloc_has_stayed_since_it_was_seen_first) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t before = 0;
  for (int i = 0; i < 100; ++i) {
    wire::Allocation a;
    a.born = moment(50ms);
    a.time = moment(50ms + i * 99ms);
    a.address = 0x900000000 + static_cast<std::uint64_t>(i) * 0x10000;
    a.replaces = before;
    a.size = KiB(64) + KiB(64 * i);
    a.weight = KiB(64 * i);
    a.function = wire::Allocates::realloc;
    a.registers[0] = 5;
    before = a.address;
    f.survivors.add(std::move(a));
  }
  auto estimate = f.estimate();
  ASSERT_EQ(estimate.sites.size(), 1u);
  EXPECT_EQ(estimate.sites.at(5).blocks, 1u);
  EXPECT_NEAR(estimate.sites.at(5).bytes.as_double(), KiB(64 * 99).as_double(), KiB(100).as_double());
}

// By a draw in each of its calls.
TEST(Survivors, growth_in_realloc_that_was_met_by_chance_has_an_error) {
  auto kept = [](Bytes weight, Bytes other) {
    SurvivorLook f;
    f.steps(0s, 10s);
    std::uint64_t address = 0x900000000;
    for (Bytes stands_for : {weight, other}) {
      wire::Allocation a;
      a.born = moment(1s);
      a.time = moment(2s);
      a.address = address += 0x10000000;
      a.size = KiB(96);
      a.base = KiB(32);
      a.weight = stands_for;
      a.function = wire::Allocates::realloc;
      a.registers[0] = 5;
      f.survivors.add(std::move(a));
    }
    return f.estimate().sites.at(5);
  };
  EXPECT_LT(kept(KiB(64), KiB(64)).error, KiB(150)) << "each call was met";
  const Kept by_chance = kept(MiB(64), {});
  EXPECT_EQ(by_chance.bytes, MiB(64));
  EXPECT_GT(by_chance.error, MiB(100));
  EXPECT_EQ(kept(MiB(64), MiB(-24)).bytes, MiB(40)) << "a step back, met by chance as well";
  EXPECT_EQ(kept(MiB(1), MiB(-24)).bytes, Bytes{});
}

void look(SurvivorLook& f, Nanos from, Nanos until, bool held) {
  for (Nanos t = from; t < until; t += 50ms)
    f.survivors.check(moment(t), [&](std::uint64_t, Bytes, bool) { return std::optional(held); });
}

// Gets 10 KiB longer every 100 ms, in another place each time, and is looked at.
struct Journal {
  SurvivorLook& f;
  std::uint64_t before = 0;
  void grow(Nanos from, Nanos until) {
    for (Nanos t = from; t < until; t += 100ms) {
      wire::Allocation a;
      a.born = moment(100ms);
      a.time = moment(t);
      a.address = 0x900000000 + static_cast<std::uint64_t>(t / 100ms) * 0x1000000;
      a.replaces = std::exchange(before, a.address);
      a.base = MiB(1);
      a.weight = KiB(10 * ((t - 100ms) / 100ms));
      a.size = a.base + a.weight;
      a.function = wire::Allocates::realloc;
      a.registers[0] = 5;
      f.survivors.add(std::move(a));
      look(f, t, t + 100ms, true);
    }
  }
};

TEST(Survivors, growth_in_realloc_is_told_for_as_long_as_realloc_is_watched_not_free) {
  SurvivorLook few;
  few.watched.until[2] = moment(2s);
  Journal{few}.grow(100ms, 2s);
  EXPECT_NEAR(few.estimate().sites.at(5).bytes.as_double(), KiB(1000).as_double(), KiB(110).as_double());
  SurvivorLook long_ago;
  long_ago.watched.frees_until = moment(440ms);
  Journal{long_ago}.grow(100ms, 10s);
  EXPECT_NEAR(long_ago.estimate().sites.at(5).bytes.as_double(), KiB(1000).as_double(), KiB(110).as_double());
}

TEST(Survivors, a_block_that_grows_again_and_again_has_been_looked_at) {
  SurvivorLook f;
  f.watched.frees_until = moment(50ms);  // before it was seen
  Journal{f}.grow(100ms, 10s);
  EXPECT_NEAR(f.estimate().sites.at(5).bytes.as_double(), KiB(1000).as_double(), KiB(110).as_double());
}

// In its place there is another size by then, or another block.
TEST(Survivors, what_realloc_moves_when_it_is_not_watched_has_not_gone) {
  SurvivorLook f;
  f.watched.frees_until = moment(50ms);
  f.watched.until[2] = moment(2s);
  Journal{f}.grow(100ms, 2s);
  look(f, 5s, 6s, false);
  f.allocate(1s, 2);
  look(f, 6s, 9s, true);
  auto estimate = f.estimate();
  ASSERT_TRUE(estimate.sites.contains(5));
  EXPECT_NEAR(estimate.sites.at(5).bytes.as_double(), KiB(1000).as_double(), KiB(110).as_double());
  EXPECT_GE(estimate.sites.at(5).error, estimate.sites.at(5).bytes) << "it may have been freed, too";
  EXPECT_TRUE(estimate.sites.contains(2));
  EXPECT_EQ(estimate.outlived, 0s) << "its age says nothing of how old blocks become that are freed";
}

TEST(Survivors, a_look_between_a_move_and_its_record_does_not_end_a_block) {
  SurvivorLook f;
  f.watched.frees_until = moment(50ms);
  Journal journal{f};
  journal.grow(100ms, 5s);
  look(f, 5s, 6s, false);
  journal.grow(6s, 10s);
  EXPECT_NEAR(f.estimate().sites.at(5).bytes.as_double(), KiB(1000).as_double(), KiB(110).as_double());
}

TEST(Survivors, what_was_in_realloc_and_is_gone_while_that_is_watched_was_freed) {
  SurvivorLook f;
  f.watched.frees_until = moment(50ms);
  Journal{f}.grow(100ms, 5s);
  look(f, 5s, 6s, false);
  EXPECT_FALSE(f.estimate().sites.contains(5));
}

TEST(Survivors, a_block_that_another_thread_has_got_in_the_place_of_a_moved_one_lives) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t before = f.allocate(1s, 2);
  f.next = before;
  f.allocate(2001ms, 3);  // told of before the call of realloc() that made room for it
  wire::Allocation moved;
  moved.born = moment(1s);
  moved.time = moment(2s);
  moved.address = 0x900000000;
  moved.replaces = before;
  moved.size = moved.weight = KiB(128);
  moved.function = wire::Allocates::realloc;
  moved.registers[0] = 2;
  f.survivors.add(std::move(moved));
  auto estimate = f.estimate();
  EXPECT_TRUE(estimate.sites.contains(2));
  EXPECT_TRUE(estimate.sites.contains(3));
}

TEST(Survivors, of_a_large_block_that_part_has_stayed_which_was_touched) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t reserve = f.allocate(1s, 2, GiB(1));
  f.next += 0x80000000;
  std::uint64_t half = f.allocate(2s, 3, MiB(64));
  f.next += 0x10000000;
  f.allocate(3s, 4, KiB(512));
  f.survivors.look_into_large([&](std::uint64_t address) -> std::optional<bool> {
    return address >= half && address < half + (std::uint64_t{32} << 20);
  });
  auto estimate = f.estimate();
  EXPECT_FALSE(estimate.sites.contains(2)) << "nothing of it is memory";
  EXPECT_EQ(estimate.at(reserve), Survivors::Place::living) << "who touches it later is told";
  EXPECT_NEAR(estimate.sites.at(3).bytes.as_double(), MiB(32).as_double(), MiB(1).as_double());
  EXPECT_GE(estimate.sites.at(3).error, MiB(2)) << "of one page in each MiB it is known";
  EXPECT_LT(estimate.all.error, MiB(100));
  EXPECT_EQ(estimate.sites.at(4).bytes, KiB(512));
}

TEST(Survivors, of_what_grew_in_realloc_the_end_is_not_touched_yet) {
  SurvivorLook f;
  f.steps(0s, 10s);
  wire::Allocation a;
  a.born = moment(1s);
  a.time = moment(2s);
  a.address = 0x900000000;
  a.size = MiB(128);  // doubled, and filled to 80
  a.base = a.weight = MiB(64);
  a.function = wire::Allocates::realloc;
  a.registers[0] = 5;
  f.survivors.add(std::move(a));
  f.survivors.look_into_large([](std::uint64_t address) -> std::optional<bool> {
    return address < 0x900000000 + (std::uint64_t{80} << 20);
  });
  EXPECT_NEAR(f.estimate().sites.at(5).bytes.as_double(), MiB(16).as_double(), MiB(1).as_double());
}

TEST(Survivors, touched_pages_tell_more_of_a_block_in_realloc_up_to_its_size) {
  SurvivorLook f;
  f.steps(0s, 10s);
  wire::Allocation a;
  a.time = a.born = moment(1s);
  a.address = 0x900000000;
  a.size = MiB(8);  // nearly all of it was there before
  a.weight = KiB(64);
  a.function = wire::Allocates::realloc;
  a.registers[0] = 5;
  f.survivors.add(std::move(a));
  auto estimate = f.estimate();
  auto touch = [&](Bytes bytes) {
    std::pair<std::uint64_t, Bytes> touched[] = {{0x900001000, bytes}};
    estimate.raise_to_pages(touched);
    return estimate.sites.at(5).bytes;
  };
  EXPECT_EQ(touch(KiB(4)), KiB(64));
  EXPECT_EQ(touch(MiB(6)), MiB(6));
  EXPECT_EQ(touch(MiB(20)), MiB(8)) << "temporaries touched this place before";
  EXPECT_EQ(estimate.all.bytes, MiB(8));
}

TEST(Survivors, who_touched_the_place_of_a_block_before_tells_nothing_of_it) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t address = f.allocate(1s, 2);
  auto estimate = f.estimate();
  Bytes kept = estimate.all.bytes;
  std::pair<std::uint64_t, Bytes> touched[] = {{address, MiB(16)}};
  estimate.raise_to_pages(touched);
  EXPECT_EQ(estimate.all.bytes, kept);
  EXPECT_EQ(estimate.sites.at(2).bytes, kept);
}

TEST(Survivors, a_free_that_is_told_before_its_block_ends_it) {
  SurvivorLook f;
  std::uint64_t address = f.next;
  f.free(101ms, address);
  f.allocate(100ms, 2);
  EXPECT_TRUE(f.estimate().sites.empty());
}

TEST(Survivors, a_block_whose_end_was_not_told_of_is_gone_if_it_lives_no_more) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t stays = f.allocate(1s, 2), goes = f.allocate(1s, 3), replaced = f.allocate(1s, 4);
  f.survivors.keep_only({{stays, moment(1s)}, {replaced, moment(2s)}});
  auto estimate = f.estimate();
  ASSERT_EQ(estimate.sites.size(), 1u);
  EXPECT_EQ(estimate.sites.begin()->first, 2u);
  EXPECT_EQ(estimate.at(goes), Survivors::Place::elsewhere);
}

TEST(Survivors, what_lay_in_the_place_of_another_block_has_gone) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t before = f.allocate(1s, 2, KiB(64));
  std::uint64_t beside = f.allocate(1s, 3, KiB(64));
  f.next = before + 4096;
  f.allocate(2s, 4, KiB(16));  // in the middle of it, when nobody had seen it freed
  auto estimate = f.estimate();
  EXPECT_FALSE(estimate.sites.contains(2));
  EXPECT_TRUE(estimate.sites.contains(4));
  EXPECT_EQ(estimate.at(beside), Survivors::Place::kept);
}

TEST(Survivors, what_breakpoints_took_of_its_time_is_in_the_error) {
  SurvivorLook f;
  f.watched.until[0] = moment(1s);
  f.watched.frees_until = moment(1s);
  f.watched.taken = 0.25;  // without them it may have been four times as fast
  for (Nanos t = 10ms; t < 1s; t += 10ms) f.allocate(t, 2, KiB(1));
  const Kept kept = f.estimate().sites.at(2);
  double watched = KiB(99).as_double(), quick = watched + 9 * 4 * watched, slow = 10 * watched;
  EXPECT_LT(kept.bytes.as_double() - kept.error.as_double(), slow);
  EXPECT_GT(kept.bytes.as_double() + kept.error.as_double(), quick);
  EXPECT_LT(kept.error, kept.bytes);
  f.watched.faster = {1.5, 0.5};
  const Kept known = f.estimate().sites.at(2);
  EXPECT_NEAR(known.bytes.as_double(), watched + 9 * 2.5 * watched, 0.01 * quick);
  EXPECT_GT(known.error.as_double(), 0.5 * 9 * watched);
}

// Large blocks are looked at again and again, and were born while nearly everything was watched.
TEST(Survivors, blocks_of_the_slow_part_are_fewer_than_others_although_they_were_looked_at) {
  auto kept_of = [](Nanos until, Nanos frees_until) {
    SurvivorLook f;
    f.watched.until.fill(moment(frees_until));
    f.watched.until[0] = moment(until);
    f.watched.frees_until = moment(frees_until);
    f.watched.taken = 0.3;
    f.watched.faster = {1, 0};  // twice as fast without breakpoints
    for (Nanos t = 10ms; t < frees_until; t += 20ms) f.allocate(t, 2);
    for (Nanos t = frees_until; t < until; t += 10ms) f.allocate(t, 2);
    for (int look = 0; look < 100; ++look)
      f.survivors.check(moment(until + look * 1ms),
                        [](std::uint64_t, Bytes, bool) { return std::optional(true); });
    return f.estimate().sites.at(2).bytes.as_double();
  };
  double a_second = 100 * KiB(64).as_double(), slow = a_second / 2;
  EXPECT_NEAR(kept_of(1100ms, 1s), slow + 9 * a_second, 0.5 * a_second);
  EXPECT_NEAR(kept_of(10s, 1s), slow + 9 * a_second, 0.5 * a_second) << "most of these were seen";
}

TEST(Survivors, where_blocks_go_that_were_as_old_as_half_of_the_time_others_may_go_too) {
  SurvivorLook f;
  for (Nanos t = 0s; t < 3s; t += 100ms) f.free(t + 6s, f.allocate(t, 2));
  for (Nanos t = 3s; t < 10s; t += 100ms) f.allocate(t, 2);
  auto estimate = f.estimate();
  const Kept kept = estimate.sites.at(2);
  EXPECT_EQ(estimate.outlived, 5s);
  EXPECT_GT(kept.error, kept.bytes);
  EXPECT_LT(estimate.all.error, estimate.all.bytes)
      << "by which it is told whether it is more than has grown";
}

TEST(Survivors, a_site_whose_blocks_outlived_all_that_went_is_known_by_itself) {
  SurvivorLook f;
  f.steps(0s, 10s);
  std::uint64_t buffer = f.allocate(500ms, 3);  // lives for 6 s: every block may, as far as it tells
  std::vector<std::uint64_t> temporaries;
  for (Nanos t = 100ms; t < 900ms; t += 50ms) temporaries.push_back(f.allocate(t, 2));
  for (Nanos t = 100ms; t < 10s; t += 500ms) f.allocate(t, 2);
  for (Nanos t = 4s; t < 10s; t += 500ms) f.allocate(t, 4);  // none has outlived it
  f.read(1s);
  for (std::uint64_t temporary : temporaries) f.free(1500ms, temporary);
  f.free(6500ms, buffer);
  auto estimate = f.estimate();
  EXPECT_NEAR(estimate.sites.at(2).bytes.as_double(), KiB(1280).as_double(), KiB(128).as_double());
  EXPECT_LT(estimate.sites.at(2).error, KiB(512));
  EXPECT_GE(estimate.sites.at(4).error, estimate.sites.at(4).bytes) << "it may be as the buffer's";
}

TEST(Survivors, a_site_of_which_old_blocks_went_is_not_known_by_itself) {
  SurvivorLook f;
  std::vector<std::uint64_t> made;
  for (Nanos t = 100ms; t < 10s; t += 500ms) made.push_back(f.allocate(t, 2));
  f.read(9s);
  f.free(8s, made[4]);  // born at 2.1 s; the four before it live
  auto estimate = f.estimate();
  EXPECT_GE(estimate.sites.at(2).error, estimate.sites.at(2).bytes);
}

TEST(Survivors, stacks_of_blocks_that_go_soon_are_not_read) {
  SurvivorLook f;
  int read = 0;
  auto count = [&](const wire::Allocation&) { return static_cast<std::uint32_t>(++read); };
  std::uint64_t goes = f.allocate(100ms, 1);
  f.allocate(100ms, 2);
  f.survivors.read_stacks(moment(200ms), false, count);
  EXPECT_EQ(read, 0);
  f.free(300ms, goes);
  f.survivors.read_stacks(moment(2s), false, count);
  EXPECT_EQ(read, 1);
}

}  // namespace
}  // namespace oomcast
