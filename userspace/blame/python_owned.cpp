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
  static constexpr std::uint64_t kTags = 7;  // 3.14 marks what a frame has borrowed
  static constexpr std::size_t kMaxObjects = 128;
  static constexpr double kMaxWeight = 1 << 20;
  static constexpr std::uint32_t kMaxReferences = 8;
  struct Step {
    std::uint64_t object = 0;
    double weight = 1;
  };

  // A pool says how large the block at `address` is; else it is what the object says.
  void take(std::uint64_t address, std::uint64_t bytes, double weight) {
    std::uint64_t in_pool = reader_.size_in_pool(address);
    sum_.all += weight * static_cast<double>(in_pool ? in_pool : bytes);
    if (in_pool) sum_.small += weight * static_cast<double>(in_pool);
  }

  // Once as many references to it have been met as it has.
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
    if (elsewhere) take(reader_.storage(object, *type), elsewhere, weight);
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
    } else if (type->kind == Kind::other || type->kind == Kind::generator) {
      // Behind a generator stands what its frame has, since 3.11.
      std::uint64_t all = type->kind == Kind::generator ? reader_.size_in_pool(object) : 0;
      for (std::uint64_t at = kHead; at < std::min(std::max(all, type->size), kMaxWalked); at += 8)
        follow(pages_.word(object + at) & ~kTags, weight);
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

  PythonReader& reader_;
  PresentPages& pages_;
  std::vector<Step> steps_;
  std::unordered_map<std::uint64_t, std::uint32_t> met_;  // references
  OwnedBytes sum_;
};

}  // namespace

OwnedBytes owned_bytes(PythonReader& reader, std::uint64_t object) {
  return Owned(reader).of(object);
}

}  // namespace oomcast
