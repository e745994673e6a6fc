#include "parse/log_record.h"

#include <algorithm>
#include <array>
#include <utility>

#include "parse/log_stamps.h"
#include "parse/log_wrapping.h"
#include "parse/text.h"

namespace oomcast {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMaxTexts = 64, kMaxTextBytes = 128 * 1024;
constexpr Nanos kSlowestJournal = seconds(10);

// Names of the member that is the text, the surest first, as plain_key() spells them.
constexpr std::array<std::string_view, 24> kTextKeys = {
    "message",     "msg",           "log",      "line",         "raw",         "syslogmessage",
    "textpayload", "short_message", "text",     "body",         "payload",     "fullmsg",
    "log_line",    "logmessage",    "rawdata",  "content",      "stringvalue", "note",
    "logline",     "eventtext",     "original", "full_message", "description", "value"};
constexpr std::array<std::string_view, 18> kTimeKeys = {"timestamp",
                                                        "time",
                                                        "ts",
                                                        "timeunixnano",
                                                        "eventtime",
                                                        "lasttimestamp",
                                                        "timegenerated",
                                                        "date",
                                                        "datetime",
                                                        "event_time",
                                                        "unixtime",
                                                        "epoch",
                                                        "log_time",
                                                        "timestampmillis",
                                                        "t",
                                                        "utctime",
                                                        "source_realtime_timestamp",
                                                        "nanos"};
// Of a record's way through collectors, not of what happened.
constexpr std::array<std::string_view, 13> kOtherTimes = {"ingest", "receiv", "observed", "index", "creat",
                                                          "first",  "start",  "process",  "end",   "expire",
                                                          "modif",  "updat",  "acknow"};
constexpr std::array<std::string_view, 9> kHostKeys = {
    "hostname", "host", "node", "node_name", "nodename", "computer", "source_host", "loghost", "logsource"};
constexpr std::array<std::string_view, 10> kWriterKeys = {
    "syslog_identifier", "ident",        "program",     "appname", "app_name", "tag",
    "processname",       "process_name", "programname", "app-name"};

std::string plain_key(std::string_view key) {
  key.remove_prefix(std::min(key.find_first_not_of("_@"), key.size()));
  // "jsonPayload.MESSAGE", "host.name" of a table's head: the last word, but for a name of something.
  if (std::size_t dot = key.rfind('.'); dot != npos && dot + 1 < key.size()) {
    std::string_view last = key.substr(dot + 1), before = key.substr(0, dot);
    key = last == "name" ? before : last;
    if (std::size_t again = key.rfind('.'); again != npos) key.remove_prefix(again + 1);
  }
  std::string out(key);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return out;
}

template <std::size_t N>
std::size_t rank_of(const std::array<std::string_view, N>& keys, std::string_view plain) {
  return static_cast<std::size_t>(std::ranges::find(keys, plain) - keys.begin());
}
template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& keys, std::string_view plain) {
  return rank_of(keys, plain) < N;
}

std::optional<Nanos> microseconds_of(std::string_view value) {
  auto number = parse_u64(value);
  if (!number || *number > INT64_MAX / 2000) return std::nullopt;
  return microseconds(static_cast<std::int64_t>(*number));
}

// "kernel", "kernel:", "kern.err", "kmsg.0"
bool is_kernels_name(std::string_view writer) {
  return writer.starts_with("kern") || writer.starts_with("kmsg");
}

bool is_natural(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == npos;
}

