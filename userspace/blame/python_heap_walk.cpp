#include "blame/python_heap_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace oomcast {
namespace {

constexpr std::uint64_t kTypeDict = 264;  // of a type
constexpr std::size_t kMaxThreads = 256, kMaxFramesOfThread = 512, kMaxLocals = 256, kMaxBody = 512;
constexpr std::size_t kMaxDepth = 24;

}  // namespace

bool PythonHeap::Walk::go_on() {
  cut = cut || allowance.over() || seen.size() >= limits.objects;
  return !cut;
}

std::uint32_t PythonHeap::Walk::note(std::uint64_t address, std::uint32_t parent, Edge edge,
                                     std::uint64_t detail) {
  nodes.push_back({address, detail, parent, edge});
  return static_cast<std::uint32_t>(nodes.size() - 1);
}

void PythonHeap::Walk::add(std::uint64_t address, std::uint32_t parent, Edge edge, std::uint64_t detail) {
  if (!may_be_object(address) || !seen.insert(address).second) return;
  const Type* type = objects.type_of(address);
  if (!type || !type->holds()) return;
  bool later = type->kind == Kind::module || type->kind == Kind::type;
  (later ? far : near).push_back(note(address, parent, edge, detail));
}

bool PythonHeap::Walk::add_globals(std::uint64_t dict) {
  const Type* type = objects.type_of(dict);
  if (!type || type->kind != Kind::dict) return false;
  std::uint64_t name = objects.name_of_module(dict);
  if (!name || !seen.insert(dict).second) return name != 0;
  (objects.is_text(name, "__main__") ? near : far).push_back(note(dict, kNone, Edge::globals, name));
  return true;
}

std::vector<std::uint64_t> PythonHeap::Walk::names_of(std::uint64_t code) {
  std::vector<std::uint64_t> out;
  std::uint64_t at = code + python.objects.code_local_names;
  bool older = python.version.minor <= 10;
  for (std::uint64_t tuple :
       {pages.word(at), older ? pages.word(at + 16) : 0, older ? pages.word(at + 8) : 0}) {
    const Type* type = objects.type_of(tuple);
    if (!type || type->kind != Kind::tuple) continue;
    for (std::uint64_t i = 0; i < objects.size(tuple) && out.size() < kMaxLocals; ++i)
      out.push_back(item(tuple, i));
  }
  return out;
}

std::uint64_t PythonHeap::Walk::item(std::uint64_t tuple, std::uint64_t number) {
  const Type* type = objects.type_of(tuple);
  return type && type->kind == Kind::tuple && number < objects.size(tuple)
             ? pages.word(objects.items(tuple, *type) + 8 * number)
             : 0;
}

void PythonHeap::Walk::add_frame(std::uint64_t frame) {
  std::uint64_t code = pages.word(frame + python.layout.frame_code) & ~std::uint64_t{7};
  const Type* type = objects.type_of(code);
  if (!type || type->name != "code") return;
  std::vector<std::uint64_t> names = names_of(code);
  std::uint64_t locals = frame + python.objects.frame_locals;
  std::uint32_t at = note(code, kNone, Edge::frame, 0);
  constexpr std::size_t kOfStack = 8;
  for (std::size_t i = 0; i < names.size() + kOfStack; ++i) {
    std::uint64_t object = pages.word(locals + 8 * i) & ~std::uint64_t{7};  // 3.14 tags borrowed references
    if (i < names.size()) {
      add(object, at, Edge::local, names[i]);
      continue;
    }
    // Temporaries on the evaluation stack: an awaited coroutine, the list of a comprehension.
    const Type* is = objects.type_of(object);
    if (is && (is->kind == Kind::generator || is->kind == Kind::list)) unnamed.emplace_back(object, at);
  }
}

void PythonHeap::Walk::add_globals_of(std::uint64_t frame) {
  for (std::uint64_t at = frame; at < frame + std::min<std::uint64_t>(python.objects.frame_locals, 72);
       at += 8)
    add_globals(pages.word(at) & ~std::uint64_t{7});
}

