// Shell completion of commands, flags and values, generated from the command definitions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "app/command_flags.h"
#include "app/commands.h"
#include "base/print.h"

namespace oomcast {
namespace {

struct Flag {
  std::string name;    // "--color", "-o"
  std::string value;   // "WHEN"; empty: it takes none
  std::string help;    // its first sentence
  std::string values;  // "auto always never", if it says so
  bool takes_file = false;
};

// Up to the first of ": ( ; newline".
std::string first_part(std::string_view help) {
  return std::string(help.substr(0, help.find_first_of(":(;\n")));
}

// "auto always never" from "auto, always or never, …": values are lower-case words, the last one after an
// "or".
std::string values_of(std::string_view help) {
  std::string out;
  for (bool last = false; !last;) {
    std::size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
    std::string_view word = help.substr(0, end);
    if (word.empty()) return "";
    out += fmt::format("{}{}", out.empty() ? "" : " ", word);
    help.remove_prefix(word.size());
    if (help.starts_with(" or ")) {
      help.remove_prefix(4);
      word = help.substr(0, help.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
      out += fmt::format(" {}", word);
      last = true;
    } else if (help.starts_with(", ")) {
      help.remove_prefix(2);
    } else {
      return "";
    }
  }
  return out;
}

bool names_a_file(std::string_view type) {
  return type.find("FILE") != std::string_view::npos || type.find("DIR") != std::string_view::npos ||
         type == "PATH" || type == "A" || type == "B";
}

std::vector<Flag> flags_of(const CLI::App& command) {
  std::vector<Flag> out;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;
    Flag flag;
    flag.help = first_part(option->get_description());
    if (option->get_items_expected_max() > 0) {
      flag.value = option->get_type_name();
      flag.takes_file = names_a_file(flag.value);
      if (flag.value == "WHEN" || flag.value == "FORMAT") flag.values = values_of(option->get_description());
    }
    for (const std::string& name : option->get_lnames()) {
      flag.name = "--" + name;
      out.push_back(flag);
    }
    if (!option->get_lnames().empty()) continue;
    for (const std::string& name : option->get_snames()) {
      flag.name = "-" + name;
      out.push_back(flag);
    }
  }
  return out;
}

bool reads_files(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional() && names_a_file(option->get_type_name())) return true;
  return false;
}

// "bash zsh fish", for a positional argument that must be one of them.
std::string words_of(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    std::string type = option->get_type_name();
    if (!option->get_positional() ||
        type.find_first_not_of("abcdefghijklmnopqrstuvwxyz|") != std::string::npos)
      continue;
    std::ranges::replace(type, '|', ' ');
    return type;
  }
  return "";
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Escaped as part of an argument of _arguments.
std::string escaped_for_zsh(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string for_bash(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : commands_of(app)) {
    names += command->get_name() + " ";
    std::string flags, files, others, values;
    for (const Flag& flag : flags_of(*command)) {
      flags += flag.name + " ";
      if (!flag.values.empty())
        values += fmt::format("        {}) COMPREPLY=($(compgen -W {} -- \"$cur\")); return ;;\n", flag.name,
                              in_quotes(flag.values));
      else if (!flag.value.empty())
        (flag.takes_file ? files : others) +=
            (flag.takes_file ? files : others).empty() ? flag.name : "|" + flag.name;
    }
    if (!files.empty()) values += fmt::format("        {}) compopt -o default; return ;;\n", files);
    if (!others.empty()) values += fmt::format("        {}) return ;;\n", others);
    cases += fmt::format("    {})\n      flags={}\n", command->get_name(),
                         in_quotes(words_of(*command) + " " + flags));
    if (!values.empty()) cases += "      case $prev in\n" + values + "      esac\n";
    if (reads_files(*command)) cases += "      [[ $cur == -* ]] || { compopt -o default; return; }\n";
    cases += "      ;;\n";
  }
  return fmt::format(
      "_oomcast() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} "
      "flags= i\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then\n"
      "    COMPREPLY=($(compgen -W {} -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    [[ ${{COMP_WORDS[i]}} != -- ]] || {{ compopt -o default; return; }}\n"
      "  done\n"
      "  [[ $command != -* ]] || command=watch\n"
      "  case $command in\n"
      "{}"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
      "}}\n"
      "complete -F _oomcast oomcast\n",
      in_quotes(names), cases);
}

std::string for_zsh(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : commands_of(app)) {
    names += fmt::format("    {}\n", in_quotes(command->get_name() + ":" +
                                               escaped_for_zsh(first_part(command->get_description()))));
    std::string arguments;
    for (const Flag& flag : flags_of(*command)) {
      std::string spec = fmt::format("*{}[{}]", flag.name, escaped_for_zsh(flag.help));
      if (!flag.value.empty())
        spec += fmt::format(":{}:{}", escaped_for_zsh(flag.value),
                            !flag.values.empty() ? "(" + flag.values + ")"
                            : flag.takes_file    ? std::string("_files")
                                                 : std::string(" "));
      arguments += fmt::format(" \\\n        {}", in_quotes(spec));
    }
    if (reads_files(*command)) arguments += " \\\n        '*:file:_files'";
    if (std::string words = words_of(*command); !words.empty())
      arguments += fmt::format(" \\\n        ':word:({})'", words);
    if (command->get_name() == "run") arguments += " \\\n        '*::command:_normal'";
    cases += fmt::format("    {})\n      _arguments -s{} ;;\n", command->get_name(), arguments);
  }
  return fmt::format(
      "#compdef oomcast\n"
      "_oomcast() {{\n"
      "  local -a commands=(\n"
      "{}"
      "  )\n"
      "  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=watch\n"
      "  if [[ $words[2] != -* ]]; then\n"
      "    command=$words[2]\n"
      "    shift words\n"
      "    ((CURRENT--))\n"
      "  fi\n"
      "  case $command in\n"
      "{}"
      "  esac\n"
      "}}\n"
      "if [[ $funcstack[1] == _oomcast ]]; then _oomcast \"$@\"; else compdef _oomcast oomcast; fi\n",
      names, cases);
}

