// Which of the blocks that a process allocated have stayed: what a leak is made of, whoever touched its pages
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

/// What of one site has stayed, as an estimate for the whole window.
struct Kept {
  Bytes bytes;
  Bytes error;  // two standard deviations, of sampling and of the part that was watched, and a block; where
                // blocks become as old as half of what was watched, also what may still go, and all that went
  std::uint64_t blocks = 0;  // that were seen to stay,
  std::uint64_t objects{};   // and an estimate of how many did
  auto operator<=>(const Kept&) const = default;
};

/// A block has stayed if it lives at the end of what was watched, and is older by then than blocks become
/// that are freed: half as old again as the oldest of them, or as old as half of what was watched where they
/// grow as old as that. A step of a program that frees its temporaries is shorter than that, and leaves none.
/// Where only some sites free blocks as old as that, another is known by itself: some of its blocks have
/// outlived all that went, and none of its own went that was half as old.
/// That it was freed is told by a call of free(), or by another block in its place; where calls of free() are
/// too many to watch, a large block is looked at again and again (check()), and of smaller ones nothing is
/// known from there on.
class Survivors {
 public:
  /// How many times as fast the program may be without its breakpoints, by the time that these take: 1 to 20.
  static double most_faster(const WatchedAllocations& watched);
  /// The number of the site that its stack leads to.
  using Read = std::function<std::uint32_t(const wire::Allocation&)>;

  /// Of one that has been freed already a trace is left: the records of two CPUs may come in either order.
  void add(wire::Allocation allocation);
  void freed(const wire::Freed& freed);
  /// Reads the stacks of those that have lived for a while, at most so many that it takes 20 ms or so: most
  /// are freed before and need none. `all`: of every one.
  void read_stacks(MonoTime now, bool all, const Read& read);

  /// Forgets all others: their end was not told of.
  void keep_only(const std::unordered_map<std::uint64_t, MonoTime>& born_by_address);

  /// Looks at blocks that `held` may tell of: each after 1, 2, 4 and then every 8 calls, at most 500 a call.
  /// `resized`: it has been in realloc(), and may be longer by now.
  using Held = std::function<std::optional<bool>(std::uint64_t address, Bytes size, bool resized)>;
  void check(MonoTime now, const Held& held);

  /// Behind the last record: what was not in its place while realloc() was watched, and was not told to have
  /// been moved, was freed.
  void settle_gone(const WatchedAllocations& watched);

  /// Of large blocks (1 MiB or more, the 4,096 largest) which part there is memory behind, by what `page`
  /// says of 64 addresses in each: who asks for much may touch little of it. nullopt: not known.
  using Page = std::function<std::optional<bool>(std::uint64_t address)>;
  void look_into_large(const Page& page);

