#include "present/past_kills.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/escape.h"
#include "stream/cells.h"
#include "stream/facts.h"
#include "stream/json.h"
#include "stream/json_parts.h"

namespace oomcast {
namespace {

constexpr std::size_t kWidestPath = 48;
constexpr const char* kMark = "*";  // at a kill that is not confirmed

std::tm local(WallTime t) {
  std::time_t seconds = std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
  std::tm out{};
  localtime_r(&seconds, &out);
  return out;
}

std::string format_local(WallTime t, const char* form) {
  std::tm when = local(t);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), form, &when)};
}

// In the UTC offset of that day, which may differ from today's.
std::string time_of(const PastKill& kill, WallTime now) {
  if (!kill.time)
    return kill.since_boot ? format_duration(*kill.since_boot) + " after boot" : std::string("time unknown");
  std::string error;
  if (kill.error > std::chrono::seconds(2)) error = " ±" + format_duration(kill.error);
  bool same = local(*kill.time).tm_gmtoff == local(now).tm_gmtoff;
  return format_local(*kill.time, same ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M:%S %z") + error;
}

std::string who(const Episode& e) {
  const Victim* largest = largest_victim(e);
  if (!largest) return "victim unknown";
  std::string out = describe(largest->process);
  if (e.victims.size() > 1) out += fmt::format(" and {} more", e.victims.size() - 1);
  return out;
}

std::string size_of(const Episode& e) {
  const Victim* largest = largest_victim(e);
  auto size = largest ? own_memory(*largest) : std::nullopt;
  return size ? format_size(*size) : "unknown";
}

std::string limit_of(const Episode& e) {
  std::string limit = e.limit ? " " + format_size(*e.limit) : "";
  if (e.limit_cgroup) return cut_middle(displayable(e.limit_cgroup->path), kWidestPath) + limit;
  if (!e.scope) return "unknown" + limit;
  switch (*e.scope) {
    case OomScope::global:
      return "the machine";
    case OomScope::memcg:
      return "a cgroup" + limit;
    case OomScope::cpuset:
      return "a cpuset";
    case OomScope::mempolicy:
      return "a memory policy";
    case OomScope::sysrq:
      return "asked by sysrq";
  }
  return "unknown";
}

std::string trigger_of(const Episode& e) {
  if (!e.trigger) return "";
  for (const Victim& v : e.victims)
    if (v.process.id.tgid == e.trigger->id.tgid) return "";
  return describe(*e.trigger);
}

std::string sources_of(const PastKill& kill) {
  std::string out;
  for (EpisodeSource source : kill.sources) out += (out.empty() ? "" : ",") + std::string(to_string(source));
  return out + (kill.confirmed ? "" : kMark);
}

// "kill", "kills"
std::string count(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string sizes_of(const Recurrence& r) {
  auto size = [](const std::optional<Bytes>& s) { return s ? format_size(*s) : std::string("unknown"); };
  std::size_t n = r.sizes.size();
  std::string out = fmt::format("last two at {} and {}", size(r.sizes[n - 2]), size(r.sizes[n - 1]));
  if (r.trend != SizeTrend::unknown) out += fmt::format(", {}", to_string(r.trend));
  return out;
}

// `span`: from the first to the last kill.
std::string describe(const Recurrence& r, Nanos span, WallTime now) {
  std::string out = count(r.kills, "kill");
  if (r.times < 2) return fmt::format("{} in {}", out, format_duration(Seconds(span)));
  if (r.kills != r.times) out += fmt::format(" in {} bursts", r.times);
  if (r.times == 2) {
    out += fmt::format(", {} apart", format_duration(*r.interval));
  } else if (r.regular) {
    out += fmt::format(", every {} ± {}", format_duration(*r.interval), format_duration(*r.spread));
  } else {
    out += fmt::format(", not regular (median {} apart)", format_duration(*r.interval));
  }
  out += "; " + sizes_of(r);
  if (r.next) {
    bool over = r.next->high < now;
    constexpr const char* minute = "%Y-%m-%d %H:%M";
    out += fmt::format("; next {} {} ({} to {}){}", over ? "was due" : "expected",
                       format_local(r.next->at, minute), format_local(r.next->low, minute),
                       format_local(r.next->high, minute), over ? " and did not come" : "");
  }
  return out;
}

std::string name_of(const Recurring& r, bool several_hosts) {
  std::string on = r.host.empty() || !several_hosts ? "" : " on " + displayable(r.host);
  if (r.command) return displayable(r.name) + on;
  return (r.name.empty() ? "limit of the machine"
                         : "limit of " + cut_middle(displayable(r.name), kWidestPath)) +
         on;
}

// "2 OOMs in which no process could be killed"
std::string without_victim(std::size_t n) {
  return fmt::format("{} in which no process could be killed", count(n, "OOM"));
}

// Shortens columns with long names: process, limit, trigger.
void shorten(std::vector<std::vector<std::string>>& rows) {
  constexpr std::size_t kProcess = 2, kLimit = 4, kTrigger = 5, kProcessWidth = 22, kLimitWidth = 23;
  for (auto& row : rows) {
    for (std::size_t c : {kProcess, kTrigger})
      if (display_width(row[c]) > kProcessWidth) row[c] = cut_end(row[c], kProcessWidth);
    if (display_width(row[kLimit]) > kLimitWidth) row[kLimit] = cut_middle(row[kLimit], kLimitWidth);
  }
}

// Cells wider than `columns` allow are shortened, and continue on the next line.
void table(std::vector<std::vector<std::string>> rows, std::optional<std::size_t> columns,
           const TextStyle& style, std::string& out) {
  auto widest = [&](std::size_t c) {
    std::size_t width = 0;
    for (const auto& row : rows) width = std::max(width, display_width(row[c]));
    return width;
  };
  std::size_t whole = 0;
  for (std::size_t c = 0; c < rows.front().size(); ++c) whole += widest(c) + 2;
  if (columns && whole > *columns + 2) shorten(rows);
  std::vector<std::size_t> widths(rows.front().size(), 0);
  std::vector<bool> used(widths.size(), false);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], display_width(rows[r][c]));
      used[c] = used[c] || (r && !rows[r][c].empty());
    }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::string> lines(1);
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (!used[c]) continue;
      std::size_t so_far = display_width(lines.back());
      if (columns && so_far > 0 && so_far + widths[c] > *columns) lines.emplace_back("    ");
      lines.back() += align_left(rows[r][c], widths[c]) + "  ";
    }
    for (const std::string& text : lines) {
      Line line;
      line.add(text, r ? Style::normal : Style::strong);
      out += to_text(line, style) + "\n";
    }
  }
}

