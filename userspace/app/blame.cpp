// What is growing: page faults sampled for a while, then told by process and line.
#include "blame/blame.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <unordered_set>

#include "app/commands.h"
#include "app/output_file.h"
#include "app/privileges.h"
#include "app/scope.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "collect/bpf_source_faults.h"
#include "collect/text.h"
#include "present/blame.h"
#include "present/blame_diff.h"
#include "present/stack_profile.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kDefaultWindow = 10s;
constexpr Nanos kNoteEvery = 50ms;       // a process that ends takes the names of its functions with it
constexpr std::size_t kMostNoted = 512;  // processes that are read when the window begins

/// Whose faults are sampled, and which processes that means now.
struct Scope {
  std::vector<CgroupEntry> cgroups;  // the topmost
  std::vector<std::uint32_t> pids;   // all that are in it now
};

Result<Scope> find_scope(const ScopeOptions& wanted, const CgroupFs& fs, const ProcFs& procfs,
                         const Roots& roots) {
  Scope out;
  auto all = procfs.list_pids();
  if (!all) return all.error();
  std::unordered_set<std::string> paths;
  if (!wanted.whole_machine() && !wanted.pid) {
    auto tree = fs.list();
    if (!tree) return tree.error();
    std::vector<KnownCgroup> known;
    for (const CgroupEntry& c : tree->cgroups) known.push_back({c.id, c.path, name_cgroup(c.path), {}});
    auto matches = match_cgroups(wanted, std::move(known), fs.mount(), roots);
    if (!matches) return matches.error();
    for (const CgroupEntry& c : tree->cgroups)
      if (std::find(matches->begin(), matches->end(), c.id) != matches->end()) out.cgroups.push_back(c);
  }
  std::unordered_set<std::uint32_t> family;
  if (wanted.pid) {
    auto id = procfs.read_task_id(*wanted.pid);
    if (!id || !*id) return Error::failed(fmt::format("no process has pid {}", *wanted.pid));
    family.insert(*wanted.pid);
    std::unordered_map<std::uint32_t, std::uint32_t> parents;
    for (std::uint32_t pid : *all)
      if (auto stat = procfs.read_stat(pid); stat && *stat) parents.emplace(pid, (*stat)->ppid);
    for (std::size_t before = 0; before != family.size();) {
      before = family.size();
      for (auto [pid, parent] : parents)
        if (family.contains(parent)) family.insert(pid);
    }
  }
  for (std::uint32_t pid : *all) {
    bool in = wanted.whole_machine() || family.contains(pid);
    if (!out.cgroups.empty())
      if (auto cgroup = procfs.read_cgroup(pid, fs.mount().hierarchy); cgroup && *cgroup)
        if (auto path = fs.mount().from_proc_path((*cgroup)->path))
          in = std::any_of(out.cgroups.begin(), out.cgroups.end(),
                           [&](const CgroupEntry& c) { return in_scope(*path, c.path); });
    if (in) out.pids.push_back(pid);
  }
  return out;
}

std::optional<Bytes> usage_of(const CgroupFs& fs, const Scope& scope) {
  if (scope.cgroups.empty()) return std::nullopt;
  Bytes sum;
  for (const CgroupEntry& c : scope.cgroups) {
    auto dir = fs.open_dir(c.path);
    if (!dir) return std::nullopt;
    auto usage = dir->read_usage();
    if (!usage) return std::nullopt;
    sum += *usage;
  }
  return sum;
}

// A machine-wide blame of thousands of processes is some tens of MiB.
constexpr std::size_t kMostRead = 256 << 20;

Result<BlameReport> read_blame(const std::string& path) {
  std::string shown = escape_for_terminal(path);
  auto text = read_file_at(AT_FDCWD, path.c_str(), kMostRead);
  if (!text) return Error::from_errno("reading " + shown);
  return parse_blame(*text, shown);
}

/// `text` and `json` are for what has such a form of its own.
template <typename Text, typename JsonText>
Result<std::string> render(Format format, const StackProfile& profile, Text text, JsonText json) {
  switch (format) {
    case Format::json:
      return json();
    case Format::folded:
      return to_folded(profile);
    case Format::pprof:
      return to_pprof(profile);
    case Format::html:
      return to_html(profile);
    default:
      break;
  }
  return text();
}

Result<std::string> render_difference(const BlameReport& before, const BlameReport& after, Format format,
                                      WallTime now) {
  StackProfile profile = difference(before, after);
  profile.time = now;
  return render(
      format, profile, [&] { return to_text(profile); }, [&] { return to_json(profile); });
}

Status deliver(std::optional<OutputFile>& file, const Result<std::string>& text) {
  if (!text) return text.error();
  if (file) return file->write(*text);
  if (!print(stdout, *text)) return Error::failed("stdout was closed or is full");
  return Ok{};
}

}  // namespace

