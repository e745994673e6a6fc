#include "app/options.h"

#include <gtest/gtest.h>

#include <set>

namespace oomcast {
namespace {

using Words = std::vector<std::string>;

Result<ParsedArguments> parse(const Words& words) {
  std::vector<const char*> argv{"oomcast"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_arguments(static_cast<int>(argv.size()), argv.data(), "1.2.3");
}

Options options(const Words& words) {
  auto parsed = parse(words);
  if (!parsed) {
    ADD_FAILURE() << testing::PrintToString(words) << ": " << parsed.error().message;
    return {};
  }
  EXPECT_FALSE(parsed->text) << *parsed->text;
  return parsed->options;
}

// The message must name the word that is wrong.
void expect_usage_error(const Words& words, const std::string& word) {
  auto parsed = parse(words);
  ASSERT_FALSE(parsed.ok()) << testing::PrintToString(words) << " was accepted";
  EXPECT_EQ(parsed.error().exit_code, 2);
  EXPECT_NE(parsed.error().message.find(word), std::string::npos) << parsed.error().message;
  EXPECT_NE(parsed.error().message.find("--help"), std::string::npos) << parsed.error().message;
}

TEST(Options, without_words_watch_the_whole_machine) {
  Options o = options({});
  EXPECT_EQ(o.command, Command::watch);
  EXPECT_TRUE(o.scope.whole_machine());
  EXPECT_EQ(o.sources.interval, std::chrono::seconds(1));
  EXPECT_EQ(o.output.color, ColorChoice::automatic);
  EXPECT_TRUE(o.sources.use_bpf && o.sources.use_kmsg);
  EXPECT_FALSE(o.output.json || o.output.quiet || o.output.verbose || o.duration || o.run.memory);
  EXPECT_TRUE(parse_arguments(0, std::vector<const char*>{nullptr}.data(), "1").ok());
}

TEST(Options, name_the_command) {
  EXPECT_EQ(options({"watch"}).command, Command::watch);
  EXPECT_EQ(options({"trace"}).command, Command::trace);
  EXPECT_EQ(options({"doctor"}).command, Command::doctor);
  EXPECT_EQ(options({"run", "--", "true"}).command, Command::run);
}

TEST(Options, of_a_recording_name_a_file) {
  EXPECT_EQ(options({"record", "-o", "run.db"}).record.file, "run.db");
  expect_usage_error({"record", "-o", "-"}, "-o");
  expect_usage_error({"record"}, "-o");
}

TEST(Options, of_a_comparison_of_results_name_no_scope) {
  EXPECT_EQ(options({"blame", "--diff", "a", "b"}).blame.diff, (Words{"a", "b"}));
  expect_usage_error({"blame", "--diff", "a", "b", "--cgroup", "/job"}, "--cgroup");
}

TEST(Options, without_a_command_are_watchs) {
  Options o = options({"--json", "--for", "3s", "--cgroup", "/job"});
  EXPECT_EQ(o.command, Command::watch);
  EXPECT_TRUE(o.output.json);
  EXPECT_EQ(o.duration, std::chrono::seconds(3));
  EXPECT_EQ(o.scope.cgroup, "/job");
}

TEST(Options, of_every_tracing_command_are_the_common_ones) {
  for (const char* command : {"watch", "trace", "run"}) {
    Words words{command,   "--json", "--for",   "500ms",    "--interval=50ms",
                "--store", "/tmp/x", "--color", "never",    "--root",
                "/host/",  "-q",     "-v",      "--no-bpf", "--no-kmsg"};
    if (words[0] == "run") words.insert(words.end(), {"--", "true"});
    Options o = options(words);
    EXPECT_TRUE(o.output.json && o.output.quiet && o.output.verbose);
    EXPECT_EQ(o.duration, std::chrono::milliseconds(500));
    EXPECT_EQ(o.sources.interval, std::chrono::milliseconds(50));
    EXPECT_EQ(o.output.color, ColorChoice::never);
    EXPECT_EQ(o.sources.root, "/host") << "without its last slash";
    EXPECT_FALSE(o.sources.use_bpf || o.sources.use_kmsg);
  }
  EXPECT_TRUE(options({"trace", "--quiet"}).output.quiet);
  EXPECT_EQ(options({"trace", "--color", "always"}).output.color, ColorChoice::always);
  EXPECT_EQ(options({"trace", "--color", "auto"}).output.color, ColorChoice::automatic);
  EXPECT_EQ(options({"trace", "--root", "/"}).sources.root, "");
  EXPECT_EQ(options({"trace", "--root", "///"}).sources.root, "");
}

TEST(Options, of_watch_and_trace_choose_a_scope) {
  for (const char* command : {"watch", "trace"}) {
    auto scope = [&](const char* flag, const char* value) { return options({command, flag, value}).scope; };
    EXPECT_EQ(scope("--cgroup", "/a b").cgroup, "/a b");
    EXPECT_EQ(scope("--pid", "42").pid, 42u);
    EXPECT_EQ(scope("--container", "abcd").container, "abcd");
    EXPECT_EQ(scope("--unit", "sshd").unit, "sshd");
    EXPECT_EQ(scope("--slurm-job", "42.0").slurm_job, "42.0");
    EXPECT_FALSE(scope("--unit", "sshd").wait);
    EXPECT_TRUE(options({command, "--unit", "sshd", "--wait"}).scope.wait);
    expect_usage_error({command, "--wait"}, "--wait");
  }
}

TEST(Options, describe_a_scope_as_it_was_given) {
  EXPECT_EQ(options({"trace"}).scope.describe(), "whole machine");
  for (auto [flag, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"--cgroup", "/a"},
                                                                  {"--pid", "42"},
                                                                  {"--container", "abcd"},
                                                                  {"--unit", "sshd"},
                                                                  {"--slurm-job", "7"}})
    EXPECT_EQ(options({"trace", flag, value}).scope.describe(), std::string(flag) + " " + value);
}

TEST(Options, of_doctor_are_few) {
  Options o = options({"doctor", "--json", "--root", "/host", "--color", "never"});
  EXPECT_TRUE(o.output.json);
  EXPECT_EQ(o.sources.root, "/host");
  expect_usage_error({"doctor", "--for", "3s"}, "--for");
}

TEST(Run, leaves_the_command_behind_the_dashes_untouched) {
  Options o = options({"run", "--memory", "64M", "--", "cmd", "--json", "-q", "--", "--memory", "", "x y"});
  EXPECT_EQ(o.run.command, (Words{"cmd", "--json", "-q", "--", "--memory", "", "x y"}));
  EXPECT_EQ(o.run.memory, MiB(64));
  EXPECT_FALSE(o.output.json || o.output.quiet);
}

TEST(Run, needs_no_dashes) {
  Options o = options({"run", "--json", "python3", "train.py"});
  EXPECT_EQ(o.run.command, (Words{"python3", "train.py"}));
  EXPECT_TRUE(o.output.json);
}

TEST(Run, without_dashes_leaves_all_from_the_command_on_untouched) {
  Options o = options({"run", "python3", "-m", "train", "--json", "--memory", "1G", "-v"});
  EXPECT_EQ(o.run.command, (Words{"python3", "-m", "train", "--json", "--memory", "1G", "-v"}));
  EXPECT_FALSE(o.output.json || o.run.memory || o.output.verbose);
}

TEST(Run, without_dashes_leaves_the_commands_own_dashes) {
  EXPECT_EQ(options({"run", "git", "checkout", "--", "file"}).run.command,
            (Words{"git", "checkout", "--", "file"}));
  EXPECT_EQ(options({"run", "--memory", "64M", "xargs", "-r", "--", "rm"}).run.command,
            (Words{"xargs", "-r", "--", "rm"}));
}

TEST(Run, command_may_have_the_name_of_one_of_ours) {
  EXPECT_EQ(options({"run", "--", "watch", "date"}).run.command, (Words{"watch", "date"}));
  EXPECT_EQ(options({"run", "watch", "date"}).run.command, (Words{"watch", "date"}));
  EXPECT_EQ(options({"run", "run", "x"}).run.command, (Words{"run", "x"}));
}

TEST(WrongUse, of_run_is_told) {
  expect_usage_error({"run"}, "run");
  expect_usage_error({"run", "--"}, "run");
  expect_usage_error({"run", "--json"}, "run");
  expect_usage_error({"run", "--memory"}, "--memory");
  expect_usage_error({"run", "--memory", "--", "true"}, "--memory");
  expect_usage_error({"run", "--memory", "lots", "--", "true"}, "lots");
  expect_usage_error({"run", "--memory", "1023K", "--", "true"}, "--memory");
  expect_usage_error({"run", "--pid", "3", "--", "true"}, "--pid");
  expect_usage_error({"run", "--cgroup", "/x", "--", "true"}, "--cgroup");
  expect_usage_error({"run", "--bogus", "--", "true"}, "--bogus");
  expect_usage_error({"run", "--bogus", "true"}, "--bogus");
  expect_usage_error({"run", "--pid", "3", "true"}, "--pid");
}

TEST(WrongUse, of_values_is_told) {
  expect_usage_error({"trace", "--for", "soon"}, "soon");
  expect_usage_error({"trace", "--for", "0"}, "--for");
  expect_usage_error({"trace", "--for", ""}, "--for");
  expect_usage_error({"trace", "--for"}, "--for");
  expect_usage_error({"trace", "--interval", "49ms"}, "--interval");
  expect_usage_error({"trace", "--interval", "fast"}, "fast");
  expect_usage_error({"trace", "--interval="}, "--interval");
  expect_usage_error({"trace", "--color", "pink"}, "pink");
  expect_usage_error({"trace", "--pid", "x"}, "--pid");
  expect_usage_error({"trace", "--pid", "-1"}, "--pid");
  expect_usage_error({"trace", "--pid", "0"}, "--pid");
  expect_usage_error({"trace", "--pid", "99999999999"}, "--pid");
  expect_usage_error({"trace", "--pid", "12abc"}, "--pid");
  expect_usage_error({"trace", "--cgroup", ""}, "--cgroup");
  expect_usage_error({"trace", "--unit", ""}, "--unit");
}

TEST(WrongUse, of_two_scopes_is_told) {
  expect_usage_error({"trace", "--pid", "3", "--cgroup", "/x"}, "--pid");
  expect_usage_error({"trace", "--unit", "a", "--container", "b"}, "--unit");
  expect_usage_error({"trace", "--pid", "3", "--pid", "4"}, "--pid");
}

TEST(WrongUse, of_words_that_mean_nothing_is_told) {
  expect_usage_error({"bogus"}, "bogus");
  expect_usage_error({""}, "''");
  expect_usage_error({"--bogus"}, "--bogus");
  expect_usage_error({"trace", "--bogus"}, "--bogus");
  expect_usage_error({"trace", "extra"}, "extra");
  expect_usage_error({"trace", "--", "true"}, "run");
  expect_usage_error({"--", "true"}, "run");
  expect_usage_error({"trace", "--memory", "64M"}, "--memory");
  expect_usage_error({"trace", "--json=maybe"}, "maybe");
  expect_usage_error({"watch", "trace"}, "trace");
}

TEST(WrongUse, is_an_empty_value_as_of_a_variable_that_is_not_set) {
  expect_usage_error({"trace", "--pid", ""}, "--pid: give a PID\n");
  expect_usage_error({"blame", "--pid", ""}, "--pid: give a PID\n");
  expect_usage_error({"record", "-o", ""}, "-o: give a FILE\n");
  expect_usage_error({"report", "-o", ""}, "-o: give a FILE\n");
  expect_usage_error({"trace", "--exec", ""}, "--exec: give a CMD\n");
  expect_usage_error({"replay", ""}, "replay: give FILE\n");
  expect_usage_error({"blame", "--pid="}, "--pid");
  expect_usage_error({"trace", "--for", ""}, "not a duration");
}

TEST(WrongUse, message_is_safe_to_print) {
  auto parsed = parse({"\x1b[2J\xff"});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message.find('\x1b'), std::string::npos);
}

TEST(Help, is_text_and_no_error) {
  for (const Words& words :
       {Words{"--help"}, Words{"-h"}, Words{"trace", "--help"}, Words{"run", "--help"}}) {
    auto parsed = parse(words);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_TRUE(parsed->text);
    EXPECT_FALSE(parsed->text->empty());
  }
  EXPECT_NE(parse({"trace", "--help"})->text->find("--cgroup"), std::string::npos);
  EXPECT_NE(parse({"--help"})->text->find("doctor"), std::string::npos);
}

TEST(Help, of_the_command_of_run_is_its_own) {
  EXPECT_EQ(options({"run", "--", "ls", "--help"}).run.command, (Words{"ls", "--help"}));
  EXPECT_EQ(options({"run", "ls", "--help"}).run.command, (Words{"ls", "--help"}));
}

TEST(Help, is_given_beside_a_wrong_value_too) {
  for (const Words& words : {Words{"trace", "--for", "soon", "--help"}, Words{"trace", "--pid", "x", "-h"}}) {
    auto parsed = parse(words);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->text, parse({"trace", "--help"})->text);
  }
}

