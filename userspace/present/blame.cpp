#include "present/blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/escape.h"
#include "present/blame_holders.h"
#include "present/blame_parts.h"
#include "present/blame_quiet.h"
#include "stream/loss_words.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr double kMinBranch = 0.03;   // for a branch in the tree
constexpr double kMinOfWindow = 0.2;  // traced fraction; a note is printed below it
constexpr std::size_t kMaxShown = 20, kMaxDepth = 64, kMaxTree = 30;
constexpr std::size_t kMaxEnded = 5, kMaxUnread = 16, kMaxFlat = 3;  // listed by name

// "void std::vector<int>::_M_realloc_insert<int const&>(…)": names of templates begin with the return type.
std::string_view without_return_type(std::string_view function) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)", kOperator = "operator";
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < function.size(); ++i) {
    char c = function[i];
    if (function.substr(i).starts_with(kUnnamed)) {
      i += kUnnamed.size() - 1;
      continue;
    }
    bool word = i == 0 || function[i - 1] == ' ' || function[i - 1] == ':';
    if (depth == 0 && (c == '(' || (word && function.substr(i).starts_with(kOperator)))) break;
    if (depth == 0 && c == ' ') begin = i + 1;
    depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
  }
  return function.substr(begin);
}

// Allocation functions of every program: the line that matters is the caller's.
bool is_plumbing(const Frame& frame) {
  constexpr std::array<std::string_view, 9> kFiles = {"libc.so",     "libc-2.",     "libstdc++.so",
                                                      "ld-linux",    "libjemalloc", "libtcmalloc",
                                                      "libmimalloc", "ld-musl",     "libc.musl"};
  constexpr std::array<std::string_view, 6> kBeginnings = {
      "operator new", "std::", "__gnu_cxx::", "_int_", "sysmalloc", "__libc_"};
  constexpr std::array<std::string_view, 10> kFunctions = {
      "malloc",   "calloc", "realloc", "posix_memalign", "aligned_alloc",
      "memalign", "memset", "memcpy",  "memmove",        "malloc_consolidate"};
  std::string_view file = base_name(frame.file), name = without_return_type(frame.function);
  auto begins = [](std::string_view text) {
    return [text](std::string_view p) { return text.starts_with(p); };
  };
  // "malloc@plt", "realloc.part.0"
  std::string_view word = name.substr(0, name.find_first_of("(@."));
  return std::any_of(kFiles.begin(), kFiles.end(), begins(file)) ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), begins(name)) ||
         std::find(kFunctions.begin(), kFunctions.end(), word) != kFunctions.end();
}

struct Node {
  const Frame* frame = nullptr;
  Bytes grown;
  std::vector<Node> children;
};

void insert(Node& node, const std::vector<const Frame*>& stack, std::size_t at, Bytes grown) {
  node.grown += grown;
  if (at >= stack.size() || at >= kMaxDepth) return;
  auto child = std::find_if(node.children.begin(), node.children.end(),
                            [&](const Node& n) { return *n.frame == *stack[at]; });
  if (child == node.children.end()) child = node.children.insert(child, Node{stack[at], {}, {}});
  insert(*child, stack, at + 1, grown);
}

class Tree {
 public:
  Tree(Bytes whole, Seconds window) : whole_(whole), window_(window) {}

  /// The largest branches first; lines without room are counted.
  std::string text(Node& root) {
    print(root, 0);
    if (left_out_)
      out_ += fmt::format("  {:31}  … {} line{} more: --format html, folded or pprof have them\n", "",
                          left_out_, left_out_ == 1 ? "" : "s");
    return std::move(out_);
  }

 private:
  void print(Node& node, std::size_t depth) {
    std::sort(node.children.begin(), node.children.end(),
              [](const Node& a, const Node& b) { return a.grown > b.grown; });
    for (Node& child : node.children) {
      if (share(child.grown, whole_) < kMinBranch) break;
      if (lines_ < kMaxTree) {
        ++lines_;
        // A chain of single callees stays at one depth: only branches are indented.
        out_ += fmt::format("  {:>10} {:>13} {:>4.0f}%  {:{}}{}\n", format_size(child.grown),
                            format_rate(rate(child.grown, window_)), 100 * share(child.grown, whole_), "",
                            depth, to_text(*child.frame));
      } else {
        ++left_out_;
      }
      print(child, depth + (node.children.size() > 1 ? 2 : 0));
    }
  }

