#include "stream/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <set>

#include "base/escape.h"
#include "stream/cells.h"
#include "stream/code_text.h"
#include "stream/gpu_proxy.h"
#include "stream/gpu_xid.h"
#include "stream/growth.h"
#include "stream/loss_words.h"

namespace oomcast {
namespace {

constexpr std::size_t kMostOfArgument = 40;                                     // bytes
constexpr std::size_t kTerminalWidth = 80, kBlockIndent = 14, kHeadWidth = 22;  // kHeadWidth: time and type
constexpr std::size_t kMostOfPath = 18;  // so that a forecast of it fits
constexpr std::string_view kRed = "\033[1;31m", kYellow = "\033[33m", kDim = "\033[2m", kOff = "\033[0m";

std::string size_or(const std::optional<Bytes>& size, std::string_view unknown = "unknown") {
  return size ? format_size(*size) : std::string(unknown);
}

// The 64 digits of a container as its runtime prints them: 12.
std::string cut_ids(std::string text) {
  constexpr std::size_t kWhole = 64, kShort = 12;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
    if (end - at == kWhole) {
      text.replace(at + kShort, kWhole - kShort, "…");
      end = at + kShort;
    }
    at = end + 1;
  }
  return text;
}

std::string where(const CgroupPtr& cgroup) {
  return cgroup ? cut_ids(escape_for_terminal(cgroup->path)) : "unknown cgroup";
}

std::string short_of(const CgroupPtr& cgroup) {
  return cut_ids(escape_for_terminal(cgroup->name.name));
}

// The path, or the name of one that no line has room for: decided by the path alone, so that a cgroup has one
// name in all forecasts.
std::string short_where(const CgroupPtr& cgroup) {
  std::string path = where(cgroup);
  return !cgroup || display_width(path) <= kMostOfPath ? path : short_of(cgroup);
}

// Wrapped, a number and its unit on one line.
std::string block(std::string_view label, const std::string& text) {
  constexpr std::array<std::string_view, 11> units = {"B", "KiB", "MiB", "GiB", "TiB", "%",
                                                      "s", "ms",  "min", "h",   "d"};
  constexpr std::string_view joint = "\u00a0";
  std::string joined;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t end = text.find_first_of(" ,.;:)/", at + 1);
    bool unit = text[at] == ' ' && at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) &&
                std::ranges::find(units, std::string_view(text).substr(at + 1, end - at - 1)) != units.end();
    joined += unit ? joint : std::string_view(&text[at], 1);
  }
  std::string out;
  for (std::string line : wrap(fmt::format("    {:<10}{}", label, joined), kTerminalWidth, kBlockIndent)) {
    for (std::size_t at; (at = line.find(joint)) != std::string::npos;) line.replace(at, joint.size(), " ");
    out += "\n" + line;
  }
  return out;
}

// The cgroups of a kill. The limit's is in the headline, those in it begin there; another's path is printed
// once, then its name.
class Places {
 public:
  explicit Places(const CgroupPtr& limit) : limit_(limit) {}
  // " in step", empty for the limit's own.
  std::string operator()(const CgroupPtr& cgroup) {
    if (!cgroup) return " in unknown cgroup";
    if (limit_ && limit_->path == cgroup->path) return "";
    if (limit_ && limit_->path != "/" && cgroup->path.starts_with(limit_->path + "/"))
      return " in " + cut_ids(escape_for_terminal(cgroup->path.substr(limit_->path.size() + 1)));
    bool first = told_.insert(cgroup->path).second;
    return " in " + (first ? where(cgroup) : short_of(cgroup));
  }

 private:
  CgroupPtr limit_;
  std::set<std::string> told_;
};

// Name and pid, and as much of the argument as there is room for.
std::string described_in(std::size_t room, const ProcessRef& process) {
  constexpr std::size_t kWorthIt = 4;  // " tr…"
  std::string whole = describe(process);
  if (display_width(whole) <= room) return whole;
  ProcessRef bare = process;
  bare.cmdline = {};
  std::string least = describe(bare);
  return room < display_width(least) + kWorthIt ? least : cut_end(whole, room);
}

