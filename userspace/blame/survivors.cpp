#include "blame/survivors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "blame/allocator.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostUnread = 64 << 20;  // bytes of stacks
constexpr std::size_t kMostBlocks = 1 << 20;
constexpr std::size_t kMostReadAtOnce = 100, kMostCheckedAtOnce = 500;
constexpr std::uint32_t kMostGap = 8, kLeastChecks = 6;
constexpr Nanos kReadAfter = std::chrono::milliseconds(500);
constexpr double kLongerThanLives = 1.5;
constexpr double kLeastPart = 0.1;  // of the window, that a function was watched in

std::size_t size_of(const wire::Allocation& a) {
  return sizeof(a) + a.stack.size() + a.python.size() * sizeof(wire::PythonFrame);
}

std::uint64_t bytes_of(Bytes bytes) {
  return bytes.count > 0 ? static_cast<std::uint64_t>(bytes.count) : 0;
}

}  // namespace

void Survivors::add(wire::Allocation a) {
  bool grew = drop(a.replaces) || a.born < a.time;
  if (auto gone = freed_before_.find(a.address); gone != freed_before_.end() && gone->second >= a.time)
    return;
  drop(a.address);
  std::size_t size = size_of(a);
  if (blocks_.size() >= kMostBlocks || unread_bytes_ + size > kMostUnread) {
    ++dropped_;
    return;
  }
  Block block;
  block.born = a.born;
  block.bytes = bytes_of(a.size);
  block.weight = bytes_of(a.weight);
  block.function = a.function;
  block.grew = grew;
  std::uint64_t address = a.address;
  block.unread = std::make_unique<wire::Allocation>(std::move(a));
  unread_bytes_ += size;
  blocks_.emplace(address, std::move(block));
}

void Survivors::freed(const wire::Freed& freed) {
  auto block = blocks_.find(freed.address);
  if (block == blocks_.end()) {
    freed_before_[freed.address] = freed.time;
    return;
  }
  forget(block, freed.time, oldest_freed_);
}

void Survivors::read_stacks(MonoTime now, bool all, const Read& read) {
  freed_before_.clear();
  std::size_t left = kMostReadAtOnce;
  for (auto& [address, block] : blocks_) {
    if (!block.unread || (!all && now - block.unread->time < kReadAfter)) continue;
    if (!all && left-- == 0) break;
    unread_bytes_ -= size_of(*block.unread);
    block.site = read(*std::exchange(block.unread, nullptr));
  }
}

void Survivors::check(MonoTime now, const Held& held) {
  ++checks_;
  std::size_t left = kMostCheckedAtOnce;
  for (auto at = blocks_.begin(); at != blocks_.end() && left > 0;) {
    auto block = at++;
    if (block->second.next_check > checks_) continue;
    auto size = Bytes{static_cast<std::int64_t>(block->second.bytes)};
    if (size < kTellsFrom) continue;
    --left;
    if (auto is = held(block->first, size); is && !*is) {
      forget(block, now, oldest_looked_at_);
      continue;
    }
    ++block->second.checks;
    block->second.next_check = checks_ + block->second.gap;
    block->second.gap = std::min(2 * block->second.gap, kMostGap);
  }
}

void Survivors::keep_only(const std::unordered_map<std::uint64_t, MonoTime>& born) {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    auto block = at++;
    auto lives = born.find(block->first);
    if (lives == born.end() || lives->second != block->second.born) drop(block->first);
  }
}

void Survivors::forget(Blocks::iterator block, MonoTime now, Nanos& oldest) {
  oldest = std::max<Nanos>(oldest, now - block->second.born);
  drop(block->first);
}

bool Survivors::drop(std::uint64_t address) {
  auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  if (block->second.unread) unread_bytes_ -= size_of(*block->second.unread);
  blocks_.erase(block);
  return true;
}

