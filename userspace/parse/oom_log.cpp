#include "parse/oom_log.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <type_traits>
#include <utility>

#include "parse/log_wrapping.h"
#include "parse/oom_kill_lines.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxBegun = 8;

template <typename T>
bool is(const LogEvent& fact) {
  return std::holds_alternative<T>(fact);
}

// Parts of a report that the kernel prints before the kill, so that after one they belong to another
// decision.
bool precedes_kill(const LogEvent& fact) {
  return is<OomConstraint>(fact) || is<OomChosen>(fact) || is<MemcgUsageLine>(fact) ||
         is<MemcgTaskLine>(fact) || is<MemcgStatsHead>(fact) || is<TaskTableHead>(fact) ||
         is<OomNoVictim>(fact);
}

// "The kernel invoked oom-killer", "Killed process (python)": a person's, where no stamp says otherwise.
bool is_specific(const LogEvent& fact) {
  const auto* victim = std::get_if<OomVictimLine>(&fact);
  const auto* chosen = std::get_if<OomChosen>(&fact);
  const auto* invoked = std::get_if<OomInvoked>(&fact);
  return !(invoked && !invoked->oom_score_adj) && !(victim && victim->tid == 0) &&
         !(chosen && chosen->tid == 0);
}

// Says something of a report only together with the lines before it.
bool needs_dump(const LogEvent& fact) {
  return is<OomTriggerTask>(fact) || is<OomReaped>(fact) || is<OomSharesMemory>(fact) ||
         is<MemcgStat>(fact) || is<TaskRow>(fact) || is<OomCpuset>(fact) || is<MemInfoLine>(fact);
}

// Of victims without a number none is another.
bool has_victim(const OomDump& dump, std::uint32_t tid) {
  return tid != 0 &&
         std::ranges::any_of(dump.victims, [&](const OomVictimLine& victim) { return victim.tid == tid; });
}

// A report has one such line. Where only those are kept (grep oom-kill), the next would take its place.
bool is_of_another(const LogEvent& fact, const OomDump& dump) {
  const auto* chosen = std::get_if<OomChosen>(&fact);
  if (chosen && !dump.invoked && dump.chosen && chosen->tid != dump.chosen->tid) return true;
  const auto* constraint = std::get_if<OomConstraint>(&fact);
  return constraint && !dump.invoked && dump.constraint && constraint->pid && dump.constraint->pid &&
         constraint->pid != dump.constraint->pid;
}

enum class Fits : std::uint8_t { no, unknown, yes };

Fits fits(const OomDump& dump, std::uint32_t tid) {
  auto row = std::ranges::find(dump.tasks, tid, &TaskRow::pid);
  bool listed = row != dump.tasks.end();
  if (tid != 0 && dump.constraint && dump.constraint->pid) {
    std::uint32_t pid = *dump.constraint->pid;
    return tid == pid || (listed && row->tgid == pid) ? Fits::yes : Fits::no;
  }
  bool is_chosen = dump.chosen && dump.chosen->tid == tid;
  return listed || is_chosen ? Fits::yes : Fits::unknown;
}

std::optional<OomScope> scope_of(const OomConstraint& constraint) {
  if (constraint.oom_memcg) return OomScope::memcg;  // 5.0 says CONSTRAINT_NONE here
  if (!constraint.scope) return std::nullopt;
  switch (*constraint.scope) {
    case OomConstraintScope::memcg:
      return OomScope::memcg;
    case OomConstraintScope::cpuset:
      return OomScope::cpuset;
    case OomConstraintScope::mempolicy:
      return OomScope::mempolicy;
    case OomConstraintScope::none:
      break;
  }
  return constraint.global_oom ? std::optional(OomScope::global) : std::nullopt;
}

std::optional<OomScope> scope_of(std::optional<OomScopeWord> word) {
  if (word == OomScopeWord::memcg) return OomScope::memcg;
  if (word == OomScopeWord::cpuset) return OomScope::cpuset;
  if (word == OomScopeWord::mempolicy) return OomScope::mempolicy;
  return std::nullopt;  // "Out of memory" is said of every other scope
}

