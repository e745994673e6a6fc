#include "blame/python_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "blame/fake_interpreter.h"
#include "blame/python_owned.h"

namespace oomcast {
namespace {

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
  EXPECT_EQ(holders[0], (Holder{"kept in __main__", "list", 1000, 900, "Tensor", Bytes{900 * 64}, {}}));
  EXPECT_EQ(holders[1], (Holder{"mine in main()", "list", 500, 400, "Tensor", Bytes{400 * 64}, {}}));
  EXPECT_EQ(holders[2], (Holder{"history['loss'] in __main__", "list", 110, 10, "Tensor", Bytes{640}, {}}));
  EXPECT_FALSE(heap.cut());
}

// It was "held by  in __main__".
TEST(PythonHeap, a_modules_dict_that_grows_is_called_globals) {
  Interpreter py;
  std::uint64_t element = py.object(py.make_type("Tensor", 64, 0, 0));
  std::uint64_t globals = py.make_dict({{"__name__", py.text("__main__")}});
  py.run("main", globals, {});
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  std::uint64_t keys = py.word(globals, 32), entry = keys + 32 + 64 + 16;
  for (const char* name : {"a", "b", "c", "d"}) {
    py.word(entry, 0) = py.text(name);
    py.word(entry, 8) = element;
    entry += 16;
  }
  py.word(keys, 24) = py.word(globals, 16) = 5;
  auto told = heap.end();
  ASSERT_TRUE(told);
  ASSERT_EQ(told->size(), 1u);
  EXPECT_EQ((*told)[0].path, "globals() in __main__");
}

TEST(PythonHeap, attributes_that_stand_in_an_object_are_called_as_its_type_says) {
  Interpreter py;
  constexpr std::uint64_t kManagedDict = 1 << 4;
  std::uint64_t type = py.make_type("Trainer", 64, 0, Interpreter::kCollected | kManagedDict);
  std::uint64_t keys = py.memory_of(32), values = py.memory_of(2), trainer = py.memory_of(32) + 64;
  std::uint64_t history = py.make_list(1000, py.object(py.make_type("Tensor", 64, 0, 0)));
  py.word(keys, 8) = 6 | 6 << 8 | 2 << 16;  // they are shared
  py.word(keys, 24) = 1;
  py.word(keys, 32 + 64) = py.text("history");
  py.word(type, 304) = keys;
  py.word(trainer, 0) = 1;
  py.word(trainer, 8) = type;
  py.word(trainer - 32, 0) = values;
  py.word(values, 0) = history;
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}}), {{"trainer", trainer}});
  py.word(history, 16) = 100;
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  py.word(history, 16) = 1000;
  auto told = heap.end();
  ASSERT_TRUE(told && told->size() == 1);
  EXPECT_EQ(told->front().path, "trainer.history in main()");
}

// The interpreter gives the place of a list or dict that was freed to the next one.
TEST(PythonHeap, a_container_in_the_place_of_another_one_has_not_grown) {
  Interpreter py;
  std::uint64_t type = py.make_type("Row", 64, 0, 0), row = py.object(type), next = py.object(type);
  std::uint64_t batch = py.make_list(100, row), retyped = py.make_list(200, row),
                edited = py.make_list(200, row);
  std::uint64_t counts = py.make_dict({{"a", row}}), cache = py.make_dict({{"a", row}, {"b", row}});
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}}),
         {{"batch", batch}, {"retyped", retyped}, {"edited", edited}, {"counts", counts}, {"cache", cache}});
  auto set_length = [&](std::uint64_t dict, std::uint64_t length) {
    py.word(dict, 16) = length;
    py.word(py.word(dict, 32), 24) = length;
  };
  py.word(retyped, 16) = py.word(edited, 16) = 100;
  set_length(cache, 1);
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  py.set_items(batch, py.word(py.make_list(400, next), 24), 400);
  py.word(retyped, 8) = py.make_type("Rows", 40, 0, Interpreter::kCollected | Interpreter::kList);
  py.word(retyped, 16) = py.word(edited, 16) = 200;
  py.word(py.word(edited, 24), 0) = next;
  py.word(counts, 32) = py.word(py.make_dict({{"c", next}, {"d", next}}), 32);
  py.word(counts, 16) = 2;
  set_length(cache, 2);
  auto told = heap.end();
  ASSERT_TRUE(told);
  ASSERT_EQ(told->size(), 2u);
  EXPECT_EQ((*told)[0].path, "edited in main()");
  EXPECT_EQ((*told)[1].path, "cache in main()");
}

