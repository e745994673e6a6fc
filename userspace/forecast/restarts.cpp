#include "forecast/restarts.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace oomcast {
namespace {

constexpr double kRestartLeaves = 0.3;  // of the level
// … or of the way to the limit that a life went, steadily: it fell back by and to so much of that.
constexpr double kRestartGrew = 0.25, kRestartFrom = 0.7, kRestartFalls = 0.7, kRestartBack = 0.2;
constexpr double kRestartRests = 0.1;  // of the rise, above where it began
constexpr std::size_t kMinLife = 8;    // buckets
constexpr double kSteady = 0.2;
constexpr double kDiesAt = 0.95;      // of the limit; samples miss the last moments of a life
constexpr double kMayDieAt = 0.8;     // … by the rest of the way, where it rose by more between two
constexpr double kAtFloor = 0.1;      // of the rise
constexpr double kSpikeLasts = 0.25;  // of the time since the fall before it, at most
constexpr Bytes kNothing = MiB(1);    // no program holds less
constexpr int kMayRestart = 2;        // times without being a way to work
constexpr double kTooth = 300;        // s: a person restarts no job as often as that
constexpr std::size_t kLessons = 3;   // lives
constexpr int kEnoughLives = 2;
constexpr double kAlikeLives = 2, kLateInLife = 0.5;

struct PastLife {
  double lasted = 0, top = 0;  // s, bytes
};

// Whether these rose all the time, and not at once.
bool grew_steadily(std::span<const Bucket> life, double base, double highest) {
  if (life.size() < kMinLife) return false;
  double rise = highest - base, quarter = life[life.size() / 4].mean, middle = life[life.size() / 2].mean;
  double late = life[life.size() * 3 / 4].mean;
  return late - quarter > kSteady * rise && middle - base > kSteady * rise &&
         highest - middle > kSteady * rise;
}

// Whether it freed nearly everything. If it stays above its start, the same program freed it, as a collector
// does.
bool fell_to_little(std::span<const Bucket> life, double base, double highest, double low) {
  return highest >= kNothing.as_double() && low <= kRestartLeaves * life.back().high &&
         low <= kRestartLeaves * highest && low - base <= kRestartRests * (highest - base);
}

// Whether it fell back to the start of a steady rise towards the limit.
bool fell_back(std::span<const Bucket> life, double base, double highest, double low, double limit) {
  return highest - base > kRestartGrew * (limit - base) && base < kRestartFrom * highest &&
         low - base < kRestartBack * (highest - base) &&
         life.back().high - low > kRestartFalls * (highest - base) && grew_steadily(life, base, highest);
}

// Whether it was above `low`, to which it fell, for a good part of its life: a spike is short.
bool is_no_spike(std::span<const Bucket> life, double low, double highest) {
  std::size_t off = life.size() - 1;  // the first bucket above `low`
  while (off > 0 && life[off - 1].high > low + kAtFloor * (highest - low)) --off;
  return life.back().time - life[off].time > kSpikeLasts * (life.back().time - life.front().time);
}

// Whether a life last seen at this level may have hit its limit before the next sample.
bool may_die_at(double highest, std::span<const Bucket> life, double limit) {
  if (highest >= kDiesAt * limit || highest < kMayDieAt * limit) return highest >= kDiesAt * limit;
  double step = 0;
  for (std::size_t k = 1; k < life.size(); ++k)
    step = std::max<double>(step, life[k].high - life[k - 1].mean);
  return highest + step >= kDiesAt * limit;
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

// A life that began before the first of some buckets.
struct Begun {
  double at = 0;                // the lowest that it was, bytes
  double died = 0, within = 0;  // s: where coarser buckets saw the newest death, and how exactly
};

// For a life that began before these buckets, coarser ones have the time of its peak.
bool died_at(float time, const Begun& begun) {
  return begun.died > 0 && std::abs(time - begun.died) <= begun.within;
}

// The first bucket of the next life, after one that fell to `low` behind bucket `last`.
std::size_t next_life(std::span<const Bucket> buckets, std::size_t last, double low, double highest) {
  std::size_t next = std::min(last + 2, buckets.size() - 1);
  std::size_t began = buckets[last + 1].low <= buckets[next].low ? last + 1 : next;
  // A bucket with a fall covers both lives.
  if (began + 1 < buckets.size() && buckets[began].high > (highest + low) / 2) ++began;
  return began;
}

// `begun` nullopt: the buckets start at the beginning.
Restarts find_in(std::span<const Bucket> buckets, std::optional<Bytes> limit, std::optional<Begun> begun) {
  Restarts out;
  double highest = 0, base = 0;
  std::size_t began = 0;
  bool seen_whole = !begun;
  std::deque<PastLife> ended;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    base = i == began ? buckets[i].low : std::min<double>(base, buckets[i].low);
    if (began == 0 && begun) base = std::min(base, begun->at);
    highest = std::max<double>(highest, buckets[i].high);
    std::size_t next = std::min(i + 2, buckets.size() - 1);
    double low = std::min(buckets[i + 1].low, buckets[next].low);
    auto lived = buckets.subspan(began, i - began + 1);
    if (!fell_to_little(lived, base, highest, low) &&
        !(limit && fell_back(lived, base, highest, low, limit->as_double())))
      continue;
    double born = buckets[began].time;
    bool cut_off = began == 0 && begun;
    bool died = cut_off ? died_at(buckets[i + 1].time, *begun)
                        : low < kNothing.as_double() || is_no_spike(lived, low, highest);
    began = next_life(buckets, i, low, highest);
    for (std::size_t k = i + 1; k < began; ++k) highest = std::max<double>(highest, buckets[k].high);
    out.fell = buckets[i].time;
    out.since = buckets[began].time;
    if (died && limit && may_die_at(highest, lived, limit->as_double())) {
      out.may_have_died = out.since;
      out.freed_from = 0;
    } else if (out.since - born < kTooth) {
      out.freed_from = std::max(out.freed_from, static_cast<float>(highest));
    }
    if (died && limit && highest >= kDiesAt * limit->as_double()) {
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
    Begun begun{level.front().low, out.died, 0};
    for (const Bucket& b : history.all())
      if (b.time >= out.died && b.time < level.front().time) begun.at = std::min<double>(begun.at, b.low);
    auto coarser = history.level(k + 1);
    if (coarser.size() > 1)
      begun.within =
          2 * (coarser.back().time - coarser.front().time) / static_cast<double>(coarser.size() - 1);
    Restarts finer = find_in(level, limit, begun);
    if (finer.lives.count > 0 && finer.lives.count >= out.lives.count) out.lives = finer.lives;
    out.may_have_died = std::max(out.may_have_died, finer.may_have_died);
    if (finer.may_have_died >= out.since && finer.may_have_died > 0) out.freed_from = 0;
    if (finer.died <= 0) continue;
    // Anything between two deaths is not another restart.
    if (finer.died >= out.since) out.count = 0;
    if (finer.died > out.since) out.fell = finer.fell;
    out.since = std::max(out.since, finer.died);
    out.died = finer.died;
  }
  out.lives.ended = out.died;
  return out;
}

}  // namespace oomcast
