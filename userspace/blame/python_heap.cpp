#include "blame/python_heap.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>

#include "blame/python_heap_walk.h"
#include "blame/python_owned.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxAdded = 512, kMaxHolders = 16;
constexpr std::size_t kSiblings = 8;  // this many are merged into one
constexpr std::size_t kMaxAnew = 4;   // objects that are read again

// Clamps values of a hostile process, so that sums do not overflow.
Bytes bounded(double bytes) {
  constexpr double kMost = std::int64_t{1} << 46;
  return {static_cast<std::int64_t>(std::min(bytes, kMost))};
}

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
  for (std::uint32_t at = 0; at < walk.nodes.size(); ++at) {
    if (allowance.over() || known_.size() >= limits_.containers) {
      cut_ = true;
      break;
    }
    std::uint64_t address = walk.nodes[at].address;
    const auto* type = reader_.type_of(address);
    auto length = type ? reader_.length(address, *type) : std::nullopt;
    if (!length || type->name == "frozenset") continue;
    Known& known = known_[address];
    known = {type, *length, 0, 0, walk.shape(at)};
    std::tie(known.first, known.last) = ends_of(address, known);
  }
  counts_ = census_.count();
  return true;
}

// A growing list keeps its first and last elements in place, and a dict its first key. A set has no order,
// and a deque may drop its first element.
std::pair<std::uint64_t, std::uint64_t> PythonHeap::ends_of(std::uint64_t address, const Known& known) {
  if (!known.length) return {};
  if (known.type->kind == PythonReader::Kind::dict) return {reader_.first_key(address), 0};
  if (known.type->kind != PythonReader::Kind::list) return {};
  std::uint64_t items = reader_.items(address, *known.type);
  return {reader_.pages().word(items), reader_.pages().word(items + 8 * (known.length - 1))};
}

// A freed list's address is reused by the next list, which a loop creates in the same line. A list that lost
// only its first or only its last element is the same one; if both changed, as in a queue, it cannot be told
// from another.
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
    Grown grown{at, address, {}, {}, {reader_.length_at(address, *type)}};
    grown.holder.type = type->name;
    grown.holder.length = *length;
    grown.holder.added = *length - known->second.length;
    out.push_back(std::move(grown));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Grown& a, const Grown& b) { return a.holder.added > b.holder.added; });
  return out;
}

bool PythonHeap::sample_added(Walk& walk, Grown& grown, std::size_t most) {
  constexpr std::size_t kMaxFollowed = 64;
  const auto* type = reader_.type_of(grown.address);
  if (!type) return false;
  Holder& holder = grown.holder;
  std::vector<std::uint64_t>& added = grown.added;
  std::map<std::string, std::size_t> types;
  walk.added(grown.address, *type, holder.added, most, [&](std::uint64_t element) {
    const auto* of = reader_.type_of(element);
    if (!of) return;
    added.push_back(element);
    if (2 * ++types[of->name] > added.size()) holder.of = of->name;
  });
  if (added.empty()) return false;
  if (2 * types[holder.of] < added.size()) holder.of.clear();
  std::size_t step = (added.size() + kMaxFollowed - 1) / kMaxFollowed, followed = 0;
  OwnedBytes sum;
  std::set<std::uint64_t> shared;
  for (std::size_t i = 0; i < added.size(); i += step, ++followed) {
    OwnedBytes owned = owned_bytes(reader_, added[i]);
    sum.all += owned.all;
    sum.small += owned.small;
    for (auto [block, bytes] : owned.blocks)
      if (!sum.blocks.try_emplace(block, bytes).second) shared.insert(block);
  }
  for (auto [block, bytes] : sum.blocks)
    if (!shared.contains(block)) sum.all += bytes;
  double times = static_cast<double>(holder.added) / static_cast<double>(followed);
  holder.least = bounded(sum.all * times);
  holder.small = bounded(sum.small * times);
  return true;
}