struct TimeUnit {
  double seconds;
  std::string_view name;
};

TimeUnit unit_for(double seconds) {
  if (seconds < 119.5) return {1, "s"};
  if (seconds < 119.5 * 60) return {60, "min"};
  if (seconds < 48 * 3600) return {3600, "h"};
  return {86400, "d"};
}

std::string in_unit(double seconds, TimeUnit unit) {
  double value = seconds / unit.seconds;
  return value < 9.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

constexpr std::string_view kNow = "now";

std::string_view what_ran_out(const std::optional<OomScope>& scope) {
  if (!scope) return "of what is not known";
  switch (*scope) {
    case OomScope::memcg:
      return "a cgroup hit its limit";
    case OomScope::global:
      return "the machine ran out of memory";
    case OomScope::cpuset:
      return "the memory nodes of a cpuset ran out";
    case OomScope::mempolicy:
      return "the memory nodes of a NUMA policy ran out";
    case OomScope::sysrq:
      return "asked for by SysRq f";
  }
  return "of what is not known";
}

class TextRenderer {
 public:
  TextRenderer(const ClockMap& clock, const TextStyle& style) : clock_(clock), style_(style) {}

  std::string operator()(const StartFact& f) const {
    std::string sources;
    for (const std::string& s : f.sources) sources += (sources.empty() ? "" : ", ") + source_in_words(s);
    std::string on = f.kernel.empty() ? "" : " on Linux " + f.kernel;
    return fmt::format("oomcast {}{}: {}", f.version, on, sources);
  }

  std::string operator()(const Sample& f) const {
    std::string limit = f.limit ? fmt::format(" of {}", format_size(*f.limit)) : "";
    if (f.limit_cgroup && f.cgroup && f.limit_cgroup->id != f.cgroup->id)
      limit += fmt::format(" (limit of {})", where(f.limit_cgroup));
    return at(f.time, "sample") + fmt::format("{}  {}{}, not reclaimable {}", where(f.cgroup),
                                              size_or(f.usage), limit, size_or(f.pinned));
  }

  std::string operator()(const LimitChangedFact& f) const {
    std::string whose = f.limit_cgroup && f.cgroup && f.limit_cgroup->id != f.cgroup->id
                            ? fmt::format(" (of {})", where(f.limit_cgroup))
                            : "";
    return at(f.time, "limit") + fmt::format("{}  {} changed from {} to {}{}", where(f.cgroup),
                                             f.kind == LimitKind::high ? "memory.high" : "its memory limit",
                                             size_or(f.before, "none"), size_or(f.limit, "none"),
                                             f.kind == LimitKind::host ? ", the machine's" : whose);
  }

  std::string operator()(const ProcessSampleFact& f) const {
    std::string growth = f.growth ? "  " + format_rate(*f.growth) : "";
    return at(f.time, "process") + fmt::format("{}  RSS {} (anon {}, file {}, shmem {}){}",
                                               describe(f.process), format_size(f.rss), format_size(f.anon),
                                               format_size(f.file), format_size(f.shmem), growth);
  }

  std::string operator()(const ExitFact& f) const { return at(f.time, "exit") + describe(f.process); }

  std::string operator()(const TickFact&) const { return ""; }
  std::string operator()(const ForgottenFact&) const { return ""; }

  std::string operator()(const ForecastFact& f) const {
    std::string rate = f.forecast.growth ? " " + format_rate(f.forecast.growth->rate) : "";
    std::string what =
        fmt::format("  {}{} {}", to_string(f.forecast.verdict), rate, describe_deadline(f.forecast));
    std::size_t room = kTerminalWidth - std::min(kTerminalWidth, kHeadWidth + display_width(what));
    std::string who = f.process          ? described_in(room, *f.process)
                      : f.cgroup         ? short_where(f.cgroup)
                      : f.device         ? ""
                      : f.series.empty() ? "series"
                                         : escape_for_terminal(f.series);
    if (f.device) who += (f.process ? " on " : "") + to_string(*f.device);
    std::string line = who + what;
    return at(f.time, "forecast", f.time_s) + paint(f.forecast.alert ? kYellow : "", line);
  }

  std::string operator()(const OomEvent& f) const {
    const Episode& e = f.episode;
    std::string out = at(e.time, "oom") + headline(e);
    Places in(e.limit_cgroup);
    for (const Victim& v : e.victims) {
      std::string state = !v.killed ? "exit not seen" : *v.killed ? "killed" : "exited by itself";
      if (v.freed_after) state += fmt::format(", memory back after {}", format_duration(*v.freed_after));
      out += block("killed",
                   fmt::format("{}{}: anon {}, file {}, shmem {}, page tables {}, oom_score_adj {} ({})",
                               describe(v.process), in(v.process.cgroup), size_or(v.anon), size_or(v.file),
                               size_or(v.shmem), size_or(v.pgtables),
                               v.oom_score_adj ? fmt::format("{}", *v.oom_score_adj) : "unknown", state));
    }
    for (const ProcessRef& p : e.also_killed) out += block("with it", describe(p) + " (shared its memory)");
    if (e.trigger) out += block("trigger", describe(*e.trigger) + in(e.trigger->cgroup));
    for (const GrewProcess& g : e.grew_most)
      out += block("grew", fmt::format("{} by {} of RSS in the last {}", describe(g.process),
                                       format_size(g.grew), format_duration(g.over)));
    for (const GrowthSource& source : growth_sources(e.grew_from)) {
      if (only_varied(source)) continue;
      std::string doubts = source.site ? doubts_of(*source.site) : "";
      out +=
          block("from", describe(source, e.grew_from.holders) + (doubts.empty() ? "" : " (" + doubts + ")"));
    }
    if (f.forecast_before)
      out += block("forecast", fmt::format("{} before: {}, {}",
                                           format_duration(seconds_between(f.forecast_before->time, e.time)),
                                           to_string(f.forecast_before->forecast.verdict),
                                           describe_deadline(f.forecast_before->forecast)));
    return out + block("counted", checks(e.checks));
  }

  std::string operator()(const UserKillFact& f) const {
    return at(f.time, "kill") +
           fmt::format("{} got SIGKILL from {}{}", describe(f.victim), describe(f.sender),
                       f.cause ? fmt::format(" ({})", escape_for_terminal(*f.cause)) : "");
  }

  std::string operator()(const ReclaimFact& f) const {
    return at(f.time, "reclaim") + fmt::format("{}  {} stalls, {} in all, {} reclaimed", where(f.cgroup),
                                               f.stalls, format_duration(f.stalled),
                                               format_size(f.reclaimed));
  }

  std::string operator()(const PressureFact& f) const {
    auto percent = [](const std::optional<PressureLine>& p) {
      return p ? fmt::format("{:.1f} %", p->avg10) : std::string("unknown");
    };
    bool host = !f.cgroup || f.cgroup->name.kind == CgroupKind::root;
    return at(f.time, "pressure") + fmt::format("{}  some {}, full {} of the last 10 s",
                                                host ? "host" : where(f.cgroup), percent(f.pressure.some),
                                                percent(f.pressure.full));
  }

  std::string operator()(const GpuFact& f) const {
    const GpuEvent& e = f.event;
    std::string what = fmt::format("{} {} {}", to_string(e.op), size_or(e.bytes), to_string(e.kind));
    if (e.op == GpuEvent::Op::context) what = "context";
    if (e.op == GpuEvent::Op::close)
      what = fmt::format("ended, held {}, managed {}, pinned {}", size_or(e.bytes), size_or(e.managed),
                         size_or(e.pinned));
    if (e.op == GpuEvent::Op::free_seen)
      what = fmt::format("sees {} free of {}", size_or(e.free_bytes), size_or(e.bytes));
    if (e.op == GpuEvent::Op::oom)
      what = fmt::format("out of {}: asked for {}", memory_of(e.kind), size_or(e.bytes));
    if (e.op == GpuEvent::Op::recovered) what = fmt::format("recovered: got {}", size_or(e.bytes));
    if (e.op == GpuEvent::Op::again)
      what = fmt::format("the same {} allocated again, first at {}", size_or(e.bytes),
                         format_clock(clock_.wall(*e.first)));
    if (e.op == GpuEvent::Op::oversubscribed)
      what = fmt::format("more than the card has: {} of managed memory pushed out", size_or(e.bytes));
    if (e.op == GpuEvent::Op::xid) what = xid(e);
    if (e.overhead) what += " (context overhead)";
    if (e.device) what += " on " + to_string(*e.device);
    if (const CodePlace* place = culprit(e.code)) what += "  for " + to_text(*place);
    bool bad = is_news(e.op) && e.op != GpuEvent::Op::recovered;
    std::string who = f.process ? describe(*f.process) + "  " : "";
    return at(f.time, "gpu") + who + paint(bad ? kYellow : "", what);
  }

  std::string operator()(const GpuSample& f) const {
    std::string who = f.process ? describe(*f.process) + "  " : "";
    if (auto proxy = f.process ? gpu_proxy(*f.process) : std::nullopt)
      who += *proxy == "mps" ? "(for the clients of MPS)  " : "(for a gVisor sandbox)  ";
    if (f.device) who += to_string(*f.device) + "  ";
    std::string what = f.since_before && f.held.count == 0
                           ? "unknown: it was there before oomcast"
                           : fmt::format("{}{}", f.since_before ? "at least " : "", format_size(f.held));
    if (f.limit) what += " of " + format_size(*f.limit);
    if (f.overhead.count) what += fmt::format(" ({} by contexts)", format_size(f.overhead));
    if (f.managed && f.managed->count) what += ", managed " + format_size(*f.managed);
    if (f.pinned && f.pinned->count) what += ", pinned host memory " + format_size(*f.pinned);
    if (f.evicted && f.evicted->count)
      what += ", evicted " + format_size(*f.evicted);
    else if (f.moved_out && f.moved_out->count)
      what += (f.process ? ", moved out " : ", pushed out ") + format_size(*f.moved_out);
    return at(f.time, "gpu_sample") + who + what;
  }

  std::string operator()(const AlertFact& f) const {
    std::string out = at(f.time, "alert") +
                      paint(kYellow, fmt::format("{}: {}", escape_for_terminal(f.rule), cut_ids(f.message)));
    for (const ActionRun& run : f.actions) out += "\n    " + outcome(run);
    return out;
  }

  std::string operator()(const LostFact& f) const {
    return at(f.time, "lost") + paint(kYellow, describe_loss(f.reason, f.count));
  }

  std::string operator()(const TotalsFact& f) const {
    auto sum = [](const auto& counts) {
      std::uint64_t out = 0;
      for (const auto& [name, count] : counts) out += count;
      return out;
    };
    return at(f.time, "totals") + fmt::format("{} OOM kills, {} other SIGKILLs, {} alerts, {} lost, in {}",
                                              sum(f.kills), f.user_kills, f.alerts, sum(f.lost),
                                              format_duration(seconds_between(f.since, f.time)));
  }

  std::string operator()(const EndFact& f) const {
    std::string lost;
    for (const auto& [reason, count] : f.lost)
      if (count) lost += (lost.empty() ? "" : "\n    ") + describe_loss(reason, count);
    return at(f.time, "end", f.time_s) +
           fmt::format("{} records, lost: {}", f.records, lost.empty() ? "none" : lost);
  }

 private:
  // What does not fit stands below it, the path to be copied.
  std::string headline(const Episode& e) const {
    auto hit = [&](const std::string& whose) {
      return fmt::format("OOM kill: {} hit its limit of {}", whose, size_or(e.limit));
    };
    auto fits = [](const std::string& text) { return kHeadWidth + display_width(text) <= kTerminalWidth; };
    std::string line = "OOM kill: " + std::string(what_ran_out(e.scope)), below;
    if (e.limit_cgroup) {
      line = hit(where(e.limit_cgroup));
      if (!fits(line)) {
        line = hit(short_of(e.limit_cgroup));
        below = fmt::format("\n    {:<10}{}", "cgroup", where(e.limit_cgroup));
      }
    }
    if (!e.series) return paint(kRed, line) + below;
    std::string again = fmt::format("kill {} in {}", e.series->kills,
                                    format_duration(seconds_between(e.series->since, e.time)));
    std::string with = fmt::format("{} ({})", line, again);
    return fits(with) ? paint(kRed, with) + below : paint(kRed, line) + block("again", again) + below;
  }

  // "Xid 31 (memory page fault on the card): pid=4711, name=python3, …"
  static std::string xid(const GpuEvent& e) {
    std::string out = e.status ? fmt::format("Xid {}", *e.status) : "Xid";
    if (std::string_view name = gpu_xid_name(e.status.value_or(~0u)); !name.empty())
      out += fmt::format(" ({})", name);
    if (!e.message.empty()) out += ": " + escape_for_terminal(e.message);
    if (!e.device && !e.bus.empty()) out += " at " + escape_for_terminal(e.bus);
    return out;
  }

  // "exec      'mail root': exit code 1 after 12 ms"
  static std::string outcome(const ActionRun& run) {
    std::string out = fmt::format("{:<10}{}", to_string(run.kind), escape_for_terminal(run.what));
    if (run.process) out += " to " + describe(*run.process);
    return out + ": " + result_of(run);
  }

  static std::string checks(const EpisodeChecks& c) {
    auto count = [](const std::optional<std::uint64_t>& n) {
      return n ? fmt::format("{}", *n) : std::string("-");
    };
    return fmt::format("{} by the kernel's event, {} by its log, {} by its counter", count(c.mark_victim),
                       count(c.kmsg), count(c.vmstat));
  }

  std::string paint(std::string_view color, const std::string& line) const {
    return style_.color && !color.empty() ? fmt::format("{}{}{}", color, line, kOff) : line;
  }
  std::string at(MonoTime time, std::string_view type, std::optional<double> time_s = std::nullopt) const {
    std::string when = time_s ? fmt::format("{:>12.13g} s", *time_s) : format_clock(clock_.wall(time));
    return paint(kDim, when) + fmt::format(" {:<9}", type);
  }

  const ClockMap& clock_;
  const TextStyle& style_;
};

}  // namespace

