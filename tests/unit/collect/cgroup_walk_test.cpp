#include "collect/cgroup_walk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

TEST(CgroupWalk, tells_of_its_end_and_whether_it_was_whole) {
  bool whole = true;
  CgroupWalk walk([&whole] { return whole; });
  EXPECT_TRUE(walk.run(10s, 0s));
  EXPECT_TRUE(walk.run(10s, 0s));
  whole = false;
  EXPECT_FALSE(walk.run(10s, 0s));
  EXPECT_FALSE(walk.is_late());
}

TEST(CgroupWalk, that_hangs_holds_up_nobody_and_is_begun_once) {
  auto begun = std::make_shared<std::atomic<int>>(0);
  std::promise<void> let_go;
  auto walk = std::make_unique<CgroupWalk>([begun, until = let_go.get_future().share()] {
    ++*begun;
    until.wait();
    return true;
  });
  EXPECT_TRUE(walk->run(10ms, 60s)) << "it may be at work on many";
  EXPECT_FALSE(walk->run(10ms, 20ms));
  EXPECT_TRUE(walk->is_late());
  EXPECT_EQ(*begun, 1);
  let_go.set_value();
  while (walk->is_late()) std::this_thread::yield();
  EXPECT_TRUE(walk->run(10s, 0s)) << "the next one is of its own";
  EXPECT_EQ(*begun, 2);
}

TEST(CgroupWalk, that_hangs_does_not_keep_its_owner) {
  std::promise<void> let_go;
  auto ended = std::make_shared<std::promise<void>>();
  auto over = ended->get_future();
  {
    CgroupWalk walk([until = let_go.get_future().share(), ended] {
      until.wait();
      ended->set_value();
      return true;
    });
    EXPECT_FALSE(walk.run(10ms, 0s));
  }
  let_go.set_value();
  EXPECT_EQ(over.wait_for(10s), std::future_status::ready);
}

}  // namespace
}  // namespace oomcast
