// A CPython 3.11 laid into this process, to be read as another's.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "blame/python.h"
#include "collect/process_memory.h"

namespace oomcast {

using Words = std::vector<std::uint64_t>;

inline std::uint64_t address_of(const void* p) {
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
    interpreter = &word(memory_of(32), 0);
    for (int n = 0; n < 3; ++n) link(list_head(n), list_head(n));
    thread = &word(memory_of(16), 0);
    std::uint64_t cframe = memory_of(4);
    head = address_of(interpreter);
    python.layout.interpreters = address_of(&head);
    interpreter[2] = address_of(thread);
    thread[7] = cframe;
    frame = memory_of(64);
    word(cframe, 8) = frame;
  }

  Interpreter(const Interpreter&) = delete;
  ~Interpreter() {
    std::memset(interpreter, 0, 32 * 8);
  }  // so that the next one's lists are not searched for here

  std::uint64_t memory_of(std::size_t words) { return address_of(objects.emplace_back(words).data()); }
  static std::uint64_t& word(std::uint64_t object, std::uint64_t offset) {
    return *reinterpret_cast<std::uint64_t*>(object + offset);
  }
  std::uint64_t make_type(const char* name, std::uint64_t size, std::uint64_t item, std::uint64_t flags) {
    std::uint64_t at = memory_of(160);
    word(at, 0) = 1;
    word(at, 8) = type_type;
    word(at, 24) = address_of(texts.emplace_back(name).c_str());  // a literal's page may not be in memory yet
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
  /// The heads of the collector's lists: the youngest first.
  std::uint64_t list_head(int number) const {
    return address_of(interpreter) + 8 * 20 + 24 * static_cast<std::uint64_t>(number);
  }
  static void link(std::uint64_t at, std::uint64_t next) {
    word(at, 0) = next;
    word(next, 8) = at;
  }
  /// An object that the collector has in this list, as the last.
  std::uint64_t tracked(std::uint64_t type, int number) {
    std::uint64_t at = memory_of(16), end = list_head(number);
    word(at, 16) = 1;
    word(at, 24) = type;
    link(word(end, 8), at);
    link(at, end);
    return at + 16;
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

}  // namespace oomcast
