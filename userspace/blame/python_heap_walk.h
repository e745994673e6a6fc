// One walk over the containers of a Python program, starting at its frames and modules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "blame/python.h"
#include "blame/python_heap.h"

namespace oomcast {

/// A limit on CPU time, and an equal one on time spent waiting for a CPU; the clock is read only every so
/// many calls.
class Allowance {
 public:
  explicit Allowance(Nanos time, unsigned ask_every = 256) : time_(time), ask_every_(ask_every) {}
  bool over() {
    if (!over_ && asked_++ % ask_every_ == 0)
      over_ = clock_now(CLOCK_THREAD_CPUTIME_ID) - since_ > time_ || mono_now() - began_ > 2 * time_;
    return over_;
  }

 private:
  Nanos time_, since_ = clock_now(CLOCK_THREAD_CPUTIME_ID);
  MonoTime began_ = mono_now();
  unsigned ask_every_, asked_ = 0;
  bool over_ = false;
};

/// Breadth first: what is close to the program's own names comes before modules and classes. All input is
/// untrusted: every address is checked, every loop bounded, and the whole bounded by time and number of
/// objects.
struct PythonHeap::Walk {
  using Kind = PythonReader::Kind;
  using Type = PythonReader::Type;
  // How one object leads to the next, and the type of `detail`: a str, another key, a number, a C string.
  enum class Edge : std::uint8_t {
    frame,      // none: a function's frame begins a path; its address is the code's
    globals,    // none: so does a module's dict
    local,      // str
    global,     // str
    attribute,  // str
    slot,       // C string
    key,        // any object
    index,      // number
    member,     // none: of a set
    closure,    // str
    defaults,   // none
    inside,     // none: C code knows
    content     // none: of a cell
  };
  static bool is_element(Edge edge) {
    return edge == Edge::key || edge == Edge::index || edge == Edge::member;
  }
  struct Node {
    std::uint64_t address = 0, detail = 0;
    std::uint32_t parent = 0;
    Edge edge{};
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint64_t kHead = 16;  // header of each object
  static constexpr std::uint64_t kMaxLength = PythonReader::kMaxLength;
  static constexpr std::size_t kFewElements = 64;

  Walk(PythonReader& reader, const Limits& most) : objects(reader), limits(most) {}

  PythonReader& objects;
  PresentPages& pages = objects.pages();
  const Python& python = objects.python();
  const Limits& limits;
  Allowance allowance{limits.time};
  std::vector<Node> nodes;
  std::unordered_set<std::uint64_t> seen;
  std::vector<std::uint32_t> near, far;  // to be followed; modules and classes come last
  std::size_t next_near = 0, next_far = 0;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> unnamed;  // object and parent; for after all near ones
  bool cut = false;

  bool go_on();  // once per step of every loop whose length the process's memory controls

  std::uint32_t note(std::uint64_t address, std::uint32_t parent, Edge edge, std::uint64_t detail);
  void add(std::uint64_t address, std::uint32_t parent, Edge edge, std::uint64_t detail = 0);
  // false: not a globals dict.
  bool add_globals(std::uint64_t dict);

  // Names (str) of its locals, then those it passes to closures. Up to 3.10 each kind has its own tuple, and
  // the cells for closures lie between them.
  std::vector<std::uint64_t> names_of(std::uint64_t code);
  std::uint64_t item(std::uint64_t tuple, std::uint64_t number);
  void add_frame(std::uint64_t frame);
  void add_globals_of(std::uint64_t frame);

  // Outermost first: a caller's name is more useful than that of its callee.
  bool add_threads();

  void follow_dict(std::uint64_t dict, std::uint32_t at, bool attributes, std::size_t most);
  void follow_attributes(std::uint64_t object, std::uint32_t at, const Type& type);

  // References of C code, from offset `from` on, and those of __slots__.
  void follow_body(std::uint64_t object, std::uint32_t at, const Type& type, std::uint64_t from);
  void follow_function(std::uint64_t function, std::uint32_t at, const Type& type);
  void follow_items(std::uint64_t items, std::uint64_t count, std::uint32_t at, Edge edge);
  void follow(std::uint32_t at);

  // Up to `most` of the last `last` elements, if they are ordered.
  void added(std::uint64_t o, const Type& type, std::uint64_t last, std::size_t most,
             const std::function<void(std::uint64_t)>& each);

  void run();

  // Equal for all objects reached by the same names, whatever keys and indices are in between.
  std::uint64_t shape(std::uint32_t at) const;
  // How many objects it stands for: only a sample of a long container is followed.
  std::uint64_t weight(std::uint32_t at);
  std::string key(std::uint64_t key);
  // `any`: without keys and indices.
  std::string path(std::uint32_t at, bool any = false);
};

}  // namespace oomcast
