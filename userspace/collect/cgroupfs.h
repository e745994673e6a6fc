// The memory hierarchy's directory tree: its cgroups and the contents of their files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "base/task_id.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "collect/cgroup_mount.h"
#include "collect/roots.h"
#include "parse/memory_stat.h"

namespace oomcast {

struct CgroupEntry {
  CgroupId id;
  std::optional<CgroupId> parent;  // nullopt: the top of what is mounted
  std::string path;                // as the kernel log prints it; bytes, may be anything
  /// Who could give it its name: the owner of the outermost directory above it that is not root's, whose also
  /// all below that is. nullopt: several can.
  std::optional<std::uint32_t> named_by = std::nullopt;
};

/// Result of one walk. Parents come before their children.
struct CgroupListing {
  std::vector<CgroupEntry> cgroups;
  std::size_t vanished = 0;    // directories gone between being listed and being opened: normal
  std::size_t unreadable = 0;  // directories that could not be opened or listed for another reason
  std::size_t too_deep = 0;    // directories below the depth limit, or past the bounds of a walk; not entered
  std::unordered_set<std::uint64_t> not_all_below;  // inodes of those in which such a directory is
};

/// An open cgroup directory. Reads open, read and close a file each (about 15 µs); a removed cgroup answers
/// with an Error.
class CgroupDir {
 public:
  CgroupDir(CgroupId id, std::string path, UniqueFd fd);

  CgroupId id() const { return id_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }

  Result<Bytes> read_usage() const;  // v2's root has none: Error
  /// Peak usage. nullopt: this kernel does not report it (v2 before 5.19).
  Result<std::optional<Bytes>> read_peak() const;
  Result<std::optional<Bytes>> read_limit() const;  // nullopt = no limit (as at the root)
  /// memory.stat, with kernel (v1) and swap (v2) from their own files.
  Result<MemoryStat> read_stat() const;
  /// nullopt: v1, or a kernel without PSI.
  Result<std::optional<Pressure>> read_pressure() const;

 private:
  CgroupId id_;
  std::string path_;
  UniqueFd fd_;
};

/// The tree of one mount. Never follows a symlink or leaves the mount point.
class CgroupFs {
 public:
  static constexpr std::size_t max_depth = 64;
  /// The kernel's own maximum of memory cgroups: their ids have 16 bits.
  static constexpr std::size_t max_listed = 65536;

  /// find_memory_hierarchy and open.
  static Result<CgroupFs> open(const Roots& roots);
  static Result<CgroupFs> open(CgroupMount mount);

  const CgroupMount& mount() const { return mount_; }

  /// Every cgroup at and below `path`, up to `most`, of which one with a path of n KiB counts for 8n; below
  /// each directory half of what is left for the one that it is in, so that who makes thousands is not all
  /// that is found. About 20 µs a cgroup. Error: `path` itself cannot be opened.
  Result<CgroupListing> list(std::string_view path = {}, std::size_t most = max_listed) const;
  /// `path` as the kernel log prints it; empty = the top of the mount.
  Result<CgroupDir> open_dir(std::string_view path) const;
  /// Identity and parent of the cgroup at `path`.
  Result<CgroupEntry> lookup(std::string_view path) const;
  /// The one with this number right below `parent`; without named_by. Error: there is none. About 0.2 µs for
  /// each that is there.
  Result<CgroupEntry> find_below(std::string_view parent, std::uint64_t inode) const;

 private:
  friend struct ReaderSource;
  CgroupFs(CgroupMount mount, UniqueFd top) : mount_(std::move(mount)), top_(std::move(top)) {}
  CgroupMount mount_;
  UniqueFd top_;
};

/// Each costs some 5.5 KiB of kernel memory, which RSS does not show.
inline constexpr std::size_t kMaxKeptOpen = 4096;
/// What app passes to CgroupReader: the process's limit on open files, less `reserve`; kMaxKeptOpen at most.
std::size_t descriptor_budget(std::size_t reserve = 64);

/// Repeated reads of many cgroups. Files stay open and are read with pread: 1,000 usages in about 1 ms. At
/// most `max_fds` stay open; past that, and for those that were not there at first, each read opens the file
/// anew: some 10 us more. A cgroup that was removed, or whose path now is another cgroup, answers with an
/// Error and its files are closed.
class CgroupReader {
 public:
  CgroupReader(const CgroupFs& fs, std::size_t max_fds) : fs_(&fs), max_fds_(max_fds) {}

  Result<Bytes> usage(const CgroupEntry& cgroup);
  Result<std::optional<Bytes>> limit(const CgroupEntry& cgroup);
  /// memory.high: above it the kernel throttles allocating tasks and does not kill. nullopt: none, or v1.
  Result<std::optional<Bytes>> high(const CgroupEntry& cgroup);
  /// nullopt: this kernel does not account swap to cgroups (or v2's root).
  Result<std::optional<SwapUse>> swap(const CgroupEntry& cgroup);
  /// v1 memory.swappiness; nullopt on v2, where vm.swappiness applies.
  Result<std::optional<std::uint64_t>> swappiness(const CgroupEntry& cgroup);
  Result<MemoryStat> stat(const CgroupEntry& cgroup);

  /// Closes the open files of a cgroup: call it at cgroup_rmdir.
  void forget(CgroupId id);
  /// Closes the files of cgroups that were not read since the last call.
  void close_unread();
  std::size_t open_fds() const { return open_fds_; }

 private:
  friend struct ReaderSource;
  static constexpr std::size_t slots = 8;
  struct Files {
    std::array<UniqueFd, slots> fds;
    bool read = true;  // since the last close_unread()
  };
  void count_out(const Files& files);
  const CgroupFs* fs_;
  std::size_t max_fds_;
  std::size_t open_fds_ = 0;
  std::unordered_map<CgroupId, Files> open_;
};

}  // namespace oomcast