bool PythonHeap::Walk::add_threads() {
  const auto& l = python.layout;
  std::vector<std::uint64_t> frames;
  std::unordered_set<std::uint64_t> known;  // a hostile process may create cycles
  std::uint64_t interpreter = pages.word(l.interpreters);
  std::uint64_t thread = interpreter ? pages.word(interpreter + l.interpreter_threads) : 0;
  for (std::size_t n = 0; thread && n < kMaxThreads; ++n, thread = pages.word(thread + l.thread_next)) {
    std::uint64_t frame = pages.word(thread + l.thread_frame);
    if (l.cframe_frame) frame = frame ? pages.word(frame + *l.cframe_frame) : 0;
    std::size_t first = frames.size();
    for (std::size_t depth = 0;
         may_be_object(frame) && depth < kMaxFramesOfThread && known.insert(frame).second; ++depth) {
      frames.push_back(frame);
      frame = pages.word(frame + l.frame_previous);
    }
    std::reverse(frames.begin() + static_cast<std::ptrdiff_t>(first), frames.end());
  }
  for (std::uint64_t frame : frames)
    if (go_on()) add_globals_of(frame);
  for (std::uint64_t frame : frames)
    if (go_on()) add_frame(frame);
  return !nodes.empty();
}

void PythonHeap::Walk::follow_dict(std::uint64_t dict, std::uint32_t at, bool attributes, std::size_t most) {
  objects.entries(dict, kMaxLength, most, [&](std::uint64_t key, std::uint64_t value) {
    add(value, at, attributes ? Edge::attribute : Edge::key, key);
    return go_on();
  });
}

void PythonHeap::Walk::follow_attributes(std::uint64_t object, std::uint32_t at, const Type& type) {
  auto [dict, values] = objects.attributes(object, type);
  if (dict) {
    const Type* is = objects.type_of(dict);
    if (is && is->kind == Kind::dict && seen.insert(dict).second) follow_dict(dict, at, true, kMaxBody);
  } else if (values) {
    std::uint64_t value = values;
    for (std::uint64_t called : objects.shared_names(type)) {
      add(pages.word(value), at, Edge::attribute, called);
      value += 8;
    }
  }
}

void PythonHeap::Walk::follow_body(std::uint64_t object, std::uint32_t at, const Type& type,
                                   std::uint64_t from) {
  std::map<std::uint64_t, std::uint64_t> slots;
  constexpr std::uint64_t kMember = 40, kMemberOffset = 16;
  for (std::uint64_t m = type.members, n = 0; m && n < kFewElements; ++n, m += kMember) {
    std::uint64_t name = pages.word(m);
    if (!name) break;
    slots.emplace(pages.word(m + kMemberOffset), name);
  }
  for (std::uint64_t offset = from; offset < std::min<std::uint64_t>(type.size, kMaxBody); offset += 8) {
    if (type.dict > 0 && offset == static_cast<std::uint64_t>(type.dict)) continue;
    auto slot = slots.find(offset);
    add(pages.word(object + offset), at, slot == slots.end() ? Edge::inside : Edge::slot,
        slot == slots.end() ? 0 : slot->second);
  }
}

void PythonHeap::Walk::follow_function(std::uint64_t function, std::uint32_t at, const Type& type) {
  std::vector<std::uint64_t> names;
  std::uint64_t closure = 0;
  for (std::uint64_t offset = kHead; offset < std::min<std::uint64_t>(type.size, kMaxBody); offset += 8) {
    std::uint64_t word = pages.word(function + offset);
    const Type* is = objects.type_of(word);
    if (!is) continue;
    if (is->name == "code") {
      names = names_of(word);
    } else if (is->kind == Kind::tuple) {
      const Type* first = objects.type_of(item(word, 0));
      if (first && first->kind == Kind::cell)
        closure = word;
      else
        add(word, at, Edge::defaults);
    } else if (is->kind != Kind::dict || !add_globals(word)) {
      add(word, at, Edge::inside);
    }
  }
  std::uint64_t cells = closure ? std::min<std::uint64_t>(objects.size(closure), kFewElements) : 0;
  for (std::uint64_t i = 0; i < cells; ++i)
    add(item(closure, i), at, Edge::closure, names.size() >= cells ? names[names.size() - cells + i] : 0);
}