std::vector<std::uint64_t> PythonHeap::growing(std::size_t most) {
  constexpr std::size_t kElements = 16;
  struct Shape {
    std::uint64_t longest = 0, added = 0, all_added = 0;
    double bytes = 0;
  };
  reader_.pages().forget();
  std::unordered_map<std::uint64_t, Shape> shapes;
  Allowance allowance(limits_.time / 4);
  for (const auto& [address, known] : known_) {
    if (allowance.over()) break;
    const auto* type = reader_.type_of(address);
    auto length = type ? reader_.length(address, *type) : std::nullopt;
    if (!length || *length <= known.length || is_another(address, *type, known)) continue;
    Shape& shape = shapes[known.shape];
    std::uint64_t added = *length - known.length;
    shape.all_added += added;
    if (added > shape.added) shape.added = added, shape.longest = address;
  }
  std::vector<Shape> all;
  for (const auto& [key, shape] : shapes) all.push_back(shape);
  auto first = std::min(all.size(), 8 * most);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(first), std::greater(),
                            &Shape::all_added);
  all.resize(first);
  Walk walk(reader_, limits_);
  for (Shape& shape : all) {
    Grown grown{0, shape.longest, {}, {}};
    grown.holder.added = shape.added;
    if (sample_added(walk, grown, kElements))
      shape.bytes = grown.holder.least.as_double() / static_cast<double>(shape.added) *
                    static_cast<double>(shape.all_added);
  }
  std::ranges::sort(all, std::greater(), &Shape::bytes);
  std::vector<std::uint64_t> out;
  for (const Shape& shape : all) {
    const auto* type = reader_.type_of(shape.longest);
    if (type && shape.bytes > 0 && out.size() < most)
      out.push_back(PythonReader::length_at(shape.longest, *type));
  }
  return out;
}

bool PythonHeap::has_length_at(std::size_t holder, std::uint64_t address) const {
  return holder < told_.size() &&
         std::ranges::find(told_[holder].lengths, address) != told_[holder].lengths.end();
}

std::vector<PythonHeap::Grown> PythonHeap::largest(Walk& walk, std::vector<Grown> all) {
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> shapes;
  for (std::size_t i = 0; i < all.size(); ++i) shapes[walk.shape(all[i].node)].push_back(i);
  std::vector<Grown> out;
  auto take = [&](Grown&& grown) {
    auto place = std::upper_bound(out.begin(), out.end(), grown.holder.least,
                                  [](Bytes least, const Grown& other) { return least > other.holder.least; });
    out.insert(place, std::move(grown));
    if (out.size() > kMaxHolders) out.pop_back();
  };
  std::size_t anew = 0;
  Allowance allowance(limits_.time / 2, 1);
  for (std::size_t i = 0; i < all.size() && !allowance.over(); ++i) {
    const auto& alike = shapes[walk.shape(all[i].node)];
    bool joined = alike.size() >= kSiblings;
    std::size_t most = joined ? std::max<std::size_t>(kMaxAdded / alike.size(), 1) : kMaxAdded;
    // A growing list may have moved its elements since its header was read.
    bool read = sample_added(walk, all[i], most);
    if (!read && anew < kMaxAnew) {
      ++anew;
      reader_.pages().forget();
      read = sample_added(walk, all[i], most);
    }
    if (!read) all[i].holder.least = {};
    if (!joined && !all[i].added.empty()) take(std::move(all[i]));
  }
  cut_ = cut_ || allowance.over();
  for (const auto& [shape, alike] : shapes) {
    if (alike.size() < kSiblings) continue;
    Grown sum = all[alike.front()];
    sum.holder = {"", sum.holder.type, 0, 0, sum.holder.of, {}, {}, 0};
    sum.added.clear();
    sum.lengths.clear();
    for (std::size_t i : alike) {
      const Grown& one = all[i];
      std::uint64_t weight = walk.weight(one.node);
      auto times = static_cast<double>(weight);
      sum.holder.length += weight * one.holder.length;
      sum.holder.added += weight * one.holder.added;
      sum.holder.least = bounded(sum.holder.least.as_double() + times * one.holder.least.as_double());
      sum.holder.small = bounded(sum.holder.small.as_double() + times * one.holder.small.as_double());
      sum.holder.containers += weight;
      if (one.holder.of != sum.holder.of) sum.holder.of.clear();
      sum.added.insert(sum.added.end(), one.added.begin(), one.added.end());
      sum.lengths.push_back(one.lengths.front());
    }
    if (!sum.added.empty()) take(std::move(sum));
  }
  return out;
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
  told_ = largest(walk, grown_of(walk));
  std::vector<Holder> out;
  for (Grown& grown : told_) {
    // Only for reported holders: it reads past the cache.
    grown.holder.path = walk.path(grown.node, grown.holder.containers > 1);
    out.push_back(grown.holder);
  }
  known_.clear();
  return out;
}

