// The memory cgroup that `run --memory` makes for its command, and removes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "collect/cgroupfs.h"

namespace oomcast {

class ChildCgroup {
 public:
  /// Makes a cgroup with `limit` and moves `pid` into it. On v1 below oomcast's own cgroup; on v2, where a
  /// cgroup with processes cannot have limited children, beside it or below the root. Error: the file that
  /// could not be written; nothing is left behind.
  static Result<ChildCgroup> make(const CgroupFs& fs, Bytes limit, pid_t pid);
  ChildCgroup(ChildCgroup&& other) noexcept;
  ChildCgroup& operator=(ChildCgroup&&) = delete;
  /// Removes the cgroup if it is empty; it stays while processes of the command are left in it.
  ~ChildCgroup();

  /// The processes in it, without those in cgroups that the command made below it. Empty if unreadable.
  std::vector<pid_t> processes() const;
  /// Sends `signal` to each of processes(). SIGKILL reaches cgroups below it, too, where the kernel has
  /// cgroup.kill (v2 from 5.14).
  void signal(int signal) const;

  const std::string& path() const { return path_; }

 private:
  ChildCgroup(std::string directory, std::string path)
      : directory_(std::move(directory)), path_(std::move(path)) {}
  std::string directory_, path_;
};

}  // namespace oomcast