std::string format_clock(WallTime t) {
  std::int64_t ns = t.time_since_epoch().count();
  std::time_t when = ns / 1'000'000'000;
  std::tm local{};
  localtime_r(&when, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec,
                     ns / 1'000'000 % 1000);
}

std::string describe(const ProcessRef& process) {
  if (process.comm.empty()) return fmt::format("pid {}", process.id.tgid);
  std::string out = escape_for_terminal(process.comm);
  if (process.id.tgid) out += fmt::format("[{}]", process.id.tgid);  // a log may not have it
  // The first argument that is no option tells most: the script of an interpreter, the module after -m.
  std::string_view before;
  bool first = true;
  for (std::string_view arg : process.cmdline) {
    bool code = before == "-c";
    before = arg;
    if (std::exchange(first, false) || arg.empty() || arg[0] == '-') continue;
    std::size_t most = std::min<std::size_t>(arg.size(), kMostOfArgument);
    while (most > 0 && most < arg.size() && (arg[most] & 0xc0) == 0x80) --most;  // not inside a character
    std::string shown = escape_for_terminal(arg.substr(0, most));
    return out + (code ? " -c '" : " ") + shown + (most < arg.size() ? "…" : "") + (code ? "'" : "");
  }
  return out;
}

std::string result_of(const ActionRun& run) {
  using Result = ActionRun::Result;
  std::string how = "still runs";  // running, left
  if (run.result == Result::ok) how = run.kind == ActionRun::Kind::signal ? "sent" : "done";
  if (run.result == Result::failed) how = "failed";
  if (run.result == Result::timed_out) how = "killed, it took too long";
  if (run.result == Result::lost) how = "not started: too many were running";
  bool ended = run.result == ActionRun::Result::ok || run.result == ActionRun::Result::failed;
  if (ended && run.exit_code) how = fmt::format("exit code {}", *run.exit_code);
  if (ended && run.signal) how = fmt::format("ended by signal {}", *run.signal);
  if (run.error) how = escape_for_terminal(*run.error);
  if (run.took && run.kind == ActionRun::Kind::exec) how += " after " + format_duration(*run.took);
  return how;
}