TEST(Help, has_a_command_of_its_own) {
  EXPECT_EQ(*parse({"help"})->text, *parse({"--help"})->text);
  EXPECT_EQ(*parse({"help", "blame"})->text, *parse({"blame", "--help"})->text);
}

TEST(Version, is_told) {
  for (const char* flag : {"--version", "-V"}) {
    auto parsed = parse({flag});
    ASSERT_TRUE(parsed.ok() && parsed->text);
    EXPECT_EQ(*parsed->text, "oomcast 1.2.3\n");
  }
}

// What the parsing library says of it is of its types.
TEST(WrongUse, is_answered_with_what_to_type) {
  expect_usage_error({"trace", "--pid", "abc"}, "--pid: 'abc' is not a number\nTry 'oomcast trace --help'.");
  expect_usage_error({"record"}, "record: give -o FILE\nTry 'oomcast record --help'.");
  expect_usage_error({"compare", "a"}, "compare: give B\n");
  expect_usage_error({"compare"}, "compare: give A and B\n");
  expect_usage_error({"trace", "--cgroup"}, "--cgroup: give a PATH\n");
  expect_usage_error({"report", "--form", "md"},
                     "'--form' is not an option of report; did you mean --format?");
  expect_usage_error({"trace", "--cgrup", "/x"}, "did you mean --cgroup?");
  expect_usage_error({"doctor", "me"}, "'me' is more than doctor takes");
  expect_usage_error({"histroy"}, "Try 'oomcast --help'.");
  expect_usage_error({"trace", "--for", "1s30"}, "'1s30' is not a duration");
  expect_usage_error({"trace", "--for", "99999999999d"}, "'99999999999d' is too long: 10000d at most");
}

