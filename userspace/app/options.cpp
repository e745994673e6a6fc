#include "app/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "app/command_flags.h"
#include "app/config_file.h"
#include "app/flag_values.h"
#include "base/escape.h"

namespace oomcast {
namespace {

Error usage(std::string_view what) {
  return Error::usage(escape_for_terminal(what));
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

// CLI11's messages are about its types and counts: print what to type instead. Messages of our own parsers
// are kept.
std::string in_plain_words(const CLI::App& app, const CLI::Error& e) {
  std::string what = e.what();
  if (dynamic_cast<const CLI::ValidationError*>(&e)) return what;
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
    // In any order: an unknown option comes with its value.
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

// Takes the command of `run` out of the words.
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

// Puts the configuration before the service's words; a key that is also on the command line is ignored.
Status add_config(std::vector<std::string>& words, const CLI::App& daemon) {
  std::string path;
  auto is_given = [&words](const std::string& flag) {
    return std::ranges::any_of(
        words, [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--config" && i + 1 < words.size()) path = words[i + 1];
    if (words[i].starts_with("--config=")) path = words[i].substr(9);
  }
  auto config = read_config(path.empty() ? kSystemConfig : path, !path.empty());
  if (!config) return config.error();
  std::vector<std::string> out;
  for (const auto& [key, value] : *config) {
    std::string flag = "--" + key;
    const CLI::Option* option = daemon.get_option_no_throw(flag);
    if (!option || option->get_group().empty() || key == "config" || key == "help")
      return usage(fmt::format("{}: '{}' is no setting{}", path.empty() ? kSystemConfig : path, key,
                               suggestion(daemon, flag)));
    if (is_given(flag)) continue;
    bool is_flag = option->get_items_expected_max() == 0;
    if (is_flag && value != "true" && value != "false")
      return usage(fmt::format("{}: '{}' is true or false", path.empty() ? kSystemConfig : path, key));
    if (!is_flag) out.push_back(flag + "=" + value);
    if (is_flag && value == "true") out.push_back(flag);
  }
  words.insert(words.begin() + 1, out.begin(), out.end());
  return Ok{};
}

// `name`: "trace ", as far as parsed.
Result<ParsedArguments> parse_words(std::vector<std::string> words, const std::string& version,
                                    std::string& name) {
  ParsedArguments out;
  Options& o = out.options;
  CLI::App app{"See OOM kills coming, and record every one of them.", "oomcast"};
  app.set_version_flag("-V,--version", "oomcast " + version);
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 ok, 1 failed at run time, 2 wrong usage, 3 the kernel or the privileges do not allow "
      "it;\n"
      "run gives the command's own, 128+N if signal N ended it.");
  for (const CommandSpec& spec : command_specs())
    spec.add_flags(*app.add_subcommand(std::string(spec.name), std::string(spec.help)), o);

  if (auto ok = name_command(words); !ok) return ok.error();
  if (!words[0].starts_with('-')) name = words[0] + " ";
  auto command = take_command(words, app);
  if (!command) return command.error();
  o.run.command = *std::move(command);
  o.store.path = *read_store(default_store());
  o.daemon.socket = kEventSocket;
  bool helps = std::ranges::any_of(words, [](const std::string& w) { return w == "-h" || w == "--help"; });
  if (words[0] == "daemon" && !helps) {
    o.daemon.words = words;
    if (auto ok = add_config(words, *app.get_subcommand("daemon")); !ok) return ok.error();
  }
  std::reverse(words.begin(), words.end());  // the order that CLI11 expects of a vector
  auto chosen = [&app] { return app.get_subcommands().empty() ? &app : app.get_subcommands()[0]; };
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    out.text = chosen()->help();
    return out;
  } catch (const CLI::CallForVersion& v) {
    out.text = std::string(v.what()) + "\n";
    return out;
  } catch (const CLI::Error& e) {
    if (*chosen()->get_help_ptr()) {  // even next to an invalid value
      out.text = chosen()->help();
      return out;
    }
    return usage(in_plain_words(app, e));
  }
  // CLI11 treats an empty number as an option not given: --pid "$PID" with an unset variable would mean the
  // whole machine.
  for (const CLI::Option* option : chosen()->get_options())
    if (std::ranges::find(option->results(), "") != option->results().end())
      return usage(option->get_positional()
                       ? fmt::format("{}: give {}", chosen()->get_name(), option->get_type_name())
                       : fmt::format("{}: give a {}", option->get_name(), option->get_type_name()));
  for (const CommandSpec& spec : command_specs())
    if (app.got_subcommand(std::string(spec.name))) o.command = spec.command;
  if (o.alert.rules.empty() && o.alert.acts()) o.alert.rules.emplace_back();
  std::string& root = o.sources.root;
  while (!root.empty() && root.back() == '/') root.pop_back();
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
