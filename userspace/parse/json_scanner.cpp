#include "parse/json_scanner.h"

#include <algorithm>

#include "parse/text.h"
#include "parse/utf16.h"

namespace oomcast {
namespace {

constexpr unsigned kHexDigits = 4;

bool may_be_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("+-._$@").find(c) != npos;
}

}  // namespace

void JsonScanner::begin_object(JsonEvents& to) {
  to_ = &to;
  begin(false);
}

JsonScanner::State JsonScanner::feed(std::string_view& bytes, JsonEvents& to) {
  to_ = &to;
  while (!bytes.empty()) {
    if (!take(bytes)) return State::broken;
    if (levels_.empty()) return State::done;
  }
  return State::goes_on;
}

void JsonScanner::finish(JsonEvents& to) {
  to_ = &to;
  if (quote_) end_string(true);
  if (scalar_) to_->scalar(text_);
  scalar_ = false;
  while (!levels_.empty()) end(levels_.back());
}

// One token, or a part of one.
bool JsonScanner::take(std::string_view& bytes) {
  if (quote_) return take_string(bytes), true;
  if (scalar_) return take_scalar(bytes);
  char c = bytes[0];
  constexpr std::string_view kBetween = " \t\r\n,";
  if (kBetween.find(c) != npos) {
    bytes.remove_prefix(std::min(bytes.find_first_not_of(kBetween), bytes.size()));
    return true;
  }
  if (may_be_scalar(c) && !levels_.empty()) return scalar_ = true, text_.clear(), take_scalar(bytes);
  bytes.remove_prefix(1);
  switch (c) {
    case '{':
    case '[':
      return begin(c == '[');
    case '}':
    case ']':
      return end(c == ']');
    case '"':
    case '\'':
      if (levels_.empty()) return false;
      quote_ = c;
      text_.clear();
      return true;
    case ':':
    case '=':
    case '>':  // of "=>"
      return !levels_.empty() && !levels_.back() && !wants_key_;
    default:
      return false;
  }
}

bool JsonScanner::begin(bool array) {
  if (levels_.size() >= kDeepest || (wants_key_ && !levels_.empty() && !levels_.back())) return false;
  levels_.push_back(array);
  wants_key_ = !array;
  to_->begin(array);
  return true;
}

bool JsonScanner::end(bool array) {
  if (levels_.empty() || levels_.back() != array) return false;
  levels_.pop_back();
  wants_key_ = true;
  to_->end(array);
  return true;
}

void JsonScanner::take_string(std::string_view& bytes) {
  while (!bytes.empty()) {
    if (escape_ || hex_digits_) {
      take_escape(bytes[0]);
      bytes.remove_prefix(1);
      continue;
    }
    std::size_t plain = 0;
    while (plain < bytes.size() && bytes[plain] != quote_ && bytes[plain] != '\\') ++plain;
    std::size_t room = kLongest - std::min(text_.size(), kLongest);
    text_.append(bytes.substr(0, std::min(plain, room)));
    cut_ = cut_ || plain > room;
    bytes.remove_prefix(plain);
    if (bytes.empty()) return;
    char c = bytes[0];
    bytes.remove_prefix(1);
    if (c == quote_) return end_string(cut_);
    escape_ = true;
  }
}

void JsonScanner::take_escape(char c) {
  if (hex_digits_) {
    unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                     : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A') + 10
                                            : 16;
    code_ = code_ * 16 + digit % 16;
    if (--hex_digits_ == 0) append_code_point();
    return;
  }
  escape_ = false;
  if (c == 'u') {
    hex_digits_ = kHexDigits;
    code_ = 0;
    return;
  }
  if (text_.size() >= kLongest) return void(cut_ = true);
  constexpr std::string_view kEscaped = "nrtbf", kMeant = "\n\r\t\b\f";
  std::size_t at = kEscaped.find(c);
  text_ += at == npos ? c : kMeant[at];
}

void JsonScanner::append_code_point() {
  if (text_.size() >= kLongest) return void(cut_ = true);
  constexpr unsigned kHigh = 0xd800, kLow = 0xdc00, kBehind = 0xe000;
  if (code_ >= kHigh && code_ < kLow) {
    surrogate_ = code_;
    return;
  }
  if (code_ >= kLow && code_ < kBehind && surrogate_)
    code_ = 0x10000 + ((surrogate_ - kHigh) << 10) + (code_ - kLow);
  surrogate_ = 0;
  append_utf8(text_, code_);
}

void JsonScanner::end_string(bool cut) {
  quote_ = 0;
  bool is_key = !levels_.empty() && !levels_.back() && wants_key_;
  if (is_key && !cut)
    to_->key(text_);
  else if (!is_key)
    to_->string(text_, cut);
  wants_key_ = !is_key;
  escape_ = cut_ = false;
  hex_digits_ = surrogate_ = 0;
}

bool JsonScanner::take_scalar(std::string_view& bytes) {
  constexpr std::size_t kLongestScalar = 64;
  auto end = std::ranges::find_if_not(bytes, may_be_scalar);
  std::string_view piece = bytes.substr(0, static_cast<std::size_t>(end - bytes.begin()));
  if (text_.size() + piece.size() > kLongestScalar) return false;
  text_ += piece;
  bytes.remove_prefix(piece.size());
  if (bytes.empty()) return true;  // the rest may come
  if (std::string_view(" \t\r\n,:=}]").find(bytes[0]) == npos) return false;
  scalar_ = false;
  bool is_key = !levels_.back() && wants_key_;
  if (is_key)
    to_->key(text_);
  else
    to_->scalar(text_);
  wants_key_ = !is_key;
  return true;
}

}  // namespace oomcast
