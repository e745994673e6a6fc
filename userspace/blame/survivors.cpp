#include "blame/survivors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "blame/allocator.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxUnread = 6 << 20;  // bytes of stacks, at most 24 KiB each
constexpr std::size_t kMaxUnreadOne = 32 << 10;
constexpr std::size_t kMaxBlocks = 32 << 10;  // 5 MiB, of 65,536 entries in the kernel programs' table
constexpr std::size_t kMaxReadAtOnce = 100, kMaxCheckedAtOnce = 500;
constexpr std::uint32_t kMaxGap = 8, kMinChecks = 6;
constexpr Nanos kReadAfter = std::chrono::milliseconds(500);
constexpr double kLongerThanLives = 1.5;
constexpr std::uint64_t kMinOlder = 3;  // blocks of a site judged by itself
constexpr Bytes kLarge = MiB(1);
constexpr std::size_t kMaxLookedInto = 4096;
constexpr std::uint64_t kPagesEach = 64;
constexpr double kMaxTaken = 0.95;  // of a program's time, spent in breakpoints,
constexpr double kDearer = 3;       // which with records and cold caches may cost up to this much more

std::size_t size_of(const wire::Allocation& a) {
  return sizeof(a) + a.stack.size() + a.python.size() * sizeof(wire::PythonFrame);
}

std::uint64_t bytes_of(Bytes bytes) {
  return bytes.count > 0 ? static_cast<std::uint64_t>(bytes.count) : 0;
}

}  // namespace

void Survivors::add(wire::Allocation a) {
  Block block;
  // A block that grows in each realloc() is sampled as often as others.
  auto before = blocks_.find(a.replaces);
  bool grew = a.born < a.time;
  if (before != blocks_.end() && before->second.born <= a.born) {  // else it belongs to another thread by now
    grew = true;
    block.checks = before->second.checks;
    block.next_check = before->second.next_check;
    block.gap = before->second.gap;
    drop(a.replaces);
  }
  if (auto gone = freed_before_.find(a.address); gone != freed_before_.end() && gone->second >= a.time)
    return;
  drop_overlapped(a.address, bytes_of(a.size));
  std::size_t size = size_of(a);
  if (blocks_.size() >= kMaxBlocks || unread_bytes_ + size > kMaxUnread) {
    ++dropped_;
    return;
  }
  block.born = a.born;
  block.bytes = bytes_of(a.size);
  block.base = bytes_of(a.base);
  block.weight = a.weight.count;
  block.function = a.function;
  block.grew = grew;
  std::uint64_t address = a.address;
  block.unread = std::make_unique<wire::Allocation>(std::move(a));
  unread_bytes_ += size;
  blocks_.emplace(address, std::move(block));
}

bool Survivors::has_room() const {
  return unread_bytes_ + kMaxUnreadOne <= kMaxUnread;
}

std::optional<std::uint64_t> Survivors::bytes_at(std::uint64_t address) const {
  auto block = blocks_.find(address);
  return block == blocks_.end() ? std::nullopt : std::optional(block->second.bytes);
}

void Survivors::freed(const wire::Freed& freed) {
  auto block = blocks_.find(freed.address);
  if (block == blocks_.end()) {
    freed_before_[freed.address] = freed.time;
    return;
  }
  // Once free() is no longer traced, the reuse of a block's place is reported long after the free.
  Nanos age = freed.time - block->second.born;
  freed_.add(freed.time, age);
  (block->second.site ? freed_of_[*block->second.site] : freed_unread_).add(freed.time, age);
  if (block->second.bytes >= bytes_of(kTellsFrom))
    large_gone_.add(block->second.function, block->second.born, freed.time);
  if (block->second.site) gone_[*block->second.site] += bytes_of({block->second.weight});
  drop(freed.address);
}

void Survivors::read_stacks(MonoTime now, bool all, const Read& read) {
  freed_before_.clear();
  std::size_t left = kMaxReadAtOnce;
  for (auto& [address, block] : blocks_) {
    if (!block.unread || (!all && now - block.unread->time < kReadAfter)) continue;
    if (!all && left-- == 0) break;
    unread_bytes_ -= size_of(*block.unread);
    block.site = read(*std::exchange(block.unread, nullptr));
  }
}

