#include "app/event_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

TEST(EventLoop, waits_until_the_time_and_not_at_all_for_one_that_is_over) {
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  MonoTime until = mono_now() + 20ms;
  loop.wait_until(until);
  EXPECT_GE(mono_now(), until);
  loop.wait_until(until);
  loop.wait_until(MonoTime{});
  SUCCEED() << "both came back";
}

TEST(EventLoop, ends_a_wait_when_a_descriptor_is_readable_until_it_is_closed) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd from(ends[0]), to(ends[1]);
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  loop.watch(from.get());
  ASSERT_EQ(write(to.get(), "x", 1), 1);
  MonoTime until = mono_now() + 1h;
  loop.wait_until(until);
  EXPECT_LT(mono_now(), until);
  from.reset();
  until = mono_now() + 5ms;
  loop.wait_until(until);
  EXPECT_GE(mono_now(), until);
}

}  // namespace
}  // namespace oomcast
