// A CPython 3.11 laid into this process and read as another's, honest and not.
#include "blame/python_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <string_view>

namespace oomcast {
namespace {

using Words = std::vector<std::uint64_t>;

std::uint64_t address_of(const void* p) {
  return reinterpret_cast<std::uint64_t>(p);
}

struct Interpreter {
  static constexpr std::uint64_t kCollected = 1 << 14, kList = 1 << 25, kTuple = 1 << 26, kDict = 1 << 29;
  Python python = *layout_of({3, 11, std::nullopt});
  ProcessMemory memory{Roots{}, static_cast<std::uint32_t>(getpid())};
  std::deque<Words> objects;
  std::deque<std::string> texts;
  std::uint64_t type_type, str, list, dict, tuple, code, deque;
  std::uint64_t head = 0, frame = 0;
  std::uint64_t *interpreter = nullptr, *thread = nullptr;

  Interpreter() {
    type_type = make_type("type", 408, 40, kCollected | std::uint64_t{1} << 31);
    word(type_type, 8) = type_type;
    str = make_type("str", 72, 0, 1 << 28);
    list = make_type("list", 40, 0, kCollected | kList);
    dict = make_type("dict", 48, 0, kCollected | kDict);
    tuple = make_type("tuple", 24, 8, kCollected | kTuple);
    code = make_type("code", 184, 1, 0);
    deque = make_type("collections.deque", 64, 0, kCollected);
    interpreter = &word(memory_of(8), 0);
    thread = &word(memory_of(16), 0);
    std::uint64_t cframe = memory_of(4);
    head = address_of(interpreter);
    python.layout.interpreters = address_of(&head);
    interpreter[2] = address_of(thread);
    thread[7] = cframe;
    frame = memory_of(64);
    word(cframe, 8) = frame;
  }

