#include "app/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include "base/escape.h"

namespace oomcast {
namespace {

constexpr std::array<std::string_view, 10> kCommands = {"watch",  "trace",   "run",     "record", "replay",
                                                        "report", "history", "compare", "blame",  "doctor"};

// Texts as they come; they are read after parsing, so that every mistake is told in our words.
struct Texts {
  std::optional<std::string> duration, interval, memory, limit, every, store, store_max, store_keep, since,
      format;
  std::string color = "auto";
  std::vector<std::string> rules, gpu_test;
  std::optional<std::string> signal;
};

// As systemd names it for a service, or the system's, or the user's.
std::string default_store() {
  auto named = [](const char* name) {
    const char* value = std::getenv(name);
    return value && *value == '/' ? std::string(value) : std::string();
  };
  if (auto service = named("STATE_DIRECTORY"); !service.empty()) return service.substr(0, service.find(':'));
  if (geteuid() == 0) return "/var/lib/oomcast";
  if (auto state = named("XDG_STATE_HOME"); !state.empty()) return state + "/oomcast";
  if (auto home = named("HOME"); !home.empty()) return home + "/.local/state/oomcast";
  return "none";
}

void add_scope(CLI::App& app, Options& o) {
  app.add_option("--cgroup", o.scope.cgroup, "a memory cgroup and its children: /train, /sys/fs/cgroup/train")
      ->group("Scope")
      ->type_name("PATH");
  app.add_option("--pid", o.scope.pid, "a process and its descendants")->group("Scope")->type_name("PID");
  app.add_option("--container", o.scope.container, "a container, by id (4 or more digits) or name")
      ->group("Scope")
      ->type_name("ID|NAME");
  app.add_option("--unit", o.scope.unit, "a systemd unit")->group("Scope")->type_name("NAME");
  app.add_option("--slurm-job", o.scope.slurm_job, "a SLURM job, or one step as 42.0")
      ->group("Scope")
      ->type_name("ID");
  app.add_flag("--wait", o.scope.wait, "wait for the scope to appear instead of failing")->group("Scope");
}

void add_common(CLI::App& app, Options& o, Texts& t) {
  app.add_flag("--json", o.json, "JSON Lines on stdout");
  app.add_option("--for", t.duration, "stop after this long: 500ms 10s 5m 2h 3d")->type_name("DURATION");
  app.add_option("--interval", t.interval, "what changed is told at least this often (default 1s)")
      ->type_name("DURATION");
  app.add_option("--store", t.store,
                 "where kills, and what led to them, are kept: a directory, or none (default " +
                     default_store() + ")")
      ->type_name("DIR");
  app.add_option("--store-max", t.store_max, "the most that the store takes (default 512M)")
      ->type_name("SIZE");
  app.add_option("--store-keep", t.store_keep, "how long curves are kept (default 90d); kills stay longer")
      ->type_name("DURATION");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  app.add_option("--root", o.root, "where the machine's /proc and /sys are, for use inside a container")
      ->type_name("DIR");
  app.add_flag("--quiet,-q", o.quiet, "no diagnostics on stderr but errors");
  app.add_flag("-v", o.verbose, "more diagnostics on stderr");
  app.add_flag_callback(
      "--no-bpf", [&o] { o.use_bpf = false; },
      "do without kernel programs: kernel log and cgroup files only");
  app.add_flag_callback(
      "--no-kmsg", [&o] { o.use_kmsg = false; }, "do without the kernel log");
  app.add_option("--gpu-test", t.gpu_test)->group("");  // the tests' stand-in for the NVIDIA driver
}

void add_alerts(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--alert", t.rules,
                 "what to tell of, repeatable: level>40G, level>80% (of the limit), growth>500M/m, eta<20m, "
                 "each with 'for 2m' behind it if it must last")
      ->group("Alerts")
      ->type_name("RULE")
      ->allow_extra_args(false);
  app.add_option("--exec", o.alert.exec,
                 "run this by /bin/sh -c at each alert, or without --alert when the forecast says to act; "
                 "OOMCAST_* in its environment say why; killed after 30 s")
      ->group("Alerts")
      ->type_name("CMD");
  app.add_option("--touch", o.alert.touch, "create this file then, or make it new")
      ->group("Alerts")
      ->type_name("FILE");
  app.add_option("--signal", t.signal,
                 "send this signal then to the command, to the process of --pid, or to the process that grew "
                 "most: USR1, SIGUSR1, 10")
      ->group("Alerts")
      ->type_name("SIG");
}

Error usage(std::string_view what) {
  return Error::usage(escape_for_terminal(what) + "\nTry 'oomcast --help'.");
}

Status check_scope(const ScopeOptions& scope) {
  int scopes = 0;
  for (auto [flag, value] : {std::pair("--cgroup", &scope.cgroup), std::pair("--container", &scope.container),
                             std::pair("--unit", &scope.unit), std::pair("--slurm-job", &scope.slurm_job)}) {
    if (*value && (*value)->empty()) return usage(fmt::format("{}: give a name", flag));
    scopes += value->has_value();
  }
  if (scope.pid && *scope.pid == 0) return usage("--pid: 0 is no process");
  if (scopes + scope.pid.has_value() > 1)
    return usage("give one of --cgroup, --pid, --container, --unit, --slurm-job");
  return Ok{};
}

Status read_alerts(const Texts& t, AlertOptions& alert) {
  for (const std::string& text : t.rules) {
    auto rule = parse_alert_rule(text);
    if (!rule) return usage("--alert " + rule.error().message);
    alert.rules.push_back(*std::move(rule));
  }
  if (t.signal) {
    alert.signal = parse_signal(*t.signal);
    if (!alert.signal)
      return usage(fmt::format("--signal: '{}' is no signal; write USR1, SIGUSR1 or 10", *t.signal));
  }
  if (alert.exec && alert.exec->empty()) return usage("--exec: give a command");
  if (alert.touch && alert.touch->empty()) return usage("--touch: give a file");
  if (alert.rules.empty() && (alert.exec || alert.touch || alert.signal)) alert.rules.emplace_back();
  return Ok{};
}

// Where the command of run begins: behind "--", or at the first word that is neither an option of run nor the
// value of one. From there on nothing is ours.
std::size_t find_command(const CLI::App& run, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--" || words[i].size() < 2 || words[i][0] != '-') return i;
    const CLI::Option* option = run.get_option_no_throw(words[i]);
    bool takes_value = option && option->get_items_expected_min() > 0;
    if (takes_value && i + 1 < words.size() && words[i + 1] != "--") ++i;
  }
  return words.size();
}