Json time_json(WallTime t) {
  return format_rfc3339(t);
}

// Notes on unconfirmed kills, below the table.
std::string unconfirmed_text(const std::vector<PastKill>& kills, const HistoryFacts& facts) {
  auto n = static_cast<std::size_t>(std::ranges::count(kills, false, &PastKill::confirmed));
  if (n == 0) return "";
  std::string out =
      fmt::format("\n{} {}; any user can write such a line (logger -t kernel)\n", kMark, kCannotShowWriter);
  if (!facts.of_files) out += fmt::format("  {} so marked: not counted below\n", count(n, "kill"));
  constexpr std::size_t kMost = 8;
  std::size_t doubtful = 0;
  for (const PastKill& kill : kills) {
    std::string doubt = doubt_of(kill, facts);
    if (!doubt.empty() && doubtful++ < kMost)
      out += fmt::format("  {}: {}\n", escape_for_terminal(kill.episode.id), doubt);
  }
  if (doubtful > kMost) out += fmt::format("  and {} more like it\n", doubtful - kMost);
  return out;
}

bool knows_hierarchy(const PastKill& kill) {
  bool live = kill.run && std::ranges::find(kill.sources, EpisodeSource::live) != kill.sources.end();
  return live || log_shows_hierarchy(kill.episode);
}