void Survivors::check(MonoTime now, const Held& held) {
  ++checks_;
  std::size_t left = kMaxCheckedAtOnce;
  for (auto at = blocks_.begin(); at != blocks_.end() && left > 0;) {
    auto block = at++;
    if (block->second.next_check > checks_ || block->second.gone != MonoTime{}) continue;
    auto size = Bytes{static_cast<std::int64_t>(block->second.bytes)};
    if (size < kTellsFrom) continue;
    --left;
    if (auto is = held(block->first, size, block->second.resized()); is && !*is) {
      // A record of its move may be on its way; and once realloc() is not traced, there is none.
      if (block->second.resized()) {
        block->second.gone = now;
        continue;
      }
      large_gone_.add(block->second.function, block->second.born, now);
      drop(block->first);
      continue;
    }
    ++block->second.checks;
    block->second.next_check = checks_ + block->second.gap;
    block->second.gap = std::min(2 * block->second.gap, kMaxGap);
  }
}

void Survivors::look_into_large(const Page& page) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> large;  // by size
  for (const auto& [address, block] : blocks_)
    if (block.bytes >= bytes_of(kLarge) && block.gone == MonoTime{}) large.emplace_back(block.bytes, address);
  std::sort(large.rbegin(), large.rend());
  if (large.size() > kMaxLookedInto) large.resize(kMaxLookedInto);
  for (auto [bytes, address] : large) {
    unsigned held = 0, known = 0;
    for (std::uint64_t i = 0; i < kPagesEach; ++i) {
      auto is = page(address + bytes / kPagesEach * i + bytes / (2 * kPagesEach));
      known += is.has_value();
      held += is.value_or(false);
    }
    if (known) blocks_.at(address).held = static_cast<double>(held) / known;
  }
}

void Survivors::keep_only(const std::unordered_map<std::uint64_t, MonoTime>& born) {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    auto block = at++;
    auto lives = born.find(block->first);
    if (lives == born.end() || lives->second != block->second.born) drop(block->first);
  }
}

void Survivors::drop_overlapped(std::uint64_t address, std::uint64_t size) {
  auto at = blocks_.lower_bound(address + std::max<std::uint64_t>(size, 1));
  while (at != blocks_.begin()) {
    auto block = std::prev(at);
    if (block->first + std::max<std::uint64_t>(block->second.bytes, 1) <= address) return;
    drop(block->first);
  }
}

void Survivors::settle_gone(const WatchedAllocations& w) {
  for (auto at = blocks_.begin(); at != blocks_.end();) {
    auto block = at++;
    MonoTime gone = block->second.gone;
    if (gone == MonoTime{} || gone > w.until[static_cast<std::size_t>(wire::Allocates::realloc)]) continue;
    large_gone_.add(block->second.function, block->second.born, gone);
    drop(block->first);
  }
}

bool Survivors::drop(std::uint64_t address) {
  auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  if (block->second.unread) unread_bytes_ -= size_of(*block->second.unread);
  blocks_.erase(block);
  return true;
}

Nanos Survivors::Oldest::until(MonoTime end) const {
  auto after = std::upper_bound(grown_.begin(), grown_.end(), end,
                                [](MonoTime t, const auto& freed) { return t < freed.first; });
  return after == grown_.begin() ? Nanos{} : std::prev(after)->second;
}

void Survivors::LargeGone::add(wire::Allocates function, MonoTime born, MonoTime gone) {
  Span& span = spans_[{function, gone.time_since_epoch() / kTogether}];
  span.first_born = std::min(span.first_born, born);
  span.last_gone = std::max(span.last_gone, gone);
  span.oldest = std::max<Nanos>(span.oldest, gone - born);
}

Nanos Survivors::LargeGone::oldest(const WatchedAllocations& w) const {
  Nanos out{};
  for (const auto& [key, span] : spans_) {
    MonoTime until = w.until[static_cast<std::size_t>(key.first)];
    out = std::max<Nanos>(
        out, span.last_gone <= until ? span.oldest : std::min<Nanos>(span.oldest, until - span.first_born));
  }
  return out;
}