// The members of a text that is JSON itself; false: it is none.
bool add_members(LogRecord& to, std::string_view text) {
  text = trim(text);
  if (!text.starts_with('{') || !text.ends_with('}')) return false;
  struct Members : JsonEvents {
    explicit Members(LogRecord& record) : to(record) {}
    void begin(bool array) override { parents.emplace_back(array ? "" : name); }
    void end(bool) override {
      if (!parents.empty()) parents.pop_back();
    }
    void key(std::string_view key) override { name = key; }
    void string(std::string_view value, bool cut) override { to.add(parents.back(), name, value, cut); }
    void scalar(std::string_view value) override { to.add_scalar(name, value); }
    LogRecord& to;
    std::vector<std::string> parents;
    std::string name;
  };
  // First whether it is whole: else its text would be taken twice.
  struct : JsonEvents {
    void begin(bool) override {}
    void end(bool) override {}
    void key(std::string_view) override { any = true; }
    void string(std::string_view, bool) override {}
    void scalar(std::string_view) override {}
    bool any = false;
  } whole;
  std::string_view rest = text;
  bool is = JsonScanner().feed(rest, whole) == JsonScanner::State::done && rest.empty() && whole.any;
  if (!is) return false;
  Members members(to);
  JsonScanner().feed(text, members);
  return true;
}

}  // namespace

bool LogRecord::is_text_key(std::string_view key) {
  return is_one_of(kTextKeys, plain_key(key));
}

bool LogRecord::is_time_key(std::string_view key) {
  return is_one_of(kTimeKeys, plain_key(key));
}

// Only journald sets members that begin with "_".
bool LogRecord::add_journal(std::string_view key, std::string_view value) {
  if (key == "_TRANSPORT" || key == "transport") {
    bool network = key == "transport" && (value == "udp" || value == "tcp" || value == "tls");
    if (network) return true;
    journal_.transport = true;
    journal_.kernel = value == "kernel";
  } else if (key == "SYSLOG_FACILITY") {
    // What user space wrote to /dev/kmsg, journald keeps apart by its facility.
    journal_.other_facility = value != "0" && is_natural(value);
  } else if (key == "_BOOT_ID") {
    journal_.boot_id = value;
  } else if (key == "__REALTIME_TIMESTAMP") {
    journal_.received = microseconds_of(value);
  } else if (key == "__MONOTONIC_TIMESTAMP") {
    journal_.received_mono = microseconds_of(value);
  } else if (key == "_SOURCE_MONOTONIC_TIMESTAMP") {
    journal_.printed = microseconds_of(value);
  } else {
    return false;
  }
  return true;
}

void LogRecord::add_time(std::string_view key, std::string_view value, bool number) {
  std::string plain = plain_key(key);
  bool known = is_one_of(kTimeKeys, plain);
  auto is_in = [&](std::string_view word) { return plain.find(word) != npos; };
  bool like = is_in("time") || is_in("date") || is_in("stamp") || plain.starts_with("ts");
  bool other = !known && std::ranges::any_of(kOtherTimes, is_in);
  Time found;
  found.rank = other ? 6 : known ? 0 : like ? 1 : 3;
  if (auto date = read_date(value)) {
    if (is_in("utc") && !date->zone) date->zone = Nanos{};
    found.date = *date;
    found.stamp = date->stamp();
    if (date->year && !found.stamp) return;
    found.rank += date->zone ? 0 : date->year ? 1 : 2;
  } else if (known || like || other || key.empty()) {
    std::string_view rest = value;
    if (auto epoch = read_epoch(value); epoch && (!key.empty() || value.size() >= 10))
      found.stamp = epoch;
    else if (auto boot = take_since_boot(rest); number && boot && rest.empty() && known)  // dmesg -J
      found.since_boot = boot;
    else
      return;
  } else {
    return;
  }
  found.key = plain;
  if (found.rank < time_.rank) time_ = found;
}

void LogRecord::add_writer(std::string_view plain, std::string_view value) {
  if (is_one_of(kHostKeys, plain) && value.find(' ') == npos && host_.empty()) host_ = value;
  if (is_one_of(kWriterKeys, plain) && !value.empty())
    other_writer_ = other_writer_ || !is_kernels_name(value);
}

