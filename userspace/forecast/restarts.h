// Finds where the present life of a series began.
#pragma once

#include <optional>
#include <span>

#include "base/units.h"
#include "model/history.h"

namespace oomcast {

/// How the newest lives ended, three at most, of those that were seen from their beginning and died at their
/// limit.
struct PastLives {
  int count = 0;
  double ended = 0;                  // s: when the newest of any did; 0: none did
  double shortest = 0, longest = 0;  // s
  double lowest = 0, highest = 0;    // where they ended, bytes

  /// Whether a life of that age, s, that holds so many bytes is past the middle of what those before it
  /// lasted and reached, where these were alike.
  bool ends_soon(double age, double value) const;
};

/// After a fall to a small part of what it was, or, of what had grown far towards its limit, to where it had
/// begun, as when the job is started anew. A fall from (nearly) the limit itself is a death, however often it
/// happens, unless it was there for a moment only, above the level to which it fell: that is a spike. Falls
/// from below, again and again, are how a program works.
struct Restarts {
  float since = 0;          // s: the newest of any kind; 0: there was none
  float fell = 0;           // s: the last bucket before that
  float died = 0;           // s: the newest death; 0: there was none
  float may_have_died = 0;  // s: the newest death, or fall from so near the limit that it may be one
  int count = 0;            // since the newest death, from below the limit
  float freed_from = 0;     // bytes: the greatest height of those that lasted for minutes only; 0: none did
  PastLives lives;

  /// Where the present life began, s.
  float life_began() const;
};

/// A pass over each level: many short lives are seen in the finer ones alone.
Restarts find_restarts(const History& history, std::optional<Bytes> limit);

}  // namespace oomcast
