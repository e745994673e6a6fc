// A machine's files in a temporary directory, built in the test's body and removed with the object.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "collect/roots.h"

namespace oomcast {

class FixtureTree {
 public:
  using Files = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  FixtureTree() {
    std::string pattern = testing::TempDir() + "oomcast-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no temporary directory at " << pattern;
    root_ = pattern;
  }
  FixtureTree(const FixtureTree&) = delete;
  FixtureTree& operator=(const FixtureTree&) = delete;
  ~FixtureTree() { std::filesystem::remove_all(root_); }

  const std::string& path() const { return root_; }
  std::string path(std::string_view relative) const { return root_ + "/" + std::string(relative); }
  Roots roots() const { return {root_}; }

  /// Writes a file and makes the directories above it.
  void write(std::string_view relative, std::string_view content) const {
    std::filesystem::path file = path(relative);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out << content;
    if (!out.flush()) ADD_FAILURE() << "cannot write " << file;
  }
  void make_dir(std::string_view relative) const { std::filesystem::create_directories(path(relative)); }
  void remove(std::string_view relative) const { std::filesystem::remove_all(path(relative)); }
  void link(std::string_view relative, std::string_view target) const {
    std::filesystem::create_symlink(target, path(relative));
  }

  /// A cgroup directory with these files, and cgroup.procs, which every cgroup has.
  void cgroup(std::string_view relative, Files files = {}) const {
    write(std::string(relative) + "/cgroup.procs", "");
    for (auto [name, content] : files) write(std::string(relative) + "/" + std::string(name), content);
  }

  /// Mount table and controllers of a machine with memory on v1 at sys/fs/cgroup/memory.
  void mount_v1(std::string_view mount_root = "/") const {
    write("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t4\t9\t1\n");
    write("proc/1/mountinfo",
          "22 1 0:20 / /proc rw,relatime - proc proc rw\n"
          "34 31 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
          "35 31 0:32 " +
              std::string(mount_root) +
              " /sys/fs/cgroup/memory rw,relatime shared:7 master:2 - cgroup cgroup rw,memory\n");
    cgroup("sys/fs/cgroup/cpu");
    cgroup("sys/fs/cgroup/memory");
  }
  /// The same on v2 at sys/fs/cgroup.
  void mount_v2(std::string_view mount_root = "/") const {
    write("proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t9\t1\n");
    write("proc/1/mountinfo",
          "31 23 0:28 " + std::string(mount_root) +
              " /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n");
    cgroup("sys/fs/cgroup", {{"cgroup.controllers", "cpuset cpu io memory hugetlb pids\n"}});
  }

 private:
  std::string root_;
};

}  // namespace oomcast
