#include "blame/python_objects.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "blame/python.h"

namespace oomcast {
namespace {

// Unchanged since 3.8, with the GIL: struct _typeobject in Include/cpython/object.h.
constexpr std::uint64_t kTypeName = 24, kBasicSize = 32, kItemSize = 40, kTypeFlags = 168, kTypeMembers = 240;
constexpr std::uint64_t kTypeBase = 256, kDictOffset = 288, kTypeSize = 296;
constexpr std::uint64_t kInlineValues = 1 << 2, kManagedDict = 1 << 4, kCollected = 1 << 14;
constexpr std::uint64_t kListType = 1 << 25, kTupleType = 1 << 26, kDictType = 1 << 29;
constexpr std::uint64_t kTypeType = std::uint64_t{1} << 31;
constexpr std::uint64_t kCollectorHead = 16, kSize = 16;
constexpr std::string_view kByteArray = "bytearray";
constexpr std::size_t kMaxTypes = 65536, kMaxName = 100, kMaxShared = 64;
constexpr unsigned kMaxBases = 16;

}  // namespace

bool may_be_object(std::uint64_t address) {
  return address >= 4096 && address < kUserAddresses && address % 8 == 0;
}

void PresentPages::forget() {
  std::fill(pieces_.begin(), pieces_.end(), Piece{});
}

void PresentPages::release() {
  pieces_ = {};
  bytes_ = {};
}

bool PresentPages::read(std::uint64_t address, std::span<std::byte> to) {
  if (pieces_.empty()) {
    pieces_.resize(kPieces);
    bytes_.resize(kPieces * kPiece);
  }
  while (!to.empty()) {
    if (address >= kUserAddresses) return false;
    std::uint64_t number = address / kPiece, offset = address % kPiece;
    std::size_t slot = number % kPieces;
    Piece& piece = pieces_[slot];
    if (piece.number != number)
      piece = {number,
               memory_.read_present(number * kPiece, std::span(bytes_).subspan(slot * kPiece, kPiece))};
    std::size_t part = std::min<std::size_t>(to.size(), kPage - offset % kPage);
    if (!(piece.present >> offset / kPage & 1)) return false;
    std::memcpy(to.data(), bytes_.data() + slot * kPiece + offset, part);
    to = to.subspan(part);
    address += part;
  }
  return true;
}

bool PythonReader::Type::holds() const {
  return kind != Kind::weak && (flags & kCollected);
}
bool PythonReader::Type::has_managed_dict() const {
  return (flags & kManagedDict) != 0;
}
bool PythonReader::Type::has_inline_values() const {
  return (flags & kInlineValues) != 0;
}

// Freeing an object overwrites its header. The reference count has 32 bits, and above bit 48 there may be
// flags.
const PythonReader::Type* PythonReader::type_of(std::uint64_t object) {
  if (!may_be_object(object)) return nullptr;
  auto head = pages_.get<std::array<std::uint64_t, 2>>(object);
  if (!head || !static_cast<std::uint32_t>((*head)[0]) || ((*head)[0] >> 32 & 0xffff)) return nullptr;
  return type_at((*head)[1]);
}

const PythonReader::Type* PythonReader::type_at(std::uint64_t address, unsigned depth) {
  auto known = types_.find(address);
  if (known != types_.end()) return known->second.get();
  if (types_.size() >= kMaxTypes) return nullptr;
  types_[address] = nullptr;  // stops recursion through this type
  std::unique_ptr<Type> type;
  if (is_type(address)) type = read_type(address, depth);
  return (types_[address] = std::move(type)).get();
}

// The type of the type of a type is "type", which is its own type.
bool PythonReader::is_type(std::uint64_t address) {
  for (int up = 0; up < 4; ++up) {
    std::uint64_t type = may_be_object(address) ? pages_.word(address + 8) : 0;
    if (type == address) return type != 0;
    address = type;
  }
  return false;
}

std::unique_ptr<PythonReader::Type> PythonReader::read_type(std::uint64_t address, unsigned depth) {
  constexpr std::uint64_t kMaxObject = 1 << 20;
  auto type = std::make_unique<Type>();
  type->name = c_text(pages_.word(address + kTypeName));
  type->size = pages_.word(address + kBasicSize);
  type->item = pages_.word(address + kItemSize);
  type->flags = pages_.word(address + kTypeFlags);
  type->dict = static_cast<std::int64_t>(pages_.word(address + kDictOffset));
  type->members = pages_.word(address + kTypeMembers);
  if (type->name.empty() || type->size < kSize || type->size > kMaxObject || type->item > kMaxObject)
    return nullptr;
  std::uint64_t base = pages_.word(address + kTypeBase);
  type->kind = kind_of(*type, base == address ? 0 : base, depth);
  if (type->has_managed_dict()) type->shared_keys = find_shared_keys(address);
  return type;
}

PythonReader::Kind PythonReader::kind_of(const Type& type, std::uint64_t base, unsigned depth) {
  if (type.flags & kListType) return Kind::list;
  if (type.flags & kTupleType) return Kind::tuple;
  if (type.flags & kDictType) return Kind::dict;
  if (type.flags & kTypeType) return Kind::type;
  static const std::map<std::string_view, Kind> kByName = {
      {"set", Kind::set},
      {"frozenset", Kind::set},
      {"collections.deque", Kind::deque},
      {"module", Kind::module},
      {"function", Kind::function},
      {"cell", Kind::cell},
      {"frame", Kind::frame},
      {"generator", Kind::generator},
      {"coroutine", Kind::generator},
      {"async_generator", Kind::generator},
      {"weakref", Kind::weak},  // up to 3.10
      {"weakref.ReferenceType", Kind::weak},
      {"weakproxy", Kind::weak},
      {"weakref.ProxyType", Kind::weak},
      {"weakcallableproxy", Kind::weak},
      {"weakref.CallableProxyType", Kind::weak},
  };
  auto by_name = kByName.find(type.name);
  if (by_name != kByName.end()) return by_name->second;
  const Type* of = base && depth < kMaxBases ? type_at(base, depth + 1) : nullptr;
  return of ? of->kind : Kind::other;
}

PythonReader::Attributes PythonReader::attributes(std::uint64_t object, const Type& type) {
  Attributes out;
  if (type.has_managed_dict()) {
    std::uint64_t word = pages_.word(object - 24);
    if (python_.version.minor == 11) out.values = pages_.word(object - 32);
    if (python_.version.minor == 12 && (word & 1))
      out.values = word + 1;
    else
      out.dict = word;
    bool is_inline = python_.version.minor >= 13 && type.has_inline_values();
    if (is_inline && !out.dict) out.values = object + type.size + 8;
  } else if (type.dict > 0) {
    out.dict = pages_.word(object + static_cast<std::uint64_t>(type.dict));
  }
  return out;
}

// Somewhere in the heap type's part of the object.
std::uint64_t PythonReader::find_shared_keys(std::uint64_t type) {
  constexpr std::uint64_t kEnd = 1024;
  constexpr std::uint8_t kSplit = 2;
  for (std::uint64_t at = kTypeSize; at < kEnd; at += 8) {
    std::uint64_t keys = pages_.word(type + at);
    auto table = keys_at(keys);
    if (!table || !table->count || pages_.get<std::uint8_t>(keys + 10) != kSplit) continue;
    // By the type's name only: reading that type would lead to its first key, and so on without end.
    std::uint64_t first = pages_.word(table->entries), is = may_be_object(first) ? pages_.word(first + 8) : 0;
    if (is_type(is) && c_text(pages_.word(is + kTypeName)) == "str") return keys;
  }
  return 0;
}

std::uint64_t PythonReader::bytes_of(std::uint64_t object, const Type& type) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 36;
  std::uint64_t bytes = type.size + (type.holds() ? kCollectorHead : 0);
  if (type.kind == Kind::list) bytes += 8 * std::min(pages_.word(object + 32), kMax);
  if (type.name == "int") return bytes + 4;  // since 3.12 other bits share the size field
  // These have items, but no count in the usual place.
  bool counted = type.kind != Kind::frame && type.kind != Kind::generator;
  if (type.item && counted) bytes += type.item * std::min(size(object), kMax);
  if (type.name == "str") bytes += std::min(pages_.word(object + python_.objects.text_length), kMax);
  return std::min(bytes, kMax);
}

