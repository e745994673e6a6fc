#include "parse/log_wrapping.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/ascii.h"
#include "parse/log_stamps.h"
#include "parse/oom_kill_lines.h"
#include "parse/oom_line_parts.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::array<std::string_view, 9> kSentences = {"Memory cgroup out of memory: Kill",
                                                        "Out of memory: Kill",
                                                        "Out of Memory: Kill",
                                                        "Out of memory (oom_kill_allocating_task): Kill",
                                                        "oom-kill:constraint=",
                                                        "oom-kill: constraint=",
                                                        "Killed process ",
                                                        "OOM killed process ",
                                                        "oom_reaper: reaped process "};

constexpr std::array<std::string_view, 5> kEscapes = {"\\u001b[", "\\x1b[", "\\033[", "#033[", "\\e["};

bool contains(std::string_view text, std::string_view words) {
  return memmem(text.data(), text.size(), words.data(), words.size()) != nullptr;
}

// "[ 123.456789] ", "[Fri Nov 21 03:04:05 2026] "
bool begins_stamp(std::string_view text) {
  if (!take(text, "[")) return false;
  return (take_since_boot(text) || take_ctime(text)) && text.starts_with("] ");
}

// "12:00:52 ", "> [12:00:52.123] "
bool is_time_of_day(std::string_view text) {
  return has_clock(text) && text.find_first_not_of("0123456789:.,[]> ") == npos;
}

// "| 1 | `COMM invoked oom-killer: gfp_mask=…`": the name begins behind the mark, if no name has room for
// what is before it, or a table does.
std::optional<std::string_view> head_inside(std::string_view line) {
  std::size_t at = line.find(" invoked oom-killer: gfp_mask=");
  if (at == npos) return std::nullopt;
  std::size_t mark = line.substr(0, at).find_last_of("`\"");
  if (mark == npos || mark + 1 == at || at - mark - 1 > kMaxComm) return std::nullopt;
  bool quoted = mark == 0 || line.starts_with('|');
  if ((at <= kMaxComm && !quoted) || may_hold_path(line.substr(0, mark))) return std::nullopt;
  std::string_view head = line.substr(mark + 1);
  return head.substr(0, head.find(line[mark]));
}

// The string that begins with `quote`, without what ends it, its escapes undone.
std::string from_literal(std::string_view quote) {
  std::string out;
  char mark = quote.front();
  quote.remove_prefix(1);
  while (!quote.empty() && quote.front() != mark) out += take_unescaped(quote);
  return out;
}

// A look at what most strings are not: a stamp ("[ 1.5] …", "<3>…", "2026-…", "Nov 21 …", "Fri Nov …") or a
// tag.
bool may_begin_log(std::string_view text) {
  constexpr std::size_t kWord = 3;  // of a day's or a month's name
  return (!text.empty() && std::string_view("[<0123456789").find(text[0]) != npos) ||
         (text.size() > kWord && text[kWord] == ' ') || text.starts_with("kern");
}

// Whether what follows `before` stands apart from a person's sentence: in a cell of a table, in quotation
// marks, as code, behind a cut, a console's priority, a time of day or an event's reason.
bool stands_apart(std::string_view before) {
  before = before.substr(0, before.find_last_not_of('*') + 1);  // bold
  if (before.empty()) return true;
  constexpr std::string_view kReason = "OOMKilling ";
  if (before.ends_with("  ") || before.ends_with("... ") || before.ends_with(kReason)) return true;
  if (std::string_view("\t|\"'`").find(before.back()) != npos || before.ends_with("| ")) return true;
  constexpr std::size_t kPriority = 3;  // "<3>"
  std::string_view end = before.substr(before.size() - std::min(before.size(), kPriority));
  if (end.size() == kPriority && end[0] == '<' && end[2] == '>') return true;
  return std::ranges::count(before, '`') % 2 == 1 || is_time_of_day(before);
}

}  // namespace

bool may_hold_path(std::string_view text) {
  for (std::size_t at = text.find('/'); at != npos; at = text.find('/', at + 1)) {
    bool begins = at == 0 || std::string_view(" \"'`=(").find(text[at - 1]) != npos;
    char next = at + 1 < text.size() ? text[at + 1] : '.';
    if (begins && next != ' ' && next != '/') return true;
  }
  return contains(text, "cpuset=");
}

bool may_hold_cgroup(std::string_view front) {
  if (front.starts_with('/')) front.remove_prefix(std::min(front.find(' '), front.size()));
  return may_hold_path(front);
}

