#include "parse/oom_kill_lines.h"

#include <algorithm>
#include <array>
#include <utility>

#include "parse/oom_line_parts.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::array<std::pair<std::string_view, OomScopeWord>, 6> kScopes = {{
    {"Memory cgroup out of memory: ", OomScopeWord::memcg},
    {"Out of memory: ", OomScopeWord::machine},
    {"Out of Memory: ", OomScopeWord::machine},  // 2.6
    {"Out of memory (oom_kill_allocating_task): ", OomScopeWord::allocating_task},
    {"No available memory in cpuset: ", OomScopeWord::cpuset},
    {"No available memory (MPOL_BIND): ", OomScopeWord::mempolicy},
}};
constexpr std::string_view kKilled = "Killed process";
constexpr std::array<std::string_view, 2> kKill = {"Kill process", "kill process"};  // the second: 2.6
// What follows the name, where a mail program broke the line.
constexpr std::array<std::string_view, 8> kRests = {
    "total-vm:", "vsz:", "anon-rss:", "file-rss:", "UID", "shmem-rss:", "score ", "or sacrifice child"};

constexpr std::array<std::string_view, 3> kSizes = {" total-vm:", " vsz:", ") score "};

bool begins_rest(std::string_view text) {
  return std::ranges::any_of(kRests, [&](std::string_view rest) { return text.starts_with(rest); });
}

std::optional<OomScopeWord> take_scope(std::string_view& text) {
  for (const auto& [words, scope] : kScopes)
    if (take(text, words)) return scope;
  return std::nullopt;
}

bool take_kill(std::string_view& text) {
  return std::ranges::any_of(kKill, [&](std::string_view words) { return take(text, words); });
}

// Only the first words, where a mail program broke the line: "Memory cgroup out of memory:"
bool is_beginning(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  std::string_view behind = text;
  if (take_scope(behind)) text = behind;
  auto begins = [&](std::string_view words) {
    return !text.empty() && text.size() < words.size() && words.starts_with(text) &&
           words[text.size()] == ' ';
  };
  return text == kKilled || begins(kKilled) || std::ranges::find(kKill, text) != kKill.end() ||
         std::ranges::any_of(kKill, begins) ||
         std::ranges::any_of(kScopes, [&](const auto& scope) { return begins(scope.first); });
}

// " 4515"; 0 where a person took the number out ("Killed process (x)") or made it unreadable ("xxx (x)").
std::optional<std::uint32_t> take_pid(std::string_view& text) {
  if (text.starts_with(" (")) return 0;
  std::string_view rest = text;
  if (!take(rest, " ")) return std::nullopt;
  auto pid = take_number<std::uint32_t>(rest);
  if (!pid && !rest.empty() && std::string_view("xXnN#*").find(rest[0]) != npos) {
    constexpr std::size_t kShortest = 3;  // "N" is what manuals write
    std::size_t same = std::min(rest.find_first_not_of(rest[0]), rest.size());
    rest.remove_prefix(same);
    if (same >= kShortest && rest.starts_with(" (")) pid = 0;
  }
  if (pid) text = rest;
  return pid;
}

// " N (COMM" up to the ')' that ends `text`.
struct NamedTask {
  std::uint32_t tid = 0;
  std::string comm;
};
std::optional<NamedTask> parse_named_task(std::string_view text) {
  auto tid = take_pid(text);
  if (!tid || !take(text, " (") || !take_end(text, ")")) return std::nullopt;
  // A form to be filled in: "**** (****)".
  if (!*tid && text.find_first_not_of("*xXN#.") == npos) return std::nullopt;
  return NamedTask{*tid, std::string(text)};
}

// Takes " (COMM)" where its end is the only ')' that the longest name leaves room for.
std::optional<std::string_view> take_sure_name(std::string_view& text) {
  if (!text.starts_with(" (")) return std::nullopt;
  std::string_view reach = text.substr(2, kMaxComm + 1);
  std::size_t end = reach.find(')');
  bool escaped = reach.find_first_of("\\#") != npos;  // and so longer than the name
  if (reach.size() <= kMaxComm || escaped || end == npos || reach.find(')', end + 1) != npos)
    return std::nullopt;
  text.remove_prefix(2 + end + 1);
  return reach.substr(0, end);
}

// Where " score 9" begins, if that is how `text` ends.
std::size_t end_of_scored_name(std::string_view text) {
  constexpr std::string_view key = ") score ";
  std::size_t at = text.rfind(key);
  if (at == npos || !whole_number<std::uint32_t>(text.substr(at + key.size()))) return text.size();
  return at + 1;
}

