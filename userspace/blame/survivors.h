// Which blocks that a process allocated are retained: these make up a leak, whatever code touched their pages
// first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "collect/allocation_budget.h"
#include "wire/fault.h"

namespace oomcast {

/// What is retained of one site, as an estimate for the whole window.
struct Kept {
  Bytes bytes;
  Bytes error;  // two standard deviations, of sampling and of the part that was watched, and a block; where
                // blocks become as old as half of what was watched, also what may still go, and all that went
  std::uint64_t blocks = 0;  // seen to be retained,
  std::uint64_t objects{};   // and the estimated total
  auto operator<=>(const Kept&) const = default;
};

/// A block is retained if it is live at the end of tracing, and older than freed blocks get: half as old
/// again as the oldest freed block, or half of the traced time if freed blocks get that old. A program's step
/// that frees its temporaries is shorter than that, and leaves none. If only some sites free blocks of that
/// age, another site is judged by its own blocks: some outlived all freed blocks, and none of its freed
/// blocks was half as old.
/// A free is seen as a call of free(), or as another block in the same place; where calls of free() are too
/// frequent to trace, a large block is checked repeatedly (check()), and smaller ones are unknown from then
/// on.
class Survivors {
 public:
  /// Upper bound for how many times as fast the program would run without its breakpoints, from the time that
  /// they take: 1 to 20.
  static double most_faster(const WatchedAllocations& watched);
  /// The number of the site for the allocation's stack.
  using Read = std::function<std::uint32_t(const wire::Allocation&)>;

  /// If the block has been freed already, it is dropped: the records of two CPUs may arrive in either order.
  void add(wire::Allocation allocation);
  void freed(const wire::Freed& freed);
  /// Reads the stacks of blocks that have lived for a while, limited to about 20 ms: most blocks are freed
  /// before and need no stack. `all`: of every block.
  void read_stacks(MonoTime now, bool all, const Read& read);

  /// Drops all other blocks: their free was not reported.
  void keep_only(const std::unordered_map<std::uint64_t, MonoTime>& born_by_address);

  /// Checks blocks for which `held` may know: each after 1, 2, 4 and then every 8 calls, at most 500 a call.
  /// `resized`: it was in realloc(), and may be longer by now.
  using Held = std::function<std::optional<bool>(std::uint64_t address, Bytes size, bool resized)>;
  void check(MonoTime now, const Held& held);

  /// After the last record: a block found missing while realloc() was traced, and without a record of a move,
  /// was freed.
  void settle_gone(const WatchedAllocations& watched);

  /// For large blocks (1 MiB or more, the 4,096 largest): the resident fraction, from 64 addresses each that
  /// `page` checks, as programs allocate more than they touch. nullopt: unknown.
  using Page = std::function<std::optional<bool>(std::uint64_t address)>;
  void look_into_large(const Page& page);

  /// What is known about an address.
  enum class Place { kept, living, elsewhere };  // a retained block, a merely live one, or none
  struct Estimate {
    std::map<std::uint32_t, Kept> sites;
    Kept all;
    Nanos outlived{};  // the age that a block needed
    Nanos watched{};   // time whose allocations could reach that age
    struct Living {
      std::uint64_t end = 0;
      Place place{};
      std::uint32_t site = 0;  // of a retained block
      bool resized = false;    // by realloc(): may include what was there before tracing
    };
    std::map<std::uint64_t, Living> living;  // by begin of the block
    Place at(std::uint64_t address) const;
    /// The begin of a retained block; nullopt: there is none.
    std::optional<std::uint64_t> kept_at(std::uint64_t address) const;
    /// For a resized block, touched pages (by address) are better evidence than its calls, up to its size.
    /// For any other block they prove nothing: temporaries may have touched the place before.
    void raise_to_pages(std::span<const std::pair<std::uint64_t, Bytes>> touched);
  };
  /// Scaled to a window of this length.
  Estimate estimate(const WatchedAllocations& watched, Seconds window) const;
  /// Size of a reported block not known to be freed; nullopt: there is none.
  std::optional<std::uint64_t> bytes_at(std::uint64_t address) const;
  /// false: call read_stacks() for all blocks first, or the next block is dropped.
  bool has_room() const;
  /// Blocks dropped for lack of room.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Block {
    MonoTime born;
    std::uint64_t bytes = 0, base = 0;  // base: its size when first seen, in realloc()
    std::int64_t weight = 0;            // negative: realloc() shrank it
    wire::Allocates function{};
    bool grew = false;  // in realloc()
    std::uint32_t checks = 0, next_check = 0, gap = 1;
    double held = 1;  // resident fraction
    MonoTime gone{};  // when found missing: freed, or moved by realloc()
    std::optional<std::uint32_t> site;
    std::unique_ptr<wire::Allocation> unread;
    bool resized() const { return grew || function == wire::Allocates::realloc; }
  };
  struct Known {
    MonoTime before{};  // blocks allocated before and still live are retained
    Nanos outlived{}, watched{};
    bool sure = true;     // no freed block was as old as half of the traced time
    double of_grown = 0;  // window / traced time, for realloc(),
    std::array<double, wire::kAllocates> of_function{};  // and for newly allocated blocks;
    std::array<double, wire::kAllocates> of_young{};     // fraction with blocks too young to judge
  };
  /// The oldest freed blocks, with the time of the report.
  class Oldest {
   public:
    void add(MonoTime time, Nanos age) {
      if (grown_.empty() || age > grown_.back().second) grown_.emplace_back(time, age);
    }
    Nanos until(MonoTime end) const;

