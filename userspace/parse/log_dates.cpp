#include "parse/log_dates.h"

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "parse/text.h"

namespace oomcast {
namespace {

using std::chrono::seconds;

constexpr std::size_t kLongestDate = 64;
constexpr int kOldestYear = 1971, kNewestYear = 2200;

// What their abbreviations begin with, in glibc's locales; a longer one is tried before a shorter.
constexpr std::array<std::string_view, 12> kStems = {"jan|ene|gen|led|sty|tam|oca|ian|янв|січ|Ιαν",
                                                     "feb|fev|fév|úno|lut|hel|şub|фев|лют|Φεβ",
                                                     "mar|mär|már|mrt|bře|maal|мар|бер|Μαρ",
                                                     "apr|avr|abr|ápr|dub|kwi|huh|nis|апр|кві|Απρ",
                                                     "mai|may|maj|mei|mag|máj|kvě|tou|май|мая|тра|Μαΐ|Μάι",
                                                     "jun|juin|jún|giu|čen|čer|cze|kes|haz|iun|июн|чер|Ιουν",
                                                     "jul|juil|júl|lug|čec|črc|lip|hei|tem|iul|июл|лип|Ιουλ",
                                                     "aug|aoû|aou|ago|srp|sie|elo|ağu|авг|сер|Αυγ",
                                                     "sep|set|szep|zář|wrz|syy|eyl|сен|вер|Σεπ",
                                                     "oct|okt|ott|out|říj|paź|lok|eki|окт|жов|Οκτ",
                                                     "nov|lis|kas|marr|ноя|лис|Νοε",
                                                     "dec|dez|déc|dic|des|pro|gru|jou|ara|дек|гру|Δεκ"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80);
}

// What has been met of a date, in its order.
class DateReader {
 public:
  explicit DateReader(std::string_view text) : rest_(text) {}

  std::optional<LogDate> read() {
    while (!rest_.empty())
      if (!take_part()) return std::nullopt;
    if (month_ < 0) month_ = named_;
    if (!clock_ || month_ < 0 || month_ > 11 || day_ < 1 || day_ > 31 || strangers_ > 2) return std::nullopt;
    if (noon_ && (date_.fields.tm_hour < 1 || date_.fields.tm_hour > 12)) return std::nullopt;
    if (noon_) date_.fields.tm_hour = date_.fields.tm_hour % 12 + (*noon_ ? 12 : 0);
    date_.fields.tm_mon = month_;
    date_.fields.tm_mday = day_;
    date_.year = year_ > 0;
    if (date_.year) date_.fields.tm_year = year_ - 1900;
    return date_;
  }

