// Kills, alerts and losses as entries in systemd's journal, with searchable fields.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "stream/facts.h"

namespace oomcast {

/// Sends each entry as one datagram of the journal's native protocol, and never blocks: entries that the
/// journal does not accept are counted. Without a journal nothing happens. Command lines are left out: they
/// may hold secrets, and more people read a journal than a store.
class Journal {
 public:
  static constexpr std::string_view kSocket = "/run/systemd/journal/socket";
  /// For `journalctl MESSAGE_ID=`.
  static constexpr std::string_view kKillId = "161042c67dc44d9b9c752f8451d458c9";
  static constexpr std::string_view kAlertId = "30dc02daf07b47fcac084b2ed6f92edb";
  static constexpr std::string_view kLossId = "13cda09a0d9a40d9ad41c09ee27de2b0";
  /// Limits of one message. With the fields, a datagram stays far below the default socket buffer (208 KiB).
  static constexpr std::size_t kLongestMessage = 16384, kLongestValue = 4096;
  static constexpr std::size_t kMostVictims = 64;
  /// At most one entry per reason in this time, with everything lost since the last one.
  static constexpr Nanos kLossEvery = std::chrono::minutes(1);

  explicit Journal(std::string socket = std::string(kSocket));

  void on(const Fact& fact, const ClockMap& clock);
  /// Entries that the journal did not accept.
  std::uint64_t lost() const { return lost_; }
  /// Reports once that there is no journal.
  std::optional<std::string> take_notice() { return std::exchange(notice_, std::nullopt); }

  using Fields = std::vector<std::pair<std::string_view, std::string>>;
  /// The native protocol: NAME=value, or, for a value with a newline, its length first.
  static std::string datagram(const Fields& fields);

 private:
  struct Loss {
    std::uint64_t waiting = 0;
    std::optional<MonoTime> sent;
  };
  using AlertKey = std::tuple<MonoTime, std::string, std::string>;

  void send(const OomEvent& kill, const ClockMap& clock);
  void send(const AlertFact& alert, const ClockMap& clock);
  void send_losses(MonoTime now, bool last, const ClockMap& clock);
  bool is_told(const AlertFact& alert);
  void send(const Fields& fields);

  std::string path_;
  UniqueFd socket_;
  std::map<std::string, Loss> losses_;  // by reason
  std::deque<AlertKey> running_;        // alerts to be logged again when their actions end
  bool ever_sent_ = false, noted_ = false;
  std::uint64_t lost_ = 0;
  std::optional<std::string> notice_;
};

}  // namespace oomcast