// One "key:value" of a victim's or the reaper's line.
void read_size(std::string_view word, OomVictimLine& out) {
  std::size_t colon = word.find(':');
  if (colon == npos) return;
  std::string_view key = word.substr(0, colon), value = word.substr(colon + 1);
  if (value.ends_with(',')) value.remove_suffix(1);
  // Bold, code, or the end of a person's sentence: a unit ends the number, so that none is cut.
  std::string_view bare = value.substr(0, value.find_last_not_of("*`'\".;)") + 1);
  if (bare.ends_with("kB")) value = bare;
  key.remove_prefix(std::min(key.find_first_not_of("*`("), key.size()));
  if (key == "total-vm" || key == "vsz") out.total_vm = whole_kb(value);  // vsz: 2.6
  if (key == "anon-rss") out.anon_rss = whole_kb(value);
  if (key == "file-rss") out.file_rss = whole_kb(value);
  if (key == "shmem-rss") out.shmem_rss = whole_kb(value);
  if (key == "UID") out.uid = whole_uid(value);
  if (key == "pgtables" && take_end(value, "kB")) out.pgtables_printed = whole_number<std::uint64_t>(value);
  if (key == "oom_score_adj") out.oom_score_adj = whole_number<int>(value);
}

// What stands between the number and " total-vm:": " (COMM)", " (COMM), UID N," (EL7) or ", UID N, (COMM)"
// (EL6).
void read_victim_name(std::string_view text, OomVictimLine& out) {
  constexpr std::string_view uid_key = ", UID ";
  if (take_end(text, ",")) {
    std::size_t at = text.rfind(uid_key);
    if (at != npos) out.uid = whole_uid(text.substr(at + uid_key.size()));
    text = text.substr(0, at);
  }
  if (take(text, uid_key)) {
    out.uid = take_number<std::uint32_t>(text);
    take(text, ",");
  }
  text = text.substr(0, text.find_last_not_of(' ') + 1);  // a line that was broken and put together
  if (take(text, " (") && take_end(text, ")")) out.comm = text;
}

// Whether the name, which may imitate what follows it, may end behind `sizes`: there, as far as the line
// goes, the kernel's own key may begin.
bool name_may_go_on(std::string_view text, std::size_t sizes) {
  constexpr std::string_view key = ") total-vm:";
  std::size_t name = text.find('(');
  if (name == npos) return true;
  for (std::size_t end = sizes; end <= name + 1 + kMaxComm; ++end) {
    std::string_view rest = text.substr(std::min(end, text.size()));
    if (rest.substr(0, key.size()) == key.substr(0, std::min(rest.size(), key.size()))) return true;
  }
  return false;
}

// "Out of memory in UB 101: OOM killed process 659 (java) score 0 vm:928kB, rss:511kB, swap:7kB". Its rss is
// anon and file pages in one; that the limit is a container's it does not say.
std::optional<ParsedLine> parse_openvz(std::string_view text) {
  if (take(text, "Out of memory in UB ")) {
    constexpr std::size_t kLongest = 12;  // of a number, or of what a person put for it
    std::size_t end = text.substr(0, kLongest).find(": ");
    text.remove_prefix(end == npos ? text.size() : end + 2);
  }
  if (!take(text, "OOM killed process")) return std::nullopt;
  constexpr std::string_view key = " vm:";
  // The kernel's own sizes behind a person's words.
  if (text.find(key) == npos && text.find(" total-vm:") != npos)
    return parse_victim(std::string(kKilled).append(text), false);
  OomVictimLine out;
  std::size_t sizes = std::min(text.rfind(key), text.size());
  std::string_view named = text.substr(0, sizes);
  named = named.substr(0, end_of_scored_name(named));
  auto task = parse_named_task(named);
  if (!task || !task->tid) return begun();
  out.tid = task->tid;
  out.comm = std::move(task->comm);
  text.remove_prefix(sizes);
  std::string_view word = take_word(text);
  if (take(word, key.substr(1))) out.total_vm = whole_kb(word.substr(0, word.find(',')));
  return ParsedLine{std::move(out)};
}

}  // namespace