bool PythonHeap::has_small_objects(std::uint64_t address) {
  return reader_.size_in_pool(address) != 0;
}

PythonHeap::Reached PythonHeap::reach(std::size_t holder, const BlockAt& block_at) {
  constexpr Nanos kMaxTime = std::chrono::milliseconds(50);
  Reached out;
  if (holder >= told_.size()) return out;
  std::uint64_t container = told_[holder].address;
  if (const auto* type = reader_.type_of(container))
    if (std::uint64_t storage = reader_.storage(container, *type)) out.own = block_at(storage);
  std::set<std::uint64_t> blocks;
  Nanos since = clock_now(CLOCK_THREAD_CPUTIME_ID);
  for (std::uint64_t object : told_[holder].added) {
    if (clock_now(CLOCK_THREAD_CPUTIME_ID) - since > kMaxTime) break;
    ++out.looked_at;
    reach_from(object, block_at, blocks);
  }
  if (out.own) blocks.erase(*out.own);
  out.blocks.assign(blocks.begin(), blocks.end());
  return out;
}

// Follows Python and C objects alike: words that are pointers.
void PythonHeap::reach_from(std::uint64_t object, const BlockAt& block_at, std::set<std::uint64_t>& blocks) {
  constexpr std::size_t kMaxOfOne = 64;
  constexpr unsigned kMaxSteps = 4;
  struct Step {
    std::uint64_t address;
    unsigned depth;
  };
  std::vector<Step> steps{{object, 0}};
  std::unordered_set<std::uint64_t> seen{object};
  if (auto block = block_at(object)) blocks.insert(*block);
  for (std::size_t next = 0; next < steps.size(); ++next) {
    auto [address, depth] = steps[next];
    each_word(address, [&, depth = depth](std::uint64_t word) {
      if (word < 4096 || word >= kUserAddresses) return;
      if (auto block = block_at(word)) blocks.insert(*block);
      if (word % 8 || depth >= kMaxSteps || seen.size() >= kMaxOfOne || !seen.insert(word).second) return;
      if (!leads_everywhere(word)) steps.push_back({word, depth + 1});
    });
  }
}

// For a Python object its attributes, its fields and a few elements; for anything else the first words.
template <typename Each>
void PythonHeap::each_word(std::uint64_t object, Each&& each) {
  constexpr std::size_t kUnknownSize = 192, kMaxOfObject = 512;
  const auto* type = reader_.type_of(object);
  std::uint64_t from = type ? Walk::kHead : 0, size = type ? type->size : kUnknownSize;
  if (type && type->item == 8) size += 8 * std::min<std::uint64_t>(reader_.size(object), Walk::kFewElements);
  // Attributes of an instance are before it, or after it.
  auto attributes = type ? reader_.attributes(object, *type) : PythonReader::Attributes{};
  for (std::uint64_t word : {attributes.dict, attributes.values}) each(word);
  for (std::uint64_t at = from; at < std::min<std::uint64_t>(size, kMaxOfObject); at += 8)
    each(reader_.pages().word(object + at));
}

// Types, modules and functions refer to the whole program.
bool PythonHeap::leads_everywhere(std::uint64_t object) {
  using Kind = PythonReader::Kind;
  const auto* type = reader_.type_of(object);
  return type && (type->kind == Kind::type || type->kind == Kind::module || type->kind == Kind::function);
}

}  // namespace oomcast
