// The arguments of a program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace oomcast {

/// Words of any bytes but NUL, never changed and shared by whoever copies them. Kept as one string with a NUL
/// behind each: 2 KiB of argv can be 2,000 empty words, which as strings of their own are 64 KiB. Cost: a
/// copy is a pointer; going through them is one pass over the bytes, and so is operator[].
class Arguments {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;
    Iterator() = default;
    explicit Iterator(std::string_view rest) : rest_(rest) {}
    std::string_view operator*() const { return rest_.substr(0, rest_.find('\0')); }
    Iterator& operator++() {
      rest_.remove_prefix(rest_.find('\0') + 1);
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return rest_.size() == other.rest_.size(); }

   private:
    std::string_view rest_;
  };

  Arguments() = default;
  Arguments(std::initializer_list<std::string> words) : Arguments(std::vector<std::string>(words)) {}
  Arguments(const std::vector<std::string>& words) {
    std::string bytes;
    for (const std::string& word : words) bytes.append(word).push_back('\0');
    hold(std::move(bytes));
  }
  /// As /proc/PID/cmdline and records show them: a last word may lack its NUL.
  static Arguments from_bytes(std::string bytes) {
    if (!bytes.empty() && bytes.back() != '\0') bytes.push_back('\0');
    Arguments out;
    out.hold(std::move(bytes));
    return out;
  }

  /// Keeps the first `most` bytes. Whether there were more.
  bool cut(std::size_t most) {
    if (bytes().size() <= most) return false;
    *this = from_bytes(std::string(bytes().substr(0, most)));
    return true;
  }

  bool empty() const { return !bytes_; }
  std::size_t size() const {
    return static_cast<std::size_t>(std::count(bytes().begin(), bytes().end(), '\0'));
  }
  /// With a NUL behind each word.
  std::string_view bytes() const { return bytes_ ? std::string_view(*bytes_) : std::string_view(); }
  Iterator begin() const { return Iterator(bytes()); }
  Iterator end() const { return Iterator(); }
  std::string_view operator[](std::size_t nr) const {
    return *std::next(begin(), static_cast<std::ptrdiff_t>(nr));
  }
  std::string_view front() const { return *begin(); }
  bool operator==(const Arguments& other) const { return bytes() == other.bytes(); }

 private:
  // Without what the string has in reserve, which may be as much again.
  void hold(std::string bytes) {
    bytes.shrink_to_fit();
    if (!bytes.empty()) bytes_ = std::make_shared<const std::string>(std::move(bytes));
  }

  std::shared_ptr<const std::string> bytes_;
};

}  // namespace oomcast
