#include "collect/kernel_features.h"

#include <bpf/btf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/escape.h"
#include "collect/libbpf.h"

namespace oomcast {
namespace {

constexpr std::array<KernelFeature, 7> kFeatures = {{
    {&KernelFeatures::kprobes, "kprobes", "e12f03d7031a", "4.17",
     "order, gfp mask and constraint of a kill are the kernel log's"},
    {&KernelFeatures::task_registers, "a task's registers", "dd6e10fbd9fb", "5.15",
     "blame finds them at the top of the kernel's stack"},
    {&KernelFeatures::find_vma, "search of a mapping", "7c7e3d31e785", "5.17",
     "blame finds its own in the list of them"},
    {&KernelFeatures::cgroup_iterator, "cgroup iterator", "d4ccaf58a847", "6.1",
     "idle cgroups are followed by their files"},
    {&KernelFeatures::cast, "a cast of kernel pointers", "a35b9af4ec2c", "6.2",
     "the programs take longer to load"},
    {&KernelFeatures::process_uprobes, "uprobes of a process", "89ae89f53d20", "6.6",
     "blame watches allocations by perf's events"},
    // Backported to stable series: 6.1 and 6.6 exist in both forms.
    {&KernelFeatures::mark_passes_task, "the task in oom:mark_victim", "72ba14deb40a", "6.9",
     "the victim is found by its thread id"},
}};

constexpr std::string_view kTypedTracepoint = "btf_trace_";
constexpr std::string_view kTraceSection = "tp_btf/";

bool passes_pointer(const btf& types, const btf_type& tracepoint) {
  const btf_type* type = btf__type_by_id(&types, tracepoint.type);  // pointer
  type = type ? btf__type_by_id(&types, type->type) : nullptr;  // function; its first argument is libbpf's
  if (!type || !btf_is_func_proto(type) || btf_vlen(type) < 2) return false;
  const btf_type* argument = btf__type_by_id(&types, btf_params(type)[1].type);
  return argument && btf_is_ptr(argument);
}

bool has_value(const btf& types, const btf_type& of, std::string_view name) {
  for (__u16 i = 0; i < btf_vlen(&of); ++i)
    if (btf__name_by_offset(&types, btf_enum(&of)[i].name_off) == name) return true;
  return false;
}

void note(KernelFeatures& out, const btf& types, const btf_type& type, std::string_view name) {
  if (btf_is_typedef(&type) && name.starts_with(kTypedTracepoint)) {
    name.remove_prefix(kTypedTracepoint.size());
    out.tracepoints.emplace(name);
    if (name == "mark_victim") out.mark_passes_task = passes_pointer(types, type);
  } else if (btf_is_func(&type) && name == "bpf_iter_cgroup") {
    out.cgroup_iterator = true;
  } else if (btf_is_func(&type) && name == "bpf_rdonly_cast") {
    out.cast = true;
  } else if (btf_is_struct(&type) && name == "bpf_uprobe_multi_link") {
    out.process_uprobes = true;
  } else if (btf_is_enum(&type) && name == "bpf_func_id") {
    out.task_registers |= has_value(types, type, "BPF_FUNC_task_pt_regs");
    out.find_vma |= has_value(types, type, "BPF_FUNC_find_vma");
  }
}

}  // namespace

std::span<const KernelFeature> kernel_features() {
  return kFeatures;
}

Result<KernelFeatures> read_kernel_features(const Roots& roots) {
  std::string path = roots.kernel_types();
  std::unique_ptr<btf, BtfDeleter> types(btf__parse(path.c_str(), nullptr));
  if (!types)
    return Error::forbidden(
        fmt::format("reading the kernel's types from {}: {}. oomcast needs a kernel built with "
                    "CONFIG_DEBUG_INFO_BTF=y (5.10 or newer in Debian)",
                    make_harmless(path), std::strerror(errno)));
  KernelFeatures out;
  out.kprobes = has_kprobes(roots);
  for (__u32 id = 1, all = btf__type_cnt(types.get()); id < all; ++id) {
    const btf_type* type = btf__type_by_id(types.get(), id);
    const char* name = type ? btf__name_by_offset(types.get(), type->name_off) : nullptr;
    if (name && *name) note(out, *types, *type, name);
  }
  return out;
}

Status complete(std::optional<KernelFeatures>& features, const Roots& roots) {
  if (features) return Ok{};
  auto read = read_kernel_features(roots);
  if (!read) return read.error();
  features = *std::move(read);
  return Ok{};
}

std::string why_not_used(std::string_view name, std::string_view section, const KernelFeatures& features) {
  if (section.starts_with(kTraceSection)) {
    std::string_view tracepoint = section.substr(kTraceSection.size());
    if (!features.tracepoints.contains(tracepoint))
      return fmt::format("this kernel has no tracepoint {}", tracepoint);
  }
  if (section == "iter/cgroup" && !features.cgroup_iterator) return "this kernel has no cgroup iterator";
  if (section.starts_with("kprobe/") && !features.kprobes) return "this kernel has no usable kprobes";
  if (name == "on_mark_victim" && !features.mark_passes_task)
    return "this kernel's mark_victim passes a thread id: on_mark_victim_pid is used";
  if (name == "on_mark_victim_pid" && features.mark_passes_task)
    return "this kernel's mark_victim passes the task: on_mark_victim is used";
  if (name == "on_fault" && !features.task_registers)
    return "this kernel has no bpf_task_pt_regs(): on_fault_before_5_15 is used";
  if (name == "on_fault_before_5_15" && features.task_registers)
    return "this kernel has bpf_task_pt_regs(): on_fault is used";
  if (name == "begin_walk" && !features.find_vma)
    return "this kernel has no bpf_find_vma(): begin_walk_before_5_17 is used";
  if (name == "begin_walk_before_5_17" && features.find_vma)
    return "this kernel has bpf_find_vma(): begin_walk is used";
  return {};
}

}  // namespace oomcast