void LogRecord::add_text(std::string_view key, std::string_view value, bool cut) {
  std::string plain = plain_key(key);
  std::size_t rank = rank_of(kTextKeys, plain);
  if (texts_.size() >= kMaxTexts || text_bytes_ + value.size() > kMaxTextBytes) {
    // Room for what speaks of a kill.
    if (!speaks_of_kill(value.substr(0, kMaxTextBytes)) || texts_.empty()) return;
    text_bytes_ -= texts_.back().text.size();
    texts_.pop_back();
  }
  while (value.ends_with('\n') || value.ends_with('\r')) value.remove_suffix(1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  text_bytes_ += value.size();
  texts_.push_back({rank, std::move(plain), std::string(value), cut});
}

void LogRecord::add(std::string_view parent, std::string_view key, std::string_view value, bool cut) {
  if (value.empty()) return;
  if (add_journal(key, value)) return;
  std::string plain = plain_key(key);
  add_writer(plain == "name" ? plain_key(parent) : plain, value);
  if (value.find_first_of("0123456789") != npos && value.size() <= 64) {
    int before = time_.rank;
    add_time(key, value, false);
    if (time_.rank < before || read_date(value)) return;
  }
  bool is_text = value.find_first_of(" \n") != npos || is_one_of(kTextKeys, plain) || holds_sentence(value);
  if (!is_text && !value.starts_with('{')) return;
  if (!cut && add_members(*this, value)) {
    quoted_ = true;
    return;
  }
  if (is_text) add_text(key, value, cut);
}

void LogRecord::add_scalar(std::string_view key, std::string_view value) {
  if (!add_journal(key, value)) add_time(key, value, true);
}

bool LogRecord::has_member(std::string_view key) const {
  std::string plain = plain_key(key);
  return (!plain.empty() && time_.key == plain) ||
         std::ranges::find(texts_, plain, &Text::key) != texts_.end();
}

Beside LogRecord::beside() const {
  Beside out;
  LogPrefix& p = out.prefix;
  p.any = true;
  p.wrapped = !journal_.transport;  // of the journal's each record is one of the kernel's
  p.kernel = journal_.transport ? journal_.kernel && !journal_.other_facility : !other_writer_;
  p.shows_writer = !quoted_ && journal_.transport && p.kernel && journal_.boot_id && journal_.received;
  p.boot_id = journal_.boot_id;
  p.since_boot = journal_.printed ? journal_.printed : time_.since_boot;
  if (!host_.empty()) p.host = host_;
  if (journal_.received && (journal_.transport || !time_.stamp)) {
    // journald reads a record soon after it is printed, or, at boot, all that were printed before.
    Nanos late =
        journal_.printed && journal_.received_mono ? *journal_.received_mono - *journal_.printed : Nanos{};
    if (late > kSlowestJournal)
      p.wall = WallStamp{*journal_.received - late, kDriftOfDmesg};
    else
      p.wall = WallStamp{*journal_.received, std::max<Nanos>(late > Nanos{} ? late : -late, milliseconds(1))};
  } else if (time_.stamp) {
    p.wall = *time_.stamp;
    p.wall->error += seconds(1);
  } else if (has_time() && !time_.since_boot) {
    out.yearless = time_.date;
  }
  return out;
}

void LogRecord::give_texts(const OnText& on_text) {
  if (texts_.empty()) return;
  Beside beside = this->beside();
  auto best = std::ranges::min_element(texts_, {}, &Text::rank);
  const std::size_t unknown = kTextKeys.size(), rank = best->rank;
  // One text under two names would be two reports.
  bool alone = rank < unknown && holds_sentence(best->text);
  text_bytes_ = 0;
  for (const Text& text : std::exchange(texts_, {})) {
    bool wanted = text.rank == rank || (!alone && holds_sentence(text.text));
    if (wanted) on_text(text.text, text.cut, beside);
    if (wanted && alone) break;
  }
}

LogRecord LogRecord::inner() const {
  LogRecord out;
  out.time_ = time_;
  out.journal_ = journal_;
  out.host_ = host_;
  out.other_writer_ = other_writer_;
  out.quoted_ = true;
  // A time of its own takes precedence.
  constexpr int kFromAbove = 10;
  if (has_time() && out.time_.rank < kFromAbove) out.time_.rank += kFromAbove;
  return out;
}

void LogRecord::take_time_of(const LogRecord& inner) {
  if (!has_time()) time_ = inner.time_;
}

// ---- JSON

LogRecord& RecordsOfJson::record() {
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
    if (level->record) return level->record_of;
  return outside_;
}

void RecordsOfJson::give(LogRecord& record) {
  record.give_texts([&](std::string_view text, bool cut, const Beside& beside) {
    given_.push_back({std::string(text), cut, beside});
  });
}

void RecordsOfJson::begin(bool array) {
  Level level;
  level.array = array;
  if (!levels_.empty()) level.name = levels_.back().key;
  level.record = array || levels_.empty() || levels_.back().array;
  if (level.record && !levels_.empty()) level.record_of = record().inner();
  levels_.push_back(std::move(level));
}

void RecordsOfJson::end(bool) {
  if (levels_.empty()) return;
  Level level = std::move(levels_.back());
  levels_.pop_back();
  if (!level.bytes.empty() && !levels_.empty())  // journald's, of what is not UTF-8
    return member(level.name, level.bytes, false, false);
  if (level.only && !levels_.empty()) return member(level.name, *level.only, false, false);
  if (!level.record) return;
  // {"key": "host.name", "value": {"stringValue": "a1"}}
  if (!level.pair_key.empty() && !holds_sentence(level.pair_value)) {
    auto of =
        std::find_if(levels_.rbegin(), levels_.rend(), [](const Level& l) { return l.record && !l.array; });
    if (of != levels_.rend()) of->record_of.add({}, level.pair_key, level.pair_value);
    return;
  }
  bool nothing = !level.record_of.has_text();
  give(level.record_of);
  if (nothing && !levels_.empty() && levels_.back().array)
    levels_.back().record_of.take_time_of(level.record_of);
}

void RecordsOfJson::key(std::string_view name) {
  if (levels_.empty()) return;
  levels_.back().key = name.substr(0, 256);
}

void RecordsOfJson::member(std::string_view key, std::string_view value, bool cut, bool number) {
  Level& level = levels_.back();
  // Two of one name: the beginning of the second record was not pasted.
  if (levels_.size() == 1 && level.record_of.has_text() && level.record_of.has_member(key)) {
    give(level.record_of);
    level.record_of = LogRecord();
  }
  if (number)
    record().add_scalar(key, value);
  else
    record().add(level.name, key, value, cut);
}

void RecordsOfJson::string(std::string_view text, bool cut) {
  if (levels_.empty()) return;
  ++strings_;
  Level& level = levels_.back();
  if (level.array) {
    // {"message": ["…"], "appname": ["…"]}: the fields of Elasticsearch, lists of one.
    bool named = LogRecord::is_text_key(level.name) || !holds_sentence(text);
    bool first = named && !level.any && levels_.size() > 1 && !levels_[levels_.size() - 2].array;
    level.any = true;
    if (first) {
      level.only = text;
      return;
    }
    if (auto only = std::exchange(level.only, std::nullopt)) {
      level.record_of.add_nameless(*only);
      give(level.record_of);
    }
    level.record_of.add_nameless(text);
    return give(level.record_of);
  }
  constexpr std::size_t kLongestPair = 256;
  if (level.key == "key" || level.key == "Key") level.pair_key = text.substr(0, kLongestPair);
  bool is_value = level.key == "value" || level.key == "Value" || level.name == "value";
  for (auto at = levels_.rbegin(); is_value && at != levels_.rend(); ++at)
    if (!at->pair_key.empty() || at->record) {
      at->pair_value = text.substr(0, kLongestPair);
      break;
    }
  member(level.key, text, cut, false);
}

void RecordsOfJson::scalar(std::string_view text) {
  if (levels_.empty()) return;
  Level& level = levels_.back();
  constexpr std::size_t kMaxRecordBytes = 64 * 1024;
  if (level.array && is_natural(text) && text.size() <= 3 && level.bytes.size() < kMaxRecordBytes) {
    auto byte = parse_u32(text);
    if (byte && *byte < 256) level.bytes += static_cast<char>(*byte);
    return;
  }
  if (level.array) {
    return level.record_of.add_scalar({}, text);
  }
  member(level.key, text, false, true);
}

}  // namespace oomcast