std::string source_in_words(std::string_view source) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> words = {{
      {"cgroupfs-v1", "cgroup files (v1)"},
      {"cgroupfs-v2", "cgroup files (v2)"},
      {"kmsg", "kernel log"},
      {"bpf", "kernel programs"},
      {"store", "what oomcast stored"},
      {"journal", "journal"},
  }};
  for (const auto& [name, text] : words)
    if (name == source) return std::string(text);
  return escape_for_terminal(source);
}

std::string_view memory_of(GpuMemoryKind kind) {
  if (kind == GpuMemoryKind::device) return "GPU memory";
  return kind == GpuMemoryKind::pinned ? "host memory" : "memory";
}

std::string_view end_of(const Forecast& f) {
  return f.limit_kind == LimitKind::high ? "throttled at its memory.high" : "OOM";
}

std::string describe_deadline(const Forecast& f) {
  if (f.evidence.thrashing) return describe(*f.evidence.thrashing);
  if (!f.eta && !f.eta_low && !f.limit && f.verdict == Verdict::leak) return "its limit is not known";
  std::string_view what = end_of(f);
  if (!f.eta && f.eta_low)
    return fmt::format("{} in {} at the earliest, may never", what, format_duration(*f.eta_low));
  if (!f.eta) return f.verdict == Verdict::unknown ? "too early to say" : "no OOM in sight";
  if (f.limit_kind == LimitKind::high && f.eta->count() <= 0) return std::string(what);
  std::string when = format_deadline(f, true);
  return fmt::format("{} {}{}", what, when == kNow ? "" : "in ", when);
}