// For frees seen until `end`, when no block older than `age` will be freed any more.
Survivors::Known Survivors::known_until(MonoTime end, Nanos age, const WatchedAllocations& w,
                                        Seconds window) {
  Known out;
  Nanos all = end - w.begin;
  out.sure = age <= all / 2;
  out.outlived = std::min(age, all / 2);
  out.before = end - out.outlived;
  Nanos grown = w.until[static_cast<std::size_t>(wire::Allocates::realloc)] - w.begin;
  if (grown > Nanos{}) out.of_grown = window.count() / Seconds(grown).count();
  for (std::size_t f = 0; f < out.of_function.size(); ++f) {
    Nanos made = std::min(w.until[f], out.before) - w.begin;
    out.watched = std::max(out.watched, made);
    if (made <= Nanos{}) continue;
    out.of_function[f] = window.count() / Seconds(made).count();
    out.of_young[f] = std::max(0.0, Seconds(std::min(w.until[f], end) - out.before) / Seconds(made));
  }
  return out;
}

bool Survivors::is_looked_at(const Block& block, const WatchedAllocations& w) {
  return block.checks >= kMinChecks && w.until[static_cast<std::size_t>(block.function)] > w.frees_until;
}

// For blocks of a function while it was traced: the reuse of their place was seen until then.
Survivors::Known Survivors::known_by_looks(std::size_t function, const WatchedAllocations& w,
                                           Seconds window) const {
  MonoTime end = w.until[function];
  Nanos oldest = std::max(freed_.until(w.frees_until), large_gone_.oldest(w));
  auto age = std::chrono::duration_cast<Nanos>(kLongerThanLives * oldest);
  for (const auto& [address, block] : blocks_)  // too young to have been checked often
    if (static_cast<std::size_t>(block.function) == function && block.bytes >= bytes_of(kTellsFrom) &&
        !is_looked_at(block, w))
      age = std::max<Nanos>(age, end - block.born);
  return known_until(end, age, w, window);
}

// Otherwise one freed buffer that lived for seconds would make every site unsure.
std::map<std::uint32_t, Survivors::Known> Survivors::known_by_themselves(const Known& by_frees,
                                                                         const WatchedAllocations& w,
                                                                         Seconds window) const {
  std::map<std::uint32_t, Known> out;
  if (by_frees.sure) return out;
  std::map<std::uint32_t, std::uint64_t> older;
  MonoTime outlives = w.frees_until - freed_.until(w.frees_until);
  for (const auto& [address, block] : blocks_)
    if (block.site && !block.grew && !is_looked_at(block, w) && block.born < outlives) ++older[*block.site];
  for (auto [site, blocks] : older) {
    if (blocks < kMinOlder) continue;
    Nanos oldest = freed_unread_.until(w.frees_until);
    if (auto own = freed_of_.find(site); own != freed_of_.end())
      oldest = std::max(oldest, own->second.until(w.frees_until));
    auto age = std::chrono::duration_cast<Nanos>(kLongerThanLives * oldest);
    if (Known known = known_until(w.frees_until, age, w, window); known.sure) out.emplace(site, known);
  }
  return out;
}

/// A retained block, as a term of a sum.
struct Survivors::Stayed {
  static constexpr std::size_t kParts = 8;
  double weight, size, scale;
  double in_doubt;       // bytes between a resident and an absent sampled page
  std::size_t part;      // of the window in which it was allocated
  double slowed, doubt;  // extra retention in untraced time, and its error
  double unsure;         // of the bytes
  double objects;
};

/// The sum of a site's retained blocks.
struct Survivors::Sum {
  static constexpr std::size_t kParts = Stayed::kParts;
  double bytes = 0, variance = 0, largest = 0;
  double slowed = 0, doubt = 0, unsure = 0;
  std::array<double, kParts> parts{};  // bytes by time of allocation
  double unwatched = 0;
  std::uint64_t blocks = 0;
  double objects = 0;

  // A block with a weight above 1 was sampled by chance, and so was its part of the window.
  void add(const Stayed& block) {
    const double weight = block.weight, scale = block.scale;
    bytes += weight * scale;
    unwatched += weight * std::max(0.0, scale - 1);
    ++blocks;
    double more = std::max(0.0, std::abs(weight) - std::abs(block.size));
    variance += scale * std::abs(weight) * (scale * more + std::max(0.0, scale - 1) * std::abs(weight));
    variance += scale * scale * block.in_doubt * block.in_doubt;
    largest = std::max(largest, weight * scale);
    parts[block.part] += weight * scale;
    slowed += block.slowed;
    doubt += block.doubt;
    unsure += block.unsure;
    objects += block.objects;
  }
  // A program's rate varies: the variation between the parts gives the error for untraced time.
  double uneven() const {
    if (bytes <= 0) return 0;
    double squares = 0, mean = bytes / kParts;
    for (double part : parts) squares += (part - mean) * (part - mean);
    return squares * kParts / (kParts - 1) * unwatched / bytes;
  }
  Kept kept(bool with_unsure) const {
    double faster = bytes > 0 ? std::clamp((bytes + slowed) / bytes, 1.0, 1 / (1 - kMaxTaken)) : 1;
    double chance = faster * (2 * std::sqrt(std::max(variance, uneven())) + largest);
    double error = chance + doubt + (with_unsure ? unsure : 0);
    return {{std::llround(std::max(0.0, bytes + slowed))},
            {std::llround(error)},
            blocks,
            static_cast<std::uint64_t>(std::llround(faster * objects))};
  }
};