  Bytes whole_;
  Seconds window_;
  std::string out_;
  std::size_t lines_ = 0, left_out_ = 0;
};

// "kept: 36 blocks, 20.2 ± 1.1 MiB": allocated there and not freed; other lines merely touched the pages
// first.
std::string evidence(const Kept& kept) {
  if (!kept.blocks) return "touched";
  std::string size = kept.error < kept.bytes ? format_size(kept.bytes) + " ± " + format_size(kept.error)
                                             : "at most " + format_size(kept.bytes + kept.error);
  return fmt::format("kept: {} block{}, {}", kept.blocks, kept.blocks == 1 ? "" : "s", size);
}

// The lines that most of the growth comes from, by any stack.
std::string top_lines(const BlameProcess& p, Seconds window) {
  constexpr std::size_t kMax = 5;
  struct Line {
    Bytes grown;
    Kept kept;
    std::set<std::uint32_t> held_by;
    bool small_objects = false, adds = false;
  };
  std::map<std::string, Line> sums;
  for (const BlameSite& site : p.sites) {
    const Frame* frame = culprit(site.stack);
    if ((!frame && !site.small_objects) || site.grown <= Bytes{}) continue;
    std::string text = frame ? to_text(*frame) : "";
    if (site.small_objects)
      text = frame ? text + "  and what it calls: small objects" : "small objects of no known line";
    Line& line = sums[text];
    line.grown += site.grown;
    line.kept.bytes += site.kept.bytes;
    line.kept.error += site.kept.error;
    line.kept.blocks += site.kept.blocks;
    if (site.held_by) line.held_by.insert(*site.held_by);
    line.small_objects = line.small_objects || site.small_objects;
    line.adds = line.adds || site.adds;
  }
  std::vector<std::pair<Line, std::string>> lines;
  for (const auto& [text, line] : sums)
    if (share(line.grown, p.grown()) >= kMinShare) lines.emplace_back(line, text);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first.grown > b.first.grown; });
  if (lines.size() > kMax) lines.resize(kMax);
  std::string out;
  for (const auto& [line, text] : lines) {
    out += fmt::format("  {:>10} {:>13} {:>4.0f}%  {}{}\n", format_size(line.grown),
                       format_rate(rate(line.grown, window)), 100 * share(line.grown, p.grown()), text,
                       line.adds                       ? "  small objects, added here"
                       : p.kept && !line.small_objects ? "  " + evidence(line.kept)
                                                       : "");
    for (std::uint32_t i : line.held_by) out += fmt::format("  {:31}  {}\n", "", holder_text(p, i, text));
  }
  out += other_holders(p);
  out += grown_types_text(p);
  return out.empty() ? out : out + "  by stack, outermost first:\n";
}

// By line: memory requested from the driver, not what the pool handed out.
std::string gpu_lines(const BlameProcess& p) {
  constexpr std::size_t kMax = 5;
  std::map<std::string, std::pair<Bytes, std::uint64_t>> sums;
  Bytes all;
  for (const BlameGpuSite& site : p.gpu) {
    const Frame* frame = culprit(site.stack);
    auto& sum = sums[frame ? to_text(*frame) : "?"];
    sum.first += site.bytes;
    sum.second += site.calls;
    all += site.bytes;
  }
  if (sums.empty()) return "";
  std::vector<std::pair<std::string, std::pair<Bytes, std::uint64_t>>> lines(sums.begin(), sums.end());
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  if (lines.size() > kMax) lines.resize(kMax);
  std::string out =
      fmt::format("  GPU memory {}, by the line for which it was taken from the driver:\n", signed_size(all));
  for (const auto& [line, sum] : lines)
    out += fmt::format("  {:>10} {:>13} {:>4.0f}%  {}  {} call{}\n", format_size(sum.first), "",
                       100 * share(sum.first, all), line, sum.second, sum.second == 1 ? "" : "s");
  return out;
}

std::string row(Bytes bytes, Bytes whole, Seconds window, std::string_view what) {
  return fmt::format("  {:>10} {:>13} {:>4.0f}%  {}\n", format_size(bytes), format_rate(rate(bytes, window)),
                     100 * share(bytes, whole), what);
}

std::string name_and_pid(const ProcessRef& p) {
  return fmt::format("{}[{}]", escape_for_terminal(p.comm), p.id.tgid);
}

