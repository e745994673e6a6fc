#include "blame/python_owned.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace oomcast {
namespace {

class Owned {
 public:
  explicit Owned(PythonReader& reader) : reader_(reader), pages_(reader.pages()) {}

  OwnedBytes of(std::uint64_t object) {
    if (reader_.type_of(object)) steps_.push_back({object, 1});
    for (std::size_t next = 0; next < steps_.size(); ++next) visit(steps_[next]);
    return sum_;
  }

 private:
  using Kind = PythonReader::Kind;
  using Type = PythonReader::Type;
  static constexpr std::uint64_t kHead = 16, kFewElements = 32, kMaxWalked = 512, kSmallest = 16,
                                 kMaxSmall = 512;
  static constexpr std::uint64_t kTags = 7;  // 3.14 marks a frame's borrowed references
  static constexpr std::size_t kMaxObjects = 128;
  static constexpr double kMaxWeight = 1 << 20;
  static constexpr std::uint32_t kMaxReferences = 8;
  static constexpr std::uint64_t kLeastData = 1024;
  static constexpr std::size_t kMaxBlocks = 64;
  static constexpr unsigned kMaxDepth = 3;
  // NumPy's PyArrayObject: without this flag, the array uses another one's data.
  static constexpr std::uint64_t kArrayFlags = 64, kOwnsData = 4;
  struct Step {
    std::uint64_t object = 0;
    double weight = 1;
  };

  // Size from the pool that contains `address`, else from the object.
  void take(std::uint64_t address, std::uint64_t bytes, double weight) {
    std::uint64_t in_pool = reader_.size_in_pool(address);
    sum_.all += weight * static_cast<double>(in_pool ? in_pool : bytes);
    if (in_pool) sum_.small += weight * static_cast<double>(in_pool);
  }

  // Followed once all its references have been found.
  void follow(std::uint64_t object, double weight) {
    if (steps_.size() >= kMaxObjects || !may_be_object(object)) return;
    auto references = pages_.get<std::uint32_t>(object);
    if (!references || *references > kMaxReferences) return;
    if (++met_[object] != *references) return;
    const Type* type = reader_.type_of(object);
    if (type && type->kind != Kind::type && type->kind != Kind::module)
      steps_.push_back({object, std::min(weight, kMaxWeight)});
  }

  void follow_all(std::uint64_t words, std::uint64_t count, double weight) {
    std::uint64_t step = std::max<std::uint64_t>(1, count / kFewElements),
                  followed = (count + step - 1) / step;
    double each =
        weight * static_cast<double>(count) / static_cast<double>(std::max<std::uint64_t>(followed, 1));
    for (std::uint64_t i = 0; i < count && steps_.size() < kMaxObjects; i += step)
      follow(pages_.word(words + 8 * i), each);
  }

  void visit(Step step) {
    auto [object, weight] = step;
    const Type* type = reader_.type_of(object);
    if (!type) return;
    std::uint64_t bytes = reader_.bytes_of(object, *type);
    std::uint64_t elsewhere = reader_.storage_bytes(object, *type);
    if (type->kind == Kind::list) bytes -= std::min(bytes, elsewhere);
    take(object, bytes + (type->has_managed_dict() ? kHead : 0), weight);
    std::uint64_t elsewhere_at = elsewhere ? reader_.storage(object, *type) : 0;
    if (elsewhere) take(elsewhere_at, elsewhere, weight);
    if (type->kind == Kind::list || type->kind == Kind::tuple) {
      follow_all(reader_.items(object, *type), std::min(reader_.size(object), PythonReader::kMaxLength),
                 weight);
    } else if (type->kind == Kind::dict) {
      std::uint64_t length = reader_.length(object, *type).value_or(kFewElements);
      std::uint64_t few = std::min(length, kFewElements);
      double each =
          weight * static_cast<double>(length) / static_cast<double>(std::max<std::uint64_t>(few, 1));
      reader_.entries(object, PythonReader::kMaxLength, kFewElements,
                      [&](std::uint64_t key, std::uint64_t value) {
                        if (value) follow(key, each), follow(value, each);
                        return steps_.size() < kMaxObjects;
                      });
    } else if (type->kind == Kind::cell) {
      follow(pages_.word(object + kHead), weight);
    } else if (type->kind == Kind::other || type->kind == Kind::generator || type->kind == Kind::frame) {
      // A frame is followed by its locals; a generator, since 3.11, by its frame.
      std::uint64_t all = type->kind == Kind::other ? 0 : reader_.size_in_pool(object);
      bool is_view = type->name == "numpy.ndarray" && !(pages_.word(object + kArrayFlags) & kOwnsData);
      for (std::uint64_t at = kHead; at < std::min(std::max(all, type->size), kMaxWalked); at += 8) {
        std::uint64_t word = pages_.word(object + at);
        follow(word & ~kTags, weight);
        if (type->kind == Kind::other && word != elsewhere_at && !is_view) follow_block(word, weight, 1);
      }
    }
    auto attributes = reader_.attributes(object, *type);
    if (attributes.dict) {
      follow(attributes.dict, weight);
    } else if (attributes.values) {
      std::uint64_t count = reader_.shared_names(*type).size();
      if (attributes.values != object + type->size + 8) take(attributes.values, 8 * count + 8, weight);
      follow_all(attributes.values, count, weight);
    }
  }

