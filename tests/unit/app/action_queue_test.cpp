#include "app/action_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace oomcast {
namespace {

ActionQueue::Waiting of(const std::string& path) {
  auto cgroup = std::make_shared<CgroupRef>();
  cgroup->path = path;
  ActionQueue::Waiting out{};
  out.alert.of.cgroup = std::move(cgroup);
  return out;
}

std::vector<std::string> all(ActionQueue& queue) {
  std::vector<std::string> out;
  while (auto next = queue.next([](const Alert&) { return true; }))
    out.push_back(next->alert.of.cgroup->path);
  return out;
}

TEST(ActionQueue, runs_what_waits_in_turns_of_the_parts_of_the_tree) {
  ActionQueue queue;
  for (const char* path : {"/tenant/1", "/tenant/2", "/tenant/3", "/job/a"}) queue.add(of(path));
  EXPECT_EQ(all(queue), (std::vector<std::string>{"/tenant/1", "/job/a", "/tenant/2", "/tenant/3"}));
}

TEST(ActionQueue, that_is_full_has_room_for_who_has_less_in_it) {
  ActionQueue queue;
  for (int i = 0; i < 1000; ++i) queue.add(of("/tenant/" + std::to_string(i)));
  queue.add(of("/job/a"));
  EXPECT_EQ(queue.size(), ActionQueue::kMaxWaiting);
  auto run = all(queue);
  EXPECT_EQ(run.at(1), "/job/a");
}

TEST(ActionQueue, forgets_what_is_true_no_more) {
  ActionQueue queue;
  for (const char* path : {"/job/a", "/job/b"}) queue.add(of(path));
  auto next = queue.next([](const Alert& alert) { return alert.of.cgroup->path == "/job/b"; });
  ASSERT_TRUE(next);
  EXPECT_EQ(next->alert.of.cgroup->path, "/job/b");
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace oomcast