double Survivors::most_faster(const WatchedAllocations& w) {
  return 1 / (1 - std::clamp(kDearer * w.taken, 0.0, kMaxTaken));
}

// If unknown, without breakpoints the program was faster by up to the time that they took, or not at all: a
// program that waits between its steps has that time to spare.
WatchedAllocations::Faster Survivors::when_not_watched(const WatchedAllocations& w) {
  const double most = most_faster(w) - 1;
  if (!w.faster) return {most / 2, most / 2};
  return {std::min(w.faster->by, most), w.faster->doubt};
}

// The excess over linear scaling for untraced time: a function was traced for `made`, which began with the
// part in which everything was traced, and the program was slow. At least 0.
double Survivors::more_when_not_watched(const WatchedAllocations& w, double made, Seconds window,
                                        double faster) {
  double slow = std::min(Seconds(w.all_watched()).count(), made);
  if (made <= 0 || slow <= 0 || window.count() <= made) return 0;
  double paced = slow / (1 + faster);
  return (paced + window.count() - slow) / (paced + made - slow) / (window.count() / made) - 1;
}

std::map<std::uint32_t, Survivors::Ages> Survivors::ages_by_site(const WatchedAllocations& w,
                                                                 const KnownOf& known_of) const {
  std::map<std::uint32_t, Ages> out;
  for (const auto& [address, block] : blocks_) {
    if (!block.site || block.grew || block.born > w.until[static_cast<std::size_t>(block.function)]) continue;
    Ages& of_site = out[*block.site];
    (block.born <= known_of(block).before ? of_site.old : of_site.young) += static_cast<double>(block.weight);
  }
  return out;
}

// Assumes that young blocks are retained at the same rate as older ones, but no more than exist: a program
// that stopped growing has none.
double Survivors::scale_of(const Block& block, const Known& known, const Ages& of_site) {
  auto f = static_cast<std::size_t>(block.function);
  if (block.grew) return known.of_grown;
  double young = of_site.old > 0 ? std::min(known.of_young[f], of_site.young / of_site.old) : 0;
  return known.of_function[f] - known.of_young[f] + young;
}

double Survivors::told_bytes(const Block& block) {
  return static_cast<double>(block.bytes) - (block.grew ? static_cast<double>(block.base) : 0);
}

// The resident fraction of what the block stands for: growth by realloc() is at its end, which is touched
// last.
double Survivors::part_held(const Block& block) {
  double told = told_bytes(block), untouched = (1 - block.held) * static_cast<double>(block.bytes);
  return told > 0 ? std::max(0.0, told - untouched) / told : 1;
}

bool Survivors::stays(const Block& block, const Known& known, const WatchedAllocations& w) {
  return block.site && block.born <= w.until[static_cast<std::size_t>(block.function)] &&
         block.born <= known.before && part_held(block) > 0;
}

Survivors::Stayed Survivors::stayed(const Block& block, const Known& known, const Ages& of_site,
                                    const WatchedAllocations& w, Seconds window) {
  double held = part_held(block), scale = scale_of(block, known, of_site);
  double weight = held * static_cast<double>(block.weight), size = held * told_bytes(block);
  double in_doubt = held < 1 ? static_cast<double>(block.bytes) / kPagesEach : 0;
  Seconds after = block.born - w.begin;
  auto part = static_cast<std::size_t>(after.count() * scale / window.count() * Stayed::kParts);
  double times = block.grew ? known.of_grown : known.of_function[static_cast<std::size_t>(block.function)];
  double made = window.count() / std::max(times, 1.0);
  const WatchedAllocations::Faster faster = when_not_watched(w);
  double more = more_when_not_watched(w, made, window, faster.by);
  double most = more_when_not_watched(w, made, window, faster.by + faster.doubt);
  bool unsure = !known.sure || block.gone != MonoTime{};
  return {weight,
          size,
          scale,
          in_doubt,
          std::min(part, Stayed::kParts - 1),
          weight * scale * more,
          std::abs(weight) * scale * std::max(0.0, most - more),
          unsure ? std::abs(weight) * scale : 0,
          block.grew ? scale : scale * weight / std::max(size, 1.0)};
}

