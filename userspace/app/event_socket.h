// The daemon's stream: JSON Lines to every process that may open its socket.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/event_loop.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "stream/facts.h"
#include "stream/totals.h"

namespace oomcast {

/// A reader gets `start`, `totals`, then the newest sample and forecast of each cgroup as fast as it reads, and
/// between and after them whatever is published. It writes nothing: one that does is cut off. Nobody is waited
/// for: one that is kMaxWaiting behind is cut off and counted, and may connect again. Without readers it costs a
/// few counters; with some, each fact is rendered once for all of them.
class EventSocket {
 public:
  static constexpr std::size_t kMaxReaders = 16, kMaxWaiting = 256 << 10;
  /// While so much waits for a reader, the next cgroup's state is not rendered for it yet.
  static constexpr std::size_t kMaxAhead = 32 << 10;
  static constexpr Nanos kTotalsEvery = std::chrono::seconds(15);

  /// How everything is now.
  struct Now {
    std::function<std::vector<std::uint64_t>()> cgroups;           // by inode
    std::function<std::vector<Fact>(std::uint64_t inode)> newest;  // of one of them; empty: it is gone
  };

  /// A socket that only root and this process's group may open, in place of one that nobody listens on any more.
  /// Makes the folder that it is in if that is missing. Error: another process listens there; it is no socket.
  static Result<UniqueFd> listen_at(const std::string& path);

  /// `clock` has to outlive it.
  EventSocket(EventLoop& loop, UniqueFd listening, Now now, const ClockMap& clock);
  ~EventSocket();
  EventSocket(const EventSocket&) = delete;

  void on(const Fact& fact);

  std::size_t readers() const { return readers_.size(); }
  /// Readers since the start that were cut off because they were too slow, or found no room.
  std::uint64_t slow() const { return slow_; }
  std::uint64_t refused() const { return refused_; }

 private:
  using Line = std::shared_ptr<const std::string>;
  struct Reader {
    UniqueFd fd;
    std::deque<Line> waiting;
    std::size_t bytes = 0, sent = 0;   // that wait; of the first line
    std::vector<std::uint64_t> state;  // cgroups whose newest state it has not got, the last one first
    bool awaits_room = false;          // the loop calls when it takes data again
  };

  Line render(const Fact& fact) const;
  void accept_all();
  void on_input(int fd);
  void send_all(const Fact& fact);
  /// False: it is gone.
  bool push(Reader& reader, Line line);
  bool go_on(Reader& reader);
  void drop(int fd);
  void each_15_s();

  EventLoop& loop_;
  UniqueFd listening_;
  Now now_;
  const ClockMap& clock_;
  Totals totals_;
  std::optional<StartFact> start_;
  std::map<int, Reader> readers_;  // by descriptor
  std::uint64_t slow_ = 0, refused_ = 0;
};

}  // namespace oomcast
