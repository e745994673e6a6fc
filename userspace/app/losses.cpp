#include "app/losses.h"

namespace oomcast {

void Losses::add(const std::string& reason, std::uint64_t count) {
  if (count == 0) return;
  totals_[reason] += count;
  on_lost_(reason, count);
}

bool Losses::track(std::string_view reason, std::uint64_t total) {
  auto at = tracked_.find(reason);
  if (at == tracked_.end()) at = tracked_.emplace(reason, 0).first;
  std::uint64_t before = std::exchange(at->second, total);
  if (total <= before) return false;
  add(at->first, total - before);
  return true;
}

}  // namespace oomcast