// See OomLogParser: more of its victims will be named. A busy machine takes its time between two lines.
bool goes_on(const OomDump& dump) {
  if (dump.victims.empty()) return dump.invoked && !dump.no_victim;
  constexpr int never = -1000;
  if (!dump.group_kill || dump.interleaved || dump.limit_cgroup() != dump.group_kill->cgroup) return false;
  return std::ranges::any_of(dump.tasks, [&](const TaskRow& row) {
    bool named = has_victim(dump, row.pid) || (row.tgid && has_victim(dump, *row.tgid));
    return !named && row.oom_score_adj != never;
  });
}

// The table has what the victim's line rounds, and settles its unit.
void refine_pgtables(OomDump& dump) {
  for (OomVictimLine& victim : dump.victims) {
    auto row = std::ranges::find(dump.tasks, victim.tid, &TaskRow::pid);
    if (row != dump.tasks.end() && row->pgtables) victim.pgtables = pgtables_of(victim, row->pgtables);
  }
}

// A constraint alone that names nobody is a pattern of source code, or a search's.
bool has_facts(const OomDump& dump) {
  return dump.invoked || (dump.constraint && dump.constraint->pid) || dump.memcg_task || dump.chosen ||
         dump.group_kill || dump.no_victim || !dump.usage.empty() || !dump.stats.empty() ||
         !dump.tasks.empty() || !dump.victims.empty() || !dump.reaped.empty();
}

}  // namespace

std::string_view to_string(OomScope scope) {
  constexpr std::array<std::string_view, 5> names = {"memcg", "global", "cpuset", "mempolicy", "sysrq"};
  return names[static_cast<std::size_t>(scope)];
}

std::optional<LogLine> line_of(const KmsgRecord& record) {
  if (!record.from_kernel()) return std::nullopt;
  LogLine line;
  line.time = record.since_boot;
  line.text = record.text;
  if (record.caller) line.caller = *record.caller;
  line.continuation = record.continuation;
  line.cut = record.cut;
  return line;
}

std::optional<OomScope> OomDump::scope() const {
  if (invoked && invoked->order == -1) return OomScope::sysrq;
  // Whether sysrq asked for what looks global, only the first line tells.
  auto scope = constraint ? scope_of(*constraint) : std::nullopt;
  if (scope && (*scope != OomScope::global || (invoked && invoked->order))) return scope;
  if (memcg_task && memcg_task->oom_memcg) return OomScope::memcg;
  if (auto word = chosen ? scope_of(chosen->scope) : std::nullopt) return word;
  for (const OomVictimLine& victim : victims)
    if (auto word = scope_of(victim.scope)) return word;
  return std::nullopt;
}

std::optional<std::string> OomDump::limit_cgroup() const {
  if (constraint && constraint->oom_memcg) return constraint->oom_memcg;
  return memcg_task ? memcg_task->oom_memcg : std::nullopt;
}

const MemcgUsageLine* OomDump::usage_of(MemcgCounter counter) const {
  auto found = std::ranges::find(usage, counter, &MemcgUsageLine::counter);
  return found == usage.end() ? nullptr : &*found;
}

// ---- which dump

OomLogParser::Open* OomLogParser::newest_of(std::string_view caller) {
  auto found = std::ranges::find(open_.rbegin(), open_.rend(), caller, &Open::caller);
  return found == open_.rend() ? nullptr : &*found;
}

// The dump that chose or killed `tid`; nullptr if that is none, or cannot be told.
OomLogParser::Open* OomLogParser::owner_of_task(std::string_view caller, std::uint32_t tid) {
  Open* newest = newest_of(caller);
  if (!newest || newest->in_group || has_victim(newest->dump, tid)) return newest;
  Open* oldest_possible = nullptr;
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    if (open->caller != caller || !open->dump.victims.empty()) continue;
    Fits fit = fits(open->dump, tid);
    if (fit == Fits::yes) {
      if (&*open != newest) open->dump.interleaved = newest->dump.interleaved = true;
      return &*open;
    }
    if (!caller.empty()) return fit == Fits::unknown && &*open == newest ? newest : nullptr;
    if (fit == Fits::unknown) oldest_possible = &*open;
  }
  return oldest_possible == newest ? newest : nullptr;  // else there are several, or it came before a kill
}

