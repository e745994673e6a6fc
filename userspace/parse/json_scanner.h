// JSON as programs print it and people paste it: piece by piece, cut at its end or at its beginning, with the
// quotation marks and arrows of other languages. The library wants a whole value in memory and refuses what
// is cut.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace oomcast {

/// Receives the contents of a value, in order.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void begin(bool array) = 0;
  virtual void end(bool array) = 0;
  virtual void key(std::string_view name) = 0;
  /// `cut`: its end is missing.
  virtual void string(std::string_view text, bool cut) = 0;
  /// A number, true, false or null, as written.
  virtual void scalar(std::string_view text) = 0;
};

/// Fed bytes in pieces of any size. Memory: the string that is being read, at most 64 KiB of it, and two
/// bytes for each level.
class JsonScanner {
 public:
  enum class State : unsigned char {
    goes_on,
    done,    ///< the value has ended; what is left of the piece is not read
    broken,  ///< it is none, or has ended in its middle
  };

  /// As if "{" had been read: of an object whose beginning was not pasted.
  void begin_object(JsonEvents& to);
  /// Takes what belongs to the value off `bytes`.
  State feed(std::string_view& bytes, JsonEvents& to);
  /// End of input: closes what is open.
  void finish(JsonEvents& to);

  bool open() const { return !levels_.empty(); }
  bool in_string() const { return quote_ != 0; }
  /// The string that has begun is none.
  void drop_string() { quote_ = 0, scalar_ = false; }

 private:
  static constexpr std::size_t kDeepest = 64, kLongest = 64 * 1024;

  bool take(std::string_view& bytes);
  bool begin(bool array);
  bool end(bool array);
  void take_string(std::string_view& bytes);
  void take_escape(char c);
  void end_string(bool cut);
  bool take_scalar(std::string_view& bytes);
  void append_code_point();

  JsonEvents* to_ = nullptr;  // of the call
  std::vector<bool> levels_;  // whether each is an array
  std::string text_;          // of the string or scalar that has begun
  char quote_ = 0;            // that the string ends with; 0: in none
  bool cut_ = false;          // more than kLongest of it
  bool escape_ = false;
  bool scalar_ = false;
  bool wants_key_ = false;
  unsigned hex_digits_ = 0, code_ = 0, surrogate_ = 0;
};

}  // namespace oomcast