  std::uint64_t memory_of(std::size_t words) { return address_of(objects.emplace_back(words).data()); }
  static std::uint64_t& word(std::uint64_t object, std::uint64_t offset) {
    return *reinterpret_cast<std::uint64_t*>(object + offset);
  }
  std::uint64_t make_type(const char* name, std::uint64_t size, std::uint64_t item, std::uint64_t flags) {
    std::uint64_t at = memory_of(160);
    word(at, 0) = 1;
    word(at, 8) = type_type;
    word(at, 24) = address_of(name);
    word(at, 32) = size;
    word(at, 40) = item;
    word(at, 168) = flags;
    return at;
  }
  std::uint64_t object(std::uint64_t type, std::size_t words = 24) {
    std::uint64_t at = memory_of(words);
    word(at, 0) = 1;
    word(at, 8) = type;
    return at;
  }
  std::uint64_t text(std::string_view value) {
    std::uint64_t at = object(str, 12 + value.size() / 8);
    word(at, 16) = value.size();
    word(at, 32) = (1 | 1 << 3 | 1 << 4) << 2;  // one byte each, ASCII
    std::memcpy(reinterpret_cast<void*>(at + 48), value.data(), value.size());
    return at;
  }
  void set_items(std::uint64_t of, std::uint64_t items, std::uint64_t size) {
    word(of, 16) = size;
    word(of, 24) = items;
  }
  std::uint64_t make_list(std::size_t size, std::uint64_t element) {
    std::uint64_t at = object(list);
    set_items(at, address_of(objects.emplace_back(size, element).data()), size);
    return at;
  }
  std::uint64_t make_tuple(const std::vector<std::uint64_t>& items) {
    std::uint64_t at = object(tuple, 4 + items.size());
    word(at, 16) = items.size();
    for (std::size_t i = 0; i < items.size(); ++i) word(at, 24 + 8 * i) = items[i];
    return at;
  }
  std::uint64_t make_dict(const std::vector<std::pair<std::string_view, std::uint64_t>>& entries) {
    std::uint64_t keys = memory_of(4 + 8 + 2 * 64), at = object(dict);
    word(keys, 8) = 6 | 6 << 8 | 1 << 16;  // 64 entries, their indices, keys that are strings
    word(keys, 24) = entries.size();
    std::uint64_t entry = keys + 32 + 64;
    for (auto [key, value] : entries) {
      word(entry, 0) = text(key);
      word(entry, 8) = value;
      entry += 16;
    }
    word(at, 16) = entries.size();
    word(at, 32) = keys;
    return at;
  }
  /// One frame of `function`, with its module's dict and locals.
  void run(std::string_view function, std::uint64_t globals,
           const std::vector<std::pair<std::string_view, std::uint64_t>>& locals) {
    std::uint64_t c = object(code, 32);
    std::vector<std::uint64_t> names;
    for (std::size_t i = 0; i < locals.size(); ++i) {
      names.push_back(text(locals[i].first));
      word(frame, 72 + 8 * i) = locals[i].second;
    }
    word(c, 96) = make_tuple(names);
    word(c, 128) = text(function);
    word(frame, 8) = globals;
    word(frame, 32) = c;
  }
};

TEST(PythonHeap, a_container_that_grows_is_told_by_the_names_that_lead_to_it) {
  Interpreter py;
  std::uint64_t element = py.object(py.make_type("Tensor", 64, 0, 0));
  std::uint64_t kept = py.make_list(1000, element), inner = py.make_list(1000, element),
                flat = py.make_list(1000, element), mine = py.make_list(1000, element);
  std::uint64_t history = py.make_dict({{"loss", inner}});
  std::uint64_t globals =
      py.make_dict({{"__name__", py.text("__main__")}, {"kept", kept}, {"history", history}, {"flat", flat}});
  py.run("main", globals, {{"mine", mine}});
  for (std::uint64_t list : {kept, inner, mine}) py.word(list, 16) = 100;
  py.word(flat, 16) = 1000;
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  py.word(kept, 16) = 1000;
  py.word(mine, 16) = 500;
  py.word(inner, 16) = 110;
  py.word(flat, 16) = 900;
  auto told = heap.end();
  ASSERT_TRUE(told);
  const std::vector<Holder>& holders = *told;
  ASSERT_EQ(holders.size(), 3u);
  EXPECT_EQ(holders[0], (Holder{"kept in __main__", "list", 1000, 900, "Tensor", Bytes{900 * 64}}));
  EXPECT_EQ(holders[1], (Holder{"mine in main()", "list", 500, 400, "Tensor", Bytes{400 * 64}}));
  EXPECT_EQ(holders[2], (Holder{"history['loss'] in __main__", "list", 110, 10, "Tensor", Bytes{640}}));
  EXPECT_FALSE(heap.cut());
}

TEST(PythonHeap, a_block_of_c_code_is_reached_through_what_leads_to_it) {
  Interpreter py;
  std::uint64_t tensor = py.object(py.make_type("Tensor", 64, 0, 0)), storage = py.memory_of(8);
  std::uint64_t data = 0x7000'0000'0000;
  py.word(tensor, 24) = storage;
  py.word(storage, 16) = data + 64;
  std::uint64_t kept = py.make_list(8, tensor);
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}, {"kept", kept}}), {});
  py.word(kept, 16) = 4;
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  py.word(kept, 16) = 8;
  ASSERT_EQ(heap.end()->size(), 1u);
  auto reached = heap.reach(0, [&](std::uint64_t at) {
    return at >= data && at < data + 4096 ? std::optional(data) : std::nullopt;
  });
  EXPECT_EQ(reached.blocks, std::vector<std::uint64_t>{data});
  EXPECT_EQ(reached.looked_at, 4u);
  EXPECT_EQ(heap.reach(1, [](std::uint64_t) { return std::nullopt; }).looked_at, 0u) << "there is no other";
}

TEST(PythonHeap, memory_that_is_not_there_is_not_brought_there) {
  Interpreter py;
  constexpr std::size_t kSize = 64 << 20;
  void* untouched = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(untouched, MAP_FAILED);
  madvise(untouched, kSize, MADV_NOHUGEPAGE);
  std::uint64_t kept = py.object(py.list);
  py.set_items(kept, address_of(untouched), kSize / 8);
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}, {"kept", kept}}),
         {{"at", address_of(untouched)}});
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  for (std::size_t at = 0; at < kSize; at += 1 << 20)
    EXPECT_FALSE(py.memory.page_at(address_of(untouched) + at)->held) << at;
  munmap(untouched, kSize);
}