// The open dump that `fact` belongs to; nullptr if it begins one, or (see needs_dump) belongs to none.
OomLogParser::Open* OomLogParser::owner_of(const LogEvent& fact, std::string_view caller, const When& when) {
  // People cite the kill first and how it came about below: the stamps tell.
  Open* newest = newest_of(caller);
  bool was_before = limits_.lone_lines && newest && when.time && newest->dump.time.kill &&
                    *when.time < *newest->dump.time.kill;
  if (is<OomInvoked>(fact))
    return newest && !newest->dump.invoked && (was_before || is_reversed(newest->dump)) ? newest : nullptr;
  if (const auto* victim = std::get_if<OomVictimLine>(&fact)) return owner_of_task(caller, victim->tid);
  if (const auto* reaped = std::get_if<OomReaped>(&fact)) {
    auto open = std::ranges::find_if(open_.rbegin(), open_.rend(),
                                     [&](const Open& o) { return has_victim(o.dump, reaped->tid); });
    if (open == open_.rend() && limits_.lone_lines)  // its "Killed process" is missing
      open = std::ranges::find_if(open_.rbegin(), open_.rend(), [&](const Open& o) {
        return o.dump.victims.empty() && fits(o.dump, reaped->tid) == Fits::yes;
      });
    return open == open_.rend() ? nullptr : &*open;
  }
  const auto* chosen = std::get_if<OomChosen>(&fact);
  Open* open = chosen ? owner_of_task(caller, chosen->tid) : newest_of(caller);
  if (open && is_of_another(fact, open->dump)) return nullptr;
  return open && precedes_kill(fact) && !open->dump.victims.empty() && !was_before ? nullptr : open;
}

// The newest line is the first of its file, and all have one time: the victim that the dump chose was killed
// above.
bool OomLogParser::is_reversed(const OomDump& dump) const {
  if (!limits_.lone_lines || !dump.victims.empty() || !dump.constraint || !dump.constraint->pid) return false;
  std::uint32_t pid = *dump.constraint->pid;
  return std::ranges::any_of(open_, [&](const Open& open) { return has_victim(open.dump, pid); });
}

OomLogParser::Open& OomLogParser::begin(const When& when, std::string_view caller) {
  if (open_.size() >= std::max<std::size_t>(limits_.open_dumps, 1)) close(open_.begin());
  Open& open = open_.emplace_back();
  open.caller = caller;
  open.dump.time.first = when.time;
  open.dump.wall = when.wall;
  return open;
}

void OomLogParser::close(std::list<Open>::iterator open) {
  refine_pgtables(open->dump);
  constexpr std::size_t kMaxNamed = 64;
  for (const OomVictimLine& victim : open->dump.victims) {
    named_.emplace_back(victim.tid, victim.comm);
    if (named_.size() > kMaxNamed) named_.pop_front();
  }
  if (has_facts(open->dump)) finished_.push_back(std::move(open->dump));
  open_.erase(open);
  if (finished_.size() <= limits_.finished_dumps) return;
  finished_.erase(finished_.begin());
  ++lost_dumps_;
}

// A reaper that took seconds, one of another thread or process that died with the killed one, or who cites
// the line of a kill below the log: no kill of its own.
bool OomLogParser::names_again(const LogEvent& fact, const When& when) const {
  auto is_open = [&](auto is_it) {
    return std::ranges::any_of(
        open_, [&](const Open& open) { return std::ranges::any_of(open.dump.victims, is_it); });
  };
  auto is_named = [&](std::uint32_t tid, const std::optional<std::string>& comm) {
    auto is_it = [&](const OomVictimLine& victim) { return victim.tid == tid && victim.comm == comm; };
    return std::ranges::find(named_, std::pair(tid, comm)) != named_.end() || is_open(is_it);
  };
  if (const auto* reaped = std::get_if<OomReaped>(&fact))
    return is_named(reaped->tid, reaped->comm) ||
           is_open([&](const OomVictimLine& victim) { return victim.comm == reaped->comm; });
  const auto* victim = std::get_if<OomVictimLine>(&fact);
  return victim && limits_.lone_lines && !when.time && !when.wall && is_named(victim->tid, victim->comm);
}

