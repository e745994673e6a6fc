#include "model/cgroup_tree.h"

#include <gtest/gtest.h>

#include "moment.h"

namespace oomcast {
namespace {

using test::at_s;

// 1: /   2: /job   3: /job/step   4: /job/step/task   5: /jobs
CgroupTree a_tree() {
  CgroupTree tree(Hierarchy::v1);
  tree.add(1, std::nullopt, "/");
  tree.add_child(2, 1, "job");
  tree.add_child(3, 2, "step");
  tree.add_child(4, 3, "task");
  tree.add_child(5, 1, "jobs");
  return tree;
}

TEST(CgroupTree, names_a_child_below_its_parent) {
  CgroupTree tree = a_tree();
  ASSERT_TRUE(tree.find(4));
  EXPECT_EQ(tree.find(4)->ref->path, "/job/step/task");
  EXPECT_EQ(tree.find(4)->ref->id, (CgroupId{Hierarchy::v1, 4}));
  EXPECT_EQ(tree.by_path("/job/step"), tree.find(3));
  EXPECT_EQ(tree.by_path("/nothing"), nullptr);
}

TEST(CgroupTree, cannot_name_the_child_of_a_stranger) {
  CgroupTree tree = a_tree();
  EXPECT_EQ(tree.add_child(9, 8, "x"), nullptr);
  EXPECT_EQ(tree.find(9), nullptr);
}

TEST(CgroupTree, renames_a_cgroup_with_all_below_and_none_beside) {
  CgroupTree tree = a_tree();
  tree.rename(2, "work");
  EXPECT_EQ(tree.find(2)->ref->path, "/work");
  EXPECT_EQ(tree.find(3)->ref->path, "/work/step");
  EXPECT_EQ(tree.find(4)->ref->path, "/work/step/task");
  EXPECT_EQ(tree.find(4)->ref->id.inode, 4u);
  EXPECT_EQ(tree.find(5)->ref->path, "/jobs");
  EXPECT_EQ(tree.find(1)->ref->path, "/");
}

TEST(CgroupTree, renames_below_another_without_losing_its_way) {
  CgroupTree tree = a_tree();
  tree.rename(3, "s2");
  EXPECT_EQ(tree.find(4)->ref->path, "/job/s2/task");
  tree.rename(99, "nobody");
}

TEST(CgroupTree, facts_keep_the_path_they_were_told_with) {
  CgroupTree tree = a_tree();
  CgroupPtr before = tree.ref(2);
  tree.rename(2, "work");
  EXPECT_EQ(before->path, "/job");
}

TEST(CgroupTree, tells_what_is_below_what) {
  CgroupTree tree = a_tree();
  EXPECT_TRUE(tree.is_below(4, 2));
  EXPECT_TRUE(tree.is_below(2, 2));
  EXPECT_TRUE(tree.is_below(5, 1));
  EXPECT_FALSE(tree.is_below(5, 2)) << "the same beginning is not the same cgroup";
  EXPECT_FALSE(tree.is_below(2, 4));
  EXPECT_FALSE(tree.is_below(77, 1));
}

TEST(CgroupTree, ends_its_search_in_a_circle_of_parents) {
  CgroupTree tree(Hierarchy::v2);
  tree.add(1, 2, "/a");
  tree.add(2, 1, "/b");
  EXPECT_FALSE(tree.is_below(1, 3));
  EXPECT_EQ(tree.tightest_limit(1, std::nullopt).limit, std::nullopt);
}

TEST(TightestLimit, is_the_smallest_of_the_cgroup_and_its_ancestors) {
  CgroupTree tree = a_tree();
  tree.find(2)->limit = MiB(100);
  tree.find(3)->limit = MiB(50);
  tree.find(4)->limit = MiB(200);
  auto tightest = tree.tightest_limit(4, GiB(8));
  EXPECT_EQ(tightest.limit, MiB(50));
  EXPECT_EQ(tightest.owner, tree.ref(3));
  EXPECT_EQ(tree.tightest_limit(2, GiB(8)).limit, MiB(100)) << "a child's limit is not the parent's";
}

TEST(TightestLimit, of_equal_ones_is_the_nearests) {
  CgroupTree tree = a_tree();
  tree.find(2)->limit = MiB(100);
  tree.find(3)->limit = MiB(100);
  EXPECT_EQ(tree.tightest_limit(4, GiB(8)).owner, tree.ref(3));
}

TEST(TightestLimit, is_nobodys_when_the_host_is_smaller) {
  CgroupTree tree = a_tree();
  tree.find(2)->limit = GiB(16);
  for (Bytes host : {GiB(8), GiB(16)}) {
    auto tightest = tree.tightest_limit(4, host);
    EXPECT_EQ(tightest.limit, std::nullopt);
    EXPECT_EQ(tightest.owner, nullptr);
  }
  EXPECT_EQ(tree.tightest_limit(4, GiB(16) + Bytes{1}).owner, tree.ref(2));
  EXPECT_EQ(tree.tightest_limit(4, std::nullopt).owner, tree.ref(2)) << "an unknown host is not a small one";
}

TEST(TightestLimit, may_be_zero) {
  CgroupTree tree = a_tree();
  tree.find(3)->limit = Bytes{0};
  EXPECT_EQ(tree.tightest_limit(4, GiB(8)).limit, Bytes{0});
}

TEST(TightestLimit, is_none_without_limits_and_for_a_stranger) {
  CgroupTree tree = a_tree();
  EXPECT_EQ(tree.tightest_limit(4, GiB(8)).limit, std::nullopt);
  EXPECT_EQ(tree.tightest_limit(77, GiB(8)).owner, nullptr);
}

TEST(CgroupTree, keeps_the_removed_for_records_that_still_arrive) {
  CgroupTree tree = a_tree();
  tree.remove(4, at_s(10));
  EXPECT_EQ(tree.ref(4)->path, "/job/step/task");
  EXPECT_TRUE(tree.forget_removed(at_s(10)).empty());
  EXPECT_EQ(tree.forget_removed(at_s(11)), std::vector<std::uint64_t>{4});
  EXPECT_EQ(tree.find(4), nullptr);
  EXPECT_TRUE(tree.forget_removed(at_s(100)).empty());
}

TEST(CgroupTree, a_path_that_was_made_again_means_the_living_one) {
  CgroupTree tree = a_tree();
  tree.remove(4, at_s(10));
  EXPECT_EQ(tree.by_path("/job/step/task"), tree.find(4)) << "while there is no other";
  tree.add_child(40, 3, "task");
  EXPECT_EQ(tree.by_path("/job/step/task"), tree.find(40));
  tree.remove(40, at_s(20));
  EXPECT_EQ(tree.by_path("/job/step/task"), tree.find(40)) << "the one that was removed last";
}

TEST(CgroupTree, an_inode_that_comes_again_is_a_new_cgroup) {
  CgroupTree tree = a_tree();
  CgroupState* old = tree.find(4);
  old->limit = MiB(64);
  old->usage = MiB(60);
  old->pinned = Point{at_s(1), MiB(60)};
  old->shown.at = at_s(1);
  tree.remove(4, at_s(10));
  CgroupState* again = tree.add_child(4, 1, "other");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ref->path, "/other");
  EXPECT_FALSE(again->removed);
  EXPECT_EQ(again->limit, std::nullopt) << "the limit of another";
  EXPECT_EQ(again->usage, std::nullopt);
  EXPECT_FALSE(again->pinned);
  EXPECT_FALSE(again->shown.at);
}

TEST(CgroupTree, adding_what_is_there_keeps_what_is_known) {
  CgroupTree tree = a_tree();
  tree.find(4)->limit = MiB(64);
  tree.add(4, 3, "/job/step/task");
  EXPECT_EQ(tree.find(4)->limit, MiB(64));
}

TEST(CgroupTree, forgets_what_was_removed_long_ago_but_not_what_came_again) {
  CgroupTree tree = a_tree();
  tree.remove(4, at_s(10));
  tree.remove(3, at_s(20));
  ASSERT_TRUE(tree.add(4, 3, "/job/step/task"));
  tree.remove(4, at_s(30));
  EXPECT_EQ(tree.forget_removed(at_s(20)), std::vector<std::uint64_t>{});
  EXPECT_EQ(tree.forget_removed(at_s(25)), std::vector<std::uint64_t>{3});
  EXPECT_TRUE(tree.find(4));
  EXPECT_EQ(tree.forget_removed(at_s(31)), std::vector<std::uint64_t>{4});
  EXPECT_FALSE(tree.find(4));
}

TEST(Bounds, of_paths_hold_however_deep_cgroups_are_nested) {
  CgroupTree tree(Hierarchy::v2);
  tree.add(1, std::nullopt, "/");
  std::size_t kept = 0;
  for (std::uint64_t i = 2; i < 1000; ++i) kept += tree.add_child(i, i - 1, std::string(255, 'x')) != nullptr;
  EXPECT_EQ(kept, CgroupTree::kMaxPath / 256);
  EXPECT_EQ(tree.not_followed(), 998 - kept);
  EXPECT_TRUE(tree.is_refused(999));
  EXPECT_FALSE(tree.is_refused(2000));
  tree.remove(999, MonoTime(Nanos(1)));
  EXPECT_FALSE(tree.is_refused(999));
}

TEST(Bounds, who_makes_ten_thousand_cgroups_keeps_nobody_elses_from_being_followed) {
  CgroupTree tree(Hierarchy::v2, 256 << 10);
  tree.add(1, std::nullopt, "/");
  tree.add_child(2, 1, "with a limit")->limit = MiB(64);
  tree.add_child(3, 1, "holds something")->usage = MiB(5);
  tree.add_child(4, 1, "parent");
  tree.add_child(5, 4, "child")->usage = MiB(5);
  for (std::uint64_t i = 100; i < 10'100; ++i)
    ASSERT_TRUE(tree.add_child(i, 1, "idle-" + std::to_string(i))) << i;
  for (std::uint64_t inode : {1, 2, 3, 4, 5}) EXPECT_TRUE(tree.find(inode)) << inode;
  EXPECT_LT(tree.size(), 500u);
  auto evicted = tree.take_evicted();
  EXPECT_EQ(evicted.size() + tree.size(), 10'005u);
  EXPECT_EQ(tree.refused(), evicted.size());
  EXPECT_EQ(tree.not_followed(), 0u) << "none that held anything";
  ASSERT_FALSE(evicted.empty());
  EXPECT_TRUE(tree.is_refused(evicted[0]));
  EXPECT_TRUE(tree.take_evicted().empty());
  EXPECT_TRUE(tree.reconsider(evicted[0])) << "it was said to hold something";
  EXPECT_TRUE(tree.add_child(evicted[0], 1, "idle no more"));
}

TEST(Bounds, ones_with_tiny_limits_of_their_own_keep_nobody_out) {
  CgroupTree tree(Hierarchy::v2, 256 << 10);
  tree.add(1, std::nullopt, "/");
  for (std::uint64_t i = 100; i < 5'100; ++i) {
    CgroupState* added = tree.add_child(i, 1, "tiny-" + std::to_string(i));
    ASSERT_TRUE(added) << i;
    added->limit = KiB(512);
    added->usage = KiB(500);
  }
  EXPECT_TRUE(tree.add_child(2, 1, "somebody else's"));
}

TEST(Bounds, with_less_room_the_idle_go_and_then_who_holds_least) {
  CgroupTree tree(Hierarchy::v2);
  tree.add(1, std::nullopt, "/");
  for (std::uint64_t i = 2; i < 3002; ++i)
    tree.add_child(i, 1, "pod-" + std::to_string(i))->usage = i % 4 ? KiB(4) : MiB(static_cast<int>(i));
  tree.set_room(1.0 / 4);
  EXPECT_LT(tree.size(), 1700u);
  for (std::uint64_t i = 4; i < 3002; i += 4) ASSERT_TRUE(tree.find(i)) << i;
  EXPECT_EQ(tree.take_evicted().size() + tree.size(), 3001u);
  tree.set_room(1.0 / 16);
  EXPECT_FALSE(tree.find(4));
  EXPECT_TRUE(tree.find(3000)) << "it holds most";
  EXPECT_GT(tree.not_followed(), 0u);
  EXPECT_LE(tree.not_followed(), 750u) << "every fourth";
  tree.set_room(1);
  EXPECT_TRUE(tree.add_child(3, 1, "pod-3"));
}

TEST(Bounds, with_less_room_nested_ones_go_from_within) {
  CgroupTree tree(Hierarchy::v2);
  tree.add(1, std::nullopt, "/");
  for (std::uint64_t i = 2; i < 1002; ++i)
    tree.add_child(i, i % 10 == 2 ? 1 : i - 1, "nested-" + std::to_string(i))->usage = MiB(2);
  tree.set_room(1.0 / 16);
  EXPECT_LT(tree.size(), 600u);
  tree.for_each([&](const CgroupState& state) {
    EXPECT_TRUE(!state.parent || tree.find(*state.parent)) << state.ref->path;
  });
}

TEST(Bounds, those_that_hold_something_make_way_only_when_they_are_gone) {
  CgroupTree tree(Hierarchy::v2);
  tree.add(1, std::nullopt, "/");
  const std::string name(4000, 'x');
  std::uint64_t last = 2;
  while (CgroupState* added = tree.add_child(last, 1, name)) {
    added->usage = MiB(1);
    ++last;
  }
  EXPECT_NEAR(static_cast<double>(last), static_cast<double>(CgroupTree::kMaxBytes) / 9500, 200);
  EXPECT_EQ(tree.not_followed(), 0u) << "what it holds is not known yet";
  EXPECT_FALSE(tree.reconsider(last)) << "there is nobody whose place it could have";
  EXPECT_FALSE(tree.reconsider(last));
  EXPECT_EQ(tree.not_followed(), 1u);
  tree.remove(5, MonoTime(Nanos(1000)));
  tree.forget_removed(MonoTime(Nanos(2000)));
  EXPECT_TRUE(tree.reconsider(last));
  ASSERT_TRUE(tree.add_child(last, 1, name));
  tree.find(last)->usage = MiB(1);
  EXPECT_FALSE(tree.add_child(last + 1, 1, name));
}

}  // namespace
}  // namespace oomcast