Json kill_json(const PastKill& kill, const HistoryFacts& facts) {
  ClockMap clock;
  if (kill.run) clock = {kill.run->wall_of_mono_zero, kill.run->wall_of_boot_zero, kill.run->tick};
  Json out = Json::parse(to_json(OomEvent{kill.episode, kill.forecast_before, kill.first_forecast}, clock));
  out["time"] = kill.time ? time_json(*kill.time) : Json(nullptr);
  if (!knows_hierarchy(kill)) leave_hierarchy_open(out);
  out["time_error_s"] = kill.time ? Json(Seconds(kill.error).count()) : Json(nullptr);
  out["since_boot_s"] = kill.since_boot ? Json(Seconds(*kill.since_boot).count()) : Json(nullptr);
  out["boot_id"] = kill.boot_id ? Json(to_valid_utf8(*kill.boot_id)) : Json(nullptr);
  out["host"] = kill.host.empty() ? Json(nullptr) : Json(to_valid_utf8(kill.host));
  Json sources = Json::array(), files = Json::array();
  for (EpisodeSource source : kill.sources) sources.push_back(to_string(source));
  for (const std::string& file : kill.files) files.push_back(to_valid_utf8(file));
  out["sources"] = std::move(sources);
  out["files"] = std::move(files);
  out["written_by_kernel"] = kill.confirmed ? Json(true) : Json(nullptr);
  std::string doubt = doubt_of(kill, facts);
  out["doubt"] = doubt.empty() ? Json(nullptr) : Json(doubt);
  return out;
}

Json user_kill_json(const LoggedUserKill& of) {
  UserKillFact fact;
  fact.victim.id.tgid = of.kill.pid;
  if (of.kill.comm) fact.victim.comm = *of.kill.comm;
  fact.victim.uid = of.kill.uid;
  if (of.kill.cgroup || of.kill.unit) {
    auto cgroup = std::make_shared<CgroupRef>();
    cgroup->path = of.kill.cgroup ? *of.kill.cgroup : "/" + *of.kill.unit;
    cgroup->name = name_cgroup(cgroup->path);
    fact.victim.cgroup = cgroup;
  }
  fact.cause = std::string(of.kill.killer->name);
  Json out = Json::parse(to_json(fact, ClockMap{}));
  leave_hierarchy_open(out);
  if (of.kill.unit && !of.kill.cgroup) out["victim"]["cgroup"]["path"] = nullptr;
  out["sender"] = nullptr;  // its sentence does not name its own process
  out["time"] = of.time ? time_json(*of.time) : Json(nullptr);
  out["since_boot_s"] = of.kill.since_boot ? Json(Seconds(*of.kill.since_boot).count()) : Json(nullptr);
  out["signal"] = to_valid_utf8(of.kill.signal);
  out["host"] = of.kill.host.empty() ? Json(nullptr) : Json(to_valid_utf8(of.kill.host));
  out["files"] = Json::array({to_valid_utf8(of.file)});
  return out;
}

// "python3 (4515)", or the cgroup.
std::string killed_by_other(const OtherKill& kill) {
  constexpr std::size_t kWidest = 27;  // for a line of 80 columns
  if (kill.cgroup) return cut_middle(displayable(*kill.cgroup), kWidest);
  if (kill.unit) return cut_middle(displayable(*kill.unit), kWidest);
  return fmt::format("{} ({})", kill.comm ? displayable(*kill.comm) : std::string("?"), kill.pid);
}

// Printed below the table.
std::string user_kills_text(const HistoryFacts& facts) {
  if (facts.user_kills.empty()) return "";
  std::string out = "\nKilled by others than the kernel\n";
  constexpr std::size_t kMost = 64;
  std::size_t shown = 0;
  for (const LoggedUserKill& of : facts.user_kills) {
    if (shown++ == kMost) break;
    std::string when = of.time ? format_local(*of.time, "%Y-%m-%d %H:%M:%S") : std::string("time unknown");
    out += fmt::format("  {}  {} got {} from {}\n", when, killed_by_other(of.kill),
                       displayable(of.kill.signal), of.kill.killer->name);
  }
  if (facts.user_kills.size() > kMost) out += fmt::format("  and {} more\n", facts.user_kills.size() - kMost);
  return out;
}

// If logs have both the short and the full name of a host: uses the one seen first.
class HostNames {
 public:
  explicit HostNames(const std::vector<PastKill>& kills) {
    for (const PastKill& kill : kills) {
      std::vector<std::string>& alike = by_short_[short_of(kill.host)];
      if (std::ranges::find(alike, kill.host) == alike.end()) alike.push_back(kill.host);
    }
  }
  // "web1" means web1.a only if no web1.b is known.
  const std::string& name_of(const std::string& host) const {
    const std::vector<std::string>& alike = by_short_.at(short_of(host));
    return alike.size() == 2 && !are_different_hosts(alike[0], alike[1]) ? alike[0] : host;
  }

 private:
  static std::string short_of(const std::string& host) { return host.substr(0, host.find('.')); }
  std::map<std::string, std::vector<std::string>> by_short_;
};

