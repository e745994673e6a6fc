// Checks a sentence against the newest samples before it is shown: they may contradict it by now.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "forecast/restarts.h"
#include "model/history.h"

namespace oomcast {

/// A sentence about a series. `claim`, its end, is about the present: ", and is flat since".
struct Sentence {
  std::string said, claim = {};
  bool rises = false;  // it says that it rises
  bool says_what_is_left = false;
};

/// Where its newest ten samples (those within a quarter of a second are one) rise, fall or are higher than
/// ever against what is said, that takes the place of the claim. At 97 % of the limit and above it is always
/// said how much is left; and behind lives that died there, how they ended. Cost: the newest ten, and as
/// much of the history as it takes to find one sample as high as they are: all of it, about 1,000 buckets, of
/// what is higher than ever.
std::string last_word(const Sentence& sentence, const History& history, std::optional<Bytes> limit,
                      const PastLives& lives, std::string_view limit_name = "limit");

}  // namespace oomcast