  // The target of a C object's pointer: data, or a small block that points to data.
  void follow_block(std::uint64_t address, double weight, unsigned depth) {
    if (address % 16 || seen_ >= kMaxBlocks || sum_.blocks.contains(address)) return;
    std::uint64_t bytes = living_block(pages_, address);
    if (!bytes || reader_.type_of(address)) return;
    ++seen_;
    if (bytes >= kLeastData) {
      sum_.blocks[address] = weight * static_cast<double>(bytes) * part_present(address, bytes);
      return;
    }
    if (bytes > kMaxWalked || depth >= kMaxDepth) return;
    sum_.blocks[address] = weight * static_cast<double>(bytes);
    for (std::uint64_t at = 0; at + 8 <= bytes; at += 8)
      follow_block(pages_.word(address + at), weight, depth + 1);
  }

  // Much of a large block may never have been touched.
  double part_present(std::uint64_t address, std::uint64_t bytes) {
    constexpr std::uint64_t kAsked = 4, kSure = 65536;
    if (bytes < kSure) return 1;
    std::uint64_t present = 0;
    for (std::uint64_t i = 0; i < kAsked; ++i)
      present += pages_.get<std::uint8_t>(address + bytes / kAsked * i + bytes / (2 * kAsked)).has_value();
    return static_cast<double>(present) / kAsked;
  }

  PythonReader& reader_;
  PresentPages& pages_;
  std::size_t seen_ = 0;  // blocks
  std::vector<Step> steps_;
  std::unordered_map<std::uint64_t, std::uint32_t> met_;  // references found
  OwnedBytes sum_;
};

}  // namespace

// malloc/malloc.c: 8 bytes before a block is its size with three flags: previous block in use, mmapped, other
// arena. An mmapped block has its offset in the mapping before that; for any other, the next block's flags
// show that it is in use.
std::uint64_t living_block(PresentPages& pages, std::uint64_t address) {
  constexpr std::uint64_t kInUse = 1, kMapped = 2, kFlags = 7, kHeader = 16, kLeast = 32;
  constexpr std::uint64_t kBytesOfPage = 4096;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  if (address % 16 || address < kBytesOfPage || address >= kUserAddresses) return 0;
  std::uint64_t said = pages.word(address - 8), size = said & ~kFlags;
  if (size < kLeast || size > kMost) return 0;
  if (said & kMapped) {
    std::uint64_t before = pages.word(address - kHeader), begin = address - kHeader - before;
    return !(said & kInUse) && before < kBytesOfPage && begin % kBytesOfPage == 0 &&
                   (before + size) % kBytesOfPage == 0
               ? size - kHeader
               : 0;
  }
  if (size % 16) return 0;
  std::uint64_t next = pages.word(address - 8 + size);
  return next & kInUse && !(next & kMapped) && (next & ~kFlags) >= kLeast / 2 && (next & ~kFlags) <= kMost
             ? size - kHeader / 2
             : 0;
}

OwnedBytes owned_bytes(PythonReader& reader, std::uint64_t object) {
  return Owned(reader).of(object);
}

}  // namespace oomcast