// "the launcher uv[100] is flat", "20 compile workers of python3[141495] are flat, 8.0 GiB of their own":
// processes of the job that do not grow.
std::string family(const BlameReport& report) {
  constexpr Bytes kFlat = MiB(1);
  auto moved = [&](Bytes grown) {
    Bytes least = std::max(kFlat, {static_cast<std::int64_t>(kMinShare * report.grown.as_double())});
    return grown > least || -grown > least ? signed_size(grown) : std::string("flat");
  };
  std::string out;
  std::size_t flat = 0;  // launchers; a machine has many shells
  struct Workers {
    std::size_t count = 0;
    Bytes grown, own;
    std::string what;
  };
  std::map<std::uint32_t, Workers> workers;
  for (const BlameProcess& p : report.processes) {
    if (p.role.kind == ProcessRole::Kind::launcher && (moved(p.grown()) != "flat" || ++flat <= kMaxFlat))
      out += fmt::format("  the launcher {}: {}\n", name_and_pid(p.process), moved(p.grown()));
    if (p.role.kind != ProcessRole::Kind::worker || !p.role.of) continue;
    Workers& w = workers[*p.role.of];
    if (w.count++ == 0) w.what = p.role.what;
    if (w.what != p.role.what) w.what.clear();
    w.grown += p.grown();
    if (p.own) w.own += *p.own;
  }
  if (flat > kMaxFlat) out += fmt::format("  {} launchers more: flat\n", flat - kMaxFlat);
  for (const BlameProcess& p : report.processes) {
    auto w = workers.find(p.process.id.tgid);
    if (w == workers.end()) continue;
    std::string what = w->second.what.empty() ? "" : escape_for_terminal(w->second.what) + " ";
    out += fmt::format("  {}: {}; its {} {}worker{}: {}, {} of their own\n", name_and_pid(p.process),
                       moved(p.grown()), w->second.count, what, w->second.count == 1 ? "" : "s",
                       moved(w->second.grown), format_size(w->second.own));
  }
  return out;
}

}  // namespace

std::vector<const Frame*> readable(const Stack& stack) {
  bool python =
      std::any_of(stack.begin(), stack.end(), [](const Frame& f) { return f.kind == Frame::Kind::python; });
  std::vector<const Frame*> out;
  for (const Frame& frame : stack) {
    bool native = frame.kind == Frame::Kind::native;
    if (frame.function.empty() || frame.file.starts_with("<frozen importlib")) continue;
    if (python && native && (out.empty() || base_name(frame.file).find("python3") != std::string_view::npos))
      continue;
    out.push_back(&frame);
  }
  if (out.empty() && !stack.empty()) out.push_back(&stack.back());
  return out;
}

