// What systemd wants to know of a service: the datagrams of sd_notify(3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "base/units.h"

namespace oomcast {

/// Without NOTIFY_SOCKET in the environment nothing is sent. Never waits: a manager that does not read misses it.
class ServiceManager {
 public:
  /// Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment: no child is to answer for us.
  static ServiceManager from_environment();

  bool is_there() const { return fd_.get() >= 0; }
  /// Lines as of sd_notify: "READY=1\nSTATUS=...".
  void send(std::string_view state);
  /// After each round of work that was done; tells the watchdog so, four times as often as it has to be.
  void progress(MonoTime now);
  /// How often; nullopt: there is no watchdog.
  std::optional<Nanos> watchdog() const { return watchdog_; }

 private:
  UniqueFd fd_;
  std::optional<Nanos> watchdog_;
  MonoTime next_{};
};

}  // namespace oomcast
