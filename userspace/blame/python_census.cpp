#include "blame/python_census.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "base/clock.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kLinks = 16;       // GC header before each object: next, previous
constexpr std::uint64_t kLinkFlags = 3;    // flags in the low bits of both links
constexpr std::uint64_t kAligned = 4;      // alignment of the list heads in Debian's 3.13
constexpr std::uint64_t kGeneration = 24;  // list head, threshold and count
constexpr std::uint64_t kMaxThreshold = 1'000'000'000;
// In 3.13 two thirds of an interpreter's first 12 KiB are pending calls; the lists follow them.
constexpr std::uint64_t kInInterpreter = 64 << 10;
constexpr std::size_t kMaxGrownTypes = 8;
constexpr std::uint64_t kMinMore = 100;
constexpr double kMinShareMore = 0.05;

bool may_be_link(std::uint64_t address) {
  return address >= 4096 && address < kUserAddresses && address % kAligned == 0;
}

}  // namespace

bool PythonCensus::is_head(std::uint64_t address) const {
  return address >= lists_ && address < lists_ + kLists * kGeneration;
}

// Three list heads in a row, each linked back from its first element, or from itself if empty. The tail is
// not checked, as new objects are appended meanwhile.
bool PythonCensus::are_lists(std::uint64_t at) {
  PresentPages& pages = reader_.pages();
  for (std::uint64_t head = at; head < at + kLists * kGeneration; head += kGeneration) {
    std::uint64_t next = pages.word(head) & ~kLinkFlags, last = pages.word(head + 8) & ~kLinkFlags;
    std::uint64_t threshold = pages.word(head + 16) & UINT32_MAX;
    if (!may_be_link(next) || !may_be_link(last) || threshold > kMaxThreshold ||
        (pages.word(next + 8) & ~kLinkFlags) != head)
      return false;
  }
  return true;
}

// The offset differs by version and build. Since 3.9 the lists are in the interpreter, in 3.8 in the runtime,
// after its list of interpreters.
std::uint64_t PythonCensus::find_lists() {
  const auto& layout = reader_.python().layout;
  std::uint64_t interpreter = reader_.pages().word(layout.interpreters);
  for (std::uint64_t begin : {interpreter, std::uint64_t{layout.interpreters}})
    for (std::uint64_t at = begin; begin && at < begin + kInInterpreter; at += kAligned)
      if (are_lists(at)) return at;
  return 0;
}

PythonCensus::Walked PythonCensus::walk(int list, Counts& counts) {
  constexpr std::size_t kAskEvery = 1024;
  PresentPages& pages = reader_.pages();
  std::unordered_map<const PythonReader::Type*, std::uint64_t> of_type;
  std::uint64_t head = lists_ + static_cast<std::uint64_t>(list) * kGeneration;
  std::uint64_t at = pages.word(head) & ~kLinkFlags, before = head;
  bool torn = false;
  while (!is_head(at)) {
    if (left_-- == 0) return Walked::too_long;
    if (left_ % kAskEvery == 0 && clock_now(CLOCK_THREAD_CPUTIME_ID) - since_ > limits_.time)
      return Walked::too_long;
    // During a collection the second link holds a reference count.
    auto links = may_be_link(at) ? pages.get<std::array<std::uint64_t, 2>>(at) : std::nullopt;
    torn = !links || ((*links)[1] & ~kLinkFlags) != before;
    if (torn) break;
    if (const auto* type = reader_.type_of(at + kLinks)) ++of_type[type];
    before = std::exchange(at, (*links)[0] & ~kLinkFlags);
  }
  // The youngest generation changes all the time, and is short.
  if (torn && list > 0) return Walked::torn;
  for (auto [type, objects] : of_type) {
    Count& count = counts[type->name];
    count.objects += objects;
    count.each = type->size + kLinks;
  }
  return Walked::whole;
}

std::optional<PythonCensus::Counts> PythonCensus::count() {
  since_ = clock_now(CLOCK_THREAD_CPUTIME_ID);
  left_ = limits_.objects;
  for (int tries = 0; tries < kTries && !lists_; ++tries) {
    reader_.pages().forget();
    lists_ = find_lists();
  }
  if (!lists_) return std::nullopt;
  Counts out;
  for (int list = 0; list < kLists; ++list) {
    Walked walked = Walked::torn;
    for (int tries = 0; tries < kTries && walked == Walked::torn; ++tries) {
      reader_.pages().forget();  // cached data is inconsistent with later reads
      walked = walk(list, out);
    }
    if (walked != Walked::whole) return std::nullopt;
  }
  return out;
}

std::vector<GrownType> grown_types(const PythonCensus::Counts& before, const PythonCensus::Counts& after) {
  std::vector<GrownType> out;
  for (const auto& [name, count] : after) {
    auto was = before.find(name);
    std::uint64_t objects = was == before.end() ? 0 : was->second.objects;
    if (count.objects < objects + kMinMore) continue;
    std::uint64_t added = count.objects - objects;
    if (static_cast<double>(added) < kMinShareMore * static_cast<double>(count.objects)) continue;
    out.push_back({name, count.objects, added, Bytes{static_cast<std::int64_t>(added * count.each)}});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const GrownType& a, const GrownType& b) { return a.least > b.least; });
  if (out.size() > kMaxGrownTypes) out.resize(kMaxGrownTypes);
  return out;
}

}  // namespace oomcast
