// Which containers of a CPython grow, and by which names its program reaches them: who holds what stays.
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

/// A list, dict, set or deque that has grown; or many that are reached by the same names, as those of a dict
/// of lists: then all that follows is of all of them.
struct Holder {
  // As its program would write it: "trainer.history['loss'] in __main__". Of many "by_user[…] in __main__".
  std::string path;
  std::string type;  // "list"
  std::uint64_t length = 0, added = 0;
  std::string of;  // the type that most of what was added has; empty: nothing of it could be read
  Bytes least;     // what was added takes, with all that nothing else refers to, by a sample
  Bytes small;     // of that what stands in pools of small objects
  std::uint64_t containers = 1;
  auto operator<=>(const Holder&) const = default;
};

/// From the frames of all threads on, along globals, locals, attributes, elements, default arguments and
/// closures: each object once, those of libraries last, of a container with more elements than a few a sample
/// of them. Weak references and what only C code knows are not followed. The program goes on meanwhile: each
/// object is checked for what it says it is, and what does not fit is left out.
///
/// Only pages that are in memory are read. Bounded by objects and time; a hostile program can make it tell of
/// holders that are none, not make it run on, or read what is not its own.
class PythonHeap {
 public:
  /// For a walk; a walk of 100,000 objects takes 50 ms.
  struct Limits {
    std::size_t objects = 200'000;                // 20 MiB, while it walks
    Nanos time = std::chrono::milliseconds(400);  // as Allowance has it; half of it again for what was found
    std::size_t containers = 64'000;              // that are remembered: 5 MiB
  };
  /// Both must outlive this.
  PythonHeap(const ProcessMemory& memory, const Python& python);
  PythonHeap(const ProcessMemory& memory, const Python& python, Limits limits);

  /// Remembers how long the containers are. false: no thread's frames could be read.
  bool begin();
  /// Those that are longer since, with what was added most first. Once. nullopt: as begin().
  std::optional<std::vector<Holder>> end();
  /// Between the two: where those that grew most until now have their lengths, `most` of them; of several in
  /// one container the one that grew most. About 1 µs a container.
  std::vector<std::uint64_t> growing(std::size_t most);
  /// Whether this length, one of growing()'s, is of the holder with this number in end()'s answer.
  bool has_length_at(std::size_t holder, std::uint64_t address) const;
  /// Behind end(): which types' objects became more, whoever holds them. nullopt: they could not be counted.
  const std::optional<std::vector<GrownType>>& grown_types() const { return grown_types_; }
  /// Of the blocks that `block_at` knows by an address in them, those that the holder with this number in
  /// end()'s answer leads to by what was added to it: by their begin. About 1 µs an object, 50 ms in all.
  using BlockAt = std::function<std::optional<std::uint64_t>(std::uint64_t address)>;
  struct Reached {
    std::vector<std::uint64_t> blocks;   // without its own
    std::optional<std::uint64_t> own{};  // the block that has its elements in it
    std::uint64_t looked_at = 0;         // of what was added
  };
  Reached reach(std::size_t holder, const BlockAt& block_at);
  /// Whether objects of up to 512 bytes stand at this address: in a pool of the interpreter's own (CPython's
  /// Objects/obmalloc.c, 3.8 to 3.15), which serves whoever asks for a size. false, too: it cannot be read.
  bool has_small_objects(std::uint64_t address);
  /// Forgets what was read of the process's memory, 8 MiB: for who has no question soon.
  void release() { reader_.pages().release(); }
  /// A walk ended before it had seen all.
  bool cut() const { return cut_; }

 private:
  struct Walk;
  /// A container when it began.
  struct Known {
    const PythonReader::Type* type = nullptr;
    std::uint64_t length = 0;
    std::uint64_t first = 0, last = 0;  // what stood there, as ends_of() has it
    std::uint64_t shape = 0;            // as of a walk
  };
  struct Grown {
    std::uint32_t node = 0;  // of the walk
    std::uint64_t address = 0;
    Holder holder;                         // without its path
    std::vector<std::uint64_t> added;      // objects, a sample
    std::vector<std::uint64_t> lengths{};  // where they stand: its own, or those of all
  };
  std::pair<std::uint64_t, std::uint64_t> ends_of(std::uint64_t address, const Known& known);
  bool is_another(std::uint64_t address, const PythonReader::Type& type, const Known& known);
  /// By how much they grew, the most first: without what was added.
  std::vector<Grown> grown_of(const Walk& walk);
  /// false: nothing of what was added can be read.
  bool sample_added(Walk& walk, Grown& grown, std::size_t most);
  /// Those that hold most, by that; many of one shape are one.
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
