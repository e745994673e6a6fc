#include "app/command_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>

#include "app/commands.h"

namespace oomcast {
namespace {

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

void add_diagnostics(CLI::App& app, Options& o) {
  app.add_flag("--quiet,-q", o.output.quiet, "no diagnostics on stderr but errors");
  app.add_flag("-v", o.output.verbose, "more diagnostics on stderr");
}

// What a machine may lack, taken from this one for the tests.
void add_machine_test(CLI::App& app, Options& o) {
  app.add_flag_callback("--test-without-page-faults",
                        [&o] { o.sources.page_faults = Events::that_never_fire; })
      ->group("");
  app.add_flag_callback("--test-without-data-breakpoints",
                        [&o] { o.sources.data_breakpoints = Events::that_never_fire; })
      ->group("");
}

void add_common(CLI::App& app, Options& o, Texts& t) {
  app.add_flag("--json", o.output.json, "JSON Lines on stdout");
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
  app.add_option("--root", o.sources.root,
                 "where the machine's /proc and /sys are, for use inside a container")
      ->type_name("DIR");
  add_diagnostics(app, o);
  app.add_flag_callback(
      "--no-bpf", [&o] { o.sources.use_bpf = false; },
      "do without kernel programs: kernel log and cgroup files only");
  app.add_flag_callback(
      "--no-kmsg", [&o] { o.sources.use_kmsg = false; }, "do without the kernel log");
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

void add_tracing(CLI::App& app, Options& o, Texts& t) {
  add_common(app, o, t);
  add_alerts(app, o, t);
}

// What of a stream is printed.
void add_choice(CLI::App& app, Texts& t) {
  app.add_option(
         "--only", t.only,
         "print these types of lines alone: oom, alert, kill, forecast, ... (oomcast(8) has them all); "
         "repeatable")
      ->type_name("TYPE,...")
      ->allow_extra_args(false);
  app.add_option(
         "--samples", t.samples,
         "print at most one sample of each cgroup, process and GPU in this time, and none with 'none'; "
         "forecasts likewise, unless verdict or alert change")
      ->type_name("DURATION|none");
}

void add_all(CLI::App& app, Options& o) {
  app.add_flag(
      "--all", o.output.choice.all,
      "text: every sample and forecast, too, not only kills, alerts, losses and changes of a verdict");
}

// watch and trace
void add_watching(CLI::App& app, Options& o, Texts& t) {
  add_tracing(app, o, t);
  add_scope(app, o);
}

void add_trace_flags(CLI::App& app, Options& o, Texts& t) {
  add_watching(app, o, t);
  add_all(app, o);
  add_choice(app, t);
}

void add_run_flags(CLI::App& app, Options& o, Texts& t) {
  add_tracing(app, o, t);
  add_choice(app, t);
  app.add_option("--memory", t.memory, "put the command into a memory cgroup of its own with this limit")
      ->type_name("SIZE");
  // For the help only: the command's words are taken before the rest is parsed.
  app.add_option("command", o.run.command, "the command and its arguments")->type_name("CMD ...");
}

void add_record_flags(CLI::App& app, Options& o, Texts& t) {
  add_tracing(app, o, t);
  add_scope(app, o);
  app.add_option("-o", o.record.file, "where to write it")->type_name("FILE")->required();
  app.add_flag("--force", o.record.force, "replace the file if it is there");
}

void add_report_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_option(
         "id", o.report.id,
         "of the kill, as the oom line and history tell it; its beginning, or the pid that was killed, "
         "is enough")
      ->type_name("ID");
  app.add_option("--from", o.history.logs,
                 "of a kill that this log has, of any host: a file as history reads it, a directory of them, "
                 "or - for standard input; repeatable. Kept only if --store is given, too")
      ->type_name("FILE|DIR")
      ->allow_extra_args(false);
  app.add_flag_callback(
      "--no-kmsg", [&o] { o.sources.use_kmsg = false; },
      "do without the kernel log and the journal: what is stored");
  app.add_option("--root", o.sources.root, "where the machine's /proc, /dev and /var are")->type_name("DIR");
  app.add_option("--format", t.format,
                 "text, md, json or html (default: by the ending of the file's name, else text)")
      ->type_name("FORMAT");
  app.add_option("-o", o.report.file, "write it there instead of stdout")->type_name("FILE");
  app.add_option("--store", t.store,
                 "the directory of the store (default " + default_store() + "), or a recording")
      ->type_name("DIR|FILE");
  app.add_flag("--json", o.output.json, "--format json");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  add_diagnostics(app, o);
}

// Of series that another tool wrote, for what is in no header.
void add_series_choices(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--column", o.series.choices.column, "the column with the memory: its name, or its number")
      ->group("Series of other tools")
      ->type_name("NAME");
  app.add_option("--unit", t.unit, "of its numbers: B, KiB, MiB, GiB, or so many bytes")
      ->group("Series of other tools")
      ->type_name("UNIT");
  app.add_option("--time", t.time, "the column with the time, or how far apart the samples are (5s)")
      ->group("Series of other tools")
      ->type_name("NAME|DURATION");
}

void add_compare_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_option("a", o.series.file, "a recording, or a series as replay reads it")
      ->type_name("A")
      ->required();
  app.add_option("b", o.series.other, "another")->type_name("B")->required();
  app.add_option("--cgroup", o.scope.cgroup,
                 "which cgroup of recordings (default: the host, or the outermost in scope)")
      ->type_name("PATH");
  app.add_option("--limit", t.limit, "what series without a limit run against")->type_name("SIZE");
  add_series_choices(app, o, t);
  app.add_flag("--json", o.output.json, "one JSON object on stdout");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  add_diagnostics(app, o);
}

void add_replay_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_option(
         "file", o.series.file,
         "a recording, CSV with time_s,used_bytes[,limit_bytes], or what mprof, psrecord, nvidia-smi, sar, "
         "vmstat -t, free, ps, docker stats, Prometheus, Grafana or W&B wrote; - is stdin")
      ->type_name("FILE")
      ->required();
  app.add_option("--limit", t.limit, "what the series runs against, instead of a limit_bytes column")
      ->type_name("SIZE");
  app.add_option("--every", t.every, "one forecast per this time of the series (default: each sample)")
      ->type_name("DURATION");
  add_series_choices(app, o, t);
  add_all(app, o);
  add_choice(app, t);
  app.add_flag("--json", o.output.json, "JSON Lines on stdout");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  add_diagnostics(app, o);
}

