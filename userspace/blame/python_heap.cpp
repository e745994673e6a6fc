#include "blame/python_heap.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "blame/python_heap_walk.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxAdded = 512, kMaxHolders = 16;

}  // namespace

PythonHeap::PythonHeap(const ProcessMemory& memory, const Python& python)
    : PythonHeap(memory, python, Limits()) {}
PythonHeap::PythonHeap(const ProcessMemory& memory, const Python& python, Limits limits)
    : limits_(limits), reader_(memory, python), census_(reader_, {}) {}

bool PythonHeap::begin() {
  const PythonObjects& o = reader_.python().objects;
  if (!o.counted || !o.frame_locals) return false;
  reader_.pages().forget();
  Walk walk(reader_, limits_);
  if (!walk.add_threads()) return false;
  walk.run();
  cut_ = walk.cut;
  Allowance allowance(limits_.time / 2);
  for (const Walk::Node& node : walk.nodes) {
    if (allowance.over()) {
      cut_ = true;
      break;
    }
    const auto* type = reader_.type_of(node.address);
    auto length = type ? reader_.length(node.address, *type) : std::nullopt;
    if (!length || type->name == "frozenset") continue;
    Known& known = known_[node.address];
    known = {type, *length, 0, 0};
    std::tie(known.first, known.last) = ends_of(node.address, known);
  }
  counts_ = census_.count();
  return true;
}

// A list that grows keeps its ends in their places, and a dict the first of its keys. A set has no order, and
// of a deque the first may go.
std::pair<std::uint64_t, std::uint64_t> PythonHeap::ends_of(std::uint64_t address, const Known& known) {
  if (!known.length) return {};
  if (known.type->kind == PythonReader::Kind::dict) return {reader_.first_key(address), 0};
  if (known.type->kind != PythonReader::Kind::list) return {};
  std::uint64_t items = reader_.items(address, *known.type);
  return {reader_.pages().word(items), reader_.pages().word(items + 8 * (known.length - 1))};
}

// A list that is freed leaves its place to the next one, which a loop makes in the same line. One that lost
// its first element only, or its last, is itself; both, as a queue does, and it cannot be told from another.
bool PythonHeap::is_another(std::uint64_t address, const PythonReader::Type& type, const Known& known) {
  if (&type != known.type) return true;
  auto [first, last] = ends_of(address, known);
  bool same_last = known.last && last == known.last;
  return known.first && first && first != known.first && !same_last;
}

std::vector<PythonHeap::Grown> PythonHeap::grown_of(const Walk& walk) {
  std::vector<Grown> out;
  Allowance allowance(limits_.time / 2);
  for (std::uint32_t at = 0; at < walk.nodes.size(); ++at) {
    std::uint64_t address = walk.nodes[at].address;
    auto known = known_.find(address);
    if (known == known_.end()) continue;
    if (allowance.over()) {
      cut_ = true;
      break;
    }
    const auto* type = reader_.type_of(address);
    auto length = type ? reader_.length(address, *type) : std::nullopt;
    if (!length || *length <= known->second.length || is_another(address, *type, known->second)) continue;
    Grown grown{at, address, {}, {}};
    grown.holder.type = type->name;
    grown.holder.length = *length;
    grown.holder.added = *length - known->second.length;
    out.push_back(std::move(grown));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Grown& a, const Grown& b) { return a.holder.added > b.holder.added; });
  return out;
}

bool PythonHeap::sample_added(Walk& walk, Grown& grown) {
  const auto* type = reader_.type_of(grown.address);
  if (!type) return false;
  Holder& holder = grown.holder;
  std::vector<std::uint64_t>& added = grown.added;
  std::map<std::string, std::size_t> types;
  std::uint64_t bytes = 0;
  walk.added(grown.address, *type, holder.added, kMaxAdded, [&](std::uint64_t element) {
    const auto* of = reader_.type_of(element);
    if (!of) return;
    added.push_back(element);
    bytes += reader_.bytes_of(element, *of);
    if (2 * ++types[of->name] > added.size()) holder.of = of->name;
  });
  if (added.empty()) return false;
  if (2 * types[holder.of] < added.size()) holder.of.clear();
  double each = static_cast<double>(bytes) / static_cast<double>(added.size());
  holder.least = {
      static_cast<std::int64_t>(each * static_cast<double>(std::min(holder.added, Walk::kMaxLength >> 8)))};
  return true;
}