TEST(PythonHeap, of_many_that_grew_those_are_told_that_hold_most) {
  Interpreter py;
  std::uint64_t element = py.object(py.make_type("Tensor", 64, 0, 0));
  std::vector<std::pair<std::string_view, std::uint64_t>> all;
  for (std::uint64_t i = 0; i < 40; ++i)
    all.emplace_back(py.texts.emplace_back("list" + std::to_string(i)), py.make_list(100 + i, element));
  auto set_lengths = [&](std::uint64_t more) {
    for (std::uint64_t i = 0; i < 40; ++i) py.word(all[i].second, 16) = 50 + more * (i + 1);
  };
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}}), all);
  set_lengths(0);
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  set_lengths(1);
  auto told = heap.end();
  ASSERT_TRUE(told);
  ASSERT_EQ(told->size(), 16u);
  EXPECT_EQ(told->front().path, "list39 in main()");
  EXPECT_EQ(told->back().path, "list24 in main()");
}

// A dict of lists, one for each user.
TEST(PythonHeap, of_one_container_those_that_grow_are_told_as_one) {
  Interpreter py;
  std::uint64_t element = py.object(py.make_type("Tensor", 64, 0, 0)), users = py.make_list(10, 0),
                log = py.make_list(100, element);
  std::vector<std::uint64_t> lists;
  for (std::uint64_t i = 0; i < 10; ++i) {
    lists.push_back(py.make_list(100, element));
    py.word(py.word(users, 24), 8 * i) = lists.back();
  }
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}}), {{"log", log}, {"users", users}});
  for (std::uint64_t list : lists) py.word(list, 16) = 50;
  py.word(log, 16) = 40;
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  for (std::uint64_t list : lists) py.word(list, 16) = 60;
  py.word(lists[3], 16) = 70;
  py.word(log, 16) = 90;
  EXPECT_EQ(heap.growing(1), (std::vector<std::uint64_t>{lists[3] + 16})) << "of those that grew most";
  EXPECT_EQ(heap.growing(2), (std::vector<std::uint64_t>{lists[3] + 16, log + 16}));
  auto told = heap.end();
  ASSERT_TRUE(told);
  ASSERT_EQ(told->size(), 2u);
  EXPECT_EQ((*told)[0], (Holder{"users[…] in main()", "list", 610, 110, "Tensor", Bytes{110 * 64}, {}, 10}));
  EXPECT_EQ((*told)[1].path, "log in main()");
  EXPECT_EQ((*told)[1].containers, 1u);
  EXPECT_TRUE(heap.has_length_at(0, lists[7] + 16));
  EXPECT_FALSE(heap.has_length_at(0, log + 16));
  EXPECT_TRUE(heap.has_length_at(1, log + 16));
  EXPECT_FALSE(heap.has_length_at(2, log + 16)) << "no such holder";
}

TEST(OwnedBytes, are_of_what_nothing_else_refers_to) {
  Interpreter py;
  std::uint64_t tensor = py.make_type("Tensor", 64, 0, 0);
  std::uint64_t own = py.object(tensor), shared = py.object(tensor);
  std::uint64_t record = py.make_list(2, own);
  py.word(record, 32) = 100;  // an array of 800 bytes
  py.word(py.word(record, 24), 8) = shared;
  constexpr double kListAndArray = 40 + 16 + 800;
  auto bytes = [&] {
    PythonReader reader(py.memory, py.python);
    return owned_bytes(reader, record).all;
  };
  py.word(own, 0) = py.word(shared, 0) = 2;
  EXPECT_EQ(bytes(), kListAndArray);
  py.word(own, 0) = 1;
  EXPECT_EQ(bytes(), kListAndArray + 64);
  py.word(shared, 0) = 1;
  EXPECT_EQ(bytes(), kListAndArray + 2 * 64);
  py.word(py.word(record, 24), 8) = own;
  EXPECT_EQ(bytes(), kListAndArray + 64) << "once";
  py.word(own, 0) = 2;
  EXPECT_EQ(bytes(), kListAndArray + 64) << "both references come from what goes with it";
  PythonReader reader(py.memory, py.python);
  EXPECT_EQ(owned_bytes(reader, address_of(&reader)).all, 0) << "no object";
}