namespace {

void doubt_stacks(const BlameReport& report, std::vector<std::string>& out) {
  if (!report.no_stacks.empty())
    out.push_back("no stacks, only the processes' own counters: " + escape_for_terminal(report.no_stacks));
  if (report.watched_share < 1)
    out.push_back(fmt::format("page faults came so fast that {:.0f} % of the time was watched, by a budget",
                              std::ceil(100 * report.watched_share)));
  if (report.incomplete_stacks)
    out.push_back(
        fmt::format("{} of {} stacks lack their outer frames", report.incomplete_stacks, report.samples));
  if (report.incomplete_python)
    out.push_back(
        fmt::format("{} of {} stacks lack Python frames", report.incomplete_python, report.samples));
  if (report.misplaced_python)
    out.push_back(fmt::format("{} of {} stacks do not tell which native frame runs which Python frame",
                              report.misplaced_python, report.samples));
  if (report.unnamed_frames)
    out.push_back(
        fmt::format("{} of {} frames could not be symbolised", report.unnamed_frames, report.frames));
}

void doubt_counters(const BlameProcess& p, std::vector<std::string>& out) {
  std::string who = name_and_pid(p.process);
  if (p.growth_unknown)
    out.push_back(fmt::format("what {} grew by is not known: its counters could not be read", who));
  else if (!p.exited && !p.grown_shmem)
    out.push_back(
        fmt::format("of {} only anonymous memory in RAM is counted: the rest takes too long to read", who));
}

void doubt_lines(const BlameProcess& p, Seconds window, std::vector<std::string>& out) {
  std::string who = name_and_pid(p.process);
  if (!p.why_not_kept.empty())
    out.push_back(fmt::format("which allocations of {} stay is not known, only who touched new pages: {}",
                              who, escape_for_terminal(p.why_not_kept)));
  if (p.holders && p.holders->cut)
    out.push_back(fmt::format("not all objects of {} were read: another container may hold more", who));
  if (!p.why_not_added.empty())
    out.push_back(fmt::format("which lines add to the containers of {} is not known: {}", who,
                              escape_for_terminal(p.why_not_added)));
  if (p.kept && p.kept->without_new)
    out.push_back(fmt::format(
        "of what the allocator of {} gives by an operator new of its own only who touched it is known: a "
        "breakpoint there would end a program that catches std::bad_alloc",
        who));
  if (p.kept && p.kept->all_watched < kMinOfWindow * window)
    out.push_back(fmt::format(
        "{} calls its allocator {:.0f} times a second: all of it was watched for {}, by a budget, and the "
        "calls that allocate most for {}",
        who, p.kept->calls_per_s, format_duration(p.kept->all_watched), format_duration(p.kept->watched)));
}

void doubt_not_noted(const BlameReport& report, std::vector<std::string>& out) {
  if (report.not_noted)
    out.push_back(
        fmt::format("of {} processes more only what they touched is told, if anything: there was no "
                    "room for what they had before",
                    report.not_noted));
}

void doubt_unread(const BlameReport& report, std::vector<std::string>& out) {
  std::size_t named = 0;
  for (const std::string& process : report.unread)
    if (named++ < kMaxUnread)
      out.push_back(
          fmt::format("the files or the memory of {} could not be read in time, or not at all: only its "
                      "growth is known",
                      escape_for_terminal(process)));
  if (named > kMaxUnread)
    out.push_back(fmt::format("nor could those of {} more processes", named - kMaxUnread));
}

// If nothing grows: doubts about the counters, not about how well lines were found.
std::vector<std::string> doubts_of_counters(const BlameReport& report) {
  std::vector<std::string> out;
  if (!report.no_stacks.empty())
    out.push_back("no stacks, only the processes' own counters: " + escape_for_terminal(report.no_stacks));
  for (const BlameProcess& p : report.processes) doubt_counters(p, out);
  doubt_not_noted(report, out);
  doubt_unread(report, out);
  return out;
}

std::string doubts_text(const std::vector<std::string>& doubts) {
  std::string out;
  for (const std::string& doubt : doubts) out += fmt::format("{}  {}\n", out.empty() ? "\n" : "", doubt);
  return out;
}

std::string ended_text(const BlameReport& report) {
  std::size_t ended = 0;
  std::string names;
  for (const BlameProcess& p : report.processes)
    if (p.exited && ++ended <= kMaxEnded) names += (ended > 1 ? ", " : "") + describe(p.process);
  if (!ended) return "";
  if (ended > kMaxEnded) names += fmt::format(" and {} more", ended - kMaxEnded);
  return fmt::format("\nended in this time, and what they had grown with them: {}\n", names);
}

// "/train: processes grew by 1.2 GiB in 10 s, 123 MiB/s; the cgroup by …"
std::string headline(const BlameReport& report) {
  auto is_known = [](const BlameProcess& p) { return !p.exited && !p.growth_unknown; };
  bool known = report.processes.empty() || std::ranges::any_of(report.processes, is_known);
  bool ended_all = std::ranges::all_of(report.processes, &BlameProcess::exited);
  std::string out = escape_for_terminal(report.scope);
  if (known)
    out += fmt::format(": processes grew by {} in {}, {}", signed_size(report.grown),
                       format_duration(report.window), format_rate(rate(report.grown, report.window)));
  else
    out += fmt::format(": {}what they grew by is not known",
                       ended_all ? "every process has ended, " : "no process's counters could be read, ");
  if (report.cgroup_grown)
    out += fmt::format("; the cgroup by {} (difference {})", signed_size(*report.cgroup_grown),
                       signed_size(*report.cgroup_grown - report.grown));
  return out + "\n";
}

bool grows_in_the_pool(const BlameProcess& p) {
  return p.grown_hugetlb && *p.grown_hugetlb != Bytes{};
}

// `first`: none is shown yet, so show the largest, whatever its share.
bool is_shown(const BlameProcess& p, const BlameReport& report, bool first) {
  return grows_in_the_pool(p) || !p.gpu.empty() || share(p.grown(), report.grown) >= kMinShare ||
         (first && p.grown() > Bytes{});
}

// A process and its counters, without a newline.
std::string process_line(const BlameProcess& p, const BlameReport& report) {
  std::string out =
      fmt::format("\n{}  {}  {}  {:.0f}%", describe(p.process), signed_size(p.grown()),
                  format_rate(rate(p.grown(), report.window)), 100 * share(p.grown(), report.grown));
  if (p.grown_shmem && *p.grown_shmem != Bytes{})
    out += fmt::format("  shared {}", signed_size(*p.grown_shmem));
  if (p.grown_uss) out += fmt::format("  private {}", signed_size(*p.grown_uss));
  if (p.unshared != Bytes{}) out += fmt::format("  copied on write {}", signed_size(p.unshared));
  if (grows_in_the_pool(p))
    out += fmt::format("  and huge pages of the pool {}", signed_size(*p.grown_hugetlb));
  if (p.role.rank) out += fmt::format("  rank {}", *p.role.rank);
  if (!p.python.empty()) out += "  " + escape_for_terminal(p.python);
  return out + (p.exited ? "  ended" : p.growth_unknown ? "  growth not known" : "");
}

// Its lines of code, the stacks leading there, and the growth without any.
std::string lines_and_stacks(const BlameProcess& p, const BlameReport& report) {
  std::string out = top_lines(p, report.window);
  Node root;
  for (const BlameSite& site : p.sites)
    if (site.grown > Bytes{}) insert(root, readable(site.stack), 0, site.grown);
  out += Tree(p.grown(), report.window).text(root);
  if (share(p.free_in_heap, p.grown()) >= kMinShare)
    out += row(p.free_in_heap, p.grown(), report.window, kFreeInHeap);
  if (report.no_stacks.empty() && share(p.unseen, p.grown()) >= kMinShare)
    out += row(p.unseen, p.grown(), report.window, kUnseenByFaults);
  return out + gpu_lines(p);
}

}  // namespace