 private:
  bool take_part() {
    char c = rest_[0];
    if (is_digit(c)) return take_number_part();
    if (is_letter(c)) return take_word_part();
    if ((c == '+' || c == '-') && clock_) return take_offset();
    if (std::string_view(" ,.@[]()/-:'").find(c) == npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<int> digits(std::size_t most) {
    std::size_t end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    if (end == 0 || end > most) return std::nullopt;
    return take_number<int>(rest_);
  }

  bool take_number_part() {
    std::string_view before = rest_;
    auto number = digits(4);
    if (!number) return false;
    std::size_t size = before.size() - rest_.size();
    if (rest_.starts_with(':') && size <= 2 && !clock_) return take_clock_of(*number);
    for (std::string_view month : {"月", "월"})
      if (take(rest_, month)) return set(month_, *number - 1);
    for (std::string_view day : {"日", "일"})
      if (take(rest_, day)) return set(day_, *number);
    for (std::string_view year : {"年", "년"})
      if (take(rest_, year)) return set_year(*number);
    if (size == 4) return take_behind_year(*number);
    if (size > 2) return false;
    bool numeric = rest_.size() > 1 && std::string_view("/.-").find(rest_[0]) != npos && is_digit(rest_[1]);
    return numeric && day_ < 0 && month_ < 0 ? take_numeric(*number, rest_[0]) : set(day_, *number);
  }

  // "2025-11-21", "2025/11/21", or a year alone
  bool take_behind_year(int year) {
    if (!set_year(year)) return false;
    if (rest_.size() < 2 || std::string_view("/.-").find(rest_[0]) == npos || !is_digit(rest_[1]))
      return true;
    if (month_ >= 0 || clock_) return true;
    char between = rest_[0];
    rest_.remove_prefix(1);
    auto month = digits(2);
    if (!month || !rest_.starts_with(between)) return false;
    rest_.remove_prefix(1);
    auto day = digits(2);
    if (!day || !set(month_, *month - 1) || !set(day_, *day)) return false;
    if (rest_.starts_with('T') || rest_.starts_with('t')) rest_.remove_prefix(1);
    return true;
  }

  // "11/21/2025", "21.11.2025", "11-21 05:24"
  bool take_numeric(int first, char between) {
    rest_.remove_prefix(1);
    auto second = digits(2);
    if (!second) return false;
    bool day_first = between == '.' || first > 12;
    if (!set(day_, day_first ? first : *second) || !set(month_, (day_first ? *second : first) - 1))
      return false;
    if (!rest_.starts_with(between)) return between != '.';
    rest_.remove_prefix(1);
    auto year = digits(4);
    constexpr int century = 2000;
    return !year || set_year(*year < 100 ? *year + century : *year);
  }

  bool take_clock_of(int hour) {
    auto two_digits = [&](int& out) {
      if (!take(rest_, ":")) return false;
      auto number = digits(2);
      if (number) out = *number;
      return number.has_value();
    };
    date_.fields.tm_hour = hour;
    if (!two_digits(date_.fields.tm_min)) return false;
    if (!two_digits(date_.fields.tm_sec)) return false;
    if (hour > 23 || date_.fields.tm_min > 59 || date_.fields.tm_sec > 60) return false;
    clock_ = true;
    return take_fraction(rest_, date_.fraction);
  }

  bool take_offset() {
    bool west = rest_[0] == '-';
    rest_.remove_prefix(1);
    auto number = digits(4);
    if (!number) return false;
    int minutes = *number > 99 ? *number / 100 * 60 + *number % 100 : *number * 60;
    if (take(rest_, ":")) {
      auto behind = digits(2);
      if (!behind) return false;
      minutes += *behind;
    }
    date_.zone = std::chrono::minutes(west ? -minutes : minutes);
    return true;
  }

  bool take_word_part() {
    auto end = std::ranges::find_if_not(rest_, [](char c) { return is_letter(c); });
    std::string_view word = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(word.size());
    if (word == "T" && !clock_) return true;
    if (clock_ && (word == "Z" || word == "UTC" || word == "GMT")) return date_.zone = Nanos{}, true;
    if (clock_ && (word == "AM" || word == "PM" || word == "am" || word == "pm")) {
      noon_ = word[0] == 'P' || word[0] == 'p';
      return true;
    }
    // A weekday's abbreviation may be a month's ("mar." is Tuesday in French): the last such word before the
    // day's number is the month.
    int month = month_named(word);
    if (month >= 0 && (named_ < 0 || day_ < 0)) named_ = month;
    if (month < 0) ++strangers_;
    constexpr std::size_t kLongestWord = 24;
    return word.size() <= kLongestWord;
  }

  static bool set(int& to, int value) {
    if (to >= 0) return false;
    to = value;
    return true;
  }
  bool set_year(int year) { return year >= kOldestYear && year <= kNewestYear && set(year_, year); }

  std::string_view rest_;
  LogDate date_;
  bool clock_ = false;
  std::optional<bool> noon_;  // whether behind it
  int year_ = -1, month_ = -1, named_ = -1, day_ = -1, strangers_ = 0;
};

}  // namespace

std::optional<WallStamp> LogDate::stamp() const {
  if (!year) return std::nullopt;
  std::tm t = fields;
  t.tm_isdst = -1;
  std::time_t at = zone ? timegm(&t) : std::mktime(&t);
  if (at == -1 || t.tm_mon != fields.tm_mon) return std::nullopt;
  Nanos east = zone ? *zone : Nanos{};
  return WallStamp{seconds(at) - east + fraction.value, fraction.unit};
}

int month_named(std::string_view word) {
  std::string lower = to_lower(word);
  int found = -1;
  std::size_t longest = 0;
  for (std::size_t month = 0; month < kStems.size(); ++month)
    for (std::string_view stems = kStems[month]; !stems.empty();) {
      std::string_view stem = stems.substr(0, stems.find('|'));
      stems.remove_prefix(std::min(stem.size() + 1, stems.size()));
      if (stem.size() <= longest || !(word.starts_with(stem) || lower.starts_with(stem))) continue;
      longest = stem.size();
      found = static_cast<int>(month);
    }
  return found;
}

std::optional<LogDate> read_date(std::string_view text) {
  text = trim(text);
  if (text.size() > kLongestDate || text.find(':') == npos) return std::nullopt;
  return DateReader(text).read();
}

std::optional<WallStamp> read_epoch(std::string_view text) {
  constexpr std::int64_t kMin = 100'000'000, kMax = 7'000'000'000;
  std::string_view rest = text;
  auto whole = take_natural(rest);
  if (!whole) return std::nullopt;
  Nanos unit = seconds(1);
  for (std::int64_t longest = kMax; *whole > longest && unit > Nanos(1); longest *= 1000) unit /= 1000;
  Fraction fraction;
  if (!take_fraction(rest, fraction) || !rest.empty()) return std::nullopt;
  if (unit == Nanos(1) && *whole < kMin * 1'000'000'000) return std::nullopt;
  Nanos at = unit * *whole;
  if (unit == seconds(1)) at += fraction.value;
  if (at < seconds(kMin) || at > seconds(kMax)) return std::nullopt;
  return WallStamp{at, unit == seconds(1) ? fraction.unit : unit};
}

}  // namespace oomcast
