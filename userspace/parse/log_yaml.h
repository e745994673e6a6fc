// Lists and mappings of YAML, as kubectl prints and people paste them: as much of it as holds a log's text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parse/log_record.h"

namespace oomcast {

/// Fed lines in order.
class LogYaml {
 public:
  /// Whether the line is YAML's. The text of an item is given when the item has ended; of a block ("|") each
  /// line at once.
  bool take(std::string_view line, const OnText& on_text);
  /// Call at the end of the file, or where something other than YAML begins.
  void finish(const OnText& on_text);
  bool open() const { return !items_.empty(); }
  /// Whether take() needs the line: it begins with a key or a dash.
  static bool may_begin(std::string_view line);

 private:
  struct Item {
    std::size_t indent = 0;
    LogRecord record;
    std::string key;  // the newest of its own level, which has members below it
    std::size_t key_indent = 0;
  };
  struct Scalar {
    std::string key, text;
    std::size_t indent = 0;  // of its key
    char quote = 0;          // 0: none
    bool block = false;      // "|": its lines are given one by one
    bool any = false;
  };

  bool take_scalar(std::string_view line, const OnText& on_text);
  void end_scalar();
  void end_items(std::size_t indent, const OnText& on_text);
  void begin_item(bool dash, std::size_t indent, std::optional<std::size_t> above, const OnText& on_text);
  void begin_value(std::string_view key, std::string_view value, std::size_t indent);

  std::vector<Item> items_;
  Scalar scalar_;
  bool document_ = false;              // "---" was the line before
  std::optional<std::size_t> parent_;  // indent of a key without a value, in the line before
};

}  // namespace oomcast