// As in the newest kill; a recreated path has another inode.
Json limit_json(const Recurring& what, const std::vector<PastKill>& kills) {
  if (what.command || what.name.empty()) return nullptr;
  const PastKill& newest = kills[what.kills.front()];
  const CgroupPtr& cgroup = newest.episode.limit_cgroup;
  Json out = cgroup_json(cgroup);
  for (std::size_t kill : what.kills)
    if (kills[kill].episode.limit_cgroup->id != cgroup->id) out["id"] = nullptr;
  if (!knows_hierarchy(newest)) leave_hierarchy_open(out);
  return out;
}

Json recurrence_json(const Recurring& what, const std::vector<PastKill>& kills) {
  const Recurrence& r = what.recurrence;
  auto seconds = [](const std::optional<Seconds>& s) { return s ? Json(s->count()) : Json(nullptr); };
  Json ids = Json::array(), sizes = Json::array();
  for (std::size_t kill : what.kills) ids.push_back(to_valid_utf8(kills[kill].episode.id));
  for (const auto& size : r.sizes) sizes.push_back(size ? Json(size->count) : Json(nullptr));
  Json next = nullptr;
  if (r.next)
    next = {
        {"time", time_json(r.next->at)}, {"low", time_json(r.next->low)}, {"high", time_json(r.next->high)}};
  return {{"type", "recurrence"},
          {"time", time_json(r.last)},
          {"command", what.command ? Json(to_valid_utf8(what.name)) : Json(nullptr)},
          {"limit_cgroup", limit_json(what, kills)},
          {"host", what.host.empty() ? Json(nullptr) : Json(to_valid_utf8(what.host))},
          {"kills", r.kills},
          {"times", r.times},
          {"first", time_json(r.first)},
          {"interval_s", seconds(r.interval)},
          {"regular", r.regular},
          {"spread_s", seconds(r.spread)},
          {"next_expected", std::move(next)},
          {"last_sizes_bytes", std::move(sizes)},
          {"trend", to_string(r.trend)},
          {"written_by_kernel", what.confirmed ? Json(true) : Json(nullptr)},
          {"ids", std::move(ids)}};
}

}  // namespace

std::string doubt_of(const PastKill& kill, const HistoryFacts& facts) {
  const std::string& own = facts.machine.host;
  bool is_own = !kill.host.empty() && !own.empty() && !is_of_another_host(kill, own);
  if (kill.confirmed || !is_own || !facts.machine.memory) return "";
  std::optional<Bytes> most;  // file and shared pages count once per mapping process
  for (const Victim& v : kill.episode.victims) most = std::max(most, v.anon);
  if (!most || *most <= *facts.machine.memory) return "";
  return fmt::format("doubtful: {} of anonymous memory, and this machine has {}", format_size(*most),
                     format_size(*facts.machine.memory));
}

std::vector<Recurring> recurring(const std::vector<PastKill>& kills, bool all) {
  std::map<std::tuple<bool, std::string, std::string>, std::vector<std::size_t>> groups;
  HostNames hosts(kills);
  for (std::size_t i = 0; i < kills.size(); ++i) {
    const Episode& e = kills[i].episode;
    if (!kills[i].time || (!all && !kills[i].confirmed)) continue;
    std::set<std::string> names;
    for (const Victim& v : e.victims)
      if (!v.process.comm.empty()) names.insert(v.process.comm);
    const std::string& host = hosts.name_of(kills[i].host);
    for (const std::string& name : names) groups[{true, name, host}].push_back(i);
    if (e.limit_cgroup)
      groups[{false, e.limit_cgroup->path, host}].push_back(i);
    else if (e.scope == OomScope::global)
      groups[{false, "", host}].push_back(i);
  }
  std::vector<Recurring> out;
  for (auto& [key, members] : groups) {
    const auto& [command, name, host] = key;
    if (members.size() < 2) continue;
    std::vector<KillPoint> points;
    for (auto i = members.rbegin(); i != members.rend(); ++i) {
      std::optional<Bytes> size;
      for (const Victim& v : kills[*i].episode.victims)
        if (!command || v.process.comm == name) size = std::max(size, own_memory(v));
      points.push_back({*kills[*i].time, size});
    }
    bool confirmed = std::ranges::all_of(members, [&](std::size_t i) { return kills[i].confirmed; });
    out.push_back({command, host, name, *recurrence_of(points), std::move(members), confirmed});
  }
  std::ranges::stable_sort(out, [](const Recurring& a, const Recurring& b) {
    return std::pair(a.recurrence.kills, a.command) > std::pair(b.recurrence.kills, b.command);
  });
  return out;
}