Result<int> blame(const Options& options) {
  if (options.format == Format::pprof && options.file.empty() && isatty(STDOUT_FILENO))
    return Error::usage("blame --format pprof is not for a terminal: give -o FILE, or send it to one");
  std::optional<OutputFile> file;
  auto open_file = [&]() -> Status {
    if (options.file.empty() || options.file == "-") return Ok{};
    auto opened = OutputFile::open(options.file);
    if (!opened) return opened.error();
    file = *std::move(opened);
    return Ok{};
  };
  WallTime started = wall_now();
  if (!options.diff.empty()) {
    auto before = read_blame(options.diff[0]), after = read_blame(options.diff[1]);
    if (!before) return before.error();
    if (!after) return after.error();
    if (auto ok = open_file(); !ok) return ok.error();
    if (auto ok = deliver(file, render_difference(*before, *after, options.format, started)); !ok)
      return ok.error();
    return 0;
  }
  std::optional<BlameReport> earlier;
  if (!options.earlier.empty()) {
    auto read = read_blame(options.earlier);
    if (!read) return read.error();
    earlier = *std::move(read);
  }
  if (auto ok = open_file(); !ok) return ok.error();
  auto stop = StopSignals::block();
  if (!stop) return stop.error();
  raise_file_limit();
  Roots roots{options.root};
  ProcFs procfs(roots);
  auto fs = CgroupFs::open(roots);
  if (!fs) return fs.error();
  auto say = diagnostics(options);
  std::optional<Scope> scope;
  Status found = await_scope(options.scope, *stop, say, [&]() -> Status {
    auto looked = find_scope(options.scope, *fs, procfs, roots);
    if (!looked) return looked.error();
    scope = *std::move(looked);
    return Ok{};
  });
  if (!found && stop->pending()) return 0;
  if (!found) return found.error();

  FaultOptions fault;
  fault.btf_path = roots.at("/sys/kernel/btf/vmlinux");
  fault.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  for (const CgroupEntry& c : scope->cgroups) fault.cgroups.push_back(c.id.inode);
  if (options.scope.pid) fault.processes = scope->pids;
  std::string no_stacks;
  std::unique_ptr<FaultSource> source;
  auto do_without = [&](const Error& why) -> Status {
    bool stacks_alone = options.format != Format::text && options.format != Format::json;
    if (stacks_alone || why.exit_code != Error::forbidden("").exit_code) return why;
    source.reset();
    no_stacks = why.message;
    say("no stacks, only which process grows: " + why.message);
    return Ok{};
  };
  if (auto opened = FaultSource::open(fault)) {
    source = *std::move(opened);
  } else if (auto ok = do_without(opened.error()); !ok) {
    return ok.error();
  }

  Blame::Config config;
  config.roots = roots;
  config.on_python = [&](std::uint32_t pid, const wire::PythonLayout& layout) {
    if (!source) return;
    if (auto ok = source->set_python(pid, layout); !ok) say(ok.error().message);
  };
  config.on_baseline = [&](std::uint32_t pid, Bytes resident) {
    if (!source) return;
    if (auto ok = source->set_baseline(pid, resident); !ok) say(ok.error().message);
  };
  config.cgroup_of = [&](std::uint32_t pid) -> CgroupPtr {
    auto shown = procfs.read_cgroup(pid, fs->mount().hierarchy);
    auto path = shown && *shown ? fs->mount().from_proc_path((*shown)->path) : std::nullopt;
    auto entry = path ? fs->lookup(*path) : Result<CgroupEntry>(Error{});
    if (!entry) return nullptr;
    return std::make_shared<CgroupRef>(CgroupRef{entry->id, entry->path, name_cgroup(entry->path)});
  };
  Blame blame(std::move(config));
  auto take = [&](const wire::Fault& f) { blame.add(f); };
  std::size_t noted = 0;
  for (std::uint32_t pid : scope->pids)
    if (pid != static_cast<std::uint32_t>(getpid()) && noted++ < kMostNoted) blame.note(pid);

  ClockMap clock{wall_ahead_of(CLOCK_MONOTONIC), wall_ahead_of(CLOCK_BOOTTIME),
                 Nanos(fault.units.ns_per_tick)};
  setpriority(PRIO_PROCESS, 0, -10);  // late, it would watch for longer than it should
  blame.begin();
  auto before = usage_of(*fs, *scope);
  MonoTime begin = mono_now();
  if (source)
    if (auto begun = source->begin(begin); !begun)
      if (auto ok = do_without(begun.error()); !ok) return ok.error();
  for (const std::string& line : drop_privileges(false)) say(line);
  say(fmt::format("watching {} processes of {} for {}", scope->pids.size(), options.scope.describe(),
                  format_duration(options.duration.value_or(kDefaultWindow))));
  MonoTime end = begin + options.duration.value_or(kDefaultWindow), now = begin,
           next_look = begin + kNoteEvery;
  while (now < end && !stop->pending()) {
    pollfd wait[] = {{stop->fd(), POLLIN, 0}, {source ? source->fd() : -1, POLLIN, 0}};
    Nanos left = std::min<Nanos>(end - now, source ? source->next_look() : kNoteEvery);
    timespec timeout{static_cast<time_t>(left / 1s), static_cast<long>((left % 1s).count())};
    ppoll(wait, 2, &timeout, nullptr);
    now = mono_now();
    if (source)
      if (auto ok = source->drain(take, now); !ok) return ok.error();
    if (now >= next_look) {
      blame.look(source ? source->watched_share() : 1);
      next_look = now + kNoteEvery;
    }
  }
  blame.end();
  auto after = usage_of(*fs, *scope);
  if (source)
    if (auto ok = source->drain(take, mono_now()); !ok) return ok.error();
  BlameReport report = blame.finish(now - begin, source ? source->watched_share() : 1);
  if (before && after) report.cgroup_grown = *after - *before;
  report.scope = options.scope.describe();
  if (source) report.lost = source->lost();
  report.no_stacks = no_stacks;
  auto text = earlier ? render_difference(*earlier, report, options.format, clock.wall(now))
                      : render(
                            options.format, profile_of(report, clock, now), [&] { return to_text(report); },
                            [&] { return to_json(report, clock, now); });
  if (auto ok = deliver(file, text); !ok) return ok.error();
  return 0;
}

}  // namespace oomcast
