// The existing memory cgroups, with the newest reading and the effective limit of each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/facts.h"
#include "model/headroom.h"
#include "model/series.h"

namespace oomcast {

struct CgroupState {
  CgroupPtr ref;
  std::optional<std::uint64_t> parent;  // inode
  std::optional<Bytes> usage, limit, peak;
  bool limit_known = false;     // it was read: a nullopt limit is no limit
  bool told_by_kernel = false;  // the newest usage came in a record: the kernel programs report changes
  MemoryStat stat;
  std::optional<MonoTime> stat_read;
  std::optional<Point> pinned;  // the newest
  std::optional<Bytes> headroom_limit;
  CgroupPtr headroom_cgroup;  // whose: see Sample
  struct High {
    std::optional<Bytes> size;         // memory.high
    std::optional<MonoTime> read;      // or tried
    std::optional<Throttle> throttle;  // see Sample
  } high;
  std::optional<std::uint64_t> beneath;     // inode of the nearest limit above that is known, 0: the host's
  HeldByOthers others;                      // below that
  std::optional<SwapUse> swap;              // nullopt: not read, or not accounted
  bool swap_known = false;                  // it was read
  std::optional<std::uint64_t> swappiness;  // v1
  std::optional<MonoTime> removed;
  // Last published, so that idle cgroups stay quiet.
  struct Shown {
    std::optional<Bytes> usage, limit, high;
    std::optional<MonoTime> at;
  } shown;
};

/// Bounded: paths of 4 KiB at most, as in the kernel, and 8 MiB in all, some 6,000 cgroups. A user with many
/// cgroups, or deep ones with long names, must not crowd out others: a new cgroup evicts childless ones that hold
/// next to nothing, whatever their limit. Evicted cgroups are not followed until they are reported to hold more;
/// those that find no room then are counted.
class CgroupTree {
 public:
  static constexpr std::size_t kMaxPath = 4096, kMaxBytes = 8 << 20;
  static constexpr int kMaxDepth = 128;  // ancestors whose limit is considered
  /// Same threshold as in the kernel programs.
  static bool is_idle(Bytes usage) { return usage < MiB(1); }

  /// `sees_root`: "/" is the machine's root; false in a container, where it is a cgroup like any other.
  explicit CgroupTree(Hierarchy hierarchy, std::size_t most_bytes = kMaxBytes, bool sees_root = true)
      : hierarchy_(hierarchy), sees_root_(sees_root), bound_(most_bytes) {}

  /// Sets the fraction of the bound that may be used from now on. Evicts the excess: idle cgroups first, then those
  /// that hold least.
  void set_room(double part);

  /// Adds or moves a cgroup whose full path is known. Children keep their paths: see rename(). If a removed cgroup
  /// had this inode, its state is dropped: the inode was reused. Null: no room.
  CgroupState* add(std::uint64_t inode, std::optional<std::uint64_t> parent, std::string path);
  /// Adds a child by directory name. Null: the parent is not known (yet), or no room.
  CgroupState* add_child(std::uint64_t inode, std::uint64_t parent, std::string_view name);
  void rename(std::uint64_t inode, std::string_view name);
  /// Keeps the cgroup for a while: records about it still arrive.
  void remove(std::uint64_t inode, MonoTime now);
  /// Forgets cgroups removed before `before`. Returns their inodes.
  std::vector<std::uint64_t> forget_removed(MonoTime before);

  CgroupState* find(std::uint64_t inode);
  const CgroupState* find(std::uint64_t inode) const;
  /// If several have this path, one that was not removed.
  const CgroupState* by_path(std::string_view path) const;
  CgroupPtr ref(std::optional<std::uint64_t> inode) const;
  bool is_below(std::uint64_t inode, std::uint64_t top) const;
  bool is_below_any(std::uint64_t inode, const std::unordered_set<std::uint64_t>& tops) const;
  /// The same for many processes at once: each cgroup's ancestors are walked once.
  class Below {
   public:
    Below(const CgroupTree& tree, std::uint64_t top) : tree_(tree), top_(top) {}
    bool operator()(std::uint64_t inode);

   private:
    const CgroupTree& tree_;
    std::uint64_t top_;
    std::unordered_map<std::uint64_t, bool> known_;
  };

  struct Tightest {
    std::optional<Bytes> limit;  // nullopt: no cgroup limits it below `host`
    CgroupPtr owner;
  };
  /// The smallest limit of the cgroup and its ancestors; if several are equal, the nearest owner's.
  Tightest tightest_limit(std::uint64_t inode, std::optional<Bytes> host) const;
  /// The same for memory.high. 0 counts as none: it is written to force reclaim of everything, then reset.
  Tightest tightest_high(std::uint64_t inode) const;
  /// What the machine's free swap, the cgroup and its ancestors leave to it, as far as that was read.
  void limit_swap(const CgroupState& cgroup, Bytes host_free, HeadroomInput& in) const;

  Hierarchy hierarchy() const { return hierarchy_; }
  std::size_t size() const { return cgroups_.size(); }
  bool is_refused(std::uint64_t inode) const { return refused_.contains(inode); }
  /// It is worth a place after all. False: there is none that it could take, and it is counted.
  bool reconsider(std::uint64_t inode);
  /// Inodes evicted since the last call.
  std::vector<std::uint64_t> take_evicted() { return std::exchange(evicted_, {}); }
  /// Ever refused, most of them idle; and of these, those that held more.
  std::uint64_t refused() const { return refusals_; }
  std::uint64_t not_followed() const { return not_followed_; }
  template <typename F>
  void for_each(F f) {
    for (auto& [inode, state] : cgroups_) f(state);
  }
  template <typename F>
  void for_each(F f) const {
    for (const auto& [inode, state] : cgroups_) f(state);
  }

 private:
  template <typename Limit>
  Tightest tightest(std::uint64_t inode, Limit limit_of) const;
  template <typename IsTop>
  bool climb(std::uint64_t inode, IsTop is_top) const;
  bool has_room(const CgroupState* known, std::size_t path) const;
  bool make_room(bool idle_alone);
  void refuse(std::uint64_t inode, bool idle);
  static std::size_t bytes_of(const CgroupState& state);
  void set_ref(CgroupState& state, std::uint64_t inode, std::string path);
  using Cgroups = std::unordered_map<std::uint64_t, CgroupState>;
  void forget(Cgroups::iterator at);

  Hierarchy hierarchy_;
  bool sees_root_;
  Cgroups cgroups_;
  std::set<std::pair<std::string_view, std::uint64_t>> by_path_;  // paths of their refs, inodes
  std::unordered_map<std::uint64_t, bool> refused_;               // until they are removed; it is counted
  std::deque<std::pair<MonoTime, std::uint64_t>> removed_;        // in the order in which they go
  std::vector<std::uint64_t> evicted_;
  std::size_t bound_, most_bytes_ = bound_, bytes_ = 0;
  bool crowded_ = false;  // nobody could make way when last asked
  std::uint64_t refusals_ = 0, not_followed_ = 0;
};

}  // namespace oomcast