// "control=DEVICE:INODE", "uvm=DEVICE:INODE", "version=535.183.01", "cards=DIRECTORY", "trace=FILE"
Status read_gpu_test(const Texts& t, Options& o) {
  for (const std::string& text : t.gpu_test) {
    GpuSourceOptions::TestFile file{};
    unsigned long long device = 0, inode = 0;
    char kind[16] = {};
    if (text.starts_with("version=")) {
      o.gpu_test_version = parse_gpu_driver_version(text);
    } else if (text.starts_with("trace=")) {
      o.gpu_test_trace = text.substr(6);
    } else if (text.starts_with("cards=")) {
      o.gpu_test_cards = text.substr(6);
    } else if (std::sscanf(text.c_str(), "%15[a-z]=%llu:%llu", kind, &device, &inode) == 3) {
      file.device = device;
      file.inode = inode;
      file.kind =
          std::string_view(kind) == "uvm" ? wire::GpuCall::Device::uvm : wire::GpuCall::Device::control;
      o.gpu_test_files.push_back(file);
    } else {
      return usage("--gpu-test: " + text);
    }
  }
  return Ok{};
}

// "7d": so long ago; "2026-07-13": since that day began here.
std::optional<WallTime> parse_since(const std::string& text, WallTime now) {
  if (auto ago = parse_duration(text)) return now - *ago;
  std::tm day{};
  const char* end = strptime(text.c_str(), "%Y-%m-%d", &day);
  day.tm_isdst = -1;
  std::time_t at = end && !*end ? std::mktime(&day) : -1;
  return at == -1 ? std::nullopt : std::optional(WallTime(std::chrono::seconds(at)));
}