void PythonHeap::Walk::follow_items(std::uint64_t items, std::uint64_t count, std::uint32_t at, Edge edge) {
  std::uint64_t step = std::max<std::uint64_t>(1, count / kFewElements);
  for (std::uint64_t i = 0; i < count; i += step) add(pages.word(items + 8 * i), at, edge, i);
}

void PythonHeap::Walk::follow(std::uint32_t at) {
  const Node node = nodes[at];
  if (node.edge == Edge::globals) {
    objects.entries(node.address, kMaxLength, kMaxLength, [&](std::uint64_t key, std::uint64_t value) {
      add(value, at, Edge::global, key);
      return go_on();
    });
    return;
  }
  const Type* type = objects.type_of(node.address);
  if (!type) return;
  std::uint64_t o = node.address;
  switch (type->kind) {
    case Kind::module:
      add_globals(pages.word(o + kHead));
      return;
    case Kind::type:
      follow_dict(pages.word(o + kTypeDict), at, true, kMaxBody);
      return;
    case Kind::function:
      return follow_function(o, at, *type);
    case Kind::cell:
      return add(pages.word(o + kHead), at, Edge::content);
    case Kind::frame:
      return add_frame(o);
    case Kind::generator:
      if (python.version.minor >= 11) add_frame(o + type->size - python.objects.frame_locals);
      return follow_body(o, at, *type, kHead);
    case Kind::list:
    case Kind::tuple:
      follow_items(objects.items(o, *type), std::min(objects.size(o), kMaxLength), at, Edge::index);
      break;
    case Kind::dict:
      follow_dict(o, at, false, kFewElements);
      break;
    case Kind::set:
    case Kind::deque:
      added(o, *type, kFewElements, kFewElements,
            [&](std::uint64_t element) { add(element, at, Edge::member); });
      break;
    default:
      break;
  }
  follow_attributes(o, at, *type);
  // Fields of the subclass; those of its base are followed already.
  constexpr std::uint64_t kDictSize = 48, kListSize = 40;
  if (type->kind == Kind::other) follow_body(o, at, *type, kHead);
  if (type->kind == Kind::dict) follow_body(o, at, *type, kDictSize);
  if (type->kind == Kind::list) follow_body(o, at, *type, kListSize);
}

void PythonHeap::Walk::added(std::uint64_t o, const Type& type, std::uint64_t last, std::size_t most,
                             const std::function<void(std::uint64_t)>& each) {
  if (type.kind == Kind::dict) {
    objects.entries(o, last, most, [&](std::uint64_t, std::uint64_t value) {
      if (value) each(value);
      return true;
    });
  } else if (type.kind == Kind::list) {
    std::uint64_t size = std::min(objects.size(o), kMaxLength), items = objects.items(o, type);
    std::uint64_t from = size > last ? size - last : 0;
    std::uint64_t step = std::max<std::uint64_t>(1, (size - from) / most);
    for (std::uint64_t i = from; i < size; i += step) each(pages.word(items + 8 * i));
  } else if (type.kind == Kind::set) {
    std::uint64_t slots = std::min(pages.word(o + 32), kMaxLength) + 1, table = pages.word(o + 40);
    std::uint64_t used = pages.word(o + 24);
    std::uint64_t step = std::max<std::uint64_t>(1, std::min(used, slots) / most);
    for (std::uint64_t i = 0; i < slots && i / step < 8 * most; i += step)
      if (std::uint64_t key = pages.word(table + 16 * i)) each(key);
  } else if (type.kind == Kind::deque) {
    // Blocks of 64 elements between two links; the last one ends at an index.
    constexpr std::uint64_t kBlock = 64;
    std::uint64_t block = pages.word(o + 32), left = std::min<std::uint64_t>({last, most, objects.size(o)});
    std::uint64_t end = std::min(pages.word(o + 48), kBlock - 1) + 1;
    for (; left > 0 && may_be_object(block); block = pages.word(block), end = kBlock)
      for (; end > 0 && left > 0; --left, --end) each(pages.word(block + 8 * end));
  }
}

