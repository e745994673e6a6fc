// The daemon's event stream: JSON Lines to every process that may open its socket.
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

/// A reader gets `start`, `totals`, then the newest sample and forecast of each cgroup as fast as it reads,
/// and every published fact in between and afterwards. It must not write: it is disconnected if it does. The
/// loop never waits: a reader kMaxWaiting behind is disconnected and counted, and may reconnect. Cost: a few
/// counters without readers; otherwise each fact is rendered once for all of them.
class EventSocket {
 public:
  static constexpr std::size_t kMaxReaders = 16, kMaxWaiting = 256 << 10;
  /// While this much is queued for a reader, the next cgroup's state is not rendered for it.
  static constexpr std::size_t kMaxAhead = 32 << 10;
  static constexpr Nanos kTotalsEvery = std::chrono::seconds(15);

  /// The current state.
  struct Now {
    std::function<std::vector<std::uint64_t>()> cgroups;           // by inode
    std::function<std::vector<Fact>(std::uint64_t inode)> newest;  // of one cgroup; empty: it is gone
  };

  /// A socket that only root and this process's group may open; replaces a stale one. Creates its directory
  /// if missing. Error: another process listens there, or the path is not a socket.
  static Result<UniqueFd> listen_at(const std::string& path);

  /// `clock` must outlive it.
  EventSocket(EventLoop& loop, UniqueFd listening, Now now, const ClockMap& clock);
  ~EventSocket();
  EventSocket(const EventSocket&) = delete;

  void on(const Fact& fact);

  std::size_t readers() const { return readers_.size(); }
  /// Readers since start that were disconnected for being too slow; refused(): for which there was no room.
  std::uint64_t slow() const { return slow_; }
  std::uint64_t refused() const { return refused_; }

 private:
  using Line = std::shared_ptr<const std::string>;
  struct Reader {
    UniqueFd fd;
    std::deque<Line> waiting;
    std::size_t bytes = 0, sent = 0;   // queued; already sent of the first line
    std::vector<std::uint64_t> state;  // cgroups whose state is still to be sent, in reverse order
    bool awaits_room = false;          // waiting for the descriptor to become writable
  };

  Line render(const Fact& fact) const;
  void accept_all();
  void on_input(int fd);
  void send_all(const Fact& fact);
  /// False: the reader is gone.
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
