#include "collect/cgroup_walk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

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
  EXPECT_FALSE(walk->run(10ms, 10ms));
  EXPECT_EQ(*begun, 1);
  let_go.set_value();
  EXPECT_TRUE(walk->run(10s, 0s)) << "it may have ended before it is waited for again";
  EXPECT_TRUE(walk->run(10s, 0s));
  EXPECT_GE(*begun, 2) << "of those that come later at least one is of its own";
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
