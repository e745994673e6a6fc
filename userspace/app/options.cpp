#include "app/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <sstream>
#include <string_view>
#include <utility>

#include "app/command_flags.h"
#include "base/escape.h"

namespace oomcast {
namespace {

Error usage(std::string_view what) {
  return Error::usage(escape_for_terminal(what));
}

// `to` keeps what it has where the flag was not given.
template <typename To>
Status read_duration(const char* flag, const std::optional<std::string>& text, To& to, Nanos min = Nanos{}) {
  if (!text) return Ok{};
  auto duration = parse_duration(*text);
  if (!duration) return usage(fmt::format("{}: {}", flag, duration.error().message));
  if (*duration < min)
    return usage(fmt::format("{}: {}ms is the shortest", flag, min / std::chrono::milliseconds(1)));
  to = *duration;
  return Ok{};
}

template <typename To>
Status read_size(const char* flag, const std::optional<std::string>& text, To& to, Bytes min = Bytes{}) {
  if (!text) return Ok{};
  auto size = parse_size(*text);
  if (!size) return usage(fmt::format("{}: {}", flag, size.error().message));
  if (*size < min) return usage(fmt::format("{}: {}M is the least", flag, min.count >> 20));
  to = *size;
  return Ok{};
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
  if (scope.wait && scope.whole_machine())
    return usage("--wait: say what to wait for, by --cgroup or another scope");
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
  if (alert.rules.empty() && alert.acts()) alert.rules.emplace_back();
  return Ok{};
}

// "control=DEVICE:INODE", "uvm=DEVICE:INODE", "version=535.183.01", "cards=DIRECTORY", "trace=FILE"
Status read_gpu_test(const Texts& t, GpuTestOptions& gpu) {
  for (const std::string& text : t.gpu_test) {
    GpuSourceOptions::TestFile file{};
    unsigned long long device = 0, inode = 0;
    char kind[16] = {};
    if (text.starts_with("version=")) {
      gpu.version = parse_gpu_driver_version(text);
    } else if (text.starts_with("trace=")) {
      gpu.trace = text.substr(6);
    } else if (text.starts_with("cards=")) {
      gpu.cards = text.substr(6);
    } else if (std::sscanf(text.c_str(), "%15[a-z]=%llu:%llu", kind, &device, &inode) == 3) {
      file.device = device;
      file.inode = inode;
      file.kind =
          std::string_view(kind) == "uvm" ? wire::GpuCall::Device::uvm : wire::GpuCall::Device::control;
      gpu.files.push_back(file);
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

struct FormatName {
  std::string_view name, endings;  // of a file's name, each with its dot
  Format format;
};

std::vector<FormatName> formats_of(Command command) {
  std::vector<FormatName> out = {{"text", ".txt.text.log", Format::text}, {"json", ".json", Format::json}};
  if (command == Command::report)
    out.insert(out.end(), {{"md", ".md.markdown", Format::markdown}, {"html", ".html.htm", Format::html}});
  if (command == Command::blame)
    out.insert(out.end(), {{"folded", ".folded", Format::folded},
                           {"pprof", ".pprof.pb.gz", Format::pprof},
                           {"html", ".html.htm", Format::html}});
  return out;
}

// ".html" of "a/b.html"; empty: its name has none.
std::string ending_of(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size()) return "";
  bool date_or_number =
      std::ranges::all_of(name.substr(dot + 1), [](unsigned char c) { return std::isdigit(c); });
  return date_or_number ? "" : name.substr(dot);
}

// --format, --json, or the ending of the file's name.
Status read_format(const Texts& t, Options& o) {
  if (t.format && o.output.json && *t.format != "json")
    return usage(fmt::format("--format {} and --json exclude each other", *t.format));
  std::string format = t.format ? *t.format : o.output.json ? "json" : "text";
  const std::string& file = o.command == Command::blame ? o.blame.file : o.report.file;
  std::string ending = t.format || o.output.json ? "" : ending_of(file);
  bool found = false;
  std::string all;
  for (const FormatName& known : formats_of(o.command)) {
    bool is_it = ending.empty() ? known.name == format : known.endings.find(ending) != std::string_view::npos;
    if (is_it && !found) {
      found = true;
      o.output.format = known.format;
      o.output.json = known.format == Format::json;
    }
    all += fmt::format("{}{}", all.empty() ? "" : ", ", known.name);
  }
  if (found) return Ok{};
  if (!ending.empty())
    return usage(
        fmt::format("-o: no format has files that end in '{}': say which by --format ({})", ending, all));
  return usage(fmt::format("--format: '{}' is none of {}", format, all));
}

Status read_store(const Texts& t, StoreOptions& store) {
  store.path = t.store ? *t.store : default_store();
  store.named = t.store.has_value();
  if (store.path.empty()) return usage("--store: give a directory, or none");
  if (store.path == "none") store.path.clear();
  while (store.path.size() > 1 && store.path.back() == '/') store.path.pop_back();
  if (auto ok = read_size("--store-max", t.store_max, store.limits.size, MiB(8)); !ok) return ok;
  return read_duration("--store-keep", t.store_keep, store.limits.age);
}

Status read_color(const Texts& t, ColorChoice& color) {
  if (t.color == "always")
    color = ColorChoice::always;
  else if (t.color == "never")
    color = ColorChoice::never;
  else if (t.color != "auto")
    return usage(fmt::format("--color: '{}' is none of auto, always, never", t.color));
  return Ok{};
}

Status read_since(const Texts& t, std::optional<WallTime>& since) {
  if (!t.since) return Ok{};
  since = parse_since(*t.since, std::chrono::system_clock::now());
  if (since) return Ok{};
  return usage(fmt::format("--since: '{}' is neither a duration (7d) nor a day (2026-07-13)", *t.since));
}

// --column, --unit and --time.
Status read_series_choices(const Texts& t, SeriesOptions& series) {
  SeriesChoices& choices = series.choices;
  if (t.unit) {
    choices.unit = memory_unit(*t.unit);
    double bytes = 0;
    auto [end, code] = std::from_chars(t.unit->data(), t.unit->data() + t.unit->size(), bytes);
    bool number = code == std::errc{} && end == t.unit->data() + t.unit->size();
    if (!choices.unit && number && bytes > 0 && bytes <= 0x1p50)
      choices.unit = MemoryUnit{bytes, *t.unit + " B"};
    if (!choices.unit)
      return usage(
          fmt::format("--unit: '{}' is none of B, KiB, MiB, GiB, TiB, and no number of bytes", *t.unit));
  }
  if (t.time) {
    bool letters = std::ranges::any_of(*t.time, [](unsigned char c) { return std::isalpha(c) != 0; });
    auto apart = letters ? parse_duration(*t.time) : Result<Nanos>(Error::usage(""));
    if (apart)
      choices.interval = Seconds(*apart).count();
    else
      choices.time = *t.time;
  }
  choices.limit = series.limit;
  return Ok{};
}

// --only, --samples and --all.
Status read_choice(const Texts& t, Options& o) {
  FactChoice& choice = o.output.choice;
  const auto& types = fact_types();
  for (const std::string& list : t.only)
    for (std::size_t at = 0; at <= list.size();) {
      std::size_t end = std::min(list.find(',', at), list.size());
      std::string type = list.substr(at, end - at);
      if (std::ranges::find(types, type) == types.end())
        return usage(
            fmt::format("--only: '{}' is no type of line; there are {}", type, fmt::join(types, ", ")));
      choice.only.insert(type);
      at = end + 1;
    }
  if (choice.all && !choice.only.empty()) return usage("give one of --all and --only");
  if (t.samples && *t.samples == "none") choice.samples = Nanos{};
  if (t.samples && *t.samples != "none") {
    auto apart = parse_duration(*t.samples);
    if (!apart || *apart <= Nanos{})
      return usage(
          fmt::format("--samples: '{}' is no time between two samples; write 10s, 1m or none", *t.samples));
    choice.samples = *apart;
  }
  bool chosen = !choice.only.empty() || choice.samples;
  if (o.command == Command::run && chosen && !o.output.json)
    return usage("run: --only and --samples choose among JSON Lines: add --json");
  if (choice.samples && !o.output.json && !choice.all && choice.only.empty())
    return usage("--samples: text has samples with --all alone: add --all, or --json");
  return Ok{};
}

Status check_command(const Options& o) {
  if (o.series.limit && o.series.limit->count == 0) return usage("--limit: 0 is no limit");
  if (!o.blame.diff.empty() && !o.scope.whole_machine())
    return usage(
        fmt::format("--diff reads two results as they are: {} chooses nothing there", o.scope.describe()));
  if (o.command == Command::run && o.run.command.empty()) return usage("run: give a command after --");
  if (o.command == Command::record && o.record.file == "-")
    return usage("-o: a recording is a database, which cannot be written to stdout: name a file");
  return Ok{};
}

Status read_texts(const Texts& t, Options& o) {
  std::string& root = o.sources.root;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  if (root == "/") root.clear();
  constexpr Nanos kShortest = std::chrono::milliseconds(50);
  for (const Status& ok :
       {read_duration("--for", t.duration, o.duration),
        read_duration("--interval", t.interval, o.sources.interval, kShortest),
        read_size("--memory", t.memory, o.run.memory, MiB(1)), read_size("--limit", t.limit, o.series.limit),
        read_duration("--every", t.every, o.series.every), read_series_choices(t, o.series),
        read_store(t, o.store), read_since(t, o.history.since), read_format(t, o),
        read_color(t, o.output.color), read_choice(t, o), read_gpu_test(t, o.sources.gpu_test),
        check_scope(o.scope), read_alerts(t, o.alert), check_command(o)})
    if (!ok) return ok;
  return Ok{};
}

// ---- words

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

// What the words begin with: a command's name, added where it is left out.
Status name_command(std::vector<std::string>& words) {
  auto names = command_specs();
  std::string_view first = words.empty() ? std::string_view() : words[0];
  if (first == "help") {
    words.erase(words.begin());
    words.push_back("--help");
    first = words[0];
  }
  bool global = first == "-h" || first == "--help" || first == "-V" || first == "--version";
  if (global || std::ranges::find(names, first, &CommandSpec::name) != names.end()) return Ok{};
  if (words.empty() || first.starts_with('-')) {
    words.insert(words.begin(), "watch");
    return Ok{};
  }
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i)
    all += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i].name);
  return usage(fmt::format("'{}' is not a command; there are {}", first, all));
}

// One that begins with what was written, or has a letter or two that differ.
std::string suggestion(const CLI::App& command, std::string_view written) {
  auto distance = [&](std::string_view name) {
    std::vector<std::size_t> row(name.size() + 1);
    for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < written.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < name.size(); ++j) {
        std::size_t above = row[j + 1];
        row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (written[i] != name[j])});
        diagonal = above;
      }
    }
    return row.back();
  };
  std::string best;
  std::size_t least = 3;  // letters
  for (const CLI::Option* option : command.get_options()) {
    std::string name = option->get_name();
    if (!name.starts_with("--") || option->get_group().empty()) continue;
    std::size_t apart = written.size() > 3 && name.starts_with(written) ? 0 : distance(name);
    if (apart < least) least = apart, best = name;
  }
  return best.empty() ? "" : fmt::format("; did you mean {}?", best);
}

