// The first stage of reading a log, whatever it is kept in: lines, and texts with what a record says beside
// them, out of JSON, tables, YAML, pages and source code.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "parse/json_scanner.h"
#include "parse/log_record.h"
#include "parse/log_tables.h"
#include "parse/log_yaml.h"

namespace oomcast {

/// Takes what is unwrapped, in its order.
class LogSink {
 public:
  virtual ~LogSink() = default;
  /// A line with nothing around it that this stage knows.
  virtual void plain(std::string_view line, bool cut) = 0;
  virtual void text(std::string_view text, bool cut, const Beside& beside) = 0;
  /// A piece of a line behind its first 64 KiB, of which nothing is read.
  virtual void unread(std::string_view piece) = 0;
};

/// Fed the lines of one file in order. Memory: what JsonScanner, LogTable, LogYaml and 64 levels of records
/// keep, 8 MiB at most and mostly a line, whatever the file's size.
class LogUnwrapper {
 public:
  /// `cut`: its newline was missing, and what comes next is its rest. `relevant`: false if no report is open
  /// and the line can begin none; an object of JSON that is whole in it is then not given.
  void line(std::string_view raw, bool cut, bool relevant, LogSink& to);
  void finish(LogSink& to);
  /// Records of JSON within a line ("[0] kmsg.0: [[1754970843.1, {}], {"msg"=>"…"}]"). False: there are none
  /// with a text, or it may be part of a path.
  static bool inside_line(std::string_view line, LogSink& to);

 private:
  void whole_line(std::string_view raw, bool cut, bool relevant);
  void record_line(std::string_view raw, bool cut, bool relevant);
  bool take_json(std::string_view& line, bool cut);
  bool begin_json(std::string_view line);
  bool json_line(std::string_view raw, bool cut, bool relevant);
  void end_json();
  bool take_pairs(std::string_view line);
  bool take_container(std::string_view line);
  bool take_tagged(std::string_view line);
  bool take_field(std::string_view line);
  void end_fields();
  bool take_escaped(std::string_view line);
  bool take_literal(std::string_view line);
  void end_literal();
  void give_json();
  OnText on_text() const;

  LogSink* to_ = nullptr;  // of the call
  RecordsOfJson records_;  // of json_
  std::optional<JsonScanner> json_;
  LogTable table_;
  LogYaml yaml_;
  LogRecord fields_;           // of a record with a line for each
  std::string literal_;        // strings of source code that follow each other, joined
  unsigned literals_ = 0;      // how many
  std::string first_literal_;  // the line of the first
  unsigned lines_ = 0;         // that are not empty, at the beginning
  bool html_ = false;
  bool goes_on_ = false;  // the line before was cut
};

}  // namespace oomcast
