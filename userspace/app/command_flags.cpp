#include "app/command_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <functional>

#include "app/commands.h"
#include "app/flag_values.h"

namespace oomcast {
namespace {

using Word = const std::string&;

void refuse(bool wrong, const std::string& message) {
  if (wrong) throw CLI::ValidationError(message);
}

CLI::Option* add_word(CLI::App& app, std::string flag, const char* type, auto& to, std::string help) {
  return app.add_option(std::move(flag), to, std::move(help))->type_name(type);
}

// Parsed as soon as the parser meets it; `to` is unchanged if the flag is not given.
CLI::Option* add_value(CLI::App& app, std::string flag, const char* type, auto& to, auto read,
                       std::string help) {
  auto take = [&to, read, flag](Word text) {
    auto value = read(text);
    if (!value) throw CLI::ValidationError(flag, value.error().message);
    to = *std::move(value);
  };
  return app.add_option_function<std::string>(flag, take, std::move(help))->type_name(type);
}

// A repeatable flag with one word each time, as a command may follow.
void add_repeatable(CLI::App& app, std::string flag, const char* type, auto read, std::string help) {
  auto take = [read](const std::vector<std::string>& texts) {
    for (Word text : texts)
      if (Status ok = read(text); !ok) throw CLI::ValidationError(ok.error().message);
  };
  app.add_option_function<std::vector<std::string>>(std::move(flag), take, std::move(help))
      ->type_name(type)
      ->allow_extra_args(false);
}

void add_no(CLI::App& app, std::string flag, bool& to, std::string help) {
  app.add_flag_callback(
      std::move(flag), [&to] { to = false; }, std::move(help));
}

// ---- of several commands

void add_scope(CLI::App& app, ScopeOptions& scope) {
  app.option_defaults()->group("Scope");
  add_word(app, "--cgroup", "PATH", scope.cgroup,
           "a memory cgroup and its children: /train, /sys/fs/cgroup/train");
  add_word(app, "--pid", "PID", scope.pid, "a process and its descendants");
  add_word(app, "--container", "ID|NAME", scope.container, "a container, by id (4 or more digits) or name");
  add_word(app, "--unit", "NAME", scope.unit, "a systemd unit");
  add_word(app, "--slurm-job", "ID", scope.slurm_job, "a SLURM job, or one step as 42.0");
  app.add_flag("--wait", scope.wait, "wait for the scope to appear instead of failing");
  app.option_defaults()->group("Options");
}

void check_scope(const ScopeOptions& scope) {
  int scopes = scope.cgroup.has_value() + scope.pid.has_value() + scope.container.has_value() +
               scope.unit.has_value() + scope.slurm_job.has_value();
  refuse(scope.pid == 0u, "--pid: 0 is no process");
  refuse(scopes > 1, "give one of --cgroup, --pid, --container, --unit, --slurm-job");
  refuse(scope.wait && !scopes, "--wait: say what to wait for, by --cgroup or another scope");
}

void add_color(CLI::App& app, OutputOptions& output) {
  add_value(app, "--color", "WHEN", output.color, read_color, "auto, always or never");
}

void add_diagnostics(CLI::App& app, OutputOptions& output) {
  app.add_flag("--quiet,-q", output.quiet, "no diagnostics on stderr but errors");
  app.add_flag("-v", output.verbose, "more diagnostics on stderr");
}

void add_store(CLI::App& app, const char* type, StoreOptions& store, std::string help) {
  auto read = [&store](Word text) {
    store.named = true;
    return read_store(text);
  };
  add_value(app, "--store", type, store.path, read, std::move(help));
}

void add_logs(CLI::App& app, Options& o) {
  add_no(app, "--no-kmsg", o.sources.use_kmsg, "do without the kernel log and the journal: what is stored");
}

// The tests' fake NVIDIA driver.
void add_gpu_test(CLI::App& app, GpuTestOptions& gpu) {
  app.option_defaults()->group("");
  add_repeatable(
      app, "--gpu-test", "", [&gpu](Word text) { return read_gpu_test(text, gpu); }, "");
  app.option_defaults()->group("Options");
}

// Hides features of this machine, for tests of machines that lack them.
void add_machine_test(CLI::App& app, SourceOptions& sources) {
  auto without = [&app](const char* flag, Events& events) {
    app.add_flag_callback(flag, [&events] { events = Events::that_never_fire; })->group("");
  };
  without("--test-without-page-faults", sources.page_faults);
  without("--test-without-data-breakpoints", sources.data_breakpoints);
}

constexpr FormatName kText{"text", ".txt.text.log", Format::text}, kJson{"json", ".json", Format::json},
    kHtml{"html", ".html.htm", Format::html};
constexpr FormatName kHistoryFormats[] = {kText, kJson};
constexpr FormatName kReportFormats[] = {kText, kJson, {"md", ".md.markdown", Format::markdown}, kHtml};
constexpr FormatName kBlameFormats[] = {
    kText, kJson, {"folded", ".folded", Format::folded}, {"pprof", ".pprof.pb.gz", Format::pprof}, kHtml};

// --format, --json, or the extension of the file; call the returned function when all flags are parsed.
std::function<void()> add_format(CLI::App& app, bool& json, Format& format, const std::string* file,
                                 std::span<const FormatName> known, std::string help) {
  auto read = [known](Word text) { return read_format(text, known); };
  CLI::Option* given = add_value(app, "--format", "FORMAT", format, read, std::move(help));
  return [=, &json, &format] {
    if (*given) {
      refuse(json && format != Format::json,
             fmt::format("--format {} and --json exclude each other", given->results()[0]));
    } else if (json) {
      format = Format::json;
    } else if (file) {
      auto found = format_of_file(*file, known);
      if (!found) throw CLI::ValidationError("-o", found.error().message);
      format = *found;
    }
    json = format == Format::json;
  };
}

void add_kept_store(CLI::App& app, StoreOptions& store) {
  add_store(
      app, "DIR", store,
      "where kills, and what led to them, are kept: a directory, or none (default " + default_store() + ")");
  add_value(app, "--store-max", "SIZE", store.limits.size, read_store_size,
            "the most that the store takes (default 512M)");
  add_value(app, "--store-keep", "DURATION", store.limits.age, parse_duration,
            "how long curves are kept (default 90d); kills stay longer");
}

void add_sources(CLI::App& app, SourceOptions& sources) {
  add_word(app, "--root", "DIR", sources.root,
           "where the machine's /proc and /sys are, for use inside a container");
  add_no(app, "--no-bpf", sources.use_bpf, "do without kernel programs: kernel log and cgroup files only");
  add_no(app, "--no-kmsg", sources.use_kmsg, "do without the kernel log");
  add_gpu_test(app, sources.gpu_test);
}

void add_alerts(CLI::App& app, AlertOptions& alert) {
  app.option_defaults()->group("Alerts");
  add_repeatable(
      app, "--alert", "RULE", [&alert](Word text) { return read_rule(text, alert); },
      "what to tell of, repeatable: level>40G, level>80% (of the limit), growth>500M/m, eta<20m, "
      "each with 'for 2m' behind it if it must last");
  add_word(app, "--exec", "CMD", alert.exec,
           "run this by /bin/sh -c at each alert, or without --alert when the forecast says to act; "
           "OOMCAST_* in its environment say why; killed after 30 s");
  add_word(app, "--touch", "FILE", alert.touch, "create this file then, or make it new");
  add_value(app, "--signal", "SIG", alert.signal, read_signal,
            "send this signal then to the command, to the process of --pid, or to the process that grew "
            "most: USR1, SIGUSR1, 10");
  app.option_defaults()->group("Options");
}

void add_tracing(CLI::App& app, Options& o) {
  app.add_flag("--json", o.output.json, "JSON Lines on stdout");
  add_value(app, "--for", "DURATION", o.duration, parse_duration, "stop after this long: 500ms 10s 5m 2h 3d");
  add_value(app, "--interval", "DURATION", o.sources.interval, read_interval,
            "what changed is told at least this often (default 1s)");
  add_kept_store(app, o.store);
  add_color(app, o.output);
  add_sources(app, o.sources);
  add_diagnostics(app, o.output);
  add_alerts(app, o.alert);
}

// Which lines of a stream are printed.
void add_choice(CLI::App& app, FactChoice& choice) {
  add_repeatable(
      app, "--only", "TYPE,...", [&choice](Word text) { return read_types(text, choice.only); },
      "print these types of lines alone: oom, alert, kill, forecast, ... (oomcast(8) has them all); "
      "repeatable");
  add_value(app, "--samples", "DURATION|none", choice.samples, read_samples,
            "print at most one sample of each cgroup, process and GPU in this time, and none with 'none'; "
            "forecasts likewise, unless verdict or alert change");
}

void add_all(CLI::App& app, FactChoice& choice) {
  app.add_flag(
      "--all", choice.all,
      "text: every sample and forecast, too, not only kills, alerts, losses and changes of a verdict");
}

void check_choice(const Options& o) {
  refuse(o.choice.all && !o.choice.only.empty(), "give one of --all and --only");
  refuse(o.choice.samples && !o.output.json && !o.choice.all && o.choice.only.empty(),
         "--samples: text has samples with --all alone: add --all, or --json");
}

// ---- the commands

void add_watching(CLI::App& app, Options& o) {
  add_tracing(app, o);
  add_scope(app, o.scope);
  app.callback([&o] { check_scope(o.scope); });
}

void add_trace_flags(CLI::App& app, Options& o) {
  add_watching(app, o);
  add_all(app, o.choice);
  add_choice(app, o.choice);
  app.add_flag("--direct", o.direct,
               "load kernel programs of its own, also where a daemon runs whose stream could be read");
  add_word(app, "--events-socket", "PATH", o.daemon.socket,
           std::string("the daemon's stream, where it is elsewhere (default ") + kEventSocket + ")");
  app.callback([&o] {
    check_scope(o.scope);
    check_choice(o);
  });
}

void add_run_flags(CLI::App& app, Options& o) {
  add_tracing(app, o);
  add_choice(app, o.choice);
  add_value(app, "--memory", "SIZE", o.run.memory, read_run_memory,
            "put the command into a memory cgroup of its own with this limit");
  // For the help only: the command's words are taken before the rest is parsed.
  add_word(app, "command", "CMD ...", o.run.command, "the command and its arguments");
  app.callback([&o] {
    refuse((!o.choice.only.empty() || o.choice.samples) && !o.output.json,
           "run: --only and --samples choose among JSON Lines: add --json");
    refuse(o.run.command.empty(), "run: give a command after --");
  });
}

void add_record_flags(CLI::App& app, Options& o) {
  add_tracing(app, o);
  add_scope(app, o.scope);
  add_word(app, "-o", "FILE", o.record.file, "where to write it")->required();
  app.add_flag("--force", o.record.force, "replace the file if it is there");
  app.callback([&o] {
    check_scope(o.scope);
    refuse(o.record.file == "-",
           "-o: a recording is a database, which cannot be written to stdout: name a file");
  });
}

void add_report_flags(CLI::App& app, Options& o) {
  add_word(app, "id", "ID", o.report.id,
           "of the kill, as the oom line and history tell it; its beginning, or the pid that was killed, "
           "is enough");
  add_word(app, "--from", "FILE|DIR", o.history.logs,
           "of a kill that this log has, of any host: a file as history reads it, a directory of them, "
           "or - for standard input; repeatable. Kept only if --store is given, too")
      ->allow_extra_args(false);
  add_logs(app, o);
  add_word(app, "--root", "DIR", o.sources.root, "where the machine's /proc, /dev and /var are");
  auto choose_format =
      add_format(app, o.output.json, o.report.format, &o.report.file, kReportFormats,
                 "text, md, json or html (default: by the ending of the file's name, else text)");
  add_word(app, "-o", "FILE", o.report.file, "write it there instead of stdout");
  add_store(app, "DIR|FILE", o.store,
            "the directory of the store (default " + default_store() + "), or a recording");
  app.add_flag("--json", o.output.json, "--format json");
  add_color(app, o.output);
  add_diagnostics(app, o.output);
  app.callback(choose_format);
}

// For series of other tools: what the header does not say.
void add_series_choices(CLI::App& app, SeriesChoices& choices) {
  app.option_defaults()->group("Series of other tools");
  add_word(app, "--column", "NAME", choices.column, "the column with the memory: its name, or its number");
  add_value(app, "--unit", "UNIT", choices.unit, read_unit,
            "of its numbers: B, KiB, MiB, GiB, or so many bytes");
  auto take_time = [&choices](Word text) { read_time(text, choices); };
  app.add_option_function<std::string>("--time", take_time,
                                       "the column with the time, or how far apart the samples are (5s)")
      ->type_name("NAME|DURATION");
  app.option_defaults()->group("Options");
}

void add_compare_flags(CLI::App& app, Options& o) {
  add_word(app, "a", "A", o.series.file, "a recording, or a series as replay reads it")->required();
  add_word(app, "b", "B", o.series.other, "another")->required();
  add_word(app, "--cgroup", "PATH", o.scope.cgroup,
           "which cgroup of recordings (default: the host, or the outermost in scope)");
  add_value(app, "--limit", "SIZE", o.series.choices.limit, read_limit,
            "what series without a limit run against");
  add_series_choices(app, o.series.choices);
  app.add_flag("--json", o.output.json, "one JSON object on stdout");
  add_color(app, o.output);
  add_diagnostics(app, o.output);
}

void add_replay_flags(CLI::App& app, Options& o) {
  add_word(app, "file", "FILE", o.series.file,
           "a recording, CSV with time_s,used_bytes[,limit_bytes], or what mprof, psrecord, nvidia-smi, sar, "
           "vmstat -t, free, ps, docker stats, Prometheus, Grafana or W&B wrote; - is stdin")
      ->required();
  add_value(app, "--limit", "SIZE", o.series.choices.limit, read_limit,
            "what the series runs against, instead of a limit_bytes column");
  add_value(app, "--every", "DURATION", o.series.every, parse_duration,
            "one forecast per this time of the series (default: each sample)");
  add_series_choices(app, o.series.choices);
  add_all(app, o.choice);
  add_choice(app, o.choice);
  app.add_flag("--json", o.output.json, "JSON Lines on stdout");
  add_color(app, o.output);
  add_diagnostics(app, o.output);
  app.callback([&o] { check_choice(o); });
}

void add_history_flags(CLI::App& app, Options& o) {
  add_word(app, "--from", "FILE|DIR", o.history.logs,
           "a log instead of this machine's: of dmesg, syslog, journalctl -o json, /dev/kmsg, gzipped or "
           "not, or a directory of them; - is stdin; repeatable. Kept only if --store is given, too");
  add_word(app, "--cgroup", "PATH", o.scope.cgroup, "only kills of this memory cgroup and those below it");
  auto since = [](Word text) { return read_since(text, std::chrono::system_clock::now()); };
  add_value(app, "--since", "WHEN", o.history.since, since, "only kills since then: 7d ago, or 2026-07-13");
  add_no(app, "--no-import", o.history.import, "do not keep in the store what the logs tell");
  add_logs(app, o);
  auto choose_format =
      add_format(app, o.output.json, o.history.format, nullptr, kHistoryFormats, "text or json");
  app.add_flag("--json", o.output.json, "JSON Lines on stdout");
  add_store(app, "DIR", o.store, "where kills are kept (default " + default_store() + ")");
  add_word(app, "--root", "DIR", o.sources.root, "where the machine's /proc, /dev and /var are");
  add_color(app, o.output);
  add_diagnostics(app, o.output);
  app.callback(choose_format);
}

void add_blame_flags(CLI::App& app, Options& o) {
  add_scope(app, o.scope);
  add_value(app, "--for", "DURATION", o.duration, parse_duration,
            "watch the growth for this long (default 10s)");
  auto choose_format =
      add_format(app, o.output.json, o.blame.format, &o.blame.file, kBlameFormats,
                 "text, json, folded, pprof or html (default: by the ending of the file's name, else text)");
  add_word(app, "-o", "FILE", o.blame.file, "write it there instead of stdout");
  add_word(app, "--since", "FILE", o.blame.earlier,
           "an earlier blame --json: what grows faster or slower now than then");
  add_word(app, "--diff", "A B", o.blame.diff,
           "two of blame --json: what grows faster or slower in B than in A")
      ->expected(2);
  app.add_flag("--json", o.output.json, "the same as --format json");
  add_machine_test(app, o.sources);
  app.add_flag("--brief", o.blame.brief)->group("");  // for the looks that trace takes
  add_gpu_test(app, o.sources.gpu_test);
  add_word(app, "--root", "DIR", o.sources.root,
           "where the machine's /proc and /sys are, for use inside a container");
  add_color(app, o.output);
  add_diagnostics(app, o.output);
  app.callback([=, &o] {
    choose_format();
    check_scope(o.scope);
    refuse(!o.blame.diff.empty() && !o.scope.whole_machine(),
           fmt::format("--diff reads two results as they are: {} chooses nothing there", o.scope.describe()));
  });
}

// Each flag is also a key of the configuration, except --config itself.
void add_daemon_flags(CLI::App& app, Options& o) {
  app.add_option("--config", o.daemon.config,
                 std::string("where the other flags are read from, as key = value (default ") +
                     kSystemConfig + ", if it is there); what the command line has counts before it")
      ->type_name("FILE");
  add_kept_store(app, o.store);
  add_word(app, "--events-socket", "PATH", o.daemon.socket,
           std::string("the stream, for root and this process's group: a path, or none (default ") +
               kEventSocket + ")");
  add_word(app, "--metrics-file", "FILE", o.daemon.metrics_file,
           "metrics for node_exporter's textfile collector: a name that ends in .prom");
  add_sources(app, o.sources);
  add_diagnostics(app, o.output);
  add_alerts(app, o.alert);
  app.callback([&o] {
    if (o.daemon.socket == "none") o.daemon.socket.clear();
    refuse(!o.daemon.metrics_file.empty() && !o.daemon.metrics_file.ends_with(".prom"),
           "--metrics-file: node_exporter reads names that end in .prom alone");
  });
}

void add_doctor_flags(CLI::App& app, Options& o) {
  app.add_flag("--json", o.output.json, "one JSON object on stdout");
  add_word(app, "--root", "DIR", o.sources.root, "where the machine's /proc and /sys are");
  add_color(app, o.output);
  add_diagnostics(app, o.output);
  add_machine_test(app, o.sources);
}

void add_completion_flags(CLI::App& app, Options& o) {
  add_value(app, "shell", "bash|zsh|fish", o.shell, read_shell, "whose script is printed")->required();
}

constexpr std::array kCommands = {
    CommandSpec{Command::watch, "watch", "live screen: usage, limit, growth, verdict, time to OOM (default)",
                add_watching, watch},
    CommandSpec{Command::trace, "trace",
                "what happens, a line each, until stopped: kills, alerts, changes of a verdict",
                add_trace_flags, trace},
    CommandSpec{Command::run, "run",
                "start a command under trace: oomcast run [--memory SIZE] -- CMD ...\n"
                "(with --json the command's own output goes to stderr)",
                add_run_flags, run},
    CommandSpec{Command::record, "record", "write a recording, to replay and to compare", add_record_flags,
                record},
    CommandSpec{Command::replay, "replay", "the same analysis of a recording, or of a series of any tool",
                add_replay_flags, replay},
    CommandSpec{
        Command::report, "report",
        "why a process was OOM-killed, and what would have prevented it (default: the newest kill that "
        "store, kernel log or journal know)",
        add_report_flags, report},
    CommandSpec{Command::compare, "compare",
                "two recordings or series on one time axis: before and after a fix", add_compare_flags,
                compare},
    CommandSpec{Command::blame, "blame",
                "what is growing: processes, native stacks, Python lines; for 10 s unless --for says",
                add_blame_flags, blame},
    CommandSpec{Command::daemon, "daemon",
                "the service: follows the whole machine, keeps kills, writes journal and metrics, serves its "
                "stream",
                add_daemon_flags, run_daemon},
    CommandSpec{Command::doctor, "doctor",
                "what this kernel and machine give, what is missing, what that costs", add_doctor_flags,
                doctor},
    CommandSpec{Command::history, "history",
                "all OOM kills, past ones from the kernel's logs; how often they come", add_history_flags,
                history},
    CommandSpec{Command::completion, "completion",
                "a script by which bash, zsh or fish complete commands and flags", add_completion_flags,
                completion}};

}  // namespace

std::string default_store() {
  auto named = [](const char* name) {
    const char* value = std::getenv(name);
    return value && *value == '/' ? std::string(value) : std::string();
  };
  if (auto service = named("STATE_DIRECTORY"); !service.empty()) return service.substr(0, service.find(':'));
  if (geteuid() == 0) return kSystemStore;
  if (auto state = named("XDG_STATE_HOME"); !state.empty()) return state + "/oomcast";
  if (auto home = named("HOME"); !home.empty()) return home + "/.local/state/oomcast";
  return "none";
}

std::span<const CommandSpec> command_specs() {
  return kCommands;
}

}  // namespace oomcast
