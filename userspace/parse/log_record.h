// What a record of a log says: its text, and beside it when, where and by whom it was written. A record is an
// object of JSON, a row of a table, an item of YAML, or the pairs of a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/json_scanner.h"
#include "parse/log_dates.h"
#include "parse/log_lines.h"

namespace oomcast {

/// What a record says of its text. It counts where the text has no prefix of its own that says more.
struct Beside {
  LogPrefix prefix;                 ///< `any`: the record has said something of a log's record
  std::optional<LogDate> yearless;  ///< its time, if that has no year
};
/// A text, of one line or of several.
using OnText = std::function<void(std::string_view text, bool cut, const Beside& beside)>;

class LogRecord {
 public:
  /// `parent`: the member that it is a member of. A text of JSON is taken for the members in it.
  void add(std::string_view parent, std::string_view key, std::string_view value, bool cut = false);
  /// A number, or a word without quotation marks.
  void add_scalar(std::string_view key, std::string_view value);
  /// A value of an array or a row, without a name that says what it is.
  void add_nameless(std::string_view value) { add({}, {}, value); }

  /// Calls `on_text` for its text, or, if no member's name says that it is the text, for each that may be;
  /// and forgets them. A record without a text: no call.
  void give_texts(const OnText& on_text);
  bool has_text() const { return !texts_.empty(); }
  bool has_time() const { return time_.rank < kNoTime; }
  /// It has a text, or its time, under this name.
  bool has_member(std::string_view key) const;
  Beside beside() const;

  /// A record inside of this one, with what this one says beside its text.
  LogRecord inner() const;
  /// Takes over the time of a record inside of this one, if this one has none.
  void take_time_of(const LogRecord& inner);

  /// Whether records have their text under this name.
  static bool is_text_key(std::string_view key);
  static bool is_time_key(std::string_view key);

 private:
  static constexpr int kNoTime = 100;
  struct Text {
    std::size_t rank = 0;
    std::string key, text;
    bool cut = false;
  };
  struct Time {
    int rank = kNoTime;
    LogDate date;
    std::optional<WallStamp> stamp;  // else `date` has no year
    std::optional<Nanos> since_boot;
    std::string key;
  };
  struct Journal {
    std::optional<Nanos> received, received_mono, printed;
    std::optional<std::string> boot_id;
    bool transport = false, kernel = false, other_facility = false;
  };

  bool add_journal(std::string_view key, std::string_view value);
  void add_time(std::string_view key, std::string_view value, bool number);
  void add_writer(std::string_view key, std::string_view value);
  void add_text(std::string_view key, std::string_view value, bool cut);

  std::vector<Text> texts_;
  std::size_t text_bytes_ = 0;
  Time time_;
  Journal journal_;
  std::string host_;
  bool other_writer_ = false;
  bool quoted_ = false;  // not each member is its own: see LogPrefix::shows_writer
};

/// The records of JSON: each object of an array, and each that is alone, with the objects that are in it.
class RecordsOfJson : public JsonEvents {
 public:
  struct Given {
    std::string text;
    bool cut = false;
    Beside beside;
  };
  /// The texts of what has ended since the last call, in their order.
  std::vector<Given> take() { return std::exchange(given_, {}); }

  void begin(bool array) override;
  void end(bool array) override;
  void key(std::string_view name) override;
  void string(std::string_view text, bool cut) override;
  void scalar(std::string_view text) override;

  /// That have been read.
  std::size_t strings() const { return strings_; }

 private:
  struct Level {
    bool array = false;
    bool any = false;     // an array that has had a string
    bool record = false;  // else its members are those of the nearest level above that is one
    LogRecord record_of;
    std::string key, name;             // of the newest member; its own
    std::string bytes;                 // of an array of numbers
    std::optional<std::string> only;   // the string of an array with a text's or a time's name
    std::string pair_key, pair_value;  // of {"key": …, "value": …}
  };
  LogRecord& record();
  void member(std::string_view key, std::string_view value, bool cut, bool number);

  void give(LogRecord& record);

  LogRecord outside_;  // has nothing
  std::vector<Level> levels_;
  std::vector<Given> given_;
  std::size_t strings_ = 0;
};

}  // namespace oomcast
