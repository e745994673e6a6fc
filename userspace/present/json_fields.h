// JSON of a type whose fields are listed once, by a function template fields(archive, value), for reading and
// writing.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "blame/frame.h"
#include "stream/json_parts.h"

namespace oomcast {

template <typename T, typename U>
concept Like = std::same_as<std::remove_const_t<T>, U>;
template <typename T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
using Names = std::span<const std::string_view>;

/// For users: names as valid UTF-8, null for unknown values, nothing hidden. Between processes: names as raw
/// bytes, all fields, and lists in lines of their own.
class JsonWriter {
 public:
  static constexpr bool kReads = false;
  explicit JsonWriter(const ClockMap* people) : people_(people) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    out[key] = json(value);
  }
  void named(const char* key, const std::string& name) {
    out[key] = name.empty() ? Json(nullptr) : json(name);
  }
  template <typename E>
  void one_of(const char* key, const E& value, Names names) {
    out[key] = names[static_cast<std::size_t>(value)];
  }
  template <typename E>
  void one_of(const char* key, const std::optional<E>& value, Names names) {
    out[key] = value ? Json(names[static_cast<std::size_t>(*value)]) : Json(nullptr);
  }
  template <typename T>
  void if_known(bool known, const char* key, const T& value) {
    out[key] = known || !people_ ? json(value) : Json(nullptr);
  }
  template <typename T>
  void derived(const char* key, const T& value) {
    if (people_) out[key] = json(value);
  }
  template <typename T>
  void hidden(const char* key, const T& value) {
    if (!people_) out[key] = json(value);
  }
  void place(const char* key) { out[key] = nullptr; }
  template <typename T, typename... Context>
  void list(const char* key, bool known, const std::vector<T>& values, const Context&... context) {
    if (!known && people_) return place(key);
    Json& all = out[key] = Json::array();
    if (people_)
      for (const T& value : values) all.push_back(object(value, context...));
  }
  template <typename T, typename... Context>
  Json object(const T& value, const Context&... context) const {
    JsonWriter writer(people_);
    fields(writer, value, context...);
    return std::move(writer.out);
  }

  Json out = Json::object();

 private:
  Json json(const std::string& bytes) const {
    std::string valid = to_valid_utf8(bytes);
    if (people_ || valid == bytes) return valid;
    return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  }
  Json json(bool value) const { return value; }
  Json json(const Number auto& value) const { return value; }
  Json json(Bytes value) const { return value.count; }
  Json json(Seconds value) const { return value.count(); }
  Json json(const std::map<std::string, std::uint64_t>& counts) const { return Json(counts); }
  Json json(const ProcessRef& process) const {
    return people_ ? process_json(process, *people_) : object(process);
  }
  template <typename T>
  Json json(const std::optional<T>& value) const {
    return value ? json(*value) : Json(nullptr);
  }
  template <typename T>
  Json json(const std::vector<T>& values) const {
    Json all = Json::array();
    for (const T& value : values) all.push_back(json(value));
    return all;
  }
  template <typename T>
  Json json(const T& value) const {
    return object(value);
  }

  const ClockMap* people_;
};

/// Reads an untrusted object. A missing or invalid value leaves its field unchanged, and clears `good`.
class JsonReader {
 public:
  static constexpr bool kReads = true;
  JsonReader(const Json& in, bool& good) : in_(in), good_(good) {}