std::uint64_t PythonReader::size(std::uint64_t object) {
  return pages_.word(object + kSize);
}

// For a tuple the type has the size without items.
std::uint64_t PythonReader::items(std::uint64_t object, const Type& type) {
  return type.kind == Kind::tuple ? object + type.size : pages_.word(object + kSize + 8);
}

// A deque has many blocks: 0.
std::uint64_t PythonReader::storage(std::uint64_t object, const Type& type) {
  switch (type.kind) {
    case Kind::list:
      return items(object, type);
    case Kind::dict:
      return pages_.word(object + 32);
    case Kind::set:
      return pages_.word(object + 40);
    default:
      return type.name == kByteArray ? pages_.word(object + kSize + 16) : 0;
  }
}

std::uint64_t PythonReader::size_in_pool(std::uint64_t address) {
  // Pool header: used blocks, first free block, links, arena, size class, offset of the next unused block,
  // and the last such offset.
  constexpr std::uint64_t kPools[] = {4096, 16384};  // before 3.10, and since
  constexpr std::uint64_t kHeadOfPool = 48, kStep = 16, kClasses = 32;
  for (std::uint64_t pool_size : kPools) {
    std::uint64_t pool = address / pool_size * pool_size;
    std::uint64_t of_class = pages_.word(pool + 32) >> 32, next = pages_.word(pool + 40);
    std::uint64_t size = (of_class + 1) * kStep, last = next >> 32, used = pages_.word(pool) & UINT32_MAX;
    next &= UINT32_MAX;
    std::uint64_t free = pages_.word(pool + 8);
    if (of_class < kClasses && last == pool_size - size && next >= kHeadOfPool + size &&
        next <= last + size && (next - kHeadOfPool) % size == 0 && used * size <= pool_size - kHeadOfPool &&
        (free == 0 || free / pool_size * pool_size == pool))
      return size;
  }
  return 0;
}

