#include "blame/roles.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "blame/frame.h"

namespace oomcast {
namespace {

bool has_word(const Arguments& args, std::string_view part) {
  return std::any_of(args.begin(), args.end(),
                     [&](std::string_view arg) { return arg.find(part) != std::string_view::npos; });
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t value = 0;
  auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (err != std::errc{} || end != text.data() + text.size() || value > 1'000'000) return std::nullopt;
  return value;
}

// The rank in the job, or on this machine.
std::optional<std::uint32_t> rank_of(const Arguments& args, std::string_view environment) {
  constexpr std::array<std::string_view, 4> kVariables = {
      "RANK=", "SLURM_PROCID=", "OMPI_COMM_WORLD_RANK=", "LOCAL_RANK="};
  for (std::string_view variable : kVariables)
    for (std::string_view rest = environment; !rest.empty();) {
      std::string_view word = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      if (word.starts_with(variable)) return number_of(word.substr(variable.size()));
    }
  for (auto at = args.begin(); at != args.end(); ++at)
    for (std::string_view option : {"--local_rank", "--local-rank", "--rank"}) {
      std::string_view arg = *at;
      if (arg == option && std::next(at) != args.end()) return number_of(*std::next(at));
      if (arg.starts_with(option) && arg.substr(option.size()).starts_with('='))
        return number_of(arg.substr(option.size() + 1));
    }
  return std::nullopt;
}

bool is_launcher(const Arguments& args, std::string_view comm) {
  constexpr std::array<std::string_view, 27> kPrograms = {
      "uv",    "torchrun",   "accelerate",   "deepspeed", "mpirun", "mpiexec",   "orted",
      "srun",  "slurmstepd", "slurm_script", "sh",        "bash",   "dash",      "zsh",
      "sudo",  "timeout",    "nohup",        "env",       "tini",   "dumb-init", "docker-init",
      "conda", "poetry",     "nice",         "numactl",   "setsid", "time"};
  auto known = [&](std::string_view name) {
    return std::find(kPrograms.begin(), kPrograms.end(), name) != kPrograms.end();
  };
  if (args.empty()) return known(comm);
  // Also "python torchrun …" and "python -m torch.distributed.run …".
  auto second = std::next(args.begin());
  return known(base_name(args.front())) || (second != args.end() && known(base_name(*second))) ||
         has_word(args, "torch.distributed.run") || has_word(args, "torch.distributed.launch");
}

// nullopt: no sign that it is a worker.
std::optional<std::string> worker_by_name(const Arguments& args, std::string_view comm) {
  struct Known {
    std::string_view part, what;
  };
  constexpr std::array<Known, 6> kWords = {{{"compile_worker", "compile"},
                                            {"pt_data_worker", "DataLoader"},
                                            {"pt_data_pin", "DataLoader"},
                                            {"resource_tracker", "tracker"},
                                            {"multiprocessing.spawn", "multiprocessing"},
                                            {"multiprocessing.forkserver", "multiprocessing"}}};
  for (const Known& known : kWords)
    if (comm.starts_with(known.part) || has_word(args, known.part)) return std::string(known.what);
  if (comm.starts_with("ray::")) return "Ray";
  return std::nullopt;
}

}  // namespace

std::string_view to_string(ProcessRole::Kind kind) {
  switch (kind) {
    case ProcessRole::Kind::launcher:
      return "launcher";
    case ProcessRole::Kind::parent:
      return "parent";
    case ProcessRole::Kind::worker:
      return "worker";
    case ProcessRole::Kind::alone:
      break;
  }
  return "alone";
}

std::vector<ProcessRole> find_roles(std::span<const ProcessRef> processes,
                                    std::span<const std::string> environments) {
  std::vector<ProcessRole> out(processes.size());
  std::unordered_map<std::uint32_t, std::size_t> by_pid;
  for (std::size_t i = 0; i < processes.size(); ++i) by_pid.emplace(processes[i].id.tgid, i);
  std::vector<bool> has_children(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const ProcessRef& p = processes[i];
    const auto& args = p.cmdline;
    out[i].rank = rank_of(args, i < environments.size() ? environments[i] : std::string());
    auto parent = p.ppid ? by_pid.find(*p.ppid) : by_pid.end();
    if (parent == by_pid.end() || parent->second == i) continue;
    has_children[parent->second] = true;
    auto what = worker_by_name(args, p.comm);
    // Forked, without an exec since. A launcher's forks are about to exec their program.
    if (!what && !args.empty() && args == processes[parent->second].cmdline && !is_launcher(args, p.comm))
      what = "";
    if (!what) continue;
    out[i].kind = ProcessRole::Kind::worker;
    out[i].what = *std::move(what);
    out[i].of = p.ppid;
    ++out[parent->second].workers;
  }
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (out[i].kind == ProcessRole::Kind::worker) continue;
    if (out[i].workers)
      out[i].kind = ProcessRole::Kind::parent;
    else if (has_children[i] && is_launcher(processes[i].cmdline, processes[i].comm))
      out[i].kind = ProcessRole::Kind::launcher;
  }
  return out;
}

}  // namespace oomcast
