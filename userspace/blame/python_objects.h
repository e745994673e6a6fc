// Objects of a CPython as they lie in its memory: what type one says it has, how long it is, what is in it.
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

/// What was read of a process's memory since forget(): only pages that are in memory, in pieces of 16 KiB, of
/// which 8 MiB are held at most, and none behind release().
class PresentPages {
 public:
  explicit PresentPages(const ProcessMemory& memory) : memory_(memory) {}
  void forget();
  void release();
  /// false: some of it cannot be read, or is not in memory.
  bool read(std::uint64_t address, std::span<std::byte> to);
  template <typename T>
  std::optional<T> get(std::uint64_t address) {
    T value;
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  /// 0: it cannot be read.
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

/// An address that an object may have.
bool may_be_object(std::uint64_t address);
constexpr std::uint64_t kUserAddresses = std::uint64_t{1} << 47;

/// Of an interpreter with the global lock: without it objects begin otherwise. Nothing that it reads is
/// trusted: sizes and counts are as the memory has them, for the caller to bound.
class PythonReader {
 public:
  static constexpr std::uint64_t kMaxLength = std::uint64_t{1} << 40;  // more it has not
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
    Kind kind = Kind::other;  // its own, or that of what it is derived from
    std::string name;
    std::uint64_t size = 0, item = 0;  // bytes of an object, and of each of its items
    std::uint64_t flags = 0;
    std::int64_t dict = 0;           // where in an object its dict is; others: see has_managed_dict()
    std::uint64_t members = 0;       // what it has by __slots__, or in C
    std::uint64_t shared_keys = 0;   // names of its instances' attributes; 0: none were found
    bool holds() const;              // other objects, so that they stay
    bool has_managed_dict() const;   // before the object,
    bool has_inline_values() const;  // or, since 3.13, attributes behind it
  };
  // Both must outlive it.
  PythonReader(const ProcessMemory& memory, const Python& python)
      : memory_(memory), python_(python), pages_(memory) {}

  PresentPages& pages() { return pages_; }
  const Python& python() const { return python_; }
  /// nullptr: no object stands there.
  const Type* type_of(std::uint64_t object);
  /// Bytes that it takes itself, without what it refers to.
  std::uint64_t bytes_of(std::uint64_t object, const Type& type);

  /// Of a list or tuple, and where its items stand.
  std::uint64_t size(std::uint64_t object);
  std::uint64_t items(std::uint64_t object, const Type& type);
  /// Of a list, dict, set or deque. nullopt: it is none.
  std::optional<std::uint64_t> length(std::uint64_t object, const Type& type);
  /// Where that stands; 0: it is none.
  static std::uint64_t length_at(std::uint64_t object, const Type& type);
  /// Where a list, dict, set or bytearray has its elements; 0: another one, or it cannot be read.
  std::uint64_t storage(std::uint64_t object, const Type& type);
  /// Bytes of that: 0 where it stands in the object itself, or others share it.
  std::uint64_t storage_bytes(std::uint64_t object, const Type& type);
  /// Bytes of the block that stands at this address in a pool of the interpreter's own, for those of up to
  /// 512 bytes (CPython's Objects/obmalloc.c, 3.8 to 3.15); 0: it is none, or cannot be read.
  std::uint64_t size_in_pool(std::uint64_t address);
  /// Where the attributes of an instance of a class are: a dict, or values in the order of shared_names(); 0:
  /// it has none there.
  struct Attributes {
    std::uint64_t dict = 0, values = 0;
  };
  Attributes attributes(std::uint64_t object, const Type& type);
  /// Calls `each` for up to `most` entries of a dict's last `last`, evenly, until it returns false. 0:
  /// deleted, or not in memory; of these there can be 2^40.
  using Entry = std::function<bool(std::uint64_t key, std::uint64_t value)>;
  void entries(std::uint64_t dict, std::uint64_t last, std::uint64_t most, const Entry& each);
  /// Of a dict; 0: it has none, or many before it were deleted.
  std::uint64_t first_key(std::uint64_t dict);
  /// Names of attributes that a type's instances share, in the order of their values.
  std::vector<std::uint64_t> shared_names(const Type& type);
  /// The value of "__name__", which a module's dict has among the first; 0: it has none.
  std::uint64_t name_of_module(std::uint64_t dict);

  bool is_text(std::uint64_t object, std::string_view wanted);
  /// What a str says, up to 100 bytes; "?": it cannot be read.
  std::string name(std::uint64_t text) const;
  std::string c_text(std::uint64_t address);

 private:
  struct Keys {
    std::uint64_t entries = 0, entry_size = 0, count = 0;
    std::uint64_t slots = 0;  // of which two thirds are used at most
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
  std::unordered_map<std::uint64_t, std::unique_ptr<Type>> types_;  // null: it is none
};

}  // namespace oomcast
