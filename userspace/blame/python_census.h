// Counts the objects of each type that CPython's garbage collector tracks: what grows, whatever holds it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "blame/python_objects.h"

namespace oomcast {

/// A type with more objects than before.
struct GrownType {
  std::string type;                      // "Tensor"
  std::uint64_t objects = 0, added = 0;  // at the end; added of those
  Bytes least;                           // size of the added objects, without what they refer to
  auto operator<=>(const GrownType&) const = default;
};

/// The collector keeps containers and instances in three lists (PyGC_Head); it does not track strings,
/// numbers and memory of C code. The program keeps running: a list that changes during the walk is walked
/// again, and after kTries the result is unknown.
///
/// Reads through PythonReader, at most `objects`, for at most `time` of CPU.
class PythonCensus {
 public:
  struct Limits {
    std::size_t objects = 4'000'000;
    Nanos time = std::chrono::milliseconds(400);
  };
  struct Count {
    std::uint64_t objects = 0;
    std::uint64_t each = 0;  // size of one object, without what it refers to
  };
  using Counts = std::map<std::string, Count>;

  PythonCensus(PythonReader& reader, Limits limits) : reader_(reader), limits_(limits) {}
  /// By type. nullopt: lists not found, changing all the time, or beyond the limits. 1 million objects take
  /// 0.1 s of CPU.
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
  std::uint64_t lists_ = 0;  // address of the first list's head; 0: not found yet
  Nanos since_{};
  std::size_t left_ = 0;
};

/// Types with more objects, by bytes added; at most 8. Temporaries change every type a little: growth by
/// fewer than 100 objects, or by less than a twentieth, is ignored.
std::vector<GrownType> grown_types(const PythonCensus::Counts& before, const PythonCensus::Counts& after);

}  // namespace oomcast