void OomLogParser::settle(Nanos now, std::vector<LogEvent>& out) {
  auto is_old = [&](std::optional<Nanos> time) { return time && now - *time > limits_.settle; };
  while (!begun_.empty() && is_old(begun_.front().when.time)) give_up(0, out);
  for (auto open = open_.begin(); open != open_.end();) {
    auto next = std::next(open);
    auto last = open->dump.time.last;
    if (is_old(last) && (!goes_on(open->dump) || now - *last > limits_.unfinished)) close(open);
    open = next;
  }
}

// ---- what the dump keeps

template <typename T>
void OomLogParser::append(Open& open, std::vector<T>& list, std::size_t limit, const T& item) {
  if (list.size() < limit)
    list.push_back(item);
  else
    ++open.dump.dropped;
}

void OomLogParser::store_victim(Open& open, const OomVictimLine& victim, const When& when) {
  if (open.dump.victims.empty()) {
    open.dump.time.kill = open.dump.time.last;
    if (when.wall) open.dump.wall = when.wall;
  }
  if (has_victim(open.dump, victim.tid))
    ++open.dump.counts.named_again;
  else
    append(open, open.dump.victims, limits_.victims, victim);
}

void OomLogParser::store_mem_info(Open& open, const MemInfoLine& line) {
  if (open.mem_info_mixed || open.dump.mem_info.take(line)) return;
  open.dump.mem_info = {};
  open.mem_info_mixed = true;
}

void OomLogParser::store_task(Open& open, const TaskRow& row) {
  constexpr std::uint64_t most = std::uint64_t{1} << 48;  // a number that no machine has is none
  auto held = [](const TaskRow& of) {
    std::uint64_t pages = 0;
    for (const auto& part : {of.rss_pages, of.swap_pages})
      if (part && *part < most) pages += *part;
    return pages;
  };
  OomDump::Counts& sums = open.dump.counts;
  ++sums.tasks;
  auto add = [](std::optional<std::uint64_t>& sum, const std::optional<std::uint64_t>& pages) {
    if (!pages || *pages >= most) return;
    sum = sum ? *sum + *pages : *pages;
  };
  add(sums.rss_pages, row.rss_pages);
  add(sums.swap_pages, row.swap_pages);
  bool full = open.dump.tasks.size() >= limits_.rows;
  append(open, open.dump.tasks, limits_.rows, row);
  if (!full) return;
  auto smallest = std::ranges::min_element(open.dump.tasks, {}, held);
  if (smallest != open.dump.tasks.end() && held(*smallest) < held(row)) *smallest = row;
}

void OomLogParser::store(Open& open, const LogEvent& fact, const When& when) {
  OomDump& dump = open.dump;
  auto keep = [&](const auto& item) {
    using T = std::decay_t<decltype(item)>;
    if constexpr (std::is_same_v<T, OomInvoked>) dump.invoked = item;
    if constexpr (std::is_same_v<T, OomTriggerTask>) dump.trigger_tid = item.tid;
    if constexpr (std::is_same_v<T, OomConstraint>) dump.constraint = item;
    if constexpr (std::is_same_v<T, OomChosen>) dump.chosen = item;
    if constexpr (std::is_same_v<T, OomVictimLine>) store_victim(open, item, when);
    if constexpr (std::is_same_v<T, OomSharesMemory>) append(open, dump.also_killed, limits_.victims, item);
    if constexpr (std::is_same_v<T, OomGroupKill>) dump.group_kill = item;
    if constexpr (std::is_same_v<T, OomReaped>) append(open, dump.reaped, limits_.victims, item);
    if constexpr (std::is_same_v<T, OomNoVictim>) dump.no_victim = item;
    if constexpr (std::is_same_v<T, MemcgTaskLine>) dump.memcg_task = item;
    if constexpr (std::is_same_v<T, MemcgUsageLine>) append(open, dump.usage, limits_.stats_blocks, item);
    if constexpr (std::is_same_v<T, MemcgStatsHead>) append(open, dump.stats, limits_.stats_blocks, item);
    if constexpr (std::is_same_v<T, MemcgStat>) append(open, dump.stats.back().stats, limits_.stats, item);
    if constexpr (std::is_same_v<T, TaskTableHead>) open.columns = item.columns;
    if constexpr (std::is_same_v<T, TaskRow>) store_task(open, item);
    if constexpr (std::is_same_v<T, OomCpuset>) dump.cpuset = item;
    if constexpr (std::is_same_v<T, MemInfoLine>) store_mem_info(open, item);
  };
  bool stats_fit = dump.stats.size() < limits_.stats_blocks;
  std::visit(keep, fact);
  note_part(open, fact, stats_fit);
}

