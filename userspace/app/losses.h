// What was lost, by reason.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace oomcast {

class Losses {
 public:
  using OnLost = std::function<void(const std::string& reason, std::uint64_t count)>;
  /// `on_lost` is called for each loss, of 1 at least.
  explicit Losses(OnLost on_lost) : on_lost_(std::move(on_lost)) {}

  void add(const std::string& reason, std::uint64_t count);
  /// `total`: a count of its owner's since the beginning. What it grew by since the last call is lost.
  /// Whether that is anything.
  bool track(std::string_view reason, std::uint64_t total);

  /// Since the beginning.
  const std::map<std::string, std::uint64_t>& totals() const { return totals_; }

 private:
  OnLost on_lost_;
  std::map<std::string, std::uint64_t> totals_;
  std::map<std::string, std::uint64_t, std::less<>> tracked_;
};

}  // namespace oomcast