std::string format_deadline(const Forecast& f, bool with_interval) {
  constexpr double kTwoYears = 730 * 86400.0;
  if (!f.eta) {
    if (!f.eta_low || f.eta_low->count() > kTwoYears) return "–";
    TimeUnit unit = unit_for(f.eta_low->count());
    std::string low = fmt::format("{} {}", in_unit(f.eta_low->count(), unit), unit.name);
    return with_interval ? "> " + low + " or never" : ">" + low;
  }
  double eta = f.eta->count();
  if (eta < 0.05) return std::string(kNow);
  if (eta > kTwoYears) return ">2 years";
  TimeUnit unit = unit_for(eta);
  std::string out = fmt::format("{} {}", in_unit(eta, unit), unit.name);
  if (!with_interval || !f.eta_low) return out;
  std::string high = "never";
  if (f.eta_high && f.eta_high->count() <= kTwoYears) {
    TimeUnit other = unit_for(f.eta_high->count());
    bool same = f.eta_high->count() < 1000 * unit.seconds;
    high = same ? in_unit(f.eta_high->count(), unit)
                : fmt::format("{} {}", in_unit(f.eta_high->count(), other), other.name);
  }
  return fmt::format("{} ({}–{})", out, in_unit(f.eta_low->count(), unit), high);
}

std::string to_text(const Fact& fact, const ClockMap& clock, const TextStyle& style) {
  return std::visit(TextRenderer(clock, style), fact);
}

}  // namespace oomcast
