// Which containers of a CPython grow, and the names by which the program reaches them: the holders of what is
// retained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "blame/python_census.h"
#include "blame/python_objects.h"
#include "collect/process_memory.h"

namespace oomcast {

/// A list, dict, set or deque that grew; or many reached by the same names, as in a dict of lists: then all
/// fields are for all of them.
struct Holder {
  // As in the source: "trainer.history['loss'] in __main__". For many: "by_user[…] in __main__".
  std::string path;
  std::string type;  // "list"
  std::uint64_t length = 0, added = 0;
  std::string of;  // the most frequent type of what was added; empty: unreadable
  Bytes least;     // size of what was added, with all that only it refers to; from a sample
  Bytes small;     // the part of that in pools of small objects
  std::uint64_t containers = 1;
  auto operator<=>(const Holder&) const = default;
};

/// Walks from the frames of all threads along globals, locals, attributes, elements, default arguments and
/// closures: each object once, libraries last, only a sample of a container with more than a few elements.
/// Weak references and references known only to C code are not followed. The program keeps running: each
/// object is checked for what it claims to be, and skipped if it does not fit.
///
/// Only resident pages are read. Bounded by objects and time; a hostile program can fake holders, but cannot
/// prolong the walk or have it read memory of others.
class PythonHeap {
 public:
  /// Limits of a walk; a walk of 100,000 objects takes 50 ms.
  struct Limits {
    std::size_t objects = 200'000;                // 20 MiB during the walk
    Nanos time = std::chrono::milliseconds(400);  // see Allowance; half as long again for what was found
    std::size_t containers = 64'000;              // remembered: 5 MiB
  };
  /// Both must outlive this.
  PythonHeap(const ProcessMemory& memory, const Python& python);
  PythonHeap(const ProcessMemory& memory, const Python& python, Limits limits);

  /// Records the lengths of all containers. false: no thread's frames could be read.
  bool begin();
  /// Containers that are longer now, most added first. Call once. nullopt: see begin().
  std::optional<std::vector<Holder>> end();
  /// Between begin() and end(): addresses of the lengths of the `most` containers that grew most so far; of
  /// nested ones the one that grew most. About 1 µs a container.
  std::vector<std::uint64_t> growing(std::size_t most);
  /// Whether this length, from growing(), belongs to the holder with this number in end()'s answer.
  bool has_length_at(std::size_t holder, std::uint64_t address) const;
  /// After end(): types with more objects, whatever holds them. nullopt: they could not be counted.
  const std::optional<std::vector<GrownType>>& grown_types() const { return grown_types_; }
  /// The blocks that the added elements of this holder (by its number in end()'s answer) lead to, by their
  /// begin. `block_at` returns the block at an address. About 1 µs an object, 50 ms in all.
  using BlockAt = std::function<std::optional<std::uint64_t>(std::uint64_t address)>;
  struct Reached {
    std::vector<std::uint64_t> blocks;   // without its own storage
    std::optional<std::uint64_t> own{};  // the block with its elements
    std::uint64_t looked_at = 0;         // number of added elements examined
  };
  Reached reach(std::size_t holder, const BlockAt& block_at);
  /// Whether objects of up to 512 bytes are at this address: in one of the interpreter's own pools (CPython's
  /// Objects/obmalloc.c, 3.8 to 3.15), which serve all code. Also false if unreadable.
  bool has_small_objects(std::uint64_t address);
  /// Frees the cache of the process's memory, 8 MiB: call it when no request follows soon.
  void release() { reader_.pages().release(); }
  /// A walk ended before it was complete.
  bool cut() const { return cut_; }

 private:
  struct Walk;
  /// A container at begin().
  struct Known {
    const PythonReader::Type* type = nullptr;
    std::uint64_t length = 0;
    std::uint64_t first = 0, last = 0;  // the elements there, see ends_of()
    std::uint64_t shape = 0;            // see Walk::shape()
  };
  struct Grown {
    std::uint32_t node = 0;  // of the walk
    std::uint64_t address = 0;
    Holder holder;                         // without its path
    std::vector<std::uint64_t> added;      // objects, a sample
    std::vector<std::uint64_t> lengths{};  // addresses: its own, or those of all
  };
  std::pair<std::uint64_t, std::uint64_t> ends_of(std::uint64_t address, const Known& known);
  bool is_another(std::uint64_t address, const PythonReader::Type& type, const Known& known);
  /// By growth, largest first: without what was added.
  std::vector<Grown> grown_of(const Walk& walk);
  /// false: no added element is readable.
  bool sample_added(Walk& walk, Grown& grown, std::size_t most);
  /// The largest by bytes held; those of one shape are merged.
  std::vector<Grown> largest(Walk& walk, std::vector<Grown> all);
  void reach_from(std::uint64_t object, const BlockAt& block_at, std::set<std::uint64_t>& blocks);
  template <typename Each>
  void each_word(std::uint64_t object, Each&& each);
  bool leads_everywhere(std::uint64_t object);

  Limits limits_;
  PythonReader reader_;
  std::unordered_map<std::uint64_t, Known> known_;  // by address
  std::vector<Grown> told_;                         // end()'s answer
  PythonCensus census_;
  std::optional<PythonCensus::Counts> counts_;  // when it began
  std::optional<std::vector<GrownType>> grown_types_;
  bool cut_ = false;
};

}  // namespace oomcast