std::optional<std::vector<Holder>> PythonHeap::end() {
  reader_.pages().forget();
  if (auto counts = counts_ ? census_.count() : std::nullopt) {
    grown_types_ = oomcast::grown_types(*counts_, *counts);
    counts_.reset();
  }
  Walk walk(reader_, limits_);
  if (!walk.add_threads()) return std::nullopt;
  walk.run();
  cut_ = cut_ || walk.cut;
  told_.clear();
  std::vector<Grown> all = grown_of(walk);
  Allowance allowance(limits_.time / 2, 1);
  for (Grown& grown : all) {
    if (allowance.over()) {
      cut_ = true;
      break;
    }
    if (!sample_added(walk, grown)) continue;
    auto place = std::upper_bound(told_.begin(), told_.end(), grown.holder.least,
                                  [](Bytes least, const Grown& other) { return least > other.holder.least; });
    told_.insert(place, std::move(grown));
    if (told_.size() > kMaxHolders) told_.pop_back();
  }
  std::vector<Holder> out;
  for (Grown& grown : told_) {
    grown.holder.path = walk.path(grown.node);  // only of those that are told: it reads past the cache
    out.push_back(grown.holder);
  }
  known_.clear();
  return out;
}

// Objects of Python and of C alike: words that point to memory.
bool PythonHeap::has_small_objects(std::uint64_t address) {
  // The head of a pool: how many are in use, the first that is free, neighbours, its arena, its class of
  // sizes, where the next that never was one would be, and the last such place.
  constexpr std::uint64_t kPools[] = {4096, 16384};  // before 3.10, and since
  constexpr std::uint64_t kHeadOfPool = 48, kStep = 16, kClasses = 32;
  for (std::uint64_t pool_size : kPools) {
    std::uint64_t pool = address / pool_size * pool_size;
    std::uint64_t of_class = reader_.pages().word(pool + 32) >> 32, next = reader_.pages().word(pool + 40);
    std::uint64_t size = (of_class + 1) * kStep, last = next >> 32,
                  used = reader_.pages().word(pool) & UINT32_MAX;
    next &= UINT32_MAX;
    std::uint64_t free = reader_.pages().word(pool + 8);
    if (of_class < kClasses && last == pool_size - size && next >= kHeadOfPool + size &&
        next <= last + size && (next - kHeadOfPool) % size == 0 && used * size <= pool_size - kHeadOfPool &&
        (free == 0 || free / pool_size * pool_size == pool))
      return true;
  }
  return false;
}

PythonHeap::Reached PythonHeap::reach(std::size_t holder, const BlockAt& block_at) {
  constexpr std::size_t kMaxOfOne = 64, kUnknownSize = 192, kMaxOfObject = 512;
  constexpr unsigned kMaxSteps = 4;
  constexpr Nanos kMaxTime = std::chrono::milliseconds(50);
  Reached out;
  if (holder >= told_.size()) return out;
  std::uint64_t container = told_[holder].address;
  if (const auto* type = reader_.type_of(container))
    if (std::uint64_t storage = reader_.storage(container, *type)) out.own = block_at(storage);
  std::set<std::uint64_t> blocks;
  Nanos since = clock_now(CLOCK_THREAD_CPUTIME_ID);
  struct Step {
    std::uint64_t address;
    unsigned depth;
  };
  for (std::uint64_t object : told_[holder].added) {
    if (clock_now(CLOCK_THREAD_CPUTIME_ID) - since > kMaxTime) break;
    ++out.looked_at;
    std::vector<Step> steps{{object, 0}};
    std::unordered_set<std::uint64_t> seen{object};
    if (auto block = block_at(object)) blocks.insert(*block);
    for (std::size_t next = 0; next < steps.size(); ++next) {
      auto [address, depth] = steps[next];
      const auto* type = reader_.type_of(address);
      std::uint64_t from = type ? Walk::kHead : 0, size = type ? type->size : kUnknownSize;
      if (type && type->item == 8)
        size += 8 * std::min<std::uint64_t>(reader_.size(address), Walk::kFewElements);
      auto follow = [&, depth = depth](std::uint64_t word) {
        if (word < 4096 || word >= kUserAddresses) return;
        if (auto block = block_at(word)) blocks.insert(*block);
        if (word % 8 || depth >= kMaxSteps || seen.size() >= kMaxOfOne || !seen.insert(word).second) return;
        const auto* is = reader_.type_of(word);
        if (is && (is->kind == PythonReader::Kind::type || is->kind == PythonReader::Kind::module ||
                   is->kind == PythonReader::Kind::function))
          return;
        steps.push_back({word, depth + 1});
      };
      // An instance's are before it, or behind it.
      auto attributes = type ? reader_.attributes(address, *type) : PythonReader::Attributes{};
      for (std::uint64_t word : {attributes.dict, attributes.values}) follow(word);
      for (std::uint64_t at = from; at < std::min<std::uint64_t>(size, kMaxOfObject); at += 8)
        follow(reader_.pages().word(address + at));
    }
  }
  if (out.own) blocks.erase(*out.own);
  out.blocks.assign(blocks.begin(), blocks.end());
  return out;
}

}  // namespace oomcast