TEST(Choice, of_lines_is_by_type_and_by_the_time_between_samples) {
  EXPECT_EQ(options({"trace", "--only", "oom,alert", "--only", "end"}).choice.only,
            (std::set<std::string>{"oom", "alert", "end"}));
  EXPECT_EQ(options({"run", "--json", "--samples", "10s", "--", "true"}).choice.samples,
            std::chrono::seconds(10));
  EXPECT_EQ(options({"replay", "x", "--json", "--samples", "none"}).choice.samples, Nanos{});
  EXPECT_TRUE(options({"trace", "--all", "--samples", "1m"}).choice.all);
  expect_usage_error({"trace", "--only", "oom,ooms"},
                     "--only: 'ooms' is no type of line; there are start, sample, limit_changed, process, ");
  for (const char* wrong : {"oom,", "", ",", "OOM", "all"})
    expect_usage_error({"trace", "--only", wrong}, "--only: ");
  for (const char* wrong : {"0s", "often", "-1s", ""})
    expect_usage_error({"trace", "--json", "--samples", wrong}, "write 10s, 1m or none");
  expect_usage_error({"trace", "--all", "--only", "oom"}, "give one of --all and --only");
  expect_usage_error({"trace", "--samples", "10s"}, "add --all, or --json");
  expect_usage_error({"run", "--only", "oom", "--", "true"}, "add --json");
  expect_usage_error({"watch", "--only", "oom"}, "--only");
}

