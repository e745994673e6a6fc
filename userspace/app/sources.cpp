#include "app/sources.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "collect/files.h"

namespace oomcast {
namespace {

Result<std::unique_ptr<BpfSource>> load_programs(const Sources& sources, Nanos interval,
                                                 const Sources::Load& load) {
  const Roots& roots = sources.roots;
  BpfOptions bpf;
  bpf.roots = roots;
  bpf.memory_hierarchy = sources.cgroupfs.mount().hierarchy_id;
  bpf.interval = interval;
  bpf.cgroup_mount = sources.cgroupfs.mount().mount_point;
  bpf.tickless_cpus =
      read_file_at(AT_FDCWD, roots.at("/sys/devices/system/cpu/nohz_full").c_str(), 4096).value_or("");
  bpf.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  if (auto info = sources.procfs.read_meminfo(); info && info->total) bpf.host_memory = *info->total;
  auto source = load(bpf);
  if (source) return source;
  Error error = source.error();
  error.message +=
      "\nWhat is missing in detail: oomcast doctor. To go on with the kernel log and cgroup files: --no-bpf";
  return error;
}

}  // namespace

Result<Sources> Sources::open(const Options& options,
                              const std::function<void(const std::string&)>& diagnostics, const Load& load) {
  Roots roots;
  roots.root = options.sources.root;
  auto cgroupfs = CgroupFs::open(roots);
  if (!cgroupfs) return cgroupfs.error();
  Sources out{roots, *std::move(cgroupfs), ProcFs(roots), {}, {}, {}};
  if (auto cost = what_it_costs(out.procfs.pid_numbers()); !cost.empty()) diagnostics(cost);
  out.names.push_back(out.cgroupfs.mount().hierarchy == Hierarchy::v1 ? "cgroupfs-v1" : "cgroupfs-v2");
  if (options.sources.use_kmsg) {
    if (auto log = KernelLog::open(roots)) {
      out.log.emplace(*std::move(log));
      out.names.push_back("kmsg");
    } else {
      diagnostics("the kernel log is not read: " + log.error().message);
    }
  }
  if (options.sources.use_bpf) {
    auto bpf = load_programs(out, options.sources.interval, load);
    if (!bpf) return bpf.error();
    out.bpf = *std::move(bpf);
    out.names.push_back("bpf");
    for (const ProgramState& program : out.bpf->programs()) {
      if (program.attached && program.name == "on_oom_kill_process") out.names.push_back("kprobe");
      if (!program.why_not.empty() && options.output.verbose)
        diagnostics(program.name + ": " + program.why_not);
    }
  }
  if (!out.bpf && !out.log && options.sources.use_kmsg)
    return Error::forbidden(
        "neither kernel programs nor the kernel log can be used: no OOM kill would be seen");
  return out;
}

}  // namespace oomcast