std::string for_fish(const CLI::App& app) {
  std::string out = "complete -c oomcast -f\n";
  for (const CLI::App* command : commands_of(app)) {
    const std::string& name = command->get_name();
    out += fmt::format("complete -c oomcast -n __fish_use_subcommand -a {} -d {}\n", name,
                       in_quotes(first_part(command->get_description())));
    std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", name);
    for (const Flag& flag : flags_of(*command)) {
      bool is_long = flag.name.starts_with("--");
      out += fmt::format("complete -c oomcast {} -{} {} -d {}", when, is_long ? "l" : "s",
                         flag.name.substr(is_long ? 2 : 1), in_quotes(flag.help));
      if (!flag.values.empty())
        out += " -x -a " + in_quotes(flag.values);
      else if (!flag.value.empty())
        out += flag.takes_file ? " -r -F" : " -x";
      out += "\n";
    }
    if (std::string words = words_of(*command); !words.empty())
      out += fmt::format("complete -c oomcast {} -a {}\n", when, in_quotes(words));
    if (reads_files(*command) || name == "run") out += fmt::format("complete -c oomcast {} -F\n", when);
  }
  return out;
}

}  // namespace

Result<int> completion(const Options& options) {
  Options unused;
  CLI::App app;
  for (const CommandSpec& spec : command_specs())
    spec.add_flags(*app.add_subcommand(std::string(spec.name), std::string(spec.help)), unused);
  auto script = options.shell == Shell::bash ? for_bash : options.shell == Shell::zsh ? for_zsh : for_fish;
  if (!print(stdout, script(app))) return stdout_failed();
  return 0;
}

}  // namespace oomcast