Survivors::Estimate Survivors::estimate(const WatchedAllocations& w, Seconds window) const {
  const Known by_frees = known_until(
      w.frees_until, std::chrono::duration_cast<Nanos>(kLongerThanLives * freed_.until(w.frees_until)), w,
      window);
  std::array<Known, wire::kAllocates> by_looks;
  for (std::size_t f = 0; f < by_looks.size(); ++f)
    if (w.until[f] > w.frees_until) by_looks[f] = known_by_looks(f, w, window);
  const std::map<std::uint32_t, Known> by_site = known_by_themselves(by_frees, w, window);
  const KnownOf known_of = [&](const Block& block) -> const Known& {
    if (is_looked_at(block, w)) return by_looks[static_cast<std::size_t>(block.function)];
    auto by_itself = block.site ? by_site.find(*block.site) : by_site.end();
    return by_itself == by_site.end() ? by_frees : by_itself->second;
  };
  Estimate out;
  out.outlived = by_frees.outlived;
  out.watched = by_frees.watched;
  std::map<std::uint32_t, Ages> ages = ages_by_site(w, known_of);
  std::map<std::uint32_t, Sum> sites;
  Sum all;
  for (const auto& [address, block] : blocks_) {
    const Known& known = known_of(block);
    const bool kept = stays(block, known, w);
    if (block.gone == MonoTime{})
      out.living[address] = {address + block.bytes, kept ? Place::kept : Place::living,
                             kept ? *block.site : 0, block.resized()};
    if (!kept) continue;
    if (is_looked_at(block, w)) {
      out.outlived = std::max(out.outlived, known.outlived);
      out.watched = std::max(out.watched, known.watched);
    }
    Stayed part = stayed(block, known, ages[*block.site], w, window);
    for (Sum* sum : {&sites[*block.site], &all}) sum->add(part);
  }
  add_what_went(w, by_frees, by_site, sites, all);
  for (const auto& [site, sum] : sites) {
    out.sites[site] = sum.kept(true);
    all.bytes += std::max(0.0, -sum.bytes);  // as none of them is negative
  }
  out.all = all.kept(false);
  return out;
}

void Survivors::add_what_went(const WatchedAllocations& w, const Known& by_frees,
                              const std::map<std::uint32_t, Known>& by_site,
                              std::map<std::uint32_t, Sum>& sites, Sum& all) const {
  // Sampling may miss every block of a kind although some are retained: at most one of common size.
  double most = *std::max_element(by_frees.of_function.begin(), by_frees.of_function.end());
  all.largest = std::max(all.largest, 2 * most * w.sample.as_double());
  // A queue frees the oldest first: how many early blocks are retained proves nothing about later ones, of
  // which none may have been freed yet.
  for (const auto& [site, bytes] : gone_) {
    double may_stay = by_frees.sure || by_site.contains(site) ? 0 : static_cast<double>(bytes) * most;
    all.doubt += may_stay;
    if (auto sum = sites.find(site); sum != sites.end())
      sum->second.unsure = std::max(sum->second.unsure, may_stay);
  }
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

void Survivors::Estimate::raise_to_pages(std::span<const std::pair<std::uint64_t, Bytes>> touched) {
  std::map<std::uint64_t, Bytes> of_block;
  for (const auto& [address, bytes] : touched)
    if (auto begin = kept_at(address); begin && living.at(*begin).resized) of_block[*begin] += bytes;
  std::map<std::uint32_t, Bytes> of_site;
  for (const auto& [begin, bytes] : of_block) {
    const Living& block = living.at(begin);
    of_site[block.site] += std::min(bytes, Bytes{static_cast<std::int64_t>(block.end - begin)});
  }
  for (const auto& [site, bytes] : of_site) {
    Bytes more = std::max(bytes - sites.at(site).bytes, Bytes{});
    sites.at(site).bytes += more;
    all.bytes += more;
  }
}

}  // namespace oomcast