TEST(OwnedBytes, of_a_long_list_a_few_elements_stand_for_all) {
  Interpreter py;
  std::uint64_t tensor = py.make_type("Tensor", 64, 0, 0), record = py.make_list(3200, 0);
  for (std::uint64_t i = 0; i < 3200; ++i) py.word(py.word(record, 24), 8 * i) = py.object(tensor, 8);
  py.word(record, 32) = 3200;
  PythonReader reader(py.memory, py.python);
  EXPECT_EQ(owned_bytes(reader, record).all, 40 + 16 + 3200 * (8 + 64));
}

TEST(OwnedBytes, are_small_in_a_pool_whose_blocks_may_be_larger_than_what_stands_in_them) {
  Interpreter py;
  constexpr std::uint64_t kPool = 16384, kBlock = 96;
  auto* at = static_cast<std::byte*>(std::aligned_alloc(kPool, kPool));
  std::memset(at, 0, kPool);
  std::uint64_t pool = address_of(at), object = pool + 48;
  Interpreter::word(pool, 0) = 1;
  Interpreter::word(pool, 32) = (kBlock / 16 - 1) << 32;
  Interpreter::word(pool, 40) = (kPool - kBlock) << 32 | (48 + kBlock);
  Interpreter::word(object, 0) = 1;
  Interpreter::word(object, 8) = py.make_type("Tensor", 84, 0, 0);
  PythonReader reader(py.memory, py.python);
  OwnedBytes owned = owned_bytes(reader, object);
  EXPECT_EQ(owned.all, kBlock);
  EXPECT_EQ(owned.small, kBlock);
  std::free(at);
}

// As malloc() of glibc lays them out.
struct Blocks {
  static constexpr std::uint64_t kData = 8192, kNext = 64;
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(4096);
  std::uint64_t base = (address_of(words.data()) + 15) / 16 * 16;
  std::uint64_t next = base + 16;
  std::uint64_t last = 0;
  /// With room for so many bytes, in use.
  std::uint64_t add(std::uint64_t bytes) {
    std::uint64_t size = (bytes + 8 + 15) / 16 * 16;
    last = next;
    Interpreter::word(last - 8, 0) = size | 1;
    next += size;
    Interpreter::word(next - 8, 0) = kNext | 1;
    return last;
  }
  void free_last() const { Interpreter::word(next - 8, 0) = kNext; }
};

TEST(LivingBlock, has_the_size_that_the_next_one_fits) {
  Interpreter py;
  PythonReader reader(py.memory, py.python);
  Blocks blocks;
  std::uint64_t first = blocks.add(5000), second = blocks.add(3000);
  EXPECT_EQ(living_block(reader.pages(), first), 5000u);
  EXPECT_EQ(living_block(reader.pages(), second), 3000u);
  EXPECT_EQ(living_block(reader.pages(), first + 16), 0u) << "within it";
  EXPECT_EQ(living_block(reader.pages(), first + 8), 0u) << "not aligned";
  EXPECT_EQ(living_block(reader.pages(), 0), 0u);
  EXPECT_EQ(living_block(reader.pages(), std::uint64_t{1} << 46), 0u) << "not in memory";
  blocks.free_last();
  reader.pages().forget();
  EXPECT_EQ(living_block(reader.pages(), first), 5000u);
  EXPECT_EQ(living_block(reader.pages(), second), 0u) << "freed";
}

