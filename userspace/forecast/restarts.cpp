#include "forecast/restarts.h"

#include <algorithm>
#include <deque>

namespace oomcast {
namespace {

constexpr double kRestartLeaves = 0.3;  // of the level
// … or of the way to the limit that a life went, steadily: it fell back by and to so much of that.
constexpr double kRestartGrew = 0.25, kRestartFrom = 0.7, kRestartFalls = 0.7, kRestartBack = 0.2;
constexpr double kRestartRests = 0.1;  // of the rise, above where it began
constexpr std::size_t kMinLife = 8;    // buckets
constexpr double kSteady = 0.2;
constexpr double kDiesAt = 0.95;     // of the limit; samples miss the last moments of a life
constexpr double kMayDieAt = 0.8;    // … by the rest of the way, where it rose by more between two
constexpr int kMayRestart = 2;       // times without being a way to work
constexpr double kTooth = 300;       // s: a person restarts no job as often as that
constexpr std::size_t kLessons = 3;  // lives
constexpr int kEnoughLives = 2;
constexpr double kAlikeLives = 2, kLateInLife = 0.5;

struct PastLife {
  double lasted = 0, top = 0;  // s, bytes
};

// Whether these went up all the time, and not at once.
bool grew_steadily(std::span<const Bucket> life, double base, double highest) {
  if (life.size() < kMinLife) return false;
  double rise = highest - base, quarter = life[life.size() / 4].mean, middle = life[life.size() / 2].mean;
  double late = life[life.size() * 3 / 4].mean;
  return late - quarter > kSteady * rise && middle - base > kSteady * rise &&
         highest - middle > kSteady * rise;
}

// The newest three.
void learn(PastLives& lives, std::deque<PastLife>& ended, PastLife life) {
  ended.push_back(life);
  if (ended.size() > kLessons) ended.pop_front();
  lives = {static_cast<int>(ended.size()), 0, life.lasted, life.lasted, life.top, life.top};
  for (const PastLife& each : ended) {
    lives.shortest = std::min(lives.shortest, each.lasted);
    lives.longest = std::max(lives.longest, each.lasted);
    lives.lowest = std::min(lives.lowest, each.top);
    lives.highest = std::max(lives.highest, each.top);
  }
}

// `began_at`: where the life was that the first of these are of; nullopt: they are its beginning.
Restarts find_in(std::span<const Bucket> buckets, std::optional<Bytes> limit,
                 std::optional<double> began_at) {
  Restarts out;
  double highest = 0, base = 0;
  std::size_t began = 0;
  bool seen_whole = !began_at;
  std::deque<PastLife> ended;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    base = i == began ? buckets[i].low : std::min<double>(base, buckets[i].low);
    if (began == 0 && began_at) base = std::min(base, *began_at);
    highest = std::max<double>(highest, buckets[i].high);
    std::size_t next = std::min(i + 2, buckets.size() - 1);
    double low = std::min(buckets[i + 1].low, buckets[next].low);
    // What stays above its beginning was freed by the same program, as a collector does.
    bool small = low <= kRestartLeaves * buckets[i].high && low <= kRestartLeaves * highest &&
                 low - base <= kRestartRests * (highest - base);
    bool back = limit && highest - base > kRestartGrew * (limit->as_double() - base) &&
                base < kRestartFrom * highest && low - base < kRestartBack * (highest - base) &&
                buckets[i].high - low > kRestartFalls * (highest - base) &&
                grew_steadily(buckets.subspan(began, i - began + 1), base, highest);
    if (!small && !back) continue;
    double born = buckets[began].time;
    began = buckets[i + 1].low <= buckets[next].low ? i + 1 : next;
    // A bucket in which it fell tells of both lives.
    if (began + 1 < buckets.size() && buckets[began].high > (highest + low) / 2) ++began;
    for (std::size_t k = i + 1; k < began; ++k) highest = std::max<double>(highest, buckets[k].high);
    out.since = buckets[began].time;
    bool may_have_died = limit && highest >= kMayDieAt * limit->as_double();
    if (may_have_died) out.may_have_died = out.since;
    if (may_have_died)
      out.freed_from = 0;
    else if (out.since - born < kTooth)
      out.freed_from = std::max(out.freed_from, static_cast<float>(highest));
    if (limit && highest >= kDiesAt * limit->as_double()) {
      if (seen_whole) learn(out.lives, ended, {out.since - born, highest});
      out.died = out.since;
      out.count = 0;
      seen_whole = true;
    } else {
      ++out.count;
      seen_whole = false;
    }
    highest = 0;
    i = began - 1;
  }
  return out;
}

}  // namespace

bool PastLives::ends_soon(double age, double value) const {
  return count >= kEnoughLives && longest < kAlikeLives * shortest && age > kLateInLife * shortest &&
         value > kLateInLife * lowest;
}

float Restarts::life_began() const {
  return count > 0 && count <= kMayRestart ? since : died;
}

Restarts find_restarts(const History& history, std::optional<Bytes> limit) {
  std::size_t coarsest = history.levels() - 1;
  Restarts out = find_in(history.all(), limit, std::nullopt);
  for (std::size_t k = coarsest; limit && k-- > 0;) {
    auto level = history.level(k);
    double began_at = level.front().low;
    for (const Bucket& b : history.all())
      if (b.time >= out.died && b.time < level.front().time) began_at = std::min<double>(began_at, b.low);
    Restarts finer = find_in(level, limit, began_at);
    if (finer.lives.count > 0 && finer.lives.count >= out.lives.count) out.lives = finer.lives;
    out.may_have_died = std::max(out.may_have_died, finer.may_have_died);
    if (finer.may_have_died >= out.since && finer.may_have_died > 0) out.freed_from = 0;
    if (finer.died <= 0) continue;
    // What lies between two deaths is no other restart.
    if (finer.died >= out.since) out.count = 0;
    out.since = std::max(out.since, finer.died);
    out.died = finer.died;
  }
  out.lives.ended = out.died;
  return out;
}

}  // namespace oomcast
