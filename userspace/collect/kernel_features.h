// Features that differ between the kernels that oomcast runs on (5.10 and later). Detected from the kernel's types
// (BTF), never from its version: distributions backport changes.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "collect/roots.h"

namespace oomcast {

struct KernelFeatures {
  std::set<std::string, std::less<>> tracepoints;  // that programs attach to by type ("mark_victim")
  bool mark_passes_task = false;
  bool cgroup_iterator = false;
  bool find_vma = false;         // bpf_find_vma()
  bool cast = false;             // bpf_rdonly_cast()
  bool task_registers = false;   // bpf_task_pt_regs()
  bool process_uprobes = false;  // of all threads of a process, with CAP_PERFMON alone
  bool kprobes = false;          // by perf's events
};

/// One of them, for people.
struct KernelFeature {
  bool KernelFeatures::*there;
  std::string_view name;
  std::string_view commit, since;  // what brought it, and the first release that has it
  std::string_view without;        // what is done where it is not there
};
std::span<const KernelFeature> kernel_features();

/// Error::forbidden: the types cannot be read. Cost: 30 ms and a transient 25 MiB, nearly all of it the
/// types.
Result<KernelFeatures> read_kernel_features(const Roots& roots);

/// Reads them where nobody has handed them in.
Status complete(std::optional<KernelFeatures>& features, const Roots& roots);

/// Why the kernel program `name`, in `section` of its object file, is not used on this kernel; empty: it is.
std::string why_not_used(std::string_view name, std::string_view section, const KernelFeatures& features);

}  // namespace oomcast