   private:
    std::vector<std::pair<MonoTime, Nanos>> grown_;
  };
  /// Large blocks that are gone, however that was detected. Once their function was no longer traced, a new
  /// block in the place of such a block was not seen, and it may be found missing long after it was freed:
  /// its final age is unknown then, only its age when tracing stopped.
  class LargeGone {
   public:
    void add(wire::Allocates function, MonoTime born, MonoTime gone);
    Nanos oldest(const WatchedAllocations& watched) const;

   private:
    static constexpr Nanos kTogether = std::chrono::milliseconds(50);  // merged if within this
    struct Span {
      MonoTime first_born = MonoTime::max(), last_gone{};
      Nanos oldest{};
    };
    std::map<std::pair<wire::Allocates, std::int64_t>, Span> spans_;
  };
  struct Stayed;
  struct Sum;
  struct Ages {
    double old = 0, young = 0;  // bytes of a site's blocks: old enough to judge, too young
  };
  using KnownOf = std::function<const Known&(const Block&)>;
  static WatchedAllocations::Faster when_not_watched(const WatchedAllocations& watched);
  static double more_when_not_watched(const WatchedAllocations& watched, double made, Seconds window,
                                      double faster);
  std::map<std::uint32_t, Ages> ages_by_site(const WatchedAllocations& watched,
                                             const KnownOf& known_of) const;
  void add_what_went(const WatchedAllocations& watched, const Known& by_frees,
                     const std::map<std::uint32_t, Known>& by_site, std::map<std::uint32_t, Sum>& sites,
                     Sum& all) const;
  std::map<std::uint32_t, Known> known_by_themselves(const Known& by_frees, const WatchedAllocations& watched,
                                                     Seconds window) const;
  static bool stays(const Block& block, const Known& known, const WatchedAllocations& watched);
  static Stayed stayed(const Block& block, const Known& known, const Ages& of_site,
                       const WatchedAllocations& watched, Seconds window);
  /// Scale factor from a retained block to the whole window.
  static double scale_of(const Block& block, const Known& known, const Ages& of_site);
  static Known known_until(MonoTime end, Nanos age, const WatchedAllocations& watched, Seconds window);
  Known known_by_looks(std::size_t function, const WatchedAllocations& watched, Seconds window) const;
  static double told_bytes(const Block& block);  // of the block itself, as reported
  static double part_held(const Block& block);
  static bool is_looked_at(const Block& block, const WatchedAllocations& watched);
  using Blocks = std::map<std::uint64_t, Block>;
  bool drop(std::uint64_t address);  // false: no such block
  /// The block that lay in another's place was freed, unseen.
  void drop_overlapped(std::uint64_t address, std::uint64_t size);

  Blocks blocks_;                                             // by address
  std::unordered_map<std::uint64_t, MonoTime> freed_before_;  // reported before their allocation
  Oldest freed_, freed_unread_;                               // of all; of blocks with an unknown site
  std::unordered_map<std::uint32_t, Oldest> freed_of_;        // by site
  std::unordered_map<std::uint32_t, std::uint64_t>
      gone_;  // weights of freed blocks, by site where it is known
  LargeGone large_gone_;
  std::uint32_t checks_ = 0;
  std::size_t unread_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace oomcast