TEST(Format, is_that_of_the_files_ending) {
  EXPECT_EQ(options({"blame", "-o", "x.html"}).blame.format, Format::html);
  EXPECT_EQ(options({"blame", "-o", "x.pb.gz"}).blame.format, Format::pprof);
  EXPECT_EQ(options({"blame", "-o", "x.folded"}).blame.format, Format::folded);
  EXPECT_TRUE(options({"blame", "-o", "x.json"}).output.json);
  EXPECT_EQ(options({"report", "-o", "x.md"}).report.format, Format::markdown);
  for (const char* file : {"x", "x.txt", "/tmp/a.html/x", "x.20261130", ".html", "-"})
    EXPECT_EQ(options({"report", "-o", file}).report.format, Format::text) << file;
  EXPECT_EQ(options({"blame", "-o", "x.svg", "--format", "html"}).blame.format, Format::html);
  expect_usage_error({"blame", "-o", "x.svg"},
                     "-o: no format has files that end in '.svg': say which by --format");
  expect_usage_error({"report", "-o", "x.folded"}, "--format (text, json, md, html)");
}

TEST(Options, take_alerts_and_their_actions_on_every_tracing_command) {
  for (const Words& command : {Words{"watch"}, Words{"trace"}, Words{"run"}}) {
    Words words = command;
    for (const char* word : {"--alert", "level>40G", "--alert", "growth > 500M/m for 2m", "--exec",
                             "echo x; -v", "--touch", ".stop", "--signal", "sigusr1"})
      words.push_back(word);
    if (command[0] == "run") words.push_back("true");  // no --: it is no second rule
    AlertOptions alert = options(words).alert;
    ASSERT_EQ(alert.rules.size(), 2u) << command[0];
    EXPECT_EQ(alert.rules[1].text, "growth > 500M/m for 2m");
    EXPECT_EQ(alert.exec, "echo x; -v");
    EXPECT_EQ(alert.touch, ".stop");
    EXPECT_EQ(alert.signal, 10);
  }
}

