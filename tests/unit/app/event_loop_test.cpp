#include "app/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/clock.h"
#include "fixture_tree.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  UniqueFd from, to;
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    from.reset(ends[0]);
    to.reset(ends[1]);
  }
  void fill() { EXPECT_EQ(write(to.get(), "x", 1), 1); }
  void empty() {
    char byte;
    EXPECT_EQ(read(from.get(), &byte, 1), 1);
  }
};

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
  Pipe pipe;
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  ASSERT_TRUE(loop.wake_on(pipe.from.get()));
  pipe.fill();
  MonoTime until = mono_now() + 1h;
  loop.wait_until(until);
  EXPECT_LT(mono_now(), until);
  pipe.from.reset();
  until = mono_now() + 5ms;
  loop.wait_until(until);
  EXPECT_GE(mono_now(), until);
}

TEST(EventLoop, calls_the_handler_of_each_descriptor_that_is_readable_and_of_no_other) {
  Pipe one, two, idle;
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  std::string called;
  ASSERT_TRUE(loop.on_readable(one.from.get(), [&] { called += '1', one.empty(); }));
  ASSERT_TRUE(loop.on_readable(two.from.get(), [&] { called += '2', two.empty(); }));
  ASSERT_TRUE(loop.on_readable(idle.from.get(), [&] { called += 'i'; }));
  one.fill();
  two.fill();
  loop.wait_until(mono_now() + 1h);
  std::ranges::sort(called);
  EXPECT_EQ(called, "12");
  loop.wait_until(mono_now() + 1ms);
  EXPECT_EQ(called, "12") << "both were read";
}

TEST(EventLoop, calls_none_that_a_handler_before_it_has_forgotten) {
  Pipe one, two;
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  int calls = 0;
  ASSERT_TRUE(loop.on_readable(one.from.get(), [&] { ++calls, loop.forget(two.from.get()); }));
  ASSERT_TRUE(loop.on_readable(two.from.get(), [&] { ++calls, loop.forget(one.from.get()); }));
  one.fill();
  two.fill();
  loop.wait_until(mono_now() + 1h);
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, takes_another_handler_for_a_descriptor_and_one_that_forgets_itself) {
  Pipe pipe;
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  std::string called;
  ASSERT_TRUE(loop.on_readable(pipe.from.get(), [&] { called += 'a'; }));
  ASSERT_TRUE(loop.on_readable(pipe.from.get(), [&, why = std::string(64, 'b')] {
    loop.forget(pipe.from.get());
    called += why[0];
  }));
  pipe.fill();
  loop.wait_until(mono_now() + 1h);
  loop.wait_until(mono_now() + 1ms);
  EXPECT_EQ(called, "b");
}

TEST(EventLoop, says_that_a_regular_file_is_nothing_to_wait_for) {
  FixtureTree tree;
  tree.write("file", "text");
  UniqueFd file(open(tree.path("file").c_str(), O_RDONLY | O_CLOEXEC));
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  auto ok = loop.wake_on(file.get());
  ASSERT_FALSE(ok);
  EXPECT_NE(ok.error().message.find("not permitted"), std::string::npos) << ok.error().message;
}

TEST(EventLoop, runs_what_is_due_in_its_order_and_what_that_adds_in_the_next_round) {
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  MonoTime now = mono_now();
  std::string called;
  loop.at(now + 2s, [&] { called += 'c'; });
  loop.at(now, [&] {
    called += 'b';
    loop.at(now, [&] { called += 'd'; });
  });
  loop.at(now - 1s, [&] { called += 'a'; });
  EXPECT_EQ(loop.next(), now - 1s);
  loop.wait_until(now + 1h);
  EXPECT_EQ(called, "") << "they run where the loop's owner wants them to";
  loop.run_due(now);
  EXPECT_EQ(called, "ab");
  loop.run_due(now);
  EXPECT_EQ(called, "abd");
  loop.run_due(now + 2s);
  EXPECT_EQ(called, "abdc");
  EXPECT_EQ(loop.next(), MonoTime::max());
}

TEST(EventLoop, calls_once_when_a_full_socket_takes_data_again) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const std::string bytes(4096, 'x');
  while (send(ours.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  ASSERT_TRUE(loop.wake_on(ours.get()));
  std::string called;
  ASSERT_TRUE(loop.on_writable(ours.get(), [&] { called += 'w'; }));
  loop.wait_until(mono_now() + 1ms);
  EXPECT_EQ(called, "") << "it is full";
  std::string read(1 << 20, '\0');
  while (recv(theirs.get(), read.data(), read.size(), 0) > 0) {
  }
  loop.wait_until(mono_now() + 1h);
  EXPECT_EQ(called, "w");
  loop.wait_until(mono_now() + 1ms);
  EXPECT_EQ(called, "w");
}

TEST(EventLoop, calls_who_waits_to_write_when_the_other_end_is_gone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  EventLoop loop;
  ASSERT_TRUE(loop.open());
  std::string called;
  ASSERT_TRUE(loop.on_readable(ours.get(), [&] { called += 'r'; }));
  ASSERT_TRUE(loop.on_writable(ours.get(), [&] {
    called += 'w';
    loop.forget(ours.get());
  }));
  theirs.reset();
  loop.wait_until(mono_now() + 1h);
  EXPECT_EQ(called, "w") << "who forgets it is not called again";
}

}  // namespace
}  // namespace oomcast
