#include "parse/oom_lines.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "parse/oom_kill_lines.h"
#include "parse/oom_line_parts.h"
#include "parse/text.h"

namespace oomcast {
namespace {

bool is_number_list(std::string_view text) {
  return text.find_first_not_of("0123456789,-") == npos;
}

// ---- paths

bool is_at_or_below(std::string_view path, std::string_view ancestor) {
  if (ancestor == "/" || path == ancestor) return true;
  return path.starts_with(ancestor) && path[ancestor.size()] == '/';
}

using PathPair = std::pair<std::string_view, std::string_view>;

// The places where `text` divides into two absolute paths ("host" may stand for the second); none if a path
// repeats the separator so often that only an attack explains it.
std::vector<PathPair> path_pairs(std::string_view text, std::string_view between) {
  constexpr std::size_t limit = 64;
  std::vector<PathPair> out;
  for (std::size_t at = text.find(between); at != npos; at = text.find(between, at + 1)) {
    PathPair pair{text.substr(0, at), text.substr(at + between.size())};
    if (pair.first.starts_with('/') && (pair.second.starts_with('/') || pair.second == "host"))
      out.push_back(pair);
    if (out.size() > limit) return {};
  }
  return out;
}

// One reading, or the only one in which the task is inside of the cgroup whose limit fired.
template <typename Inside>
std::optional<PathPair> only_reading(std::vector<PathPair> pairs, Inside inside) {
  if (pairs.size() > 1) std::erase_if(pairs, [&](const PathPair& pair) { return !inside(pair); });
  if (pairs.size() != 1) return std::nullopt;
  return pairs.front();
}

// ---- "COMM invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), nodemask=(null),  order=0, oom_score_adj=0"

void take_gfp(std::string_view& text, OomInvoked& out) {
  std::string_view rest = text;
  take(rest, "0x");
  auto mask = take_number<std::uint64_t>(rest, 16);
  if (rest.starts_with('(')) rest.remove_prefix(std::min(rest.find(')'), rest.size() - 1) + 1);
  if (!mask || !rest.starts_with(',')) return;
  out.gfp_mask = mask;
  out.gfp_text = text.substr(0, text.size() - rest.size());
  text = rest;
}

std::optional<ParsedLine> parse_invoked(std::string_view text) {
  std::size_t at = text.substr(0, kMaxComm + kInvoked.size()).find(kInvoked);
  if (at == npos) return std::nullopt;
  OomInvoked out;
  out.trigger_comm = text.substr(0, at);
  text.remove_prefix(at + kInvoked.size());
  bool broken = text.empty() || text == ":" || text == ": ";
  if (broken || text.starts_with(kElided)) return begun();
  if (!take(text, ": gfp_mask=")) return std::nullopt;
  take_gfp(text, out);
  constexpr std::string_view order_key = " order=";
  std::size_t order_at = text.find(order_key);
  std::string_view nodemask = text.substr(0, order_at);
  if (order_at != npos && take(nodemask, ", nodemask=")) {
    nodemask = nodemask.substr(0, nodemask.find_last_not_of(", ") + 1);
    out.nodemask = nodemask;
  }
  text.remove_prefix(order_at == npos ? text.size() : order_at + order_key.size());
  auto order = take_number<int>(text);
  if (text.starts_with(',')) out.order = order;
  constexpr std::string_view adj_key = ", oom_score_adj=";
  std::size_t adj_at = text.find(adj_key);
  if (adj_at != npos) out.oom_score_adj = whole_number<int>(text.substr(adj_at + adj_key.size()));
  bool complete = out.oom_score_adj.has_value();
  return ParsedLine{std::move(out), complete};
}

// "CPU: 1 UID: 0 PID: 2746 Comm: leaker Not tainted 4.18.0+ #20"; UID since 6.12
std::optional<ParsedLine> parse_trigger_task(std::string_view text) {
  if (!take(text, "CPU: ") || !take_number<unsigned>(text)) return std::nullopt;
  if (take(text, " UID: ") && !take_number<unsigned>(text)) return std::nullopt;
  if (!take(text, " PID: ")) return std::nullopt;
  auto tid = take_number<std::uint32_t>(text);
  if (!tid || !text.starts_with(" Comm: ")) return std::nullopt;
  return ParsedLine{OomTriggerTask{*tid}};
}

// "sh cpuset=/ mems_allowed=0-1". A cpuset's name may hold the second key; the last one is the kernel's.
std::optional<ParsedLine> parse_cpuset(std::string_view text, bool cut) {
  constexpr std::string_view key = " cpuset=", mems_key = " mems_allowed=";
  std::size_t at = text.substr(0, kMaxComm + key.size()).find(key);
  if (cut || at == npos) return std::nullopt;
  std::size_t mems_at = text.rfind(mems_key);
  if (mems_at == npos || mems_at < at + key.size()) return std::nullopt;
  std::string_view mems = text.substr(mems_at + mems_key.size());
  std::string_view name = text.substr(at + key.size(), mems_at - at - key.size());
  if (mems.empty() || !is_number_list(mems) || name.empty()) return std::nullopt;
  return ParsedLine{OomCpuset{std::string(text.substr(0, at)), std::string(name), std::string(mems)}};
}

// ----
// "oom-kill:constraint=C,nodemask=N,cpuset=S,mems_allowed=M,oom_memcg=/a,task_memcg=/a/b,task=T,pid=N,uid=N"

std::optional<OomConstraintScope> constraint_scope(std::string_view word) {
  if (word == "CONSTRAINT_NONE") return OomConstraintScope::none;
  if (word == "CONSTRAINT_MEMCG") return OomConstraintScope::memcg;
  if (word == "CONSTRAINT_CPUSET") return OomConstraintScope::cpuset;
  if (word == "CONSTRAINT_MEMORY_POLICY") return OomConstraintScope::mempolicy;
  return std::nullopt;
}

// Takes ",pid=N,uid=N" from the end. Only numbers are in it, so the last of each key is the kernel's.
bool take_constraint_ids(std::string_view& text, bool cut, OomConstraint& out) {
  constexpr std::size_t key_size = 5;
  std::size_t uid_at = text.rfind(",uid=");
  if (uid_at == npos) return false;
  std::size_t pid_at = text.substr(0, uid_at).rfind(",pid=");
  if (pid_at == npos) return false;
  auto pid = whole_number<std::uint32_t>(text.substr(pid_at + key_size, uid_at - pid_at - key_size));
  std::string_view uid_text = text.substr(uid_at + key_size);
  auto uid = whole_uid(uid_text);
  if (!pid || !(uid || (cut && uid_text.empty()))) return false;
  out.pid = pid;
  out.uid = uid;
  text = text.substr(0, pid_at);
  return true;
}

// Takes "nodemask=N,cpuset=S,mems_allowed=M," from the front. The cpuset's name is hostile, but has no '/':
// the first place where a path follows is the kernel's.
bool take_constraint_sets(std::string_view& text, OomConstraint& out) {
  constexpr std::string_view cpuset_key = ",cpuset=", mems_key = ",mems_allowed=";
  std::size_t cpuset_at = text.find(cpuset_key);
  if (!take(text, "nodemask=") || cpuset_at == npos) return false;
  std::string_view nodemask = text.substr(0, text.find(cpuset_key));
  if (nodemask != "(null)" && !is_number_list(nodemask)) return false;
  out.nodemask = nodemask;
  text.remove_prefix(nodemask.size() + cpuset_key.size());
  for (std::size_t at = text.find(mems_key); at != npos; at = text.find(mems_key, at + 1)) {
    std::size_t mems_at = at + mems_key.size();
    std::size_t end = std::min(text.find_first_not_of("0123456789,-", mems_at), text.size());
    if (end == mems_at || text[end - 1] != ',') continue;
    std::string_view rest = text.substr(end);
    if (!rest.starts_with("oom_memcg=/") && !rest.starts_with("global_oom,task_memcg=/")) continue;
    out.cpuset = text.substr(0, at);
    out.mems_allowed = text.substr(mems_at, end - 1 - mems_at);
    text = rest;
    return true;
  }
  return false;
}

// Where the sets are not all there: what is before the one place at which the kernel's next part can begin.
bool take_missing_sets(std::string_view& text) {
  std::optional<std::size_t> only;
  for (std::string_view next : {"oom_memcg=/", "global_oom,"})
    for (std::size_t at = text.find(next); at != npos; at = text.find(next, at + 1)) {
      if (at > 0 && text[at - 1] != ',') continue;
      if (only) return false;
      only = at;
    }
  if (!only) return false;
  text.remove_prefix(*only);
  return true;
}

bool is_comm_of(std::string_view comm, std::uint32_t pid, std::span<const TaskRow> rows) {
  return std::ranges::any_of(
      rows, [&](const TaskRow& row) { return (row.pid == pid || row.tgid == pid) && row.name == comm; });
}

// Takes ",task=COMM" from the end. A path or a comm with ",task=" in it makes several readings; the table
// decides.
bool take_constraint_comm(std::string_view& text, std::span<const TaskRow> rows, OomConstraint& out) {
  constexpr std::string_view key = ",task=";
  std::vector<std::size_t> places;
  for (std::size_t at = text.rfind(key); at != npos; at = at ? text.rfind(key, at - 1) : npos) {
    if (text.size() - at - key.size() > kMaxComm && !places.empty()) break;
    places.push_back(at);
    if (text.size() - at - key.size() > kMaxComm) break;
  }
  auto comm_at = [&](std::size_t at) { return text.substr(at + key.size()); };
  if (places.size() > 1)
    std::erase_if(places, [&](std::size_t at) { return !is_comm_of(comm_at(at), *out.pid, rows); });
  if (places.size() != 1) return false;
  out.task_comm = comm_at(places.front());
  text = text.substr(0, places.front());
  return true;
}

void read_constraint_paths(std::string_view text, OomConstraint& out) {
  if (out.global_oom) {
    if (take(text, "global_oom,task_memcg=")) out.task_memcg = text;
    return;
  }
  if (!take(text, "oom_memcg=")) return;
  if (text.find(",task_memcg=") == npos) {
    out.oom_memcg = text;
    return;
  }
  auto pairs = path_pairs(text, ",task_memcg=");
  auto reading =
      only_reading(std::move(pairs), [](const PathPair& p) { return is_at_or_below(p.second, p.first); });
  if (!reading) return;
  out.oom_memcg = reading->first;
  out.task_memcg = reading->second;
}

// The end is missing, with it maybe part of the second path: the first is whole where the second begins below
// it, and in one place only.
void read_limit_of_cut_line(std::string_view text, OomConstraint& out) {
  if (out.global_oom || !take(text, "oom_memcg=")) return;
  auto pairs = path_pairs(text, ",task_memcg=");
  if (pairs.size() == 1 && is_at_or_below(pairs.front().second, pairs.front().first))
    out.oom_memcg = pairs.front().first;
}

std::optional<ParsedLine> parse_constraint(std::string_view text, bool cut, std::span<const TaskRow> rows) {
  if (!take(text, "oom-kill:")) return std::nullopt;
  take(text, " ");  // a person's
  if (!take(text, "constraint=")) return std::nullopt;
  std::string closed;  // the same without a person's spaces behind its commas
  if (std::size_t comma = text.find(','); comma != npos && text.substr(comma).starts_with(", ")) {
    for (char c : text)
      if (c != ' ' || !closed.ends_with(',')) closed += c;
    text = closed;
  }
  OomConstraint out;
  std::size_t word_end = text.find(',');
  out.scope = constraint_scope(text.substr(0, word_end));
  if (word_end == npos) return out.scope ? ParsedLine{std::move(out), false} : begun();
  text.remove_prefix(word_end + 1);
  bool has_end = take_constraint_ids(text, cut, out);
  // A part that is missing costs itself, where what remains is read in one way only.
  bool has_sets = take_constraint_sets(text, out) || take_missing_sets(text);
  out.global_oom = has_sets && (text.starts_with("global_oom,") || text == "global_oom");
  if (has_end && take_constraint_comm(text, rows, out) && has_sets) read_constraint_paths(text, out);
  if (!has_end && has_sets) read_limit_of_cut_line(text, out);
  return ParsedLine{std::move(out), has_end};
}

std::optional<ParsedLine> parse_group_kill(std::string_view text) {
  if (!take(text, "Tasks in ")) return std::nullopt;
  if (!take_end(text, " are going to be killed due to memory.oom.group set")) return begun();
  return ParsedLine{OomGroupKill{std::string(text)}};
}

std::optional<ParsedLine> parse_no_victim(std::string_view text) {
  bool panic = take(text, "Kernel panic - not syncing: ");
  bool found = text.starts_with("Out of memory and no killable processes") ||
               text.starts_with("System is deadlocked on memory") ||
               (panic && text.starts_with("Out of memory"));
  if (!found) return std::nullopt;
  return ParsedLine{OomNoVictim{panic}};
}

// ---- the memory cgroup's part of the report

// "No limit" is the largest page count, in kB: LONG_MAX pages of 4 to 64 KiB, on 32 bit too, or before 3.19
// LLONG_MAX or ULLONG_MAX bytes.
bool is_no_limit(std::uint64_t kb) {
  constexpr std::uint64_t largest = 9007199254740991, page_counter = largest / 64 * 64, narrow = 8589934588;
  return kb >= page_counter || kb == narrow;
}

std::optional<std::uint64_t> take_kb(std::string_view& text) {
  auto number = take_number<std::uint64_t>(text);
  return take(text, "kB") ? number : std::nullopt;
}

std::optional<ParsedLine> parse_usage(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, MemcgCounter>, 4> counters = {{
      {"memory", MemcgCounter::memory},
      {"memory+swap", MemcgCounter::memory_swap},
      {"swap", MemcgCounter::swap},
      {"kmem", MemcgCounter::kmem},
  }};
  std::string_view name = text.substr(0, text.find(':'));
  const auto* counter = std::ranges::find(counters, name, [](const auto& entry) { return entry.first; });
  if (counter == counters.end()) return std::nullopt;
  text.remove_prefix(name.size());
  if (!take(text, ": usage ")) return std::nullopt;
  MemcgUsageLine out;
  out.counter = counter->second;
  auto usage = from_kb(take_kb(text));
  auto limit = usage && take(text, ", limit ") ? take_kb(text) : std::nullopt;
  if (!limit) return begun();
  out.usage = *usage;
  if (!is_no_limit(*limit)) out.limit = from_kb(limit);
  if (take(text, ", failcnt ")) out.failcnt = whole_number<std::uint64_t>(text);
  bool complete = out.failcnt.has_value();
  return ParsedLine{out, complete};
}

std::optional<ParsedLine> parse_memcg_task(std::string_view text, bool cut) {
  MemcgTaskLine out;
  if (take(text, "Memory limit reached of cgroup ")) {
    if (cut || !text.starts_with('/')) return begun();
    out.oom_memcg = text;
    return ParsedLine{std::move(out)};
  }
  if (!take(text, "Task in ")) return std::nullopt;
  auto inside = [](const PathPair& p) { return p.second != "host" && is_at_or_below(p.first, p.second); };
  auto reading = only_reading(path_pairs(text, " killed as a result of limit of "), inside);
  if (!reading) return begun();
  out.task_memcg = reading->first;
  out.host = reading->second == "host";
  if (!cut && !out.host) out.oom_memcg = reading->second;
  return ParsedLine{std::move(out)};
}

std::optional<MemcgStat> parse_inline_stat(std::string_view word) {
  std::size_t colon = word.find(':');
  if (colon == npos || !take_end(word, "KB")) return std::nullopt;
  auto bytes = from_kb(whole_number<std::uint64_t>(word.substr(colon + 1)));
  if (!bytes) return std::nullopt;
  return MemcgStat{std::string(word.substr(0, colon)), static_cast<std::uint64_t>(bytes->count)};
}

// "PATH: cache:0KB rss:53760KB …" from the end: the path's ':' ends the last word that is no number.
std::optional<ParsedLine> parse_stats_line(std::string_view text) {
  MemcgStatsHead out;
  bool is_last = true;  // only the last word may have been cut off
  while (!text.ends_with(':') || is_last) {
    std::size_t space = text.rfind(' ');
    if (space == npos) return begun();
    auto stat = parse_inline_stat(text.substr(space + 1));
    if (!stat && !is_last) return begun();
    if (stat) out.stats.push_back(std::move(*stat));
    is_last = false;
    text = text.substr(0, space);
  }
  take_end(text, ":");
  if (out.stats.empty() || !text.starts_with('/')) return begun();
  std::ranges::reverse(out.stats);
  out.cgroup = text;
  return ParsedLine{std::move(out)};
}

// Numbers on the line begin with the cache's; a path that imitates that, without them, is not believed.
std::optional<ParsedLine> parse_stats_head(std::string_view text, bool cut) {
  if (!take(text, "Memory cgroup stats for ")) return std::nullopt;
  if (cut || !text.ends_with(':') || text.find(": cache") != npos) return parse_stats_line(text);
  text.remove_suffix(1);
  if (!text.starts_with('/')) return begun();
  return ParsedLine{MemcgStatsHead{std::string(text), {}}};
}

// ---- the table of tasks

TaskColumn column_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, TaskColumn>, 14> columns = {{
      {"uid", TaskColumn::uid},
      {"tgid", TaskColumn::tgid},
      {"total_vm", TaskColumn::total_vm},
      {"rss", TaskColumn::rss},
      {"rss_anon", TaskColumn::rss_anon},
      {"rss_file", TaskColumn::rss_file},
      {"rss_shmem", TaskColumn::rss_shmem},
      {"nr_ptes", TaskColumn::nr_ptes},
      {"nr_pmds", TaskColumn::nr_pmds},
      {"nr_puds", TaskColumn::nr_puds},
      {"pgtables_bytes", TaskColumn::pgtables_bytes},
      {"swapents", TaskColumn::swapents},
      {"oom_score_adj", TaskColumn::oom_score_adj},
      {"name", TaskColumn::name},
  }};
  for (const auto& [text, column] : columns)
    if (text == name) return column;
  return TaskColumn::unknown;
}

std::optional<ParsedLine> parse_table_head(std::string_view text) {
  if (!take(text, "[") || take_word(text) != "pid" || take_word(text) != "]") return std::nullopt;
  TaskTableHead out;
  for (auto word = take_word(text); !word.empty(); word = take_word(text))
    out.columns.push_back(column_named(word));
  if (out.columns.empty() || out.columns.back() != TaskColumn::name) return begun();
  return ParsedLine{std::move(out)};
}

// False if the column is one we know and the word is no value for it.
bool read_cell(TaskColumn column, std::string_view word, TaskRow& row) {
  auto pages = whole_number<std::uint64_t>(word);
  auto store = [&](std::optional<std::uint64_t>& field) { return (field = pages).has_value(); };
  switch (column) {
    case TaskColumn::uid:
      return (row.uid = whole_uid(word)).has_value();
    case TaskColumn::tgid:
      return (row.tgid = whole_number<std::uint32_t>(word)).has_value();
    case TaskColumn::total_vm:
      return store(row.total_vm_pages);
    case TaskColumn::rss:
      return store(row.rss_pages);
    case TaskColumn::rss_anon:
      return store(row.rss_anon_pages);
    case TaskColumn::rss_file:
      return store(row.rss_file_pages);
    case TaskColumn::rss_shmem:
      return store(row.rss_shmem_pages);
    case TaskColumn::swapents:
      return store(row.swap_pages);
    case TaskColumn::nr_ptes:
    case TaskColumn::nr_pmds:
    case TaskColumn::nr_puds:
      if (pages) row.pgtables_pages = row.pgtables_pages ? *row.pgtables_pages + *pages : *pages;
      return pages.has_value();
    case TaskColumn::pgtables_bytes:
      if (auto bytes = whole_number<std::int64_t>(word)) row.pgtables = Bytes{*bytes};
      return row.pgtables.has_value();
    case TaskColumn::oom_score_adj:
      return (row.oom_score_adj = whole_number<int>(word)).has_value();
    case TaskColumn::name:
    case TaskColumn::unknown:
      return true;
  }
  return true;
}

}  // namespace