// CLI11's messages are about its types and counts: what to type instead.
std::string in_plain_words(const CLI::App& app, const CLI::Error& e) {
  std::string what = e.what();
  auto chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen[0];
  auto behind = [&](std::string_view part) {
    std::size_t at = what.find(part);
    return at == std::string::npos ? std::string() : what.substr(at + part.size());
  };
  if (std::string pair = behind("Could not convert: "); !pair.empty())
    if (std::size_t at = pair.find(" = "); at != std::string::npos)
      return fmt::format("{}: '{}' is not a number", pair.substr(0, at), pair.substr(at + 3));
  if (dynamic_cast<const CLI::ExtrasError*>(&e)) {
    // In any order: an option that is none comes with its value.
    std::string word;
    std::istringstream words(behind("expected: "));
    for (std::string each; words >> each;)
      if (word.empty() || !word.starts_with('-')) word = each;
    return word.starts_with('-') ? fmt::format("'{}' is not an option of {}{}", word, command.get_name(),
                                               suggestion(command, word))
                                 : fmt::format("'{}' is more than {} takes", word, command.get_name());
  }
  if (dynamic_cast<const CLI::RequiredError*>(&e)) {
    std::string missing;
    for (const CLI::Option* option : command.get_options()) {
      if (!option->get_required() || !option->results().empty()) continue;
      std::string type = option->get_type_name();
      missing += missing.empty() ? "" : " and ";
      missing += option->get_positional() ? type : fmt::format("{} {}", option->get_name(), type);
    }
    return fmt::format("{}: give {}", command.get_name(), missing);
  }
  if (std::size_t at = what.find(": 1 required "); at != std::string::npos && what.ends_with(" missing")) {
    std::string type = what.substr(at + 13, what.size() - at - 13 - 8);
    return fmt::format("{}: give a {}", what.substr(0, at), type);
  }
  return what;
}

