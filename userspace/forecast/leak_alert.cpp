#include "forecast/leak_alert.h"

#include <algorithm>

#include "forecast/numbers.h"

namespace oomcast {
namespace {

constexpr double kAlertReversed = 2.3;
constexpr std::size_t kAlertDots = 12, kAlertDotsAtOnce = 5;
constexpr double kAlertAtOnce = 60;  // s: too late to wait for so many, of what has just begun
constexpr double kAlertYoung = 600;  // s
// A wander of hours looks like a leak until it turns: what is young must stand further out of its noise.
constexpr double kAlertOld = 8 * 3600;  // s
constexpr double kAlertNoise = 22, kAlertNoiseOld = 8;
constexpr double kAlertCertain = 3.5, kAlertCertainOld = 8;
// A smooth curve's slope is never certain, however plain its rise.
constexpr double kAlertNoiseCurved = 50, kAlertCertainCurved = 2.5;
constexpr double kAlertLevelsOff = 0.1;   // probability
constexpr double kAlertSure = 3;          // times the time left: within that the limit is met
constexpr double kAlertBelow = 0.1;       // of the rise: a level that far under the trend has left it
constexpr double kAlertAge = 2;           // times as long as the growth lasts already
constexpr double kAlertMost = 3 * 86400;  // s
constexpr double kAlertRisen = 0.2;       // of its way to the limit, of what has just begun
constexpr double kAlertClear = 1.5;
constexpr double kAlertLast = 0.1;  // of its rise is left up to the limit: it got there, however unsteadily

// Clear enough for a rise of that age.
bool is_clear(const Leak& leak, double now, double age) {
  const Trend& t = leak.trend;
  double certain = share(t.slope(now), t.slope_sd());
  double risen = leak.rise / t.residual_sd();
  bool straight = risen >= kAlertNoise && certain >= kAlertCertain;
  bool curved = risen >= kAlertNoiseCurved && certain >= kAlertCertainCurved;
  bool by_now = age >= kAlertOld && risen >= kAlertNoiseOld && certain >= kAlertCertainOld;
  return straight || curved || by_now;
}

}  // namespace

bool is_alert(const Leak& leak, const Meeting& meeting, const History& history, Bytes limit, bool was,
              bool may_begin) {
  const Trend& t = leak.trend;
  double now = history.newest_time(), age = t.end() - t.begin(), left = meeting.median - now;
  double horizon = std::min(kAlertAge * age, kAlertMost);
  double missing = limit.as_double() - history.newest_value();
  bool arrives = leak.new_ground && (leak.arrived || missing < kAlertLast * leak.rise);
  if (arrives) return true;
  if (was) return left < kAlertClear * horizon;
  bool under_way = leak.of_peaks || t.value(now) - history.newest_value() <=
                                        std::max(4 * t.residual_sd(), kAlertBelow * leak.rise);
  bool at_once = left < kAlertAtOnce && age < kAlertYoung && leak.rise > kAlertRisen * (leak.rise + missing);
  bool enough = t.dots() >= (at_once ? kAlertDotsAtOnce : kAlertDots);
  bool goes_on = age >= kAlertOld || t.levels_off() <= kAlertLevelsOff;
  bool in_sight = meeting.high && *meeting.high - now < kAlertSure * left;
  bool strong = leak.strength >= kAlertReversed && leak.new_ground && under_way && enough && goes_on &&
                in_sight && is_clear(leak, now, age);
  return may_begin && strong && left < horizon;
}

}  // namespace oomcast