TEST(PythonHeap, a_pool_of_small_objects_is_known_by_its_head) {
  Interpreter i;
  for (std::size_t pool : {4096, 16384}) {
    PythonHeap heap(i.memory,
                    i.python);  // what it has read stays read, and an allocation may be where another was
    auto* at = static_cast<std::byte*>(std::aligned_alloc(16384, 2 * 16384));
    std::memset(at, 0, 2 * 16384);
    std::uint64_t begin = address_of(at) + 16384;
    const std::uint64_t size = 48;  // the third class
    auto lay = [&](std::uint64_t used, std::uint64_t free, std::uint64_t next) {
      Interpreter::word(begin, 0) = used;
      Interpreter::word(begin, 8) = free;
      Interpreter::word(begin, 32) = (size / 16 - 1) << 32 | 5;
      Interpreter::word(begin, 40) = (pool - size) << 32 | next;
    };
    lay(2, 0, 48 + 2 * size);
    EXPECT_TRUE(heap.has_small_objects(begin + pool - 1)) << pool;
    EXPECT_FALSE(heap.has_small_objects(begin - 1)) << "zeros are no pool";
    PythonHeap later(i.memory, i.python);
    lay(2, begin + 2 * pool, 48 + 2 * size);
    EXPECT_FALSE(later.has_small_objects(begin)) << "what is free lies elsewhere";
    PythonHeap last(i.memory, i.python);
    lay(2, 0, 49 + 2 * size);
    EXPECT_FALSE(last.has_small_objects(begin)) << "no whole number of objects";
    std::free(at);
  }
}

TEST(PythonHeap, what_leads_to_itself_ends) {
  Interpreter py;
  std::uint64_t kept = py.make_list(4, 0), looped = py.object(py.deque), block = py.memory_of(66);
  for (std::uint64_t i = 0; i < 4; ++i) py.word(py.word(kept, 24), 8 * i) = kept;
  py.word(looped, 16) = PythonReader::kMaxLength - 1;
  py.word(looped, 32) = block;
  py.word(block, 0) = block;
  for (std::uint64_t i = 1; i <= 64; ++i) py.word(block, 8 * i) = looped;
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}, {"kept", kept}, {"looped", looped}}), {});
  py.word(py.frame, 48) = py.frame;
  py.thread[1] = address_of(py.thread);
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  py.word(kept, 16) = 3;
  EXPECT_TRUE(heap.end()->empty());
}

TEST(PythonHeap, one_without_frames_or_without_the_global_lock_is_not_guessed) {
  Interpreter py;
  py.head = 0;
  EXPECT_FALSE(PythonHeap(py.memory, py.python).begin());
  py.head = address_of(py.interpreter);
  py.python.objects.counted = false;
  EXPECT_FALSE(PythonHeap(py.memory, py.python).begin());
}

TEST(PythonHeap, memory_that_lies_is_read_within_bounds) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    Interpreter py;
    std::vector<std::uint64_t> types = {py.type_type, py.str, py.list, py.dict, py.tuple, py.code, py.deque};
    for (const char* name : {"set", "module", "function", "cell", "frame", "generator", "Foo"})
      types.push_back(py.make_type(name, 16 + 8 * (random() % 60), 8 * (random() % 2),
                                   Interpreter::kCollected | (random() & 0xff)));
    Words lies(1 << 15);
    auto lie = [&]() -> std::uint64_t {
      switch (random() % 6) {
        case 0:
          return random();
        case 1:
          return random() % 64;
        case 2:
          return types[random() % types.size()];
        default:
          return address_of(lies.data()) + 8 * (random() % lies.size());
      }
    };
    for (std::uint64_t& word : lies) word = lie();
    for (std::size_t at = 0; at + 8 < lies.size(); at += 6) {
      lies[at] = 1 + random() % 9;
      lies[at + 1] = types[random() % types.size()];
    }
    if (round % 2)
      for (std::uint64_t type : types)
        for (std::uint64_t at = 176; at < 1024; at += 8) Interpreter::word(type, at) = lie();
    py.run("main", lie(), {{"a", lie()}, {"b", lie()}, {"c", lie()}, {"d", lie()}});
    PythonHeap heap(py.memory, py.python, {20'000, std::chrono::seconds(5)});
    (void)heap.begin();
    for (std::uint64_t& word : lies)
      if (random() % 3 == 0) word += random() % 9;
    auto holders = heap.end().value_or(std::vector<Holder>());
    for (std::size_t i = 0; i < holders.size(); ++i) {
      EXPECT_GE(holders[i].least, Bytes{});
      EXPECT_LE(holders[i].path.size(), 4096u);
      (void)heap.reach(i, [](std::uint64_t at) { return std::optional(at); });
    }
  }
}

}  // namespace
}  // namespace oomcast