// Which part of a report the lines that follow are of.
void OomLogParser::note_part(Open& open, const LogEvent& fact, bool stats_fit) {
  if (is<MemcgStatsHead>(fact)) open.in_stats = stats_fit;
  if (precedes_kill(fact) && !is<MemcgStatsHead>(fact)) open.in_stats = false;
  if (is<OomConstraint>(fact) || is<OomVictimLine>(fact)) open.columns.clear();
  if (is<OomGroupKill>(fact)) open.in_group = true;
}

void OomLogParser::accept(const When& when, std::string_view caller, LogEvent fact,
                          std::vector<LogEvent>& out) {
  Open* open = owner_of(fact, caller, when);
  bool is_stray = !open && needs_dump(fact) && !(limits_.lone_lines && is<OomReaped>(fact));
  is_stray = is_stray || (!open && names_again(fact, when));
  bool is_other_task = is<OomTriggerTask>(fact) && (!open || !open->dump.invoked || open->dump.trigger_tid);
  if (is_other_task) return;
  if (!is_stray) {
    if (!open) open = &begin(when, caller);
    if (when.time) open->dump.time.last = when.time;
    store(*open, fact, when);
  }
  out.push_back(std::move(fact));
}

// ---- lines in pieces

void OomLogParser::give_up(std::size_t index, std::vector<LogEvent>& out) {
  Begun begun = std::move(begun_[index]);
  begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(index));
  auto shortened = limits_.lone_lines ? parse_shortened(begun.text) : std::nullopt;
  if (shortened && (begun.when.time || is_specific(*shortened)))
    return accept(begun.when, begun.caller, *std::move(shortened), out);
  auto line = parse_oom_line(begun.text, true);
  // "Killed process 123, UID 48, (httpd)" of a comment
  const auto* victim = line && line->fact ? std::get_if<OomVictimLine>(&*line->fact) : nullptr;
  bool vague = limits_.lone_lines && !begun.when.time && victim && !victim->comm && !victim->total_vm;
  if (line && line->fact && !vague) return accept(begun.when, begun.caller, std::move(*line->fact), out);
  if (speaks_of_kill(begun.text) && given_up_++ == 0) first_given_up_ = std::move(begun.text);
}

void OomLogParser::hold(const LogLine& line, std::string_view text, std::vector<LogEvent>& out) {
  if (begun_.size() >= kMaxBegun) give_up(0, out);
  begun_.push_back({{line.time, line.wall}, std::string(line.caller), std::string(text)});
}

