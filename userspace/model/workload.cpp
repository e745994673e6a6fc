#include "model/workload.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace oomcast {
namespace {

constexpr std::size_t kMaxForm = 512;  // compared bytes of a form

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// "python3.11" and "python3-dbg" run a script like python does.
bool is_program(std::string_view name, std::string_view of) {
  if (!name.starts_with(of)) return false;
  return name.find_first_not_of("0123456789.-dbg", of.size()) == std::string_view::npos;
}

struct Interpreter {
  std::string_view name;
  std::string_view code;       // the option followed by the program's text
  std::string_view module;     // the option followed by the module's name; empty: none
  std::string_view with_word;  // letters of options that take an argument
};
constexpr std::array kInterpreters = {
    Interpreter{"python", "-c", "-m", "WX"}, Interpreter{"pypy", "-c", "-m", "WX"},
    Interpreter{"bash", "-c", "", "O"},      Interpreter{"dash", "-c", "", ""},
    Interpreter{"sh", "-c", "", ""},         Interpreter{"perl", "-e", "", "I"},
    Interpreter{"ruby", "-e", "", "I"},      Interpreter{"node", "-e", "", "r"},
    Interpreter{"Rscript", "-e", "", ""},    Interpreter{"java", "", "-jar", ""},
};

// Digits differ from run to run.
std::string without_digits(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool digit = c >= '0' && c <= '9';
    if (digit && out.ends_with('#')) continue;
    out += digit ? '#' : c;
  }
  return out;
}

// The set of options, ignoring order and values, and the number of other words.
std::string form_of(Arguments::Iterator word, Arguments::Iterator end) {
  std::set<std::string> options;
  std::size_t words = 0;
  bool value = false;  // of the previous option
  for (; !(word == end); ++word) {
    std::string_view text = *word;
    bool option = text.size() > 1 && text[0] == '-' && !(text[1] >= '0' && text[1] <= '9');
    if (option) {
      options.insert(without_digits(text.substr(0, text.find('='))));
      value = text.find('=') == std::string_view::npos;
    } else if (!std::exchange(value, false)) {
      ++words;
    }
  }
  std::string out;
  for (const std::string& option : options) out += option + " ";
  return (out + std::to_string(words)).substr(0, kMaxForm);
}

struct Command {
  std::string what, words;
};

std::optional<Command> command_of(const Arguments& argv) {
  if (argv.empty() || argv.front().empty()) return std::nullopt;
  auto word = argv.begin(), end = argv.end();
  std::string_view program = base_name(*word);
  if (program.starts_with('-')) program.remove_prefix(1);  // a login shell
  ++word;
  const auto* interpreter =
      std::ranges::find_if(kInterpreters, [&](const auto& i) { return is_program(program, i.name); });
  if (interpreter == kInterpreters.end())
    return Command{std::string(program) + '\0' + form_of(word, end), std::string(program)};
  for (; !(word == end); ++word) {
    std::string_view option = *word;
    if (option == "-" || option == "--") return std::nullopt;
    if (option.size() < 2 || option[0] != '-') break;
    bool is_code = option == interpreter->code, is_module = option == interpreter->module;
    if (is_code || is_module) {
      if (++word == end) return std::nullopt;
      std::string_view what = *word;
      // Matches the workers of any program, and code from any terminal or notebook.
      if (is_code && (what.empty() || what.find("multiprocessing") != std::string_view::npos))
        return std::nullopt;
      std::string text = is_code ? without_digits(what).substr(0, kMaxForm) : std::string(what);
      std::string name = is_code ? std::string(option) + " …" : std::string(option) + " " + std::string(what);
      return Command{std::string(interpreter->name) + '\0' + std::string(option) + '\0' + text + '\0' +
                         form_of(++word, end),
                     std::string(program) + " " + name};
    }
    if (option.size() == 2 && interpreter->with_word.find(option[1]) != std::string_view::npos &&
        ++word == end)
      return std::nullopt;
  }
  if (word == end) return std::nullopt;  // interactive
  std::string script(*word);
  return Command{std::string(interpreter->name) + '\0' + script + '\0' + form_of(++word, end),
                 std::string(program) + " " + std::string(base_name(script))};
}

bool named_once(std::string_view unit) {
  return !unit.ends_with(".service") || unit.starts_with("run-") || unit.starts_with("user@");
}

}  // namespace

std::vector<WorkloadName> workload_names(const ProcessRef& process) {
  std::vector<WorkloadName> out;
  if (process.cgroup) {
    const CgroupName& name = process.cgroup->name;
    // Processes below a service, as in a container of its own, are not the service.
    if (name.kind == CgroupKind::unit && name.unit && !named_once(*name.unit))
      out.push_back({"unit " + name.container.value_or("") + '\0' + *name.unit, *name.unit});
    if (name.container)
      out.push_back({"container " + *name.container, "container " + name.container->substr(0, 12)});
    if (name.pod && !process.comm.empty())
      out.push_back({"pod " + *name.pod + '\0' + process.comm, process.comm + " in pod " + *name.pod});
    if (name.slurm_job) out.push_back({"slurm " + *name.slurm_job, "SLURM job " + *name.slurm_job});
  }
  if (auto command = command_of(process.cmdline); command && process.uid)
    out.push_back({"command " + std::to_string(*process.uid) + '\0' + command->what, command->words});
  return out;
}

std::optional<WorkloadName> same_workload(const ProcessRef& a, const ProcessRef& b) {
  auto others = workload_names(b);
  for (WorkloadName& name : workload_names(a))
    if (std::ranges::find(others, name.key, &WorkloadName::key) != others.end()) return std::move(name);
  return std::nullopt;
}

}  // namespace oomcast