TEST(Options, act_on_the_forecasts_own_alert_without_a_rule) {
  EXPECT_FALSE(options({"trace"}).alert.any());
  AlertOptions alert = options({"trace", "--touch", "x"}).alert;
  ASSERT_EQ(alert.rules.size(), 1u);
  EXPECT_EQ(alert.rules[0].quantity, Quantity::forecast);
  alert = options({"trace", "--touch", "x", "--alert", "eta<1h"}).alert;
  ASSERT_EQ(alert.rules.size(), 1u);
  EXPECT_EQ(alert.rules[0].quantity, Quantity::eta);
}

TEST(Options, refuse_alerts_that_they_do_not_understand) {
  expect_usage_error({"trace", "--alert", "swap>1G"}, "'swap'");
  expect_usage_error({"trace", "--alert", "eta>20m"}, "'eta'");
  expect_usage_error({"trace", "--alert"}, "--alert");
  expect_usage_error({"trace", "--signal", "USR9"}, "'USR9'");
  expect_usage_error({"trace", "--signal", "0"}, "'0'");
  expect_usage_error({"trace", "--signal", "65"}, "'65'");
  expect_usage_error({"trace", "--signal", ""}, "--signal");
  expect_usage_error({"trace", "--exec", ""}, "--exec");
  expect_usage_error({"trace", "--touch", ""}, "--touch");
  expect_usage_error({"doctor", "--alert", "eta<20m"}, "--alert");
}

TEST(Options, take_several_logs_and_keep_them_only_in_a_store_that_was_named) {
  for (const char* command : {"report", "history"}) {
    Options o = options({command, "--from", "a.log", "--from", "-"});
    EXPECT_EQ(o.history.logs, (std::vector<std::string>{"a.log", "-"})) << command;
    EXPECT_FALSE(o.store.named) << command;
    EXPECT_TRUE(options({command, "--from", "a.log", "--store", "kept"}).store.named) << command;
    expect_usage_error({command, "--from"}, "--from");
    expect_usage_error({command, "--from", ""}, "--from");
  }
  expect_usage_error({"trace", "--from", "a.log"}, "--from");
}

TEST(Options, take_how_a_curve_is_read_from_replay_and_compare_alone) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"replay", "a.csv"}, {"compare", "a.csv", "b.csv"}}) {
    auto with = [&](std::vector<std::string> more) {
      std::vector<std::string> all = command;
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    SeriesChoices choices =
        options(with({"--column", "rss", "--unit", "MiB", "--time", "5s"})).series.choices;
    EXPECT_EQ(choices.column, "rss");
    ASSERT_TRUE(choices.unit);
    EXPECT_EQ(choices.unit->bytes, 1048576.0);
    EXPECT_EQ(choices.interval, 5.0);
    EXPECT_EQ(options(with({"--time", "stamp"})).series.choices.time, "stamp");
    for (const char* flag : {"--column", "--unit", "--time"}) {
      expect_usage_error(with({flag}), flag);
      expect_usage_error(with({flag, ""}), flag);
    }
    expect_usage_error(with({"--unit", "parsecs"}), "--unit");
  }
  for (const char* flag : {"--column", "--time"}) expect_usage_error({"trace", flag, "x"}, flag);
}

TEST(Signals, are_known_by_name_and_by_number) {
  EXPECT_EQ(parse_signal("USR1"), 10);
  EXPECT_EQ(parse_signal("SIGUSR1"), 10);
  EXPECT_EQ(parse_signal("10"), 10);
  EXPECT_EQ(parse_signal("Term"), 15);
  EXPECT_EQ(parse_signal("64"), 64);
  EXPECT_EQ(signal_name(10), "SIGUSR1");
  EXPECT_EQ(signal_name(40), "signal 40");
  for (const char* wrong : {"", "SIG", "-1", "10x", "1e1", "SIGSIGUSR1", "USR1 "})
    EXPECT_EQ(parse_signal(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace oomcast