// --format, --json, or the name of the report's file.
Status read_format(const Texts& t, Options& o) {
  if (t.format && o.json && *t.format != "json")
    return usage(fmt::format("--format {} and --json exclude each other", *t.format));
  std::string format = t.format ? *t.format : o.json ? "json" : "text";
  if (!t.format && !o.json && o.command == Command::report)
    for (std::string_view known : {"html", "md", "json"})
      if (o.file.ends_with(fmt::format(".{}", known))) format = known;
  using Names = std::vector<std::pair<std::string_view, Format>>;
  Names names = {{"text", Format::text}, {"json", Format::json}};
  if (o.command == Command::report)
    names.insert(names.end(), {{"md", Format::markdown}, {"html", Format::html}});
  if (o.command == Command::blame)
    names.insert(names.end(), {{"folded", Format::folded}, {"pprof", Format::pprof}, {"html", Format::html}});
  std::string all;
  for (const auto& [name, value] : names) {
    if (name == format) {
      o.format = value;
      o.json = value == Format::json;
      return Ok{};
    }
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
  }
  return usage(fmt::format("--format: '{}' is none of {}", format, all));
}

Status read_texts(const Texts& t, Options& o) {
  if (t.duration) {
    auto d = parse_duration(*t.duration);
    if (!d) return usage("--for: " + d.error().message);
    o.duration = *d;
  }
  if (t.interval) {
    auto d = parse_duration(*t.interval);
    if (!d) return usage("--interval: " + d.error().message);
    if (*d < std::chrono::milliseconds(50)) return usage("--interval: 50ms is the shortest");
    o.interval = *d;
  }
  if (t.memory) {
    auto size = parse_size(*t.memory);
    if (!size) return usage("--memory: " + size.error().message);
    if (*size < MiB(1)) return usage("--memory: 1M is the least");
    o.memory = *size;
  }
  if (t.limit) {
    auto size = parse_size(*t.limit);
    if (!size) return usage("--limit: " + size.error().message);
    if (size->count == 0) return usage("--limit: 0 is no limit");
    o.limit = *size;
  }
  if (t.every) {
    auto d = parse_duration(*t.every);
    if (!d) return usage("--every: " + d.error().message);
    o.every = *d;
  }
  o.store = t.store.value_or(default_store());
  o.store_named = t.store.has_value();
  if (o.store.empty()) return usage("--store: give a directory, or none");
  if (o.store == "none") o.store.clear();
  while (o.store.size() > 1 && o.store.back() == '/') o.store.pop_back();
  if (t.since) {
    o.since = parse_since(*t.since, std::chrono::system_clock::now());
    if (!o.since)
      return usage(fmt::format("--since: '{}' is neither a duration (7d) nor a day (2026-07-13)", *t.since));
  }
  if (t.store_max) {
    auto size = parse_size(*t.store_max);
    if (!size) return usage("--store-max: " + size.error().message);
    if (*size < MiB(8)) return usage("--store-max: 8M is the least");
    o.store_limits.size = *size;
  }
  if (t.store_keep) {
    auto age = parse_duration(*t.store_keep);
    if (!age) return usage("--store-keep: " + age.error().message);
    o.store_limits.age = *age;
  }
  if (auto ok = read_format(t, o); !ok) return ok;
  if (t.color == "always")
    o.color = ColorChoice::always;
  else if (t.color == "never")
    o.color = ColorChoice::never;
  else if (t.color != "auto")
    return usage(fmt::format("--color: '{}' is none of auto, always, never", t.color));
  while (o.root.size() > 1 && o.root.back() == '/') o.root.pop_back();
  if (o.root == "/") o.root.clear();
  if (auto s = read_gpu_test(t, o); !s) return s;
  if (auto s = check_scope(o.scope); !s) return s;
  if (!o.diff.empty() && !o.scope.whole_machine())
    return usage(
        fmt::format("--diff reads two results as they are: {} chooses nothing there", o.scope.describe()));
  if (auto s = read_alerts(t, o.alert); !s) return s;
  if (o.command == Command::run && o.arguments.empty()) return usage("run: give a command after --");
  return Ok{};
}

}  // namespace

std::optional<int> parse_signal(std::string_view text) {
  int number = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (err == std::errc{} && end == text.data() + text.size())
    return number > 0 && number <= SIGRTMAX ? std::optional(number) : std::nullopt;
  std::string name(text);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    if (const char* known = sigabbrev_np(signal); known && name == known) return signal;
  return std::nullopt;
}

std::string signal_name(int signal) {
  const char* known = sigabbrev_np(signal);
  return known ? fmt::format("SIG{}", known) : fmt::format("signal {}", signal);
}

std::string ScopeOptions::describe() const {
  if (cgroup) return "--cgroup " + *cgroup;
  if (container) return "--container " + *container;
  if (unit) return "--unit " + *unit;
  if (slurm_job) return "--slurm-job " + *slurm_job;
  if (pid) return fmt::format("--pid {}", *pid);
  return "whole machine";
}

