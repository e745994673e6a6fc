// How many objects of each type a CPython's garbage collector tracks: what grows, whoever holds it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "blame/python_objects.h"

namespace oomcast {

/// Objects of a type that have become more.
struct GrownType {
  std::string type;                      // "Tensor"
  std::uint64_t objects = 0, added = 0;  // at the end, and of these
  Bytes least;                           // those added take, without what they refer to
  auto operator<=>(const GrownType&) const = default;
};

/// Containers and instances, which the collector has in three lists (PyGC_Head); strings, numbers and what C
/// code made for itself it does not track. The program goes on meanwhile: a list that changes under the walk
/// is walked again, and after kTries nothing is said.
///
/// Reads what PythonReader reads, no more than `objects` and for no longer than `time` of a CPU.
class PythonCensus {
 public:
  struct Limits {
    std::size_t objects = 4'000'000;
    Nanos time = std::chrono::milliseconds(400);
  };
  struct Count {
    std::uint64_t objects = 0;
    std::uint64_t each = 0;  // bytes of one, of what it has itself
  };
  using Counts = std::map<std::string, Count>;

  PythonCensus(PythonReader& reader, Limits limits) : reader_(reader), limits_(limits) {}
  /// By type. nullopt: the lists were not found, changed all the time, or are longer than the limits.
  /// 1 million objects take 0.1 s of a CPU.
  std::optional<Counts> count();

 private:
  static constexpr int kLists = 3, kTries = 3;
  std::uint64_t find_lists();
  bool are_lists(std::uint64_t at);
  bool is_head(std::uint64_t address) const;
  enum class Walked { whole, torn, too_long };
  Walked walk(int list, Counts& counts);

  PythonReader& reader_;
  Limits limits_;
  std::uint64_t lists_ = 0;  // where the first one's head stands; 0: not found yet
  Nanos since_{};
  std::size_t left_ = 0;
};

/// Those that have become more, by what was added; at most 8. What comes and goes makes every type differ a
/// little: fewer than 100 more, or a twentieth, say nothing.
std::vector<GrownType> grown_types(const PythonCensus::Counts& before, const PythonCensus::Counts& after);

}  // namespace oomcast
