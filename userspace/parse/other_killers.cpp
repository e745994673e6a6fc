#include "parse/other_killers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/escape.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::string_view kKernelLog =
    "oomcast history (or oomcast history --from its dmesg) on that machine";

constexpr std::array<OtherKiller, 17> kKillers = {{
    {"systemd-oomd", "systemd-oomd", Killing::by_it,
     "it kills a whole cgroup when memory pressure or swap use stays above its limit, before memory is used "
     "up",
     "oomctl, and systemctl show -p ManagedOOMMemoryPressure,ManagedOOMMemoryPressureLimit UNIT on that "
     "machine",
     "systemd src/oom/oomd-manager.c, src/core/unit.c"},
    {"earlyoom", "earlyoom", Killing::by_it,
     "it kills the process with the highest oom_score when memory and swap are nearly used up",
     "journalctl -u earlyoom on that machine: its limits are in the first lines", "earlyoom kill.c"},
    {"nohang", "nohang", Killing::by_it, "it kills by thresholds of its own of memory, swap and pressure",
     "journalctl -u nohang on that machine; its thresholds are in /etc/nohang/nohang.conf",
     "nohang src/nohang"},
    {"oomd", "oomd", Killing::by_it, "it kills a whole cgroup by its rules of pressure and swap",
     "journalctl -u oomd on that machine; its rules are in /etc/oomd.json",
     "oomd src/oomd/plugins/BaseKillPlugin.cpp"},
    {"Talos", "", Killing::by_it, "its controller kills a whole pod when memory pressure passes its trigger",
     "talosctl -n NODE get oomconfig, and talosctl -n NODE dmesg",
     "talos internal/app/machined/pkg/controllers/runtime/oom.go"},
    {"Ray's memory monitor", "", Killing::by_it,
     "it kills a worker when the node's memory passes RAY_memory_usage_threshold",
     "ray logs raylet.out on that node; oomcast watch there shows which worker grows",
     "ray src/ray/raylet/node_manager.cc"},
    {"kubelet", "", Killing::by_it,
     "it evicted a pod because the node was low on memory: no process reached a limit",
     "kubectl describe node NODE (MemoryPressure), kubectl top pod; oomcast watch on the node",
     "kubernetes pkg/kubelet/eviction/helpers.go"},
    {"kubelet (admission)", "", Killing::none, "it refused to start a pod on a node that was short of memory",
     "kubectl describe node NODE (MemoryPressure); oomcast watch on the node",
     "kubernetes pkg/kubelet/eviction/eviction_manager.go, Admit"},
    {"slurmstepd", "", Killing::by_kernel, "it counts the kernel's kills in the cgroup of a job's step",
     kKernelLog, "slurm src/plugins/task/cgroup/task_cgroup_memory.c"},
    {"srun", "", Killing::by_kernel, "Slurm saw the kernel kill in the cgroup of a job's step", kKernelLog,
     "slurm src/common/slurm_protocol_defs.c"},
    {"systemd", "", Killing::by_kernel, "it saw the kernel kill in a unit's cgroup", kKernelLog,
     "systemd src/core/unit.c, src/core/service.c"},
    {"systemd (result)", "", Killing::unknown,
     "a unit failed by a kill of the kernel's OOM killer or of systemd-oomd: the result is the same",
     kKernelLog, "systemd src/core/unit.c, unit_notify_cgroup_oom()"},
    {"container runtime", "", Killing::by_kernel,
     "a process of a container was killed at its memory limit (OOMKilled)", kKernelLog,
     "kubernetes core/v1 ContainerStateTerminated, docker inspect State.OOMKilled, containerd TaskOOM"},
    {"exit code 137", "", Killing::unknown,
     "a process ended by SIGKILL, which the kernel or any user with the right to it can send", kKernelLog,
     "128 + SIGKILL, as shells, docker and kubectl describe print it"},
    {"Java", "", Killing::none, "a heap reached -Xmx, or the JVM a limit of its own",
     "raise -Xmx, or look for what it holds in a heap dump (-XX:+HeapDumpOnOutOfMemoryError)",
     "openjdk src/hotspot/share/utilities/debug.cpp"},
    {"GPU", "", Killing::none, "an allocation on the GPU failed",
     "oomcast run -- CMD shows which processes hold the GPU's memory",
     "pytorch c10/cuda/CUDACachingAllocator.cpp, NVIDIA's NVRM, XLA"},
    {"lowmemorykiller", "lmkd", Killing::by_it, "Android's killer chose by its own levels",
     "logcat -b kernel on that device", "linux drivers/staging/android/lowmemorykiller.c, lmkd"},
}};
enum KillerRow : std::size_t {
  kSystemdOomd,
  kEarlyoom,
  kNohang,
  kOomd,
  kTalos,
  kRay,
  kKubelet,
  kKubeletAdmission,
  kSlurm,
  kSrun,
  kSystemd,
  kSystemdResult,
  kContainer,
  kExit137,
  kJava,
  kGpu,
  kLowMemoryKiller
};