std::uint64_t PythonReader::storage_bytes(std::uint64_t object, const Type& type) {
  constexpr std::uint64_t kAllocated = 32, kMask = 32, kSlot = 16;
  std::uint64_t at = storage(object, type);
  if (!may_be_object(at)) return 0;
  if (type.name == kByteArray) return std::min(pages_.word(object + kSize + 8), kMaxLength);
  if (type.kind == Kind::list) return 8 * std::min(pages_.word(object + kAllocated), kMaxLength);
  if (type.kind == Kind::set)
    return at > object && at < object + type.size
               ? 0
               : kSlot * (std::min(pages_.word(object + kMask), kMaxLength) + 1);
  auto table = type.kind == Kind::dict ? keys_at(at) : std::nullopt;
  if (!table || pages_.word(at) != 1) return 0;
  return table->entries - at + 2 * table->slots / 3 * table->entry_size;
}

std::uint64_t PythonReader::length_at(std::uint64_t object, const Type& type) {
  bool counted = type.kind == Kind::list || type.kind == Kind::deque || type.kind == Kind::dict;
  return counted ? object + kSize : type.kind == Kind::set ? object + kSize + 8 : 0;
}

std::optional<std::uint64_t> PythonReader::length(std::uint64_t object, const Type& type) {
  std::uint64_t at = length_at(object, type);
  auto length = at ? pages_.get<std::uint64_t>(at) : std::nullopt;
  return length && *length < kMaxLength ? length : std::nullopt;
}