void add_history_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_option(
         "--from", o.history.logs,
         "a log instead of this machine's: of dmesg, syslog, journalctl -o json, /dev/kmsg, gzipped or "
         "not, or a directory of them; - is stdin; repeatable. Kept only if --store is given, too")
      ->type_name("FILE|DIR");
  app.add_option("--cgroup", o.scope.cgroup, "only kills of this memory cgroup and those below it")
      ->type_name("PATH");
  app.add_option("--since", t.since, "only kills since then: 7d ago, or 2026-07-13")->type_name("WHEN");
  app.add_flag_callback(
      "--no-import", [&o] { o.history.import = false; }, "do not keep in the store what the logs tell");
  app.add_flag_callback(
      "--no-kmsg", [&o] { o.sources.use_kmsg = false; },
      "do without the kernel log and the journal: what is stored");
  app.add_option("--format", t.format, "text or json")->type_name("FORMAT");
  app.add_flag("--json", o.output.json, "JSON Lines on stdout");
  app.add_option("--store", t.store, "where kills are kept (default " + default_store() + ")")
      ->type_name("DIR");
  app.add_option("--root", o.sources.root, "where the machine's /proc, /dev and /var are")->type_name("DIR");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  add_diagnostics(app, o);
}

void add_blame_flags(CLI::App& app, Options& o, Texts& t) {
  add_scope(app, o);
  app.add_option("--for", t.duration, "watch the growth for this long (default 10s)")->type_name("DURATION");
  app.add_option("--format", t.format,
                 "text, json, folded, pprof or html (default: by the ending of the file's name, else text)")
      ->type_name("FORMAT");
  app.add_option("-o", o.blame.file, "write it there instead of stdout")->type_name("FILE");
  app.add_option("--since", o.blame.earlier,
                 "an earlier blame --json: what grows faster or slower now than then")
      ->type_name("FILE");
  app.add_option("--diff", o.blame.diff, "two of blame --json: what grows faster or slower in B than in A")
      ->type_name("A B")
      ->expected(2);
  app.add_flag("--json", o.output.json, "the same as --format json");
  add_machine_test(app, o);
  app.add_flag("--brief", o.blame.brief)->group("");    // for the looks that trace takes
  app.add_option("--gpu-test", t.gpu_test)->group("");  // the tests' stand-in for the NVIDIA driver
  app.add_option("--root", o.sources.root,
                 "where the machine's /proc and /sys are, for use inside a container")
      ->type_name("DIR");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  add_diagnostics(app, o);
}

void add_doctor_flags(CLI::App& app, Options& o, Texts& t) {
  app.add_flag("--json", o.output.json, "one JSON object on stdout");
  app.add_option("--root", o.sources.root, "where the machine's /proc and /sys are")->type_name("DIR");
  app.add_option("--color", t.color, "auto, always or never")->type_name("WHEN");
  add_diagnostics(app, o);
  add_machine_test(app, o);
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
    CommandSpec{Command::doctor, "doctor",
                "what this kernel and machine give, what is missing, what that costs", add_doctor_flags,
                doctor},
    CommandSpec{Command::history, "history",
                "all OOM kills, past ones from the kernel's logs; how often they come", add_history_flags,
                history}};

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
