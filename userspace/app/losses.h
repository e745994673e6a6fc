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
  /// Calls `on_lost` for each loss, with a count of at least 1.
  explicit Losses(OnLost on_lost) : on_lost_(std::move(on_lost)) {}

  void add(const std::string& reason, std::uint64_t count);
  /// `total`: the owner's count since start. Its increase since the last call is lost. Returns whether there
  /// was any.
  bool track(std::string_view reason, std::uint64_t total);

  /// Since start.
  const std::map<std::string, std::uint64_t>& totals() const { return totals_; }

 private:
  OnLost on_lost_;
  std::map<std::string, std::uint64_t> totals_;
  std::map<std::string, std::uint64_t, std::less<>> tracked_;
};

}  // namespace oomcast
