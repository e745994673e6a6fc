// Tables of log lines: CSV, TSV, Markdown's, what databases print.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parse/log_record.h"

namespace oomcast {

/// Fed lines in order. Rows are known by the head above them, or by a time of day in a cell beside a text.
class LogTable {
 public:
  /// Whether the line is a table's: its head, a rule, or a row, whose texts are given then.
  bool take(std::string_view line, const OnText& on_text);
  void finish(const OnText& on_text);
  /// A cell in quotation marks goes on in the next line.
  bool open() const { return !begun_.empty(); }
  /// take() needs every line: a head has been read, or may come, which is so for the first 200 lines.
  bool looks_for_head() const { return heads_tried_ < kHeadsTried || !names_.empty(); }
  /// Whether the line may be a row without a head above it. Cost: a search for two marks in the line.
  static bool may_be_row(std::string_view line);

 private:
  static constexpr unsigned kHeadsTried = 200;

  bool take_head(std::string_view line);
  bool take_named_row(std::string_view line, const OnText& on_text);
  bool take_row(std::string_view line, const OnText& on_text);
  bool give(const std::vector<std::string>& cells, bool named, const OnText& on_text) const;

  std::vector<std::string> names_;
  char between_ = 0;   // cells
  std::string begun_;  // of a row
  unsigned heads_tried_ = 0;
};

}  // namespace oomcast