void PythonHeap::Walk::run() {
  while (go_on()) {
    if (next_near < near.size()) {
      follow(near[next_near++]);
    } else if (!unnamed.empty()) {
      for (auto [object, parent] : std::exchange(unnamed, {})) add(object, parent, Edge::inside);
    } else if (next_far < far.size()) {
      follow(far[next_far++]);
    } else {
      break;
    }
  }
}

std::string PythonHeap::Walk::key(std::uint64_t key) {
  const Type* type = objects.type_of(key);
  if (type && type->name == "str") return fmt::format("['{}']", objects.name(key));
  if (!type || type->name != "int") return fmt::format("[{}]", type ? type->name : "…");
  // Digits of 30 bits; the word before them has their number and the sign.
  std::uint64_t digits = pages.word(key + kHead);
  bool one = python.version.minor >= 12 ? digits >> 3 <= 1 && (digits & 3) != 2 : digits <= 1;
  auto value = pages.get<std::uint32_t>(key + kHead + 8);
  return one && value ? fmt::format("[{}]", digits ? *value : 0) : "[int]";
}

std::uint64_t PythonHeap::Walk::shape(std::uint32_t at) const {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::uint64_t out = 0;
  for (std::size_t depth = 0; at != kNone && depth < kMaxDepth; at = nodes[at].parent, ++depth) {
    const Node& n = nodes[at];
    bool any = is_element(n.edge), begins = n.parent == kNone;
    for (std::uint64_t part : {static_cast<std::uint64_t>(any ? Edge::member : n.edge), any ? 0 : n.detail,
                               begins ? n.address : 0})
      out = (std::rotl(out, 23) ^ part) * kPrime;
  }
  return out;
}

std::uint64_t PythonHeap::Walk::weight(std::uint32_t at) {
  constexpr std::uint64_t kMost = 1 << 20;
  std::uint64_t out = 1;
  for (std::size_t depth = 0; at != kNone && depth < kMaxDepth; at = nodes[at].parent, ++depth) {
    if (!is_element(nodes[at].edge) || nodes[at].parent == kNone) continue;
    std::uint64_t in = nodes[nodes[at].parent].address;
    const Type* type = objects.type_of(in);
    std::uint64_t all = type ? objects.length(in, *type).value_or(1) : 1;
    out = std::min(out * std::max<std::uint64_t>(1, all / kFewElements), kMost);
  }
  return out;
}

std::string PythonHeap::Walk::path(std::uint32_t at, bool any) {
  std::vector<std::string> parts;
  std::string in, all;  // all: the container of all variables in the scope
  for (std::size_t depth = 0; at != kNone && depth < kMaxDepth; at = nodes[at].parent, ++depth) {
    const Node& n = nodes[at];
    switch (any && is_element(n.edge) ? Edge::member : n.edge) {
      case Edge::frame:
        in = " in " + objects.name(pages.word(n.address + python.layout.code_name)) + "()";
        all = "locals()";
        break;
      case Edge::globals:
        in = " in " + objects.name(n.detail);
        all = "globals()";
        break;
      case Edge::local:
      case Edge::global:
        parts.push_back(objects.name(n.detail));
        break;
      case Edge::attribute:
        parts.push_back("." + objects.name(n.detail));
        break;
      case Edge::slot:
        parts.push_back("." + objects.c_text(n.detail));
        break;
      case Edge::key:
        parts.push_back(key(n.detail));
        break;
      case Edge::index:
        parts.push_back(fmt::format("[{}]", n.detail));
        break;
      case Edge::member:
        parts.emplace_back("[…]");
        break;
      case Edge::closure:
        parts.push_back(".__closure__." + objects.name(n.detail));
        break;
      case Edge::defaults:
        parts.emplace_back(".__defaults__");
        break;
      case Edge::inside: {
        const Type* type = objects.type_of(n.address);
        parts.push_back(fmt::format(".<{}>", type ? type->name : "?"));
        break;
      }
      case Edge::content:
        break;
    }
  }
  // A program may modify a module's dict directly.
  std::string out = parts.empty() ? all : "";
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) out += *part;
  return out + (in.empty() ? " in …" : in);
}

}  // namespace oomcast