// True if `text` went into its caller's unfinished line. An unfinished line is given up when another begins.
bool OomLogParser::complete_begun(const LogLine& line, std::string_view text, std::vector<LogEvent>& out) {
  auto begun = std::ranges::find(begun_, line.caller, &Begun::caller);
  if (begun == begun_.end()) return false;
  auto index = static_cast<std::size_t>(begun - begun_.begin());
  bool is_piece = line.continuation || text.starts_with(',');
  bool goes_on = continues_kill(begun->text, text);
  if (!is_piece && !goes_on && parse_oom_line(text)) return give_up(index, out), false;
  // What a person wrote below a line that is whole, if short.
  if (line.broken && !goes_on && parse_shortened(begun->text)) return give_up(index, out), false;
  if (begun->text.size() + text.size() >= limits_.line_bytes) return give_up(index, out), false;

  Open* open = newest_of(line.caller);
  auto completes = [&](const std::string& joined) {
    auto whole = parse_oom_line(joined, line.cut, open ? open->dump.tasks : std::span<const TaskRow>{});
    if (!whole || !whole->complete || !whole->fact) return false;
    When when = begun->when;
    begun_.erase(begun);
    accept(when, line.caller, std::move(*whole->fact), out);
    return true;
  };
  // Mail programs break at spaces, behind hyphens, too, and what has no spaces anywhere.
  bool breaks_at_space = !begun->text.ends_with('-') && !begun->text.starts_with("oom-kill:");
  std::string joined = begun->text + std::string(text), spaced = begun->text;
  spaced.resize(spaced.find_last_not_of(' ') + 1);
  spaced += ' ';
  spaced += text.substr(std::min(text.find_first_not_of(' '), text.size()));
  if ((line.broken || goes_on) && breaks_at_space) joined.swap(spaced);
  if (completes(joined) || (!line.continuation && completes(spaced))) return true;
  if (is_piece || goes_on) begun->text = std::move(joined);
  return is_piece || goes_on;
}

// What only means something within a report. 5.3 to 6.5 print all statistics as one record.
void OomLogParser::feed_part(const Open& open, const LogLine& line, std::string_view text, bool cut,
                             std::vector<LogEvent>& out) {
  When when{line.time, line.wall};
  if (auto row = parse_task_row(text, open.columns, cut))
    return accept(when, line.caller, std::move(*row), out);
  std::string_view rest = text, piece;
  bool is_stat = false;
  while (open.in_stats && next_line(rest, piece))
    if (auto stat = parse_stat_line(piece, cut && rest.empty())) {
      accept(when, line.caller, std::move(*stat), out);
      is_stat = true;
    }
  // After the kill it would be another's: any allocation that fails prints the block.
  if (is_stat || !open.dump.victims.empty()) return;
  if (auto info = parse_mem_info_line(text, cut)) accept(when, line.caller, std::move(*info), out);
}

std::vector<LogEvent> OomLogParser::feed(const LogLine& line) {
  std::vector<LogEvent> out;
  if (line.time) settle(*line.time, out);
  std::string_view text = line.text.substr(0, limits_.line_bytes);
  bool cut = line.cut || text.size() < line.text.size();
  if (complete_begun(line, text, out)) return out;

  Open* open = newest_of(line.caller);
  auto found = parse_oom_line(text, cut, open ? open->dump.tasks : std::span<const TaskRow>{});
  if (found && !found->complete && !cut) {
    hold(line, text, out);
  } else if (found) {
    if (found->fact) accept({line.time, line.wall}, line.caller, std::move(*found->fact), out);
  } else if (open) {
    feed_part(*open, line, text, cut, out);
  }
  return out;
}

std::vector<OomDump> OomLogParser::take_finished(std::optional<Nanos> now) {
  std::vector<LogEvent> late;
  if (now) settle(*now, late);
  return std::exchange(finished_, {});
}

std::vector<OomDump> OomLogParser::take_named(Nanos now, const std::vector<std::uint32_t>& victims) {
  std::vector<LogEvent> late;
  settle(now, late);
  for (auto open = open_.begin(); open != open_.end();) {
    auto next = std::next(open);
    if (std::any_of(victims.begin(), victims.end(), [&](auto tid) { return has_victim(open->dump, tid); }))
      close(open);
    open = next;
  }
  return std::exchange(finished_, {});
}

std::vector<OomDump> OomLogParser::finish() {
  std::vector<LogEvent> late;
  while (!begun_.empty()) give_up(0, late);
  while (!open_.empty()) close(open_.begin());
  named_.clear();
  return std::exchange(finished_, {});
}

}  // namespace oomcast