std::optional<ParsedLine> parse_victim(std::string_view text, bool cut) {
  if (is_beginning(text)) return begun();
  if (auto line = parse_openvz(text)) return line;
  OomVictimLine out;
  out.scope = take_scope(text);
  if (!take(text, kKilled) || !text.starts_with(' ')) return std::nullopt;
  auto tid = take_pid(text);
  bool nameless = text.starts_with(" total-vm:");  // a person left it out
  if (!tid || !(nameless || text.starts_with(" (") || text.starts_with(", UID "))) return begun();
  out.tid = *tid;
  // A comm has no room for both keys, so a place that has the second behind it is the kernel's.
  std::size_t sizes = std::min(text.rfind(" total-vm:"), text.rfind(" vsz:"));
  // Of one that is cut off all that is whole counts, unless the name may have gone on.
  bool joined =
      sizes != npos && text.find(",anon-rss:", sizes) != npos;  // of strings whose spaces were left out
  bool certain = sizes != npos &&
                 (joined || text.find(", anon-rss:", sizes) != npos || (cut && !name_may_go_on(text, sizes)));
  if (certain) {
    read_victim_name(text.substr(0, sizes), out);
    text.remove_prefix(sizes);
  } else if (auto name = take_sure_name(text)) {
    out.comm = *name;
  } else if (!nameless) {
    text = {};
  }
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  // Without a number and sizes it is hearsay.
  if (!out.tid && !begins_rest(text)) return begun();
  while (!text.empty()) {
    std::string_view word = take_word(text);
    for (std::size_t comma; (comma = word.find(',')) < word.size() - 1; word.remove_prefix(comma + 1))
      read_size(word.substr(0, comma), out);
    read_size(word, out);
  }
  out.pgtables = pgtables_of(out, std::nullopt);
  bool complete = out.file_rss.has_value();
  return ParsedLine{std::move(out), complete};
}

std::optional<ParsedLine> parse_reaped(std::string_view text) {
  if (!take(text, "oom_reaper: reaped process")) return std::nullopt;
  constexpr std::string_view key = ", now anon-rss:";
  std::size_t at = text.rfind(key);
  auto task = at == npos ? std::nullopt : parse_named_task(text.substr(0, at));
  if (!task || !task->tid) return begun();
  OomVictimLine sizes;
  std::string_view words = text.substr(at + std::string_view(", now ").size());
  while (!words.empty()) read_size(take_word(words), sizes);
  bool complete = sizes.file_rss.has_value();
  return ParsedLine{
      OomReaped{task->tid, std::move(task->comm), sizes.anon_rss, sizes.file_rss, sizes.shmem_rss}, complete};
}

std::optional<ParsedLine> parse_kill_announcement(std::string_view text) {
  auto scope = take_scope(text);
  if (!take_kill(text) || !text.starts_with(' ')) return std::nullopt;
  if (!scope && take_end(text, " sharing same memory")) {
    auto task = parse_named_task(text);
    if (!task) return std::nullopt;
    return ParsedLine{OomSharesMemory{task->tid, std::move(task->comm)}};
  }
  // A comm has no room for the end, so the last one is the kernel's; what was pasted behind it is not.
  std::size_t end = text.rfind(" or sacrifice child");
  if (end == npos && text.ends_with(" or a child")) end = text.rfind(" or a child");
  text = text.substr(0, end == npos ? 0 : end);
  constexpr std::string_view key = " score ";
  std::size_t at = text.rfind(key);
  auto task = at == npos ? std::nullopt : parse_named_task(text.substr(0, at));
  if (!task || (!task->tid && !scope)) return begun();
  auto score = whole_number<std::uint32_t>(text.substr(at + key.size()));
  return ParsedLine{OomChosen{scope, task->tid, std::move(task->comm), score}};
}

std::optional<Bytes> pgtables_of(const OomVictimLine& victim, std::optional<Bytes> row) {
  auto as_kb = from_kb(victim.pgtables_printed);
  if (!as_kb) return std::nullopt;
  auto printed = static_cast<std::int64_t>(*victim.pgtables_printed);
  if (row && row->count / 1024 == printed) return *row;
  if (row && row->count == printed) return *row;
  constexpr std::int64_t smallest_page = 4096, bytes_per_table_byte = 512;
  if (printed % smallest_page != 0) return as_kb;
  if (!victim.total_vm || !victim.anon_rss || !victim.file_rss) return std::nullopt;
  Bytes resident = *victim.anon_rss + *victim.file_rss;
  if (victim.shmem_rss) resident += *victim.shmem_rss;
  if (printed == 0 || printed < resident.count / bytes_per_table_byte) return as_kb;
  if (*as_kb > *victim.total_vm) return Bytes{printed};
  return std::nullopt;
}

