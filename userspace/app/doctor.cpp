// oomcast doctor: tries every source and reports what works, what is missing, and what that costs.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "app/commands.h"
#include "app/privileges.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/print.h"
#include "collect/bpf_source.h"
#include "collect/bpf_source_faults.h"
#include "collect/cgroupfs.h"
#include "collect/data_breakpoint.h"
#include "collect/gpu_driver.h"
#include "collect/gpu_pages.h"
#include "collect/gpu_source.h"
#include "collect/gpu_xids.h"
#include "collect/kmsg.h"
#include "collect/procfs.h"
#include "collect/roots.h"
#include "collect/tracepoint_ids.h"
#include "stream/cells.h"
#include "stream/json_parts.h"

namespace oomcast {
namespace {

enum class Level { ok, degraded, missing };

struct DoctorFinding {
  std::string what;
  Level level = Level::ok;
  std::string detail;  // what was seen
  std::string cost;    // what is lost, and what to do; empty when ok
};

std::string_view word(Level level) {
  return level == Level::ok ? "ok" : level == Level::degraded ? "degraded" : "missing";
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool readable(const std::string& path) {
  return access(path.c_str(), R_OK) == 0;
}

class Doctor {
 public:
  explicit Doctor(const Options& options)
      : roots_{options.sources.root},
        procfs_(roots_),
        page_faults_(options.sources.page_faults),
        breakpoints_(options.sources.data_breakpoints) {}

  std::vector<DoctorFinding> examine() {
    check_cgroups();
    check_programs();
    check_kprobes();
    check_log();
    check_counts();
    check_pressure_and_swap();
    check_mounts();
    check_gpu();
    check_self();
    return std::move(findings_);
  }
  bool anything() const { return cgroups_ && (bpf_ || log_); }
  std::string kernel() const { return first_line(roots_.proc() + "/sys/kernel/osrelease"); }

 private:
  void add(std::string what, Level level, std::string detail, std::string cost = {}) {
    findings_.push_back({std::move(what), level, std::move(detail), std::move(cost)});
  }

  void check_cgroups() {
    auto fs = CgroupFs::open(roots_);
    if (!fs) {
      add("memory cgroups", Level::missing, fs.error().message,
          "no usage and no limits by cgroup; tracing cannot start");
      return;
    }
    const CgroupMount& mount = fs->mount();
    hierarchy_ = mount.hierarchy_id;
    v1_ = mount.hierarchy == Hierarchy::v1;
    cgroup_mount_ = mount.mount_point;
    cgroups_ = true;
    auto tree = fs->list();
    add("memory cgroups", Level::ok,
        fmt::format("{} at {}, {} cgroups", mount.hierarchy == Hierarchy::v1 ? "v1" : "v2",
                    escape_for_terminal(mount.mount_point), tree ? tree->cgroups.size() : 0));
    if (!mount.sees_root)
      add("cgroup paths", Level::degraded, "this process is in a cgroup namespace",
          "paths are not from the host's root; run on the host, or with its /sys and /proc under --root");
    if (auto cost = what_it_costs(procfs_.pid_numbers()); !cost.empty())
      add("process numbers", Level::degraded, "/proc, the kernel and this process have not the same", cost);
    if (mount.hierarchy == Hierarchy::v1)
      add("memory.oom.group", Level::degraded, "cgroup v1 has no group kill",
          "nothing is lost: each victim is recorded by itself");
  }

  void check_programs() {
    BpfOptions bpf;
    bpf.roots = roots_;
    bpf.features = check_kernel();
    bpf.memory_hierarchy = hierarchy_;
    bpf.interval = std::chrono::seconds(1);
    bpf.cgroup_mount = cgroup_mount_;
    bpf.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
    if (auto info = procfs_.read_meminfo(); info && info->total) bpf.host_memory = *info->total;
    auto source = BpfSource::load(bpf);
    if (!source) {
      add("kernel programs", Level::missing, source.error().message,
          "only the kernel log and cgroup files are left: no short-lived victims' argv, no spikes, no sender "
          "of SIGKILL");
      return;
    }
    bpf_ = true;
    check_blame(bpf);
    std::size_t attached = 0;
    for (const ProgramState& p : (*source)->programs()) attached += p.attached;
    add("kernel programs", Level::ok, fmt::format("{} attached", attached));
    for (const ProgramState& p : (*source)->programs()) {
      if (p.name == "on_rss_stat")
        add("exact RSS (kmem:rss_stat)", (*source)->set_exact(true) ? Level::ok : Level::degraded,
            "attached only while a cgroup is about to meet its limit, or moves in a scope that was asked for",
            (*source)->set_exact(true) ? "" : p.why_not + ": the last moments are seen at 1 kHz only");
      else if (!p.attached && p.name.starts_with("on_mark_victim"))
        add("oom:mark_victim", Level::ok, p.why_not);
      else if (!p.attached && p.name == "walk_cgroups")
        add("cgroup iterator", Level::degraded, p.why_not,
            "idle cgroups are followed by reading their files: twice the CPU time with 1,000 of them");
      else if (p.name == "on_clock")
        continue;  // only CPUs without a tick of the kernel's have one
      else if (!p.attached && p.name != "on_oom_kill_process")
        add("program " + p.name, Level::degraded, p.why_not, "what it adds to a record is unknown");
      else if (p.name == "on_oom_kill_process")
        kprobe_why_not_ = p.why_not, kprobe_attached_ = p.attached;
    }
  }

  std::optional<KernelFeatures> check_kernel() {
    auto features = read_kernel_features(roots_);
    if (!features) {
      add("kernel types (BTF)", Level::missing, features.error().message, "kernel programs cannot be loaded");
      return std::nullopt;
    }
    add("kernel types (BTF)", Level::ok, roots_.kernel_types());
    std::string has, lacks;
    for (const KernelFeature& f : kernel_features()) {
      if (*features.*f.there)
        has += fmt::format("{}{} ({})", has.empty() ? "" : ", ", f.name, f.since);
      else
        lacks += fmt::format("{}{} ({}, {}): {}", lacks.empty() ? "not " : "; not ", f.name, f.since,
                             f.commit, f.without);
    }
    add("kernel features", Level::ok, has + (has.empty() || lacks.empty() ? "" : "; ") + lacks);
    return *std::move(features);
  }

  void check_blame(const BpfOptions& bpf) {
    FaultOptions options;
    options.roots = roots_;
    options.features = bpf.features;
    options.units = bpf.units;
    options.page_faults = page_faults_;
    auto source = FaultSource::open(options);
    if (Status begun = source ? (*source)->begin(MonoTime{}) : Status(source.error()); !begun)
      add("blame", Level::degraded, begun.error().message,
          "blame names the processes that grow, by their counters, but no stack and no line");
    else
      add("blame", Level::ok,
          "a perf event at page faults, open only while blame runs; one of our own fired");
    if (auto fired = try_data_breakpoint(breakpoints_); !fired)
      add("hardware breakpoints", Level::degraded, fired.error().message,
          "which lines add to a container is not known: blame has no line for small objects of Python");
    else
      add("hardware breakpoints", Level::ok, "one on a variable of our own fires at each write");
  }

  void check_kprobes() {
    if (!bpf_) return;
    const char* without = "order, gfp mask and constraint of a kill come from the kernel log alone";
    if (!kprobe_attached_) {
      add("kprobes", Level::degraded, kprobe_why_not_, without);
      return;
    }
    std::string enabled = first_line(roots_.at("/sys/kernel/debug/kprobes/enabled"));
    if (enabled == "0")
      add("kprobes", Level::degraded, "attached, but kprobes/enabled is 0: they never fire", without);
    else if (enabled.empty())
      add("kprobes", Level::ok,
          "attached; debugfs is not mounted, so whether they are switched off is unknown");
    else
      add("kprobes", Level::ok, "attached to oom_kill_process");
  }

  void check_log() {
    auto log = KmsgReader::open(roots_.at("/dev/kmsg"), KmsgFrom::end);
    log_ = log.ok();
    if (log_)
      add("kernel log", Level::ok, "/dev/kmsg is readable");
    else
      add("kernel log", Level::degraded, log.error().message,
          "kills are recorded by the kernel programs alone; gfp mask, order and zone are unknown");
  }

  void check_counts() {
    auto kills = procfs_.read_vmstat_oom_kill();
    if (kills && *kills)
      add("kill counter", Level::ok, fmt::format("/proc/vmstat oom_kill is {}", **kills));
    else
      add("kill counter", Level::degraded, "/proc/vmstat has no oom_kill", "one check of three is missing");
  }

  void check_pressure_and_swap() {
    auto pressure = procfs_.read_pressure();
    if (pressure && *pressure)
      add("pressure (PSI)", Level::ok, "of the host");
    else
      add("pressure (PSI)", Level::degraded, "/proc/pressure/memory is not there (CONFIG_PSI, or psi=0)",
          "no pressure lines; stalls in reclaim are still measured");
    auto info = procfs_.read_meminfo();
    if (!info || !info->swap_total) return;
    std::string swap = info->swap_total->count ? format_size(*info->swap_total) : "none";
    auto swappiness = procfs_.read_swappiness();
    if (info->swap_total->count == 0)
      add("swap", Level::ok, swap);
    else if (cgroups_ && !v1_ && swappiness && *swappiness == 0)
      add("swap", Level::ok, swap + ": of no use at a cgroup's limit, because vm.swappiness is 0");
    else
      add("swap", Level::ok, swap + ": forecasts count what is left of it");
  }

  void check_mounts() {
    bool tracefs = readable(roots_.at("/sys/kernel/tracing/events")) ||
                   readable(roots_.at("/sys/kernel/debug/tracing/events"));
    add("tracefs", Level::ok, tracefs ? "mounted" : "not mounted", "");
    if (!tracefs) findings_.back().detail += "; not needed: programs attach by BTF";
    struct stat bpffs {};
    add("bpffs", Level::ok,
        stat(roots_.at("/sys/fs/bpf").c_str(), &bpffs) == 0 ? "there; not needed"
                                                            : "not mounted; not needed");
  }

  void check_gpu() {
    GpuDriver driver = find_gpu_driver(roots_);
    if (!driver.present()) {
      add("GPU", Level::ok, "no NVIDIA driver: nothing is attached for it");
      return;
    }
    GpuSourceOptions options;
    options.btf_path = roots_.kernel_types();
    options.uvm_major = driver.uvm_major;
    options.version = driver.version;
    options.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
    options.tracepoint_ids = read_tracepoint_ids(roots_, GpuSource::tracepoints());
    auto source = GpuSource::load(options);
    std::string which = driver.version ? fmt::format("NVIDIA driver {}.{:02}.{:02}", driver.version->major,
                                                     driver.version->minor, driver.version->patch)
                                       : "NVIDIA driver of unknown version";
    if (!source)
      add("GPU", Level::degraded, which + ": " + source.error().message, "GPU memory is unknown");
    else if ((*source)->hook() == "fexit")
      add("GPU", Level::ok, which + ", its calls are read as they return (fexit)");
    else
      add("GPU", Level::degraded,
          which + fmt::format(", its calls are read as they return ({})", (*source)->hook()),
          fmt::format(
              "this kernel does not trace functions: while the driver is loaded each system call costs {} ns "
              "more",
              (*source)->hook() == "tracepoints" ? 70 : 110));
    if (!driver.version)
      add("GPU layouts", Level::degraded, "the driver's version is not known",
          "maps have no device, frees of mappings no status");
    auto cards = read_gpu_cards(roots_.at(kGpuCards));
    bool counters = std::any_of(cards.begin(), cards.end(),
                                [](const GpuCard& c) { return c.migrated_pages_out.has_value(); });
    if (counters)
      add("GPU faults", Level::ok,
          fmt::format("by the counters of {} card{}: per card, not per process", cards.size(),
                      cards.size() == 1 ? "" : "s"));
    else
      add("GPU faults", Level::degraded,
          fmt::format(
              "no card's counters below {}: nvidia_uvm shows those of cards in use, and only where it was "
              "loaded with uvm_enable_debug_procfs=1",
              kGpuCards),
          "page faults and evictions are unknown: oversubscription of a card is not seen");
    if (!source) return;
    if (auto pages = GpuPages::open(roots_, **source, options))
      add("GPU faults by process", Level::ok, "by a kprobe on uvm_perf_event_notify");
    else
      add("GPU faults by process", Level::degraded, pages.error().message,
          "whose pages fault, move and are evicted is unknown");
    if (auto xids = GpuXids::open(options.btf_path))
      add("GPU Xids", Level::ok, "by the tracepoint nvidia:nvidia_dev_xid");
    else
      add("GPU Xids", Level::degraded, xids.error().message,
          "errors that the driver reports of a card are in the kernel log alone");
  }

  void check_self() {
    for (const Refused& refused : protect_self())
      add("own protection", Level::degraded, refused.what, refused.cost);
  }

  Roots roots_;
  ProcFs procfs_;
  Events page_faults_, breakpoints_;
  std::vector<DoctorFinding> findings_;
  std::uint32_t hierarchy_ = 0;
  std::string cgroup_mount_;
  bool cgroups_ = false, v1_ = false, bpf_ = false, log_ = false, kprobe_attached_ = false;
  std::string kprobe_why_not_;
};

// On a terminal, wrapped lines are indented.
void add_row(std::string& out, std::string begin, const std::string& text,
             std::optional<std::size_t> columns) {
  constexpr std::size_t kLeast = 20;
  std::size_t room =
      columns && *columns > begin.size() + kLeast ? *columns - begin.size() : std::string::npos;
  for (const std::string& part : room == std::string::npos ? std::vector{text} : wrap(text, room, 0)) {
    out += begin + part + "\n";
    begin.assign(begin.size(), ' ');
  }
}

}  // namespace

Result<int> doctor(const Options& options) {
  Doctor doctor(options);
  std::vector<DoctorFinding> findings = doctor.examine();
  std::string text;
  if (options.output.json) {
    Json out{{"type", "doctor"},
             {"time", format_rfc3339(wall_now())},
             {"version", OOMCAST_VERSION},
             {"kernel", nullptr}};
    if (!doctor.kernel().empty()) out["kernel"] = doctor.kernel();
    out["can_trace"] = doctor.anything();
    out["findings"] = Json::array();
    for (const DoctorFinding& f : findings)
      out["findings"].push_back({{"what", f.what},
                                 {"state", word(f.level)},
                                 {"detail", to_valid_utf8(f.detail)},
                                 {"cost", f.cost.empty() ? Json(nullptr) : Json(to_valid_utf8(f.cost))}});
    text = dump(out) + "\n";
  } else {
    text = fmt::format("oomcast {} on Linux {}\n", OOMCAST_VERSION, doctor.kernel());
    auto columns = terminal_columns();
    for (const DoctorFinding& f : findings) {
      add_row(text, fmt::format("{:<9} {:<26} ", word(f.level), f.what), f.detail, columns);
      if (!f.cost.empty()) add_row(text, std::string(37, ' '), "→ " + f.cost, columns);
    }
  }
  if (!print(stdout, text)) return stdout_failed();
  if (doctor.anything()) return 0;
  return Error::forbidden("nothing can be traced: see the lines above; mostly it helps to run as root");
}

}  // namespace oomcast