// Objects/dictobject.c: the indices are followed by hash, key and value; since 3.11 without hash if all keys
// are strings. A dict with shared keys has its values elsewhere.
std::optional<PythonReader::Keys> PythonReader::keys_at(std::uint64_t keys) {
  if (!may_be_object(keys)) return std::nullopt;
  if (python_.version.minor <= 10) {
    std::uint64_t size = pages_.word(keys + 8);
    if (!size || (size & (size - 1)) || size > kMaxLength) return std::nullopt;
    std::uint64_t index = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
    Keys out{keys + 40 + size * index, 24, pages_.word(keys + 32), size};
    return out.count <= size ? std::optional(out) : std::nullopt;
  }
  auto head = pages_.get<std::array<std::uint8_t, 3>>(keys + 8);  // log2 of its sizes, and its kind
  if (!head) return std::nullopt;
  auto [size, index, kind] = *head;
  if (size > 40 || index > 43 || index < size || kind > 2) return std::nullopt;
  Keys out{keys + 32 + (std::uint64_t{1} << index), kind ? 16u : 24u, pages_.word(keys + 24),
           std::uint64_t{1} << size};
  return out.count <= std::uint64_t{1} << size ? std::optional(out) : std::nullopt;
}

void PythonReader::entries(std::uint64_t dict, std::uint64_t last, std::uint64_t most, const Entry& each) {
  std::uint64_t values = pages_.word(dict + 40);
  auto table = keys_at(pages_.word(dict + 32));
  if (!table || most == 0) return;
  if (values && python_.version.minor >= 13) values += 8;
  std::uint64_t from = table->count > last ? table->count - last : 0;
  std::uint64_t step = std::max<std::uint64_t>(1, (table->count - from) / most);
  for (std::uint64_t i = from, told = 0; i < table->count && told < 2 * most; i += step, ++told) {
    std::uint64_t behind = table->entries + (i + 1) * table->entry_size;
    std::uint64_t key = pages_.word(behind - 16);
    std::uint64_t value = pages_.word(values ? values + 8 * i : behind - 8);
    if (!each(key, key ? value : 0)) return;
  }
}

std::uint64_t PythonReader::first_key(std::uint64_t dict) {
  constexpr int kMaxDeleted = 64;
  std::uint64_t first = 0;
  int met = 0;
  entries(dict, kMaxLength, kMaxLength, [&](std::uint64_t key, std::uint64_t value) {
    first = value ? key : 0;
    return !first && ++met < kMaxDeleted;
  });
  return first;
}

std::vector<std::uint64_t> PythonReader::shared_names(const Type& type) {
  std::vector<std::uint64_t> out;
  auto table = keys_at(type.shared_keys);
  for (std::uint64_t i = 0; table && i < std::min<std::uint64_t>(table->count, kMaxShared); ++i)
    out.push_back(pages_.word(table->entries + i * table->entry_size));
  return out;
}

std::uint64_t PythonReader::name_of_module(std::uint64_t dict) {
  constexpr std::uint64_t kFirst = 16;
  auto table = keys_at(pages_.word(dict + 32));
  if (!table || pages_.word(dict + 40)) return 0;
  for (std::uint64_t i = 0; i < std::min(table->count, kFirst); ++i) {
    std::uint64_t behind = table->entries + (i + 1) * table->entry_size;
    if (is_text(pages_.word(behind - 16), "__name__")) return pages_.word(behind - 8);
  }
  return 0;
}

bool PythonReader::is_text(std::uint64_t object, std::string_view wanted) {
  std::array<char, 16> is{};
  const auto& o = python_.objects;
  auto to = std::as_writable_bytes(std::span(is)).first(std::min(wanted.size(), is.size()));
  return object && pages_.word(object + o.text_length) == wanted.size() &&
         pages_.read(object + o.text_ascii, to) && std::string_view(is.data(), to.size()) == wanted;
}

std::string PythonReader::name(std::uint64_t text) const {
  auto out = text ? python_text(memory_, python_.objects, text) : std::nullopt;
  if (out && out->size() > kMaxName) out->resize(kMaxName);
  return out && !out->empty() ? *out : "?";
}

std::string PythonReader::c_text(std::uint64_t address) {
  std::string out;
  for (auto c = pages_.get<char>(address); c && *c && out.size() < kMaxName; c = pages_.get<char>(++address))
    out += *c;
  return out;
}

}  // namespace oomcast
