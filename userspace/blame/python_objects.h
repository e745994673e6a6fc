// Objects of a CPython as they are in memory: type, length and content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "blame/python_layout.h"
#include "collect/process_memory.h"

namespace oomcast {

/// Caches a process's memory until forget(): only resident pages, in chunks of 16 KiB, at most 8 MiB, and
/// nothing after release().
class PresentPages {
 public:
  explicit PresentPages(const ProcessMemory& memory) : memory_(memory) {}
  void forget();
  void release();
  /// false: part of it is unreadable, or not resident.
  bool read(std::uint64_t address, std::span<std::byte> to);
  template <typename T>
  std::optional<T> get(std::uint64_t address) {
    T value;
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  /// 0: unreadable.
  std::uint64_t word(std::uint64_t address) {
    auto value = get<std::uint64_t>(address);
    return value ? *value : 0;
  }

 private:
  static constexpr std::size_t kPage = 4096, kPiece = 4 * kPage, kPieces = 512;
  struct Piece {
    std::uint64_t number = UINT64_MAX;
    std::uint32_t present = 0;
  };
  const ProcessMemory& memory_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> bytes_;
};

/// Whether an object can be at this address.
bool may_be_object(std::uint64_t address);
constexpr std::uint64_t kUserAddresses = std::uint64_t{1} << 47;

/// For an interpreter with the GIL: free-threaded ones have another object header. All input is untrusted:
/// sizes and counts are as read, the caller must bound them.
class PythonReader {
 public:
  static constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 40;  // no real length exceeds it
  enum class Kind {
    other,
    list,
    tuple,
    dict,
    set,
    deque,
    module,
    type,
    function,
    cell,
    frame,
    generator,
    weak
  };
  struct Type {
    Kind kind = Kind::other;  // its own, or that of its base
    std::string name;
    std::uint64_t size = 0, item = 0;  // bytes of an object, and of one item
    std::uint64_t flags = 0;
    std::int64_t dict = 0;           // offset of the dict in an object; else see has_managed_dict()
    std::uint64_t members = 0;       // members by __slots__, or in C
    std::uint64_t shared_keys = 0;   // names of instance attributes; 0: not found
    bool holds() const;              // keeps other objects alive
    bool has_managed_dict() const;   // before the object,
    bool has_inline_values() const;  // or, since 3.13, attributes after it
  };
  // Both must outlive it.
  PythonReader(const ProcessMemory& memory, const Python& python)
      : memory_(memory), python_(python), pages_(memory) {}

  PresentPages& pages() { return pages_; }
  const Python& python() const { return python_; }
  /// nullptr: no object there.
  const Type* type_of(std::uint64_t object);
  /// Its own size in bytes, without what it refers to.
  std::uint64_t bytes_of(std::uint64_t object, const Type& type);

  /// The length of a list or tuple; items(): the address of its items.
  std::uint64_t size(std::uint64_t object);
  std::uint64_t items(std::uint64_t object, const Type& type);
  /// The length of a list, dict, set or deque. nullopt: none of these.
  std::optional<std::uint64_t> length(std::uint64_t object, const Type& type);
  /// The address of that length; 0: none of these.
  static std::uint64_t length_at(std::uint64_t object, const Type& type);
  /// The address of the elements of a list, dict, set or bytearray; 0: another type, or unreadable.
  std::uint64_t storage(std::uint64_t object, const Type& type);
  /// Size of that in bytes: 0 if inside the object, or shared.
  std::uint64_t storage_bytes(std::uint64_t object, const Type& type);
  /// Size of the block at this address in one of the interpreter's pools, for blocks of up to 512 bytes
  /// (CPython's Objects/obmalloc.c, 3.8 to 3.15); 0: not in a pool, or unreadable.
  std::uint64_t size_in_pool(std::uint64_t address);
  /// Where an instance keeps its attributes: a dict, or values in the order of shared_names(); 0: not there.
  struct Attributes {
    std::uint64_t dict = 0, values = 0;
  };
  Attributes attributes(std::uint64_t object, const Type& type);
  /// Calls `each` for up to `most` of a dict's last `last` entries, evenly spaced, until it returns false. 0:
  /// deleted, or not resident; there can be 2^40 of those.
  using Entry = std::function<bool(std::uint64_t key, std::uint64_t value)>;
  void entries(std::uint64_t dict, std::uint64_t last, std::uint64_t most, const Entry& each);
  /// The first key of a dict; 0: empty, or many keys before it were deleted.
  std::uint64_t first_key(std::uint64_t dict);
  /// Names of the attributes that a type's instances share, in the order of the values.
  std::vector<std::uint64_t> shared_names(const Type& type);
  /// The value of "__name__", one of the first keys of a module's dict; 0: missing.
  std::uint64_t name_of_module(std::uint64_t dict);

  bool is_text(std::uint64_t object, std::string_view wanted);
  /// The content of a str, at most 100 bytes; "?": unreadable.
  std::string name(std::uint64_t text) const;
  std::string c_text(std::uint64_t address);

 private:
  struct Keys {
    std::uint64_t entries = 0, entry_size = 0, count = 0;
    std::uint64_t slots = 0;  // at most two thirds are used
  };
  std::optional<Keys> keys_at(std::uint64_t keys);
  const Type* type_at(std::uint64_t address, unsigned depth = 0);
  bool is_type(std::uint64_t address);
  std::unique_ptr<Type> read_type(std::uint64_t address, unsigned depth);
  Kind kind_of(const Type& type, std::uint64_t base, unsigned depth);
  std::uint64_t find_shared_keys(std::uint64_t type);

  const ProcessMemory& memory_;
  const Python& python_;
  PresentPages pages_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Type>> types_;  // null: not a type
};

}  // namespace oomcast