bool has_colours(std::string_view line) {
  if (line.find('\x1b') != npos) return true;
  return std::ranges::any_of(kEscapes, [&](std::string_view one) { return line.find(one) != npos; });
}

std::string without_colours(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    std::size_t escape = line.find('\x1b'), size = 1;
    for (std::string_view written : kEscapes)
      if (std::size_t at = line.find(written); at < escape) {
        escape = at;
        size = written.size() - 1;  // the "[" is taken below
      }
    escape = std::min(escape, line.size());
    out += line.substr(0, escape);
    line.remove_prefix(escape);
    if (line.empty()) break;
    line.remove_prefix(size);
    if (!take(line, "[")) continue;
    std::size_t end = std::min(line.find_first_not_of("0123456789;:?"), line.size());
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

std::string_view without_quotation(std::string_view line) {
  // The second: where magazines break lines. The last: of forums, trackers and pages.
  constexpr std::array<std::string_view, 12> kMarks = {"\u2022",  "\u21aa", "\u2502",     "\u2192",
                                                       "\u00bb",  "[code]", "[CODE]",     "[quote]",
                                                       "[QUOTE]", "{code}", "{noformat}", "<pre>"};
  constexpr std::size_t kLongestNumber = 7;
  bool code = false;
  for (std::size_t size = 0; size != line.size();) {
    size = line.size();
    std::size_t end = std::min(line.find_first_not_of(" \t>|#`:+*-"), line.size());
    code = end > 0 ? line[end - 1] == '`' : code;
    line.remove_prefix(end);
    std::size_t digits = line.find_first_not_of("0123456789");
    bool numbered = digits != npos && digits > 0 && digits <= kLongestNumber && line[digits] == '\t';
    if (numbered) line.remove_prefix(digits + 1);  // cat -n
    code = code && !numbered;
    for (std::string_view comment : {"///", "//", "/*"}) code = !take(line, comment) && code;
    for (std::string_view mark : kMarks) code = !take(line, mark) && code;
  }
  return code ? line.substr(0, line.find('`')) : line;
}

std::optional<QuotedPrintable> from_quoted_printable(std::string_view line) {
  QuotedPrintable out;
  if (line.ends_with('=')) {
    out.goes_on = true;
    line.remove_suffix(1);
  }
  constexpr std::size_t kEncoded = 3;  // "=3D"
  while (!line.empty()) {
    std::size_t at = std::min(line.find('='), line.size());
    out.text += line.substr(0, at);
    line.remove_prefix(at);
    if (line.empty()) break;
    unsigned char byte = 0;
    std::string_view digits = line.substr(1, kEncoded - 1);
    auto read = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (digits.size() < kEncoded - 1 || read.ptr != digits.data() + digits.size()) return std::nullopt;
    out.text += static_cast<char>(byte);
    line.remove_prefix(kEncoded);
  }
  return out;
}

bool is_quoted_printable(std::string_view line) {
  if (!contains(line, "=3D")) return false;
  // Longer than a comm, so that no name can bring it about.
  for (std::string_view key : {" invoked oom-killer: gfp_mask=3D", "oom-kill:constraint=3D"})
    if (std::size_t at = line.find(key); at != npos && !may_hold_path(line.substr(0, at))) return true;
  return false;
}

std::optional<std::string> literal_inside(std::string_view line,
                                          const std::function<bool(const std::string&)>& is_log) {
  constexpr std::size_t kFarthest = 160;
  constexpr int kMax = 8;
  const bool several = contains(line, "\\n");
  std::size_t at = line.find_first_of("\"'`");
  for (int n = 0; n < kMax && at < kFarthest; ++n, at = line.find_first_of("\"'`", at + 1)) {
    if (!several && !may_begin_log(line.substr(at + 1))) continue;
    if (may_hold_path(line.substr(0, at))) break;
    std::string literal = from_literal(line.substr(at));
    if (is_log(literal)) return literal;
  }
  return std::nullopt;
}

std::optional<std::string_view> behind_kernel_tag(std::string_view line) {
  constexpr std::string_view kTag = "kernel: ";
  constexpr std::size_t kFarthest = 160;
  std::size_t at = line.substr(0, kFarthest).find(kTag);
  if (at == npos || (at > 0 && std::string_view(" |]\t,;").find(line[at - 1]) == npos)) return std::nullopt;
  if (may_hold_cgroup(line.substr(0, at))) return std::nullopt;
  return line.substr(at + kTag.size());
}

std::optional<std::string_view> behind_prompt(std::string_view line) {
  constexpr std::size_t kFarthest = 80;
  for (std::string_view prompt : {" login: ", " printk messages dropped ** ", "] "}) {
    std::size_t at = line.substr(0, kFarthest).find(prompt);
    std::string_view rest = at == npos ? std::string_view() : line.substr(at + prompt.size());
    if (rest.starts_with('[') && !may_hold_cgroup(line.substr(0, at))) return rest;
  }
  std::string_view reach = line.substr(0, kFarthest);
  for (std::size_t at = reach.find('['); at != npos; at = reach.find('[', at + 1)) {
    std::string_view inside = line.substr(at + 1);
    if (take_since_boot(inside) && inside.starts_with("] ") && !may_hold_cgroup(line.substr(0, at)))
      return line.substr(at);
  }
  return std::nullopt;
}

bool begins_sentence(std::string_view text) {
  return std::ranges::any_of(kSentences, [&](std::string_view one) { return text.starts_with(one); });
}

bool holds_sentence(std::string_view text) {
  return std::ranges::any_of(kSentences, [&](std::string_view one) { return contains(text, one); }) ||
         contains(text, " invoked oom-killer");
}

std::optional<std::string> fenced_lines(std::string_view line) {
  constexpr std::string_view kFence = "```";
  std::size_t at = line.find(kFence);
  if (at == npos || may_hold_path(line.substr(0, at))) return std::nullopt;
  line.remove_prefix(at + kFence.size());
  line = line.substr(0, line.find(kFence));
  std::string out;
  for (std::size_t from = line.find('['); from != npos;) {
    std::size_t next = line.find('[', from + 1);
    while (next != npos && !begins_stamp(line.substr(next))) next = line.find('[', next + 1);
    out += trim(line.substr(from, next == npos ? npos : next - from));
    out += '\n';
    from = next;
  }
  if (out.empty() || !begins_stamp(out)) return std::nullopt;
  return out;
}

// "System OOM encountered, victim process: python3, pid: 4515"
std::optional<std::string> from_kubelet(std::string_view line) {
  constexpr std::string_view kWords = "System OOM encountered, victim process: ", kPid = ", pid: ";
  std::size_t at = line.find(kWords);
  if (at == npos) return std::nullopt;
  line.remove_prefix(at + kWords.size());
  std::size_t end = line.rfind(kPid);
  if (end == npos) return std::nullopt;
  std::string_view digits = line.substr(end + kPid.size());
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  if (digits.empty()) return std::nullopt;
  return "Killed process " + std::string(digits) + " (" + std::string(line.substr(0, end)) + ")";
}

std::optional<std::string_view> sentence_inside(std::string_view line) {
  for (std::string_view sentence : kSentences) {
    std::size_t at = line.find(sentence);
    if (at == npos || at == 0) continue;
    std::string_view before = line.substr(0, at), inside = line.substr(at);
    if (!stands_apart(before) || may_hold_path(before)) continue;
    char quote = before.back();
    if (std::ranges::count(before, '`') % 2 == 1) quote = '`';
    if (quote == '"' || quote == '\'' || quote == '`') inside = inside.substr(0, inside.find(quote));
    return inside;
  }
  return head_inside(line);
}

std::optional<std::string_view> whole_sentence_inside(std::string_view line, bool stamped) {
  auto sentence = whole_sentence_in(line);
  if (!sentence || sentence->at == 0) return std::nullopt;
  std::string_view before = line.substr(0, sentence->at);
  auto is_word = [depth = 0](char c) mutable {
    depth += (c == '[') - (c == ']');
    return depth <= 0 && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
  };
  constexpr std::array<std::string_view, 5> kTitles = {": ", "- ", "| ", "] ", ") "};
  auto ends = [&](std::string_view end) { return before.ends_with(end); };
  bool titled =
      ends("child ") || (sentence->scoped && std::ranges::any_of(kTitles, ends));  // 2.6: "or a child"
  titled = titled && !may_hold_path(before) && before.find_first_of("`'\"") == npos;
  if (stamped ? std::ranges::any_of(before, is_word) : !titled) return std::nullopt;
  return line.substr(sentence->at);
}

bool speaks_of_kill(std::string_view line) {
  std::string lower = to_lower(line);
  // Not "OOM killer": the kernel says that it is disabled and enabled at each suspend.
  for (std::string_view words :
       {"out of memory", "oom-kill", "oomkill", "killed process", "oom killed", "vm: killing process"})
    if (contains(lower, words)) return true;
  return false;
}

}  // namespace oomcast