// The command of run, out of the words.
Result<std::vector<std::string>> take_command(std::vector<std::string>& words, const CLI::App& app) {
  if (words[0] != "run") {
    if (std::ranges::find(words, "--") != words.end()) return usage("only run takes a command after --");
    return std::vector<std::string>();
  }
  auto at = words.begin() + static_cast<std::ptrdiff_t>(find_command(*app.get_subcommand("run"), words));
  std::vector<std::string> command(at != words.end() && *at == "--" ? at + 1 : at, words.end());
  words.erase(at, words.end());
  return command;
}

// `name`: "trace ", as far as it is known.
Result<ParsedArguments> parse_words(std::vector<std::string> words, const std::string& version,
                                    std::string& name) {
  ParsedArguments out;
  Options& o = out.options;
  Texts t;
  CLI::App app{"See OOM kills coming, and record every one of them.", "oomcast"};
  app.set_version_flag("-V,--version", "oomcast " + version);
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 ok, 1 failed at run time, 2 wrong usage, 3 the kernel or the privileges do not allow "
      "it;\n"
      "run gives the command's own, 128+N if signal N ended it.");
  for (const CommandSpec& spec : command_specs())
    spec.add_flags(*app.add_subcommand(std::string(spec.name), std::string(spec.help)), o, t);

  if (auto ok = name_command(words); !ok) return ok.error();
  if (!words[0].starts_with('-')) name = words[0] + " ";
  auto command = take_command(words, app);
  if (!command) return command.error();
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
    return usage(in_plain_words(app, e));
  }
  for (const CommandSpec& spec : command_specs())
    if (app.got_subcommand(std::string(spec.name))) o.command = spec.command;
  o.run.command = *std::move(command);
  if (auto s = read_texts(t, o); !s) return s.error();
  // CLI11 takes an empty number for an option that was not given: --pid "$PID" of an unset variable would be
  // the whole machine.
  for (const CLI::App* chosen : app.get_subcommands())
    for (const CLI::Option* option : chosen->get_options())
      if (std::ranges::find(option->results(), "") != option->results().end())
        return usage(fmt::format("{}: give a value", option->get_name()));
  return out;
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
  std::string command;
  auto parsed = parse_words(std::move(words), version, command);
  if (parsed) return parsed;
  return Error{fmt::format("{}\nTry 'oomcast {}--help'.", parsed.error().message, command),
               parsed.error().exit_code};
}

}  // namespace oomcast