std::string history_text(const std::vector<PastKill>& kills, const HistoryFacts& facts,
                         const TextStyle& style) {
  std::string read;
  for (const std::string& source : facts.sources)
    read += (read.empty() ? "" : ", ") + settle_marks(source_in_words(source));
  std::string others = facts.without_victim ? "; " + without_victim(facts.without_victim) : "";
  if (kills.empty())
    return fmt::format("no OOM kill {}found in {}{}\n", facts.filtered ? "that was asked for " : "",
                       read.empty() ? "anything: there was nothing to read" : read, others) +
           user_kills_text(facts);
  std::vector<std::vector<std::string>> rows = {{format_local(facts.now, "TIME (UTC%z)"), "HOST", "PROCESS",
                                                 "SIZE", "LIMIT", "TRIGGER", "SEEN BY", "ID"}};
  bool timeless = false;
  bool several_hosts = std::ranges::any_of(kills, [&](const PastKill& kill) {
    const std::string& first = kills.front().host;
    return kill.host.empty() != first.empty() || are_different_hosts(kill.host, first);
  });
  for (const PastKill& kill : kills) {
    timeless = timeless || !kill.time;
    const Episode& e = kill.episode;
    rows.push_back({time_of(kill, facts.now), several_hosts ? displayable(kill.host) : "", who(e), size_of(e),
                    limit_of(e), trigger_of(e), sources_of(kill), escape_for_terminal(e.id)});
  }
  std::string out = fmt::format("{} in {}{}\n\n", count(kills.size(), "OOM kill"), read, others);
  table(rows, facts.columns, style, out);
  out += unconfirmed_text(kills, facts);
  out += user_kills_text(facts);
  if (timeless)
    out +=
        "\nA log that only counts from a boot does not tell the time of day: dmesg -T or --time-format iso "
        "does.\n";
  bool any = false;
  std::vector<std::vector<std::size_t>> told;
  for (const Recurring& r : recurring(kills, facts.of_files)) {
    // A limit that killed only one command would repeat that command's sentence.
    if (std::ranges::find(told, r.kills) != told.end()) continue;
    told.push_back(r.kills);
    if (!std::exchange(any, true)) out += "\nHow often\n";
    Nanos span = *kills[r.kills.front()].time - *kills[r.kills.back()].time;
    std::string line = fmt::format("  {}{}: {}", name_of(r, several_hosts), r.confirmed ? "" : kMark,
                                   describe(r.recurrence, span, facts.now));
    if (!facts.columns)
      out += line + "\n";
    else
      for (const std::string& part : wrap(line, *facts.columns, 4)) out += part + "\n";
  }
  return out;
}

std::string history_json(const std::vector<PastKill>& kills, const HistoryFacts& facts) {
  std::string out;
  auto add = [&](const Json& line) { out += dump(line) + "\n"; };
  Json sources = Json::array();
  for (const std::string& source : facts.sources) sources.push_back(to_valid_utf8(source));
  add({{"type", "start"},
       {"time", time_json(facts.now)},
       {"schema", 1},
       {"version", facts.version},
       {"kernel", nullptr},
       {"host", facts.machine.host.empty() ? Json(nullptr) : Json(to_valid_utf8(facts.machine.host))},
       {"boot_id", nullptr},  // of several boots
       {"sources", std::move(sources)}});
  for (const PastKill& kill : kills) add(kill_json(kill, facts));
  for (const LoggedUserKill& kill : facts.user_kills) add(user_kill_json(kill));
  for (const Recurring& r : recurring(kills, facts.of_files)) add(recurrence_json(r, kills));
  Json lost = Json::object();
  if (facts.left_out) lost["too_many_kills"] = facts.left_out;
  if (facts.user_kills_left_out) lost["too_many_user_kills"] = facts.user_kills_left_out;
  add({{"type", "end"},
       {"time", time_json(facts.now)},
       {"records", kills.size() + facts.user_kills.size()},
       {"without_victim", facts.without_victim},
       {"lost", std::move(lost)}});
  return out;
}

}  // namespace oomcast