std::optional<LogEvent> parse_shortened(std::string_view text) {
  if (std::size_t at = text.substr(0, kMaxComm + kInvoked.size()).find(kInvoked); at != npos && at > 0) {
    std::string_view rest = text.substr(at + kInvoked.size());
    OomInvoked invoked;
    invoked.trigger_comm = text.substr(0, at);
    constexpr std::string_view kAdj = "oom_score_adj=";
    if (std::size_t adj = rest.find(kAdj); adj != npos && rest.starts_with(kElided))
      invoked.oom_score_adj = whole_number<int>(rest.substr(adj + kAdj.size()));
    if (rest.empty() || rest == ":" || rest.starts_with(kElided)) return invoked;
  }
  auto scope = take_scope(text);
  bool reaped = !scope && take(text, "oom_reaper: reaped process"), killed = !reaped && take(text, kKilled);
  if (!reaped && !killed && !take_kill(text)) return std::nullopt;
  text = text.substr(0, text.find_last_not_of(" .") + 1);  // 2.6 ends it so; "...": who shortened it
  if (!reaped && !killed) text = text.substr(0, end_of_scored_name(text));
  std::string_view behind = text;
  bool more = take_pid(behind) && take_sure_name(behind) && !behind.empty();
  auto task = more ? std::nullopt : parse_named_task(text);
  constexpr std::size_t longest = 4 * kMaxComm;  // of a log that escapes each byte
  if (!task || task->comm.size() > longest || (!task->tid && !scope)) return std::nullopt;
  if (reaped) return OomReaped{task->tid, std::move(task->comm), {}, {}, {}};
  if (!killed) return OomChosen{scope, task->tid, std::move(task->comm), {}};
  OomVictimLine out;
  out.scope = scope;
  out.tid = task->tid;
  out.comm = std::move(task->comm);
  return out;
}

bool continues_kill(std::string_view begun, std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (is_beginning(begun)) {
    std::string joined = std::string(begun.substr(0, begun.find_last_not_of(' ') + 1)) + ' ';
    joined += text;
    return parse_victim(joined, false) || parse_kill_announcement(joined);
  }
  (void)take_scope(begun);
  if (!take(begun, kKilled) && !take_kill(begun)) return false;
  if (begun.find('(') == npos) return text.starts_with('(');
  if (begins_rest(text)) return true;
  std::size_t end = text.substr(0, kMaxComm + 1).find(')');  // of a name with a space in it
  return end != npos && (begun.find(')') == npos || text.substr(end + 1).starts_with(" total-vm:"));
}

std::optional<WholeSentence> whole_sentence_in(std::string_view text) {
  std::optional<WholeSentence> first;
  for (std::string_view words : {kKilled, kKill[0], kKill[1]})
    for (std::size_t at = text.find(words); at != npos && (!first || at < first->at);
         at = text.find(words, at + 1)) {
      std::string_view rest = text.substr(at + words.size()), before = text.substr(0, at);
      auto pid = take_pid(rest);
      if (!pid || *pid == 0 || !(rest.starts_with(" (") || rest.starts_with(", UID "))) continue;
      bool scoped = false;
      for (const auto& scope : kScopes) scoped = take_end(before, scope.first) || scoped;
      bool sized = std::ranges::any_of(kSizes, [&](std::string_view key) { return rest.find(key) != npos; });
      if (scoped || sized) first = {before.size(), scoped};
    }
  return first;
}

std::string_view take_kill_sentence(std::string_view& text) {
  std::string_view behind = text;
  (void)take_scope(behind);
  if (!take(behind, kKilled) && !take_kill(behind)) return std::exchange(text, {});
  const std::size_t from = text.size() - behind.size();
  std::size_t next = npos;
  for (std::string_view words : {kKilled, kKill[0], kKill[1]})
    for (std::size_t at = text.find(words, from); at < next; at = text.find(words, at + 1)) {
      std::string_view number = text.substr(at + words.size());
      if (!take(number, " ") || !take_number<std::uint32_t>(number)) continue;
      std::string_view before = text.substr(0, at);
      for (const auto& scope : kScopes) (void)take_end(before, scope.first);
      next = before.size();
    }
  std::string_view sentence = text.substr(0, next);
  text.remove_prefix(sentence.size());
  if (text.empty()) return sentence;
  constexpr std::size_t kPriority = 3;  // "<3>", printed as it is
  std::string_view end = sentence.substr(sentence.size() - std::min(sentence.size(), kPriority));
  if (end.starts_with('<') && end.ends_with('>')) sentence.remove_suffix(kPriority);
  sentence = sentence.substr(0, sentence.find_last_not_of(' ') + 1);
  take_end(sentence, "\\n");
  // The stamp of the next.
  std::size_t stamp = sentence.ends_with(']') ? sentence.rfind(" [") : npos;
  if (stamp != npos && sentence.find_first_of("0123456789", stamp) != npos)
    sentence = sentence.substr(0, stamp);
  return sentence;
}

}  // namespace oomcast