  template <typename T>
  void operator()(const char* key, T& value) {
    auto at = in_.find(key);
    if (require(at != in_.end())) take(*at, value);
  }
  void named(const char* key, std::string& name) {
    if (auto at = in_.find(key); at == in_.end() || !at->is_null()) (*this)(key, name);
  }
  template <typename E>
  void one_of(const char* key, E& value, Names names) {
    std::optional<E> known;
    one_of(key, known, names);
    require(known.has_value());
    value = known.value_or(value);
  }
  template <typename E>
  void one_of(const char* key, std::optional<E>& value, Names names) {
    std::optional<std::string> name;
    (*this)(key, name);
    auto at = std::ranges::find(names, name.value_or(""));
    require(!name || at != names.end());
    if (at != names.end()) value = static_cast<E>(at - names.begin());
  }
  void if_known(bool, const char* key, auto& value) { (*this)(key, value); }
  void derived(const char*, const auto&) {}
  void hidden(const char* key, auto& value) { (*this)(key, value); }
  void place(const char*) {}
  template <typename T, typename... Context>
  void list(const char* key, bool, std::vector<T>& values, const Context&... context) {
    auto at = in_.find(key);
    if (!require(at != in_.end() && at->is_array())) return;
    for (const Json& each : *at)
      if (require(each.is_object())) object(each, values.emplace_back(), context...);
  }
  bool has_list(const char* key) const {
    auto at = in_.find(key);
    return at != in_.end() && at->is_array();
  }
  bool require(bool holds) {
    good_ = good_ && holds;
    return holds;
  }

 private:
  static constexpr std::size_t kMaxFrames = 512;
  template <typename T, typename... Context>
  void object(const Json& in, T& value, const Context&... context) {
    JsonReader reader(in, good_);
    fields(reader, value, context...);
  }
  void take(const Json& in, std::string& bytes) {
    require(in.is_string() || in.is_array());
    if (in.is_string()) bytes = in.get<std::string>();
    if (!in.is_array()) return;
    bytes.clear();
    for (const Json& byte : in) {
      require(byte.is_number_unsigned() && byte.get<std::uint64_t>() <= 0xff);
      bytes.push_back(byte.is_number_unsigned() ? static_cast<char>(byte.get<std::uint64_t>()) : '?');
    }
  }
  void take(const Json& in, bool& value) {
    if (require(in.is_boolean())) value = in.get<bool>();
  }
  void take(const Json& in, std::unsigned_integral auto& value) {
    using T = std::remove_reference_t<decltype(value)>;
    bool fits = in.is_number_unsigned() && in.get<std::uint64_t>() <= std::numeric_limits<T>::max();
    if (require(fits)) value = in.get<T>();
  }
  void take(const Json& in, double& value) {
    double number = in.is_number() ? in.get<double>() : -1;
    bool fits = std::isfinite(number) && number >= 0;
    if (require(fits)) value = number;
  }
  void take(const Json& in, Seconds& value) {
    double count = value.count();
    take(in, count);
    value = Seconds(count);
  }
  void take(const Json& in, Bytes& value) {
    constexpr std::int64_t kMax = std::int64_t{1} << 56;  // so that sums do not overflow
    bool fits = in.is_number_unsigned()  ? in.get<std::uint64_t>() <= std::uint64_t{kMax}
                : in.is_number_integer() ? in.get<std::int64_t>() >= -kMax
                                         : false;
    if (require(fits)) value.count = in.get<std::int64_t>();
  }
  void take(const Json& in, std::map<std::string, std::uint64_t>& counts) {
    if (!require(in.is_object())) return;
    for (const auto& [reason, count] : in.items()) take(count, counts[reason]);
  }
  template <typename T>
  void take(const Json& in, std::optional<T>& value) {
    value.reset();
    if (!in.is_null()) take(in, value.emplace());
  }
  template <typename T>
  void take(const Json& in, std::vector<T>& values) {
    if (!require(in.is_array())) return;
    for (const Json& each : in) take(each, values.emplace_back());
  }
  void take(const Json& in, Stack& stack) {
    require(in.is_array() && in.size() <= kMaxFrames);
    for (std::size_t i = 0; in.is_array() && i < std::min(in.size(), kMaxFrames); ++i)
      if (require(in[i].is_object())) object(in[i], stack.emplace_back());
  }
  template <typename T>
  void take(const Json& in, T& value) {
    if (require(in.is_object())) object(in, value);
  }

  const Json& in_;
  bool& good_;
};

}  // namespace oomcast
