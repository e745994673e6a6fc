// Units as types: a number never travels without what it counts.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace oomcast {

/// A signed byte count, so that differences are the same type. Range ±8 EiB.
struct Bytes {
  std::int64_t count = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes operator+(Bytes o) const { return {count + o.count}; }
  constexpr Bytes operator-(Bytes o) const { return {count - o.count}; }
  constexpr Bytes operator-() const { return {-count}; }
  constexpr Bytes& operator+=(Bytes o) { return count += o.count, *this; }
  constexpr Bytes& operator-=(Bytes o) { return count -= o.count, *this; }
  constexpr double as_double() const { return static_cast<double>(count); }
};
constexpr Bytes KiB(std::int64_t n) {
  return {n << 10};
}
constexpr Bytes MiB(std::int64_t n) {
  return {n << 20};
}
constexpr Bytes GiB(std::int64_t n) {
  return {n << 30};
}

/// Rounded towards 0.
inline Bytes scaled(Bytes part, double factor) {
  return {static_cast<std::int64_t>(part.as_double() * factor)};
}

struct BytesPerSec {
  double value = 0;
  constexpr auto operator<=>(const BytesPerSec&) const = default;
};

/// A length of time in seconds; fractions allowed.
using Seconds = std::chrono::duration<double>;
using Nanos = std::chrono::nanoseconds;

/// CLOCK_MONOTONIC, as bpf_ktime_get_ns() reads it. Wall time is only made when something is shown.
struct MonoClock {
  using duration = Nanos;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonoClock>;
  static constexpr bool is_steady = true;
};
using MonoTime = MonoClock::time_point;
constexpr MonoTime mono_from_ns(std::uint64_t ns) {
  return MonoTime(Nanos(static_cast<std::int64_t>(ns)));
}
constexpr Seconds seconds_between(MonoTime from, MonoTime to) {
  return to - from;
}

/// CLOCK_REALTIME in nanoseconds since the epoch.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Nanos>;

/// "512M", "32GiB", "1.5G", "4096": sizes are binary whatever the spelling (M = MiB = MB = 2^20), as in
/// cgroup files. Error::usage for anything else, for negatives and for more than 2^62 bytes.
Result<Bytes> parse_size(std::string_view text);

/// "500ms", "10s", "5m", "2h", "3d", "1m30s"; a bare number is seconds. Error::usage for anything else,
/// for zero, for negatives and for more than 10,000 days.
Result<Nanos> parse_duration(std::string_view text);

/// "512 MiB", "1.50 GiB": three significant figures, IEC.
std::string format_size(Bytes bytes);
/// "+20.1 MiB/s", "-3.0 KiB/s".
std::string format_rate(BytesPerSec rate);
/// "13 s", "4 min 10 s", "2 h 05 min", "8 d 3 h".
std::string format_duration(Seconds s);
/// "2026-11-21T02:03:04.123456789Z".
std::string format_rfc3339(WallTime t);

}  // namespace oomcast
