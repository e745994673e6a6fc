#include "forecast/last_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "forecast/forecast.h"
#include "forecast/numbers.h"

namespace oomcast {
namespace {

constexpr std::size_t kNewestSamples = 10, kFewestSamples = 5;
constexpr double kOneWay = 0.7;      // of the pairs of them, less those that go the other way (Kendall's tau)
constexpr double kMovedBy = 0.01;    // of the level, …
constexpr double kOfLeft = 0.5;      // … or of what is left
constexpr double kSayLeftAt = 0.97;  // of the limit
constexpr double kSpreadOver = 3600;  // s

std::string bytes_text(double bytes) {
  return format_size(whole_bytes(bytes));
}

// Kendall's tau: 1 if each is higher than all before it, -1 if lower.
double direction(std::span<const Bucket> newest) {
  int pairs = 0, up = 0;
  for (std::size_t i = 0; i < newest.size(); ++i)
    for (std::size_t j = i + 1; j < newest.size(); ++j) {
      ++pairs;
      up += (newest[j].mean > newest[i].mean) - (newest[j].mean < newest[i].mean);
    }
  return pairs > 0 ? static_cast<double>(up) / pairs : 0;
}

// How far `value` is above all samples before `time`; nullopt: by less than `least`. Called for every sample
// of every series, so it returns at the first bucket that is as high: usually the oldest one.
std::optional<double> above_all_before(const History& history, double time, double value, double least) {
  double highest = 0;
  for (std::size_t k = history.levels(); k-- > 0;)
    for (const Bucket& b : history.level(k)) {
      if (b.time >= time) break;
      if (b.peak_time < time) highest = std::max<double>(highest, b.high);
      if (value - highest < least) return std::nullopt;
    }
  return value - highest;
}

// The objection from the newest samples; empty: none.
std::string objection(const Sentence& sentence, const History& history, std::optional<Bytes> limit) {
  auto newest = history.level(0);
  if (newest.size() > kNewestSamples) newest = newest.last(kNewestSamples);
  if (newest.size() < kFewestSamples) return {};
  double value = history.newest_value(), tau = direction(newest);
  double moved = value - newest.front().mean, enough = kMovedBy * std::abs(value);
  if (limit) enough = std::min(enough, kOfLeft * std::max(0.0, limit->as_double() - value));
  auto last = [&] { return format_duration(Seconds(history.newest_time() - newest.front().time)); };
  enough = std::max(enough, 1.0);
  if (tau <= -kOneWay && -moved >= enough)
    return fmt::format(", but it fell by {} in the last {}", bytes_text(-moved), last());
  if (sentence.rises) return {};
  if (tau >= kOneWay && moved >= enough)
    return fmt::format(", but it rose by {} in the last {}", bytes_text(moved), last());
  double lowest = std::ranges::min_element(newest, {}, &Bucket::low)->low;
  double least = std::max(1.0, kMovedBy * std::abs(value));
  auto above = above_all_before(history, newest.front().time, lowest, least);
  if (newest.front().time > 0 && above)
    return fmt::format(", but for the last {} it stands {} higher than ever before", last(),
                       bytes_text(*above));
  return {};
}

// The room below the limit, and the range of its samples in the last hour of this life, or since it began.
std::string what_is_left(const History& history, double limit, double life_began, std::string_view name) {
  double value = history.newest_value(), now = history.newest_time(), low = value, high = value;
  double from = std::max(now - kSpreadOver, life_began);
  std::size_t k = 0;
  while (k + 1 < history.levels() && history.level(k).front().time > from) ++k;
  for (const Bucket& b : history.level(k)) {
    if (b.time < from) continue;
    low = std::min<double>(low, b.low);
    high = std::max<double>(high, b.high);
  }
  std::string left = value >= limit ? "nothing is" : fmt::format("{} are", bytes_text(limit - value));
  std::string hour = now - from >= kSpreadOver ? "the last hour" : format_duration(Seconds(now - from));
  if (value >= limit && name == name_of(LimitKind::high)) left = "it is throttled: nothing is";
  return fmt::format("; {} left of its {}, and it moved by {} in {}", left, name, bytes_text(high - low),
                     hour);
}

std::string past_lives(const PastLives& lives, double limit) {
  auto range = [](const std::string& low, const std::string& high) {
    return low == high ? low : low + " to " + high;
  };
  auto part = [&](double bytes) { return fmt::format("{:.0f}", 100 * bytes / limit); };
  std::string where = range(part(lives.lowest), part(lives.highest));
  std::string after =
      range(format_duration(Seconds(lives.shortest)), format_duration(Seconds(lives.longest)));
  std::string which = lives.count == 1 ? "the last life" : fmt::format("the last {} lives", lives.count);
  return fmt::format("; {} ended at {} % of the limit after {}", which, where, after);
}

}  // namespace

std::string last_word(const Sentence& sentence, const History& history, std::optional<Bytes> limit,
                      const PastLives& lives, std::string_view limit_name) {
  if (history.empty()) return sentence.said + sentence.claim;
  std::string against = objection(sentence, history, limit);
  std::string out = sentence.said + (against.empty() ? sentence.claim : against);
  if (!limit || limit->count <= 0) return out;
  bool full = history.newest_value() >= kSayLeftAt * limit->as_double();
  if (full && !sentence.says_what_is_left)
    out += what_is_left(history, limit->as_double(), lives.ended, limit_name);
  if (lives.count > 0) out += past_lives(lives, limit->as_double());
  return out;
}

}  // namespace oomcast