// All of `words` are in the line, in this order.
struct Sentence {
  KillerRow row;
  std::array<std::string_view, 3> words;
};
constexpr std::array<Sentence, 40> kSentencesOfOthers = {{
    {kSystemdOomd, {"Killed /", " due to memory pressure for "}},
    {kSystemdOomd, {"Killed /", " due to memory used ("}},
    {kSystemdOomd, {"Killed /", " due to swap used ("}},
    {kSystemdOomd, {"Marked /", " for killing due to "}},
    {kSystemdOomd, {"systemd-oomd killed ", " process(es) in this unit"}},
    {kEarlyoom, {"sending SIG", " to process ", "VmRSS "}},
    {kEarlyoom, {"sending SIG", " to process ", "\": "}},
    {kEarlyoom, {"killing process ", "\" with signal ", "VmRSS "}},
    {kNohang, {"Sending SIG", " to the victim"}},
    {kNohang, {"[ OK ] Sending SIG", " to "}},
    {kNohang, {"Preventing OOM: trying to send the SIG", " signal to "}},
    {kOomd, {"oomd kill: "}},
    {kTalos, {"[talos] OOM controller triggered"}},
    {kTalos, {"[talos] Sending SIGKILL to cgroup"}},
    {kRay, {"killed due to memory pressure (OOM)"}},
    {kRay, {"Task was killed due to the node running low on memory"}},
    {kRay, {"Ray killed this worker"}},
    {kKubelet, {"The node was low on resource: memory"}},
    {kKubelet, {"viction manager: must evict pod(s) to reclaim", "memory"}},
    {kKubeletAdmission, {"The node had condition: [MemoryPressure]"}},
    {kSlurm, {"Detected ", "oom_kill event"}},
    {kSlurm, {"Detected ", "oom-kill event"}},
    {kSlurm, {"slurmstepd", "Exceeded ", "memory limit"}},
    {kSlurm, {"slurmstepd", "OOM Killed"}},
    {kSrun, {"srun: error: ", ": Out Of Memory"}},
    {kSrun, {"srun: error: ", "OUT_OF_MEMORY"}},
    {kSystemd, {"of this unit has been killed by the OOM killer"}},
    {kSystemdResult, {"Failed with result 'oom-kill'"}},
    {kContainer, {"OOMKilled\": true"}},
    {kContainer, {"OOMKilled\":true"}},
    {kContainer, {"eason", "OOMKilled"}},
    {kContainer, {"OOMKilled", "137"}},
    {kContainer, {"TaskOOM"}},
    {kExit137, {"xit", " 137"}},
    {kJava, {"Terminating due to java.lang.OutOfMemoryError"}},
    {kJava, {"java.lang.OutOfMemoryError"}},
    {kGpu, {" out of memory. Tried to allocate "}},
    {kGpu, {"UDA", "ut of memory"}},
    {kGpu, {"NVRM: ", "ut of memory"}},
    {kLowMemoryKiller, {"owmemorykiller: Kill"}},
}};
constexpr std::array<std::string_view, 5> kRefusals = {
    "CUDA_ERROR_OUT_OF_MEMORY", "RESOURCE_EXHAUSTED: Out of memory", "CUDNN_STATUS_ALLOC_FAILED",
    "cudaErrorMemoryAllocation", "HIP out of memory"};

bool has(std::string_view text, std::string_view words) {
  return memmem(text.data(), text.size(), words.data(), words.size()) != nullptr;
}

bool has_all(std::string_view line, const std::array<std::string_view, 3>& words) {
  for (std::string_view word : words) {
    std::size_t at = word.empty() ? 0 : line.find(word);
    if (at == npos) return false;
    if (!word.empty()) line.remove_prefix(at + word.size());
  }
  return true;
}

// "Exit Code:    137", "exited with code 137", but neither "exit 0, took 137 ms" nor "Exiting after 1370 s".
bool exits_with_137(std::string_view line) {
  constexpr std::string_view kExit = "xit", kCode = " 137", kDigits = "0123456789";
  constexpr std::size_t kFarthest = 24;
  for (std::size_t code = line.find(kCode); code != npos; code = line.find(kCode, code + 1)) {
    std::size_t exit = line.rfind(kExit, code);
    if (exit == npos || code - exit > kFarthest) continue;
    std::string_view between = line.substr(exit, code - exit), behind = line.substr(code + kCode.size(), 1);
    if (between.find_first_of("0123456789,;") == npos && behind.find_first_of(kDigits) == npos) return true;
  }
  return false;
}

}  // namespace

std::span<const OtherKiller> other_killers() {
  return kKillers;
}

const OtherKiller* other_killer_in(std::string_view line) {
  constexpr std::array<std::string_view, 9> kAny = {"illed", "SIG",    "OOM",   "oom",  "137",
                                                    "emory", "MEMORY", "ALLOC", "VmRSS"};
  if (std::ranges::none_of(kAny, [&](std::string_view word) { return has(line, word); })) return nullptr;
  for (const Sentence& sentence : kSentencesOfOthers)
    if (has_all(line, sentence.words) && (sentence.row != kExit137 || exits_with_137(line)))
      return &kKillers[sentence.row];
  for (std::string_view refusal : kRefusals)
    if (has(line, refusal)) return &kKillers[kGpu];
  return nullptr;
}

const OtherKiller* other_killer_named(std::string_view comm) {
  if (comm.empty()) return nullptr;
  auto row = std::ranges::find(kKillers, comm, &OtherKiller::comm);
  return row == kKillers.end() ? nullptr : &*row;
}

std::string describe(const OtherSaid& said) {
  const OtherKiller& killer = *said.killer;
  std::string_view what =
      killer.killing == Killing::by_it       ? "killed, not the kernel's OOM killer"
      : killer.killing == Killing::by_kernel ? "reports a kill whose record is in the kernel log"
      : killer.killing == Killing::unknown   ? "may be a kill by the kernel, whose log has its record then"
                                             : "reports no kill";
  return fmt::format("{} {}: {} (its first line: {}). Next: {}", killer.name, what, killer.meaning,
                     escape_for_terminal(said.first), killer.next);
}

}  // namespace oomcast
