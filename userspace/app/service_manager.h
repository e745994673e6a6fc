// Reports the service's state to systemd: the datagrams of sd_notify(3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "base/units.h"

namespace oomcast {

/// Without NOTIFY_SOCKET in the environment nothing is sent. Never blocks: a manager that does not read
/// misses messages.
class ServiceManager {
 public:
  /// Removes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment: no child may answer for us.
  static ServiceManager from_environment();

  bool is_there() const { return fd_.get() >= 0; }
  /// Lines as in sd_notify: "READY=1
  /// STATUS=...".
  void send(std::string_view state);
  /// Call after each round of work; pings the watchdog at four times the required rate.
  void progress(MonoTime now);
  /// The watchdog's interval; nullopt: there is none.
  std::optional<Nanos> watchdog() const { return watchdog_; }

 private:
  UniqueFd fd_;
  std::optional<Nanos> watchdog_;
  MonoTime next_{};
};

}  // namespace oomcast