Result<ParsedArguments> parse_arguments(int argc, const char* const* argv, const std::string& version) {
  std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  ParsedArguments out;
  Options& o = out.options;
  Texts t;

  CLI::App app{"See OOM kills coming, and record every one of them.", "oomcast"};
  app.set_version_flag("--version", "oomcast " + version);
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 ok, 1 failed at run time, 2 wrong usage, 3 the kernel or the privileges do not allow "
      "it;\n"
      "run gives the command's own, 128+N if signal N ended it.");
  auto* watch =
      app.add_subcommand("watch", "live screen: usage, limit, growth, verdict, time to OOM (default)");
  auto* trace = app.add_subcommand("trace", "one event per line until stopped");
  auto* run = app.add_subcommand("run",
                                 "start a command under trace: oomcast run [--memory SIZE] -- CMD ...\n"
                                 "(with --json the command's own output goes to stderr)");
  auto* record = app.add_subcommand("record", "write a recording, to replay and to compare");
  auto* replay = app.add_subcommand("replay", "the same analysis of a recording, or of a series in CSV");
  auto* report = app.add_subcommand(
      "report", "why a process was OOM-killed, and what would have prevented it (default: the last kill)");
  auto* compare =
      app.add_subcommand("compare", "two recordings or series on one time axis: before and after a fix");
  auto* blame = app.add_subcommand(
      "blame", "what is growing: processes, native stacks, Python lines; for 10 s unless --for says");
  auto* doctor =
      app.add_subcommand("doctor", "what this kernel and machine give, what is missing, what that costs");
  auto* history =
      app.add_subcommand("history", "all OOM kills, past ones from the kernel's logs; how often they come");
  for (auto* tracing : {watch, trace, run, record}) {
    add_common(*tracing, o, t);
    add_alerts(*tracing, o, t);
  }
  add_scope(*watch, o);
  add_scope(*trace, o);
  add_scope(*record, o);
  run->add_option("--memory", t.memory, "put the command into a memory cgroup of its own with this limit")
      ->type_name("SIZE");
  // For the help only: the command's words are taken before the rest is parsed.
  run->add_option("command", o.arguments, "the command and its arguments")->type_name("CMD ...");
  record->add_option("-o", o.file, "where to write it")->type_name("FILE")->required();
  record->add_flag("--force", o.force, "replace the file if it is there");
  report->add_option("id", o.id, "of the kill, as the oom line and history tell it; its beginning is enough")
      ->type_name("ID");
  report
      ->add_option("--format", t.format,
                   "text, md, json or html (default: by the name of the file, else text)")
      ->type_name("FORMAT");
  report->add_option("-o", o.file, "write it there instead of stdout")->type_name("FILE");
  report
      ->add_option("--store", t.store,
                   "the directory of the store (default " + default_store() + "), or a recording")
      ->type_name("DIR|FILE");
  report->add_flag("--json", o.json, "--format json");
  report->add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  compare->add_option("a", o.file, "a recording, or a series in CSV")->type_name("A")->required();
  compare->add_option("b", o.other, "another")->type_name("B")->required();
  compare
      ->add_option("--cgroup", o.scope.cgroup,
                   "which cgroup of recordings (default: the host, or the outermost in scope)")
      ->type_name("PATH");
  compare->add_option("--limit", t.limit, "what series without a limit run against")->type_name("SIZE");
  compare->add_flag("--json", o.json, "one JSON object on stdout");
  compare->add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  replay->add_option("file", o.file, "a recording, or CSV with time_s,used_bytes[,limit_bytes]; - is stdin")
      ->type_name("FILE")
      ->required();
  replay->add_option("--limit", t.limit, "what the series runs against, instead of a limit_bytes column")
      ->type_name("SIZE");
  replay->add_option("--every", t.every, "one forecast per this time of the series (default: each sample)")
      ->type_name("DURATION");
  replay->add_flag("--json", o.json, "JSON Lines on stdout");
  replay->add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  replay->add_flag("--quiet,-q", o.quiet, "no diagnostics on stderr but errors");
  replay->add_flag("-v", o.verbose, "more diagnostics on stderr");
  history
      ->add_option(
          "--from", o.logs,
          "a log instead of this machine's: of dmesg, syslog, journalctl -o json, /dev/kmsg, gzipped or "
          "not; - is stdin; repeatable. Kept only if --store is given, too")
      ->type_name("FILE");
  history->add_option("--cgroup", o.scope.cgroup, "only kills of this memory cgroup and those below it")
      ->type_name("PATH");
  history->add_option("--since", t.since, "only kills since then: 7d ago, or 2026-07-13")->type_name("WHEN");
  history->add_flag_callback(
      "--no-import", [&o] { o.import = false; }, "do not keep in the store what the logs tell");
  history->add_flag_callback(
      "--no-kmsg", [&o] { o.use_kmsg = false; }, "do without the kernel log and the journal: what is stored");
  history->add_option("--format", t.format, "text or json")->type_name("FORMAT");
  history->add_flag("--json", o.json, "JSON Lines on stdout");
  history->add_option("--store", t.store, "where kills are kept (default " + default_store() + ")")
      ->type_name("DIR");
  history->add_option("--root", o.root, "where the machine's /proc, /dev and /var are")->type_name("DIR");
  history->add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  history->add_flag("--quiet,-q", o.quiet, "no diagnostics on stderr but errors");
  history->add_flag("-v", o.verbose, "more diagnostics on stderr");
  add_scope(*blame, o);
  blame->add_option("--for", t.duration, "watch the growth for this long (default 10s)")
      ->type_name("DURATION");
  blame->add_option("--format", t.format, "text, json, folded, pprof or html (default text)")
      ->type_name("FORMAT");
  blame->add_option("-o", o.file, "write it there instead of stdout")->type_name("FILE");
  blame
      ->add_option("--since", o.earlier, "an earlier blame --json: what grows faster or slower now than then")
      ->type_name("FILE");
  blame->add_option("--diff", o.diff, "two of blame --json: what grows faster or slower in B than in A")
      ->type_name("A B")
      ->expected(2);
  blame->add_flag("--json", o.json, "the same as --format json");
  blame->add_option("--root", o.root, "where the machine's /proc and /sys are, for use inside a container")
      ->type_name("DIR");
  blame->add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  blame->add_flag("--quiet,-q", o.quiet, "no diagnostics on stderr but errors");
  doctor->add_flag("--json", o.json, "one JSON object on stdout");
  doctor->add_option("--root", o.root, "where the machine's /proc and /sys are")->type_name("DIR");
  doctor->add_option("--color", t.color, "auto, always or never")->type_name("WHEN");

  bool global = !words.empty() && (words[0] == "-h" || words[0] == "--help" || words[0] == "--version");
  bool named = !words.empty() && std::find(kCommands.begin(), kCommands.end(), words[0]) != kCommands.end();
  if (!named && !global) {
    if (!words.empty() && words[0][0] != '-')
      return usage(
          fmt::format("'{}' is not a command; there are watch, trace, run, record, replay, report, history, "
                      "compare, blame and "
                      "doctor",
                      words[0]));
    words.insert(words.begin(), "watch");
  }
  std::vector<std::string> command;
  if (words[0] == "run") {
    auto at = words.begin() + static_cast<std::ptrdiff_t>(find_command(*run, words));
    command.assign(at != words.end() && *at == "--" ? at + 1 : at, words.end());
    words.erase(at, words.end());
  } else if (std::find(words.begin(), words.end(), "--") != words.end()) {
    return usage("only run takes a command after --");
  }

  std::reverse(words.begin(), words.end());  // as CLI11 takes a vector
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    auto chosen = app.get_subcommands();
    out.text = chosen.empty() ? app.help() : chosen[0]->help();
    return out;
  } catch (const CLI::CallForVersion& v) {
    out.text = std::string(v.what()) + "\n";
    return out;
  } catch (const CLI::Error& e) {
    return usage(e.what());
  }
  if (trace->parsed()) o.command = Command::trace;
  if (run->parsed()) {
    o.command = Command::run;
    o.arguments = std::move(command);
  }
  if (record->parsed()) {
    o.command = Command::record;
    if (o.file == "-")
      return usage("-o: a recording is a database, which cannot be written to stdout: name a file");
  }
  if (report->parsed()) o.command = Command::report;
  if (compare->parsed()) o.command = Command::compare;
  if (replay->parsed()) o.command = Command::replay;
  if (history->parsed()) o.command = Command::history;
  if (blame->parsed()) o.command = Command::blame;
  if (doctor->parsed()) o.command = Command::doctor;
  if (auto s = read_texts(t, o); !s) return s.error();
  return out;
}

}  // namespace oomcast