std::vector<std::string> doubts_of(const BlameReport& report) {
  std::vector<std::string> out;
  doubt_stacks(report, out);
  for (const BlameProcess& p : report.processes) {
    doubt_counters(p, out);
    doubt_lines(p, report.window, out);
  }
  doubt_not_noted(report, out);
  if (report.symbols_unread)
    out.push_back(fmt::format("functions of {} file{} have no name: {} longer than what is read of symbols",
                              report.symbols_unread, report.symbols_unread == 1 ? "" : "s",
                              report.symbols_unread == 1 ? "its table is" : "their tables are"));
  doubt_unread(report, out);
  for (const auto& [reason, count] : report.lost)
    if (count) out.push_back(describe_loss(reason, count));
  return out;
}

const Frame* culprit(const Stack& stack) {
  if (stack.empty()) return nullptr;
  const Frame* python = nullptr;
  for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) {
    if (frame->kind != Frame::Kind::python || frame->function.empty()) continue;
    if (!is_library(frame->file)) return &*frame;
    if (!python) python = &*frame;
  }
  if (python) return python;
  for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame)
    if (!frame->function.empty() && !is_plumbing(*frame)) return &*frame;
  return &stack.back();
}

std::string to_text(const Frame& frame) {
  return code_text(frame.kind == Frame::Kind::python, frame.function, frame.file, frame.line);
}

std::string to_text(const BlameReport& report) {
  if (std::string quiet = nothing_grows(report); !quiet.empty())
    return quiet + ended_text(report) + doubts_text(doubts_of_counters(report));
  std::string out = headline(report) + family(report);
  std::size_t shown = 0, hidden = 0;
  for (const BlameProcess& p : report.processes) {
    if (shown >= kMaxShown || !is_shown(p, report, shown == 0)) {
      hidden += !p.growth_unknown && !p.exited;
      continue;
    }
    ++shown;
    out += process_line(p, report);
    if (!p.exited && !p.growth_unknown && !grows(p))
      out += "  no more than a program varies by\n";
    else
      out += "\n" + lines_and_stacks(p, report);
  }
  if (hidden)
    out += fmt::format("\n{} other process{} grew by less than {:.0f} % or shrank\n", hidden,
                       hidden == 1 ? "" : "es", 100 * kMinShare);
  return out + ended_text(report) + doubts_text(doubts_of(report));
}

}  // namespace oomcast
