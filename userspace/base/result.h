// Result<T>: a value, or an Error that says what was attempted. No exceptions cross a layer.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

namespace oomcast {

/// Why something failed. The message names what was attempted and, where a person can act, what to do.
/// `exit_code` is the contract's: 1 failed at run time, 2 wrong usage, 3 the kernel or privileges forbid it.
struct [[nodiscard]] Error {
  std::string message;
  int exit_code = 1;

  static Error failed(std::string what) { return {std::move(what), 1}; }
  static Error usage(std::string what) { return {std::move(what), 2}; }
  static Error forbidden(std::string what) { return {std::move(what), 3}; }
  /// `what` plus the text of `err` (an errno value).
  static Error from_errno(std::string what, int err = errno) {
    return {std::move(what) + ": " + std::strerror(err), 1};
  }
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};
using Status = Result<Ok>;

}  // namespace oomcast