TEST(OwnedBytes, are_of_data_that_C_code_has_for_an_object) {
  Interpreter py;
  std::uint64_t tensor = py.make_type("Tensor", 64, 0, 0), object = py.object(tensor);
  Blocks blocks;
  std::uint64_t storage = blocks.add(88), data = blocks.add(Blocks::kData + 8);
  py.word(object, 24) = storage;
  py.word(storage, 16) = data;
  auto owned = [&] {
    PythonReader reader(py.memory, py.python);
    return owned_bytes(reader, object);
  };
  EXPECT_EQ(owned().blocks, (std::map<std::uint64_t, double>{{storage, 88}, {data, Blocks::kData + 8}}));
  EXPECT_EQ(owned().all, 64) << "without them";
  blocks.free_last();
  EXPECT_EQ(owned().blocks, (std::map<std::uint64_t, double>{{storage, 88}}));
}

TEST(OwnedBytes, are_not_of_an_array_that_has_the_data_of_another) {
  Interpreter py;
  std::uint64_t array = py.make_type("numpy.ndarray", 80, 0, 0), object = py.object(array, 80);
  Blocks blocks;
  py.word(object, 16) = blocks.add(Blocks::kData);
  auto owned = [&] {
    PythonReader reader(py.memory, py.python);
    return owned_bytes(reader, object).blocks.size();
  };
  py.word(object, 64) = 4;
  EXPECT_EQ(owned(), 1u);
  py.word(object, 64) = 0;
  EXPECT_EQ(owned(), 0u);
}

TEST(PythonHeap, a_list_leads_to_the_block_that_its_elements_stand_in) {
  Interpreter py;
  std::uint64_t kept = py.make_list(8, py.object(py.make_type("Tensor", 64, 0, 0)));
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}}), {{"kept", kept}});
  py.word(kept, 16) = 4;
  PythonHeap heap(py.memory, py.python);
  ASSERT_TRUE(heap.begin());
  py.word(kept, 16) = 8;
  ASSERT_EQ(heap.end()->size(), 1u);
  std::uint64_t items = py.word(kept, 24);
  auto reached =
      heap.reach(0, [&](std::uint64_t at) { return at == items ? std::optional(at) : std::nullopt; });
  EXPECT_EQ(reached.own, items);
  EXPECT_TRUE(reached.blocks.empty());
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

TEST(PythonHeap, a_type_whose_attributes_are_called_by_an_object_of_its_own_ends) {
  Interpreter py;
  std::uint64_t type = py.make_type("Loop", 64, 0, Interpreter::kCollected | 1 << 4), keys = py.memory_of(32);
  std::uint64_t loop = py.memory_of(32) + 64;
  py.word(loop, 0) = 1;
  py.word(loop, 8) = type;
  py.word(keys, 8) = 6 | 6 << 8 | 2 << 16;
  py.word(keys, 24) = 1;
  py.word(keys, 32 + 64) = loop;
  py.word(type, 304) = keys;
  py.run("main", py.make_dict({{"__name__", py.text("__main__")}}), {{"loop", loop}});
  PythonHeap heap(py.memory, py.python);
  EXPECT_TRUE(heap.begin());
}

TEST(PythonHeap, a_dict_of_2_to_the_40_entries_that_are_not_there_takes_no_longer_than_a_walk_may) {
  Interpreter py;
  constexpr std::uint64_t kSize = 40, kPage = 4096;
  std::uint64_t keys = py.memory_of(8), globals = py.object(py.dict);
  py.word(keys, 8) = kSize | kSize << 8 | 1 << 16;
  py.word(keys, 24) = std::uint64_t{1} << kSize;
  py.word(globals, 16) = 1;
  py.word(globals, 32) = keys;
  std::uint64_t first = keys + 32 + (std::uint64_t{1} << kSize), page = first / kPage * kPage;
  void* at = mmap(reinterpret_cast<void*>(page), 2 * kPage, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (address_of(at) != page) GTEST_SKIP() << "something else is mapped there";
  py.word(first, 0) = py.text("__name__");
  py.word(first, 8) = py.text("__main__");
  py.run("main", globals, {});
  PythonHeap heap(py.memory, py.python, {20'000, std::chrono::milliseconds(50)});
  EXPECT_TRUE(heap.begin());
  EXPECT_TRUE(heap.cut());
  munmap(at, 2 * kPage);
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
