// What a store deletes: detail with age, and the oldest rows when it is full.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "store/database.h"

namespace oomcast {

struct StoreLimits;

/// Whole for 10 minutes; then of each 10 s, after an hour of each minute, after 6 hours of each 10 minutes
/// only the moments with the highest and the lowest value (schema.h). What an episode keeps stays as it is
/// when the episode comes. When the store is full the oldest goes, first what no episode keeps, then SIGKILLs
/// from user space and names, of which anyone can make as many as he likes, then what the oldest episodes
/// keep, then the last minutes, at last the oldest episodes; of a part of the tree with more than a tenth of
/// all of them first its own. The file itself is bounded by SQLite's
/// max_page_count, so that no write is faster than this.
class Retention {
 public:
  /// `list_in_use` fills temp.cgroups_in_use(id) and temp.processes_in_use(id) with what the run that writes
  /// will name again, and returns that run. nullopt: it failed.
  using ListInUse = std::function<std::optional<std::int64_t>()>;
  Retention(sqlite3* db, std::string path, const StoreLimits& limits, ListInUse list_in_use);

  /// Whether to stop within milliseconds, because another process waits for the database.
  using Stop = std::function<bool()>;
  /// What is due at `now` (ns since the epoch), in transactions of its own of bounded size. Cost: nothing
  /// most times; each minute a pass over the rows that came in one, each hour two over the whole store. What
  /// was stopped goes on in a call some seconds later. nullopt: all is well; otherwise SQLite's code.
  std::optional<int> keep_within(std::int64_t now, const Stop& stop = {});
  /// Frees space at once: the file is at its bound. Returns whether there is space now.
  bool make_room(std::int64_t now);

 private:
  struct Kept;
  /// One of the two large tables.
  struct Curves {
    const char* table;
    const char* owner;                         // column: cgroup or process
    const char *level, *usage;                 // what must not lose its extremes
    std::int64_t swept = 0;                    // shrink() has been up to this seq
    std::shared_ptr<const Kept> kept = {};     // as read last
    std::optional<std::int64_t> version = {};  // of the database then
  };

  template <typename Work>
  bool transaction(Work&& work);
  bool thin(std::int64_t now);
  bool thin(Curves& curves, std::int64_t step_s, std::int64_t older_than);
  bool thin_slice(Curves& curves, std::int64_t step_s, std::int64_t older_than, bool& more);
  bool shrink(std::int64_t now, double above = 0.95);
  bool let_go(std::int64_t now);
  /// A slice of what no episode keeps and is older than `until`; `found`: there was some.
  bool drop_unkept(std::int64_t until, bool& found);
  bool sweep_anew(std::int64_t until, bool& found);
  /// Deletes the next rows that no episode keeps; where it stopped. nullopt: nothing older than `until` is
  /// left.
  bool sweep(Curves& curves, std::int64_t until, std::optional<std::int64_t>& at);
  bool expire(std::int64_t time);
  bool drop_before(std::int64_t time, bool expired);
  bool drop_oldest(const Curves& curves, std::int64_t time);
  bool choose_going(const char* among, bool& found);
  bool let_go_of_curves(bool& found);
  bool let_go_of_episodes(bool& found);
  bool drop_user_kills(std::int64_t most);
  bool drop_names();
  /// What is kept in it, read once for all that is done at a time. Null: it cannot be read.
  std::shared_ptr<const Kept> kept_in(Curves& curves);
  bool read_kept(const Curves& curves, Kept& out);
  void forget_kept() { samples_.kept = process_samples_.kept = nullptr; }
  double fill() const;

  sqlite3* db_;
  std::string path_;
  ListInUse list_in_use_;
  std::int64_t most_bytes_, age_ns_, slice_, now_ = 0;
  int code_ = 0;
  Curves samples_{"samples", "cgroup", "coalesce(pinned,usage)", "usage"};
  Curves process_samples_{"process_samples", "process", "rss", "rss+swap"};
  std::optional<std::int64_t> measured_, thinned_, expired_, stopped_;
  Stop stop_;  // during keep_within()
};

}  // namespace oomcast