  /// What is at an address, as far as it is known.
  enum class Place { kept, living, elsewhere };  // a block that has stayed, one that only lives, or none
  struct Estimate {
    std::map<std::uint32_t, Kept> sites;
    Kept all;
    Nanos outlived{};  // how old a block had to be
    Nanos watched{};   // in which allocations were made that could become as old
    struct Living {
      std::uint64_t end = 0;
      Place place{};
      std::uint32_t site = 0;  // of one that has stayed
      bool resized = false;    // by realloc(): may hold what was there before it was seen
    };
    std::map<std::uint64_t, Living> living;  // by where each block begins
    Place at(std::uint64_t address) const;
    /// Where a block that has stayed begins; nullopt: there is none.
    std::optional<std::uint64_t> kept_at(std::uint64_t address) const;
    /// What was touched, by address, tells more of a resized block than its calls, up to its size. Of any
    /// other it tells nothing: temporaries may have touched the place before.
    void raise_to_pages(std::span<const std::pair<std::uint64_t, Bytes>> touched);
  };
  /// For a window of this length.
  Estimate estimate(const WatchedAllocations& watched, Seconds window) const;
  /// Of a block that was told of and is not known to have gone; nullopt: there is none.
  std::optional<std::uint64_t> bytes_at(std::uint64_t address) const;
  /// false: read_stacks() of all first, or the next one is dropped.
  bool has_room() const;
  /// Blocks that there was no room for.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Block {
    MonoTime born;
    std::uint64_t bytes = 0, base = 0;  // base: of these it had when it was seen first, in realloc()
    std::int64_t weight = 0;            // less than 0: realloc() made it smaller
    wire::Allocates function{};
    bool grew = false;  // in realloc()
    std::uint32_t checks = 0, next_check = 0, gap = 1;
    double held = 1;  // the part of it that there is memory behind
    MonoTime gone{};  // was not in its place then: freed, or moved by realloc()
    std::optional<std::uint32_t> site;
    std::unique_ptr<wire::Allocation> unread;
    bool resized() const { return grew || function == wire::Allocates::realloc; }
  };
  struct Known {
    MonoTime before{};  // what was born until then and lives has stayed
    Nanos outlived{}, watched{};
    bool sure = true;     // no block is known to have gone that was as old as half of what was watched
    double of_grown = 0;  // the window over what was watched: of realloc(),
    std::array<double, wire::kAllocates> of_function{};  // and of blocks that were born;
    std::array<double, wire::kAllocates> of_young{};     // its part in which they were born too late to tell
  };
  /// The oldest that were freed, and when that was told.
  class Oldest {
   public:
    void add(MonoTime time, Nanos age) {
      if (grown_.empty() || age > grown_.back().second) grown_.emplace_back(time, age);
    }
    Nanos until(MonoTime end) const;

   private:
    std::vector<std::pair<MonoTime, Nanos>> grown_;
  };
  /// Large blocks that went, however that was seen. Once their function was not watched any more another one
  /// in the place of such a block was not seen, and it may be found gone long after it went: how old it
  /// became is not known then, but how old it was while it was watched.
  class LargeGone {
   public:
    void add(wire::Allocates function, MonoTime born, MonoTime gone);
    Nanos oldest(const WatchedAllocations& watched) const;

   private:
    static constexpr Nanos kTogether = std::chrono::milliseconds(50);  // are kept as one
    struct Span {
      MonoTime first_born = MonoTime::max(), last_gone{};
      Nanos oldest{};
    };
    std::map<std::pair<wire::Allocates, std::int64_t>, Span> spans_;
  };
  struct Stayed;
  struct Sum;
  struct Ages {
    double old = 0, young = 0;  // bytes of a site's blocks that can be told, and that cannot yet
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
  /// What a block that stayed stands for, of all the window.
  static double scale_of(const Block& block, const Known& known, const Ages& of_site);
  static Known known_until(MonoTime end, Nanos age, const WatchedAllocations& watched, Seconds window);
  Known known_by_looks(std::size_t function, const WatchedAllocations& watched, Seconds window) const;
  static double told_bytes(const Block& block);  // of itself, that it was told for
  static double part_held(const Block& block);
  static bool is_looked_at(const Block& block, const WatchedAllocations& watched);
  using Blocks = std::map<std::uint64_t, Block>;
  bool drop(std::uint64_t address);  // false: there is none
  /// What lay in the place of another has gone, unseen.
  void drop_overlapped(std::uint64_t address, std::uint64_t size);

  Blocks blocks_;                                             // by address
  std::unordered_map<std::uint64_t, MonoTime> freed_before_;  // told of
  Oldest freed_, freed_unread_;                               // of all; of those whose site is not known
  std::unordered_map<std::uint32_t, Oldest> freed_of_;        // by site
  std::unordered_map<std::uint32_t, std::uint64_t>
      gone_;  // weights of freed blocks, by site where it is known
  LargeGone large_gone_;
  std::uint32_t checks_ = 0;
  std::size_t unread_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace oomcast
