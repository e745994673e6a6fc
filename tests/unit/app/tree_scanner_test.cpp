#include "app/tree_scanner.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "fixture_tree.h"
#include "model/machine.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

struct Scanned {
  FixtureTree tree;
  std::optional<CgroupFs> fs;
  std::optional<MachineModel> model;
  std::optional<TreeScanner> scanner;

  Scanned() {
    tree.mount_v1();
    tree.cgroup("sys/fs/cgroup/memory/job", {{"memory.usage_in_bytes", "1\n"}});
    auto found = CgroupFs::open(tree.roots());
    EXPECT_TRUE(found.ok());
    fs.emplace(*std::move(found));
    MachineConfig config;
    config.hierarchy = Hierarchy::v1;
    model.emplace(config);
    scanner.emplace(*model, *fs);
  }
  std::uint64_t inode(const std::string& path) const {
    struct stat file {};
    EXPECT_EQ(::stat(tree.path("sys/fs/cgroup/memory/" + path).c_str(), &file), 0);
    return file.st_ino;
  }
  bool knows(std::uint64_t inode) { return model->cgroups().find(inode) != nullptr; }
  // A record of the kernel programs that names one below a cgroup that nobody has heard of.
  std::uint64_t make_unknown(const std::string& path) {
    tree.cgroup("sys/fs/cgroup/memory/" + path, {{"memory.usage_in_bytes", "1\n"}});
    wire::CgroupEvent event;
    event.op = wire::CgroupEvent::Op::mkdir;
    event.inode = inode(path);
    event.parent = 99'999'999;
    event.name = "child";
    model->on_record(event);
    return event.inode;
  }
};

TEST(TreeScanner, walks_the_tree_for_a_cgroup_whose_path_is_not_known_and_only_then) {
  Scanned s;
  s.scanner->advance(mono_now());
  EXPECT_FALSE(s.knows(s.inode("job"))) << "nothing was missed";
  std::uint64_t late = s.make_unknown("late");
  ASSERT_FALSE(s.knows(late));
  s.scanner->advance(mono_now());
  EXPECT_TRUE(s.knows(late));
  EXPECT_TRUE(s.knows(s.inode("job")));
}

TEST(TreeScanner, walks_once_a_second_at_most_and_at_once_for_a_victims) {
  Scanned s;
  s.make_unknown("one");
  MonoTime before = mono_now();
  s.scanner->advance(before);
  std::uint64_t two = s.make_unknown("two");
  s.scanner->advance(before + 1s);
  EXPECT_FALSE(s.knows(two)) << "not a second after the walk";
  std::uint64_t three = s.make_unknown("three");
  wire::Task victim = test::task(4312, three);
  s.model->on_record(test::mark(mono_now(), victim, victim, {test::level(three, MiB(9), MiB(9), true)}));
  // Twenty times as long as the walk before took.
  for (MonoTime until = mono_now() + 20s; !s.knows(three) && mono_now() < until;)
    s.scanner->advance(mono_now());
  EXPECT_TRUE(s.knows(three));
  EXPECT_TRUE(s.knows(two));
}

}  // namespace
}  // namespace oomcast