std::optional<ParsedLine> parse_oom_line(std::string_view text, bool cut, std::span<const TaskRow> rows) {
  if (cut) text = without_trailing_number(text);
  std::optional<ParsedLine> best;
  auto settles = [&](std::optional<ParsedLine> line) {
    if (line && (line->complete || !best)) best = std::move(line);
    return best && best->complete;
  };
  // A name can begin like another form, but not be all of it: the first that is complete is the line's. The
  // line that begins with a name comes last.
  (void)(settles(parse_victim(text, cut)) || settles(parse_constraint(text, cut, rows)) ||
         settles(parse_kill_announcement(text)) || settles(parse_reaped(text)) ||
         settles(parse_group_kill(text)) || settles(parse_no_victim(text)) || settles(parse_usage(text)) ||
         settles(parse_memcg_task(text, cut)) || settles(parse_stats_head(text, cut)) ||
         settles(parse_table_head(text)) || settles(parse_trigger_task(text)) ||
         settles(parse_invoked(text)) || settles(parse_cpuset(text, cut)));
  return best;
}

std::optional<TaskRow> parse_task_row(std::string_view text, const std::vector<TaskColumn>& columns,
                                      bool cut) {
  if (cut || !take(text, "[") || columns.empty()) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  auto pid = take_number<std::uint32_t>(text);
  if (!pid || !take(text, "]")) return std::nullopt;
  TaskRow row;
  row.pid = *pid;
  for (TaskColumn column : columns) {
    if (column == TaskColumn::name) break;
    auto word = take_word(text);
    if (word.empty() || !read_cell(column, word, row)) return std::nullopt;
  }
  // One space, then the name as it is: it may begin with spaces of its own.
  if (!take(text, " ") || text.empty()) return std::nullopt;
  row.name = text;
  return row;
}

std::optional<MemcgStat> parse_stat_line(std::string_view text, bool cut) {
  if (cut) text = without_trailing_number(text);
  std::string_view key = text.substr(0, text.find(' '));
  bool named = !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == npos;
  if (!named || key.size() == text.size()) return std::nullopt;
  auto value = whole_number<std::uint64_t>(text.substr(key.size() + 1));
  if (!value) return std::nullopt;
  return MemcgStat{std::string(key), *value};
}

}  // namespace oomcast