// Where what was freed was seen until `end`, the oldest of it `oldest`.
Survivors::Known Survivors::known_until(MonoTime end, Nanos oldest, const WatchedAllocations& w,
                                        Seconds window) {
  Known out;
  Nanos all = end - w.begin;
  out.outlived = std::min(std::chrono::duration_cast<Nanos>(kLongerThanLives * oldest), all / 2);
  out.before = end - out.outlived;
  if (all > Nanos{}) out.of_grown = window.count() / Seconds(all).count();
  for (std::size_t f = 0; f < out.of_function.size(); ++f) {
    Nanos made = std::min(w.until[f], out.before) - w.begin;
    out.watched = std::max(out.watched, made);
    if (made <= Nanos{}) continue;
    out.of_function[f] = window.count() / Seconds(made).count();
    out.of_young[f] = std::max(0.0, Seconds(std::min(w.until[f], end) - out.before) / Seconds(made));
  }
  return out;
}

Survivors::Estimate Survivors::estimate(const WatchedAllocations& w, Seconds window) const {
  const Known by_frees = known_until(w.frees_until, oldest_freed_, w, window);
  const Known by_looks = known_until(w.end, std::max(oldest_freed_, oldest_looked_at_), w, window);
  Estimate out;
  out.outlived = std::max(by_frees.outlived, by_looks.outlived);
  out.watched = std::max(by_frees.watched, by_looks.watched);
  struct Sum {
    double bytes = 0, variance = 0, largest = 0;
    std::uint64_t blocks = 0;
    // A block that stands for more than itself was met by chance, and so was each in a part of the window.
    void add(double weight, double size, double scale) {
      bytes += weight * scale;
      ++blocks;
      variance += scale * weight * (scale * std::max(0.0, weight - size) + std::max(0.0, scale - 1) * weight);
      largest = std::max(largest, weight * scale);
    }
    Kept kept() const {
      return {{std::llround(bytes)}, {std::llround(2 * std::sqrt(variance) + largest)}, blocks};
    }
  };
  std::map<std::uint32_t, Sum> sites;
  Sum all;
  auto known_of = [&](const Block& block) -> const Known& {
    // Another block in its place is seen only where they are watched.
    bool looked_at =
        block.checks >= kLeastChecks && w.until[static_cast<std::size_t>(block.function)] == w.end;
    return looked_at ? by_looks : by_frees;
  };
  // As many of those that are too young to tell will stay as of the others, but no more than there are: a
  // program that has stopped growing has none.
  struct Ages {
    double old = 0, young = 0;  // bytes
  };
  std::map<std::uint32_t, Ages> ages;
  for (const auto& [address, block] : blocks_) {
    if (!block.site || block.grew || block.born > w.until[static_cast<std::size_t>(block.function)]) continue;
    Ages& of_site = ages[*block.site];
    (block.born <= known_of(block).before ? of_site.old : of_site.young) += static_cast<double>(block.weight);
  }
  for (const auto& [address, block] : blocks_) {
    auto f = static_cast<std::size_t>(block.function);
    const Known& known = known_of(block);
    bool stayed = block.site && block.born <= w.until[f] && block.born <= known.before;
    out.living[address] = {address + block.bytes, stayed ? Place::kept : Place::living,
                           stayed ? *block.site : 0};
    if (!stayed) continue;
    double weight = static_cast<double>(block.weight);
    double size = block.grew ? weight : static_cast<double>(block.bytes);
    double scale = known.of_grown;
    if (!block.grew) {
      const Ages& of_site = ages[*block.site];
      double young = of_site.old > 0 ? std::min(known.of_young[f], of_site.young / of_site.old) : 0;
      scale = known.of_function[f] - known.of_young[f] + young;
    }
    sites[*block.site].add(weight, size, scale);
    all.add(weight, size, scale);
  }
  // None of a kind may be seen although some stay: one of a common size.
  double most = *std::max_element(by_frees.of_function.begin(), by_frees.of_function.end());
  all.largest = std::max(all.largest, 2 * most * w.sample.as_double());
  for (const auto& [site, sum] : sites) out.sites[site] = sum.kept();
  out.all = all.kept();
  return out;
}

Survivors::Place Survivors::Estimate::at(std::uint64_t address) const {
  auto after = living.upper_bound(address);
  if (after == living.begin() || address >= std::prev(after)->second.end) return Place::elsewhere;
  return std::prev(after)->second.place;
}

std::optional<std::uint64_t> Survivors::Estimate::kept_at(std::uint64_t address) const {
  if (at(address) != Place::kept) return std::nullopt;
  return std::prev(living.upper_bound(address))->first;
}

}  // namespace oomcast
