#include "blame/python_heap.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

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
  for (const Walk::Node& node : walk.nodes)
    if (const auto* type = reader_.type_of(node.address))
      if (auto length = reader_.length(node.address, *type)) lengths_[node.address] = *length;
  counts_ = census_.count();
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
  std::vector<std::pair<Holder, std::vector<std::uint64_t>>> all;
  for (std::uint32_t at = 0; at < walk.nodes.size(); ++at) {
    std::uint64_t address = walk.nodes[at].address;
    auto known = lengths_.find(address);
    const auto* type = known == lengths_.end() ? nullptr : reader_.type_of(address);
    auto length = type ? reader_.length(address, *type) : std::nullopt;
    if (!length || *length <= known->second) continue;
    Holder holder;
    holder.type = type->name;
    holder.length = *length;
    holder.added = *length - known->second;
    std::vector<std::uint64_t> added;
    std::map<std::string, std::size_t> types;
    std::uint64_t bytes = 0;
    walk.added(address, *type, holder.added, kMaxAdded, [&](std::uint64_t element) {
      const auto* of = reader_.type_of(element);
      if (!of) return;
      added.push_back(element);
      bytes += reader_.bytes_of(element, *of);
      if (2 * ++types[of->name] > added.size()) holder.of = of->name;
    });
    if (added.empty()) continue;
    if (2 * types[holder.of] < added.size()) holder.of.clear();
    double each = static_cast<double>(bytes) / static_cast<double>(added.size());
    holder.least = {
        static_cast<std::int64_t>(each * static_cast<double>(std::min(holder.added, Walk::kMaxLength >> 8)))};
    holder.path = walk.path(at);
    all.emplace_back(std::move(holder), std::move(added));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first.least > b.first.least; });
  if (all.size() > kMaxHolders) all.resize(kMaxHolders);
  std::vector<Holder> out;
  added_.clear();
  for (auto& [holder, added] : all) {
    out.push_back(std::move(holder));
    added_.push_back(std::move(added));
  }
  lengths_.clear();
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
  if (holder >= added_.size()) return out;
  std::set<std::uint64_t> blocks;
  Nanos since = clock_now(CLOCK_THREAD_CPUTIME_ID);
  struct Step {
    std::uint64_t address;
    unsigned depth;
  };
  for (std::uint64_t object : added_[holder]) {
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
      for (std::uint64_t at = from; at < std::min<std::uint64_t>(size, kMaxOfObject); at += 8) {
        std::uint64_t word = reader_.pages().word(address + at);
        if (word < 4096 || word >= kUserAddresses) continue;
        if (auto block = block_at(word)) blocks.insert(*block);
        if (word % 8 || depth >= kMaxSteps || seen.size() >= kMaxOfOne || !seen.insert(word).second) continue;
        const auto* is = reader_.type_of(word);
        if (is && (is->kind == PythonReader::Kind::type || is->kind == PythonReader::Kind::module ||
                   is->kind == PythonReader::Kind::function))
          continue;
        steps.push_back({word, depth + 1});
      }
    }
  }
  out.blocks.assign(blocks.begin(), blocks.end());
  return out;
}

}  // namespace oomcast
