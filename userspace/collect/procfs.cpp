#include "collect/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "base/escape.h"
#include "base/unique_fd.h"
#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr std::size_t max_small = 16384;
constexpr std::size_t max_large = 262144;
constexpr std::size_t max_status = 1 << 20;  // with 65,536 groups

std::string pid_file(const std::string& proc, std::uint32_t pid, const char* name) {
  return fmt::format("{}/{}/{}", proc, pid, name);
}

// ESRCH: the process exited between open and read.
bool means_exited(int err) {
  return err == ENOENT || err == ESRCH;
}

// nullopt: the process is gone.
Result<std::optional<std::string>> read_of_pid(const std::string& path, std::size_t max) {
  auto text = read_file_at(AT_FDCWD, path.c_str(), max);
  if (text || means_exited(errno)) return text;
  return Error::from_errno("reading " + make_harmless(path));
}

std::optional<std::string> read_short_link(const std::string& path) {
  std::array<char, 64> target;
  ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(size));
}

Error garbled(const std::string& path) {
  return Error::failed(make_harmless(path) + " is not what the kernel prints");
}

// Reads and parses a process's file; the parser may refuse. A refused empty file means that the process is
// exiting.
template <typename T, typename Parse>
Result<std::optional<T>> read_parsed(const std::string& path, std::size_t max, Parse parse) {
  auto text = read_of_pid(path, max);
  if (!text.ok()) return text.error();
  if (!*text) return std::optional<T>();
  std::optional<T> value = parse(std::string_view(**text));
  if (!value && !(*text)->empty()) return garbled(path);
  return value;
}

std::optional<Bytes> find_kib(std::string_view text, std::string_view key) {
  auto value = find_value(text, key);
  return value ? parse_kib(*value) : std::nullopt;
}

std::optional<std::uint32_t> find_u32(std::string_view text, std::string_view key) {
  auto value = find_value(text, key);
  return value ? parse_u32(*value) : std::nullopt;
}

// A signal mask: 16 hex digits.
std::optional<std::uint64_t> find_mask(std::string_view text, std::string_view key) {
  auto value = find_value(text, key);
  std::uint64_t mask = 0;
  if (!value) return std::nullopt;
  auto [end, err] = std::from_chars(value->data(), value->data() + value->size(), mask, 16);
  return err == std::errc{} && end == value->data() + value->size() ? std::optional(mask) : std::nullopt;
}

// For "9:memory,cpu:/path": is memory one of the controllers?
bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    std::size_t end = controllers.find(',');
    if (controllers.substr(0, end) == "memory") return true;
    controllers.remove_prefix(end == std::string_view::npos ? controllers.size() : end + 1);
  }
  return false;
}

}  // namespace

std::optional<ProcStrings> parse_proc_strings(std::string_view text) {
  constexpr int kFirst = 48;  // field, counted from 1; the first after the name is the third
  std::size_t close = text.rfind(')');
  if (close == std::string_view::npos) return std::nullopt;
  std::string_view rest = trim(text.substr(close + 1));
  for (int field = 3; field < kFirst; ++field) next_field(rest);
  std::array<std::uint64_t, 4> at{};
  for (std::uint64_t& address : at) {
    auto number = parse_u64(next_field(rest));
    if (!number || *number == 0) return std::nullopt;
    address = *number;
  }
  return ProcStrings{at[0], at[1], at[2], at[3]};
}

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  // "12 (any ) bytes) S 1 …": comm may hold parentheses, spaces and newlines, what follows holds none.
  std::size_t open = text.find('(');
  std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  ProcStat stat;
  stat.comm = text.substr(open + 1, close - open - 1);
  std::string_view rest = trim(text.substr(close + 1));
  std::string_view state = next_field(rest);
  if (state.size() != 1) return std::nullopt;
  stat.state = state[0];
  std::string_view fields[25];  // field 4 (ppid) is fields[0], field 22 (starttime) fields[18]
  for (std::string_view& field : fields) field = next_field(rest);
  auto ppid = parse_u32(fields[0]);
  auto flags = parse_u64(fields[5]), minor = parse_u64(fields[6]), major = parse_u64(fields[8]);
  auto threads = parse_u32(fields[16]);
  auto start = parse_u64(fields[18]);
  if (!ppid || !flags || !minor || !major || !threads || !start) return std::nullopt;
  stat.ppid = *ppid;
  stat.flags = *flags;
  stat.faults = *minor + *major;
  stat.num_threads = *threads;
  stat.start_ticks = *start;
  stat.stack = parse_u64(fields[24]);
  if (stat.stack == 0) stat.stack.reset();
  return stat;
}

ProcCmdline parse_cmdline(std::string_view text, std::size_t max) {
  // The last one may lack its NUL: truncated, or the process overwrote its title.
  return {Arguments::from_bytes(std::string(text.substr(0, max))), text.size() > max};
}

ProcStatus parse_status(std::string_view text) {
  ProcStatus out;
  out.tgid = find_u32(text, "Tgid");
  out.threads = find_u32(text, "Threads");
  out.tracer = find_u32(text, "TracerPid");
  out.rss = find_kib(text, "VmRSS");
  out.rss_anon = find_kib(text, "RssAnon");
  out.rss_file = find_kib(text, "RssFile");
  out.rss_shmem = find_kib(text, "RssShmem");
  out.swap = find_kib(text, "VmSwap");
  out.rss_peak = find_kib(text, "VmHWM");
  out.hugetlb = find_kib(text, "HugetlbPages");
  out.locked = find_kib(text, "VmLck");
  out.page_tables = find_kib(text, "VmPTE");
  out.caught = find_mask(text, "SigCgt");
  out.blocked = find_mask(text, "SigBlk");
  if (auto uids = find_value(text, "Uid")) {
    next_field(*uids);  // real
    out.uid = parse_u32(next_field(*uids));
  }
  if (auto pids = find_value(text, "NSpid")) {
    while (!pids->empty()) {
      auto pid = parse_u32(next_field(*pids));
      if (!pid) break;
      out.ns_pid.push_back(*pid);
    }
  }
  return out;
}

std::optional<ProcStatm> parse_statm(std::string_view text) {
  text = trim(text);
  auto size = parse_u64(next_field(text));
  auto resident = parse_u64(next_field(text));
  auto shared = parse_u64(next_field(text));
  if (!size || !resident || !shared) return std::nullopt;
  return ProcStatm{*size, *resident, *shared};
}

std::optional<ProcCgroup> parse_proc_cgroup(std::string_view text, Hierarchy hierarchy) {
  constexpr std::string_view deleted_mark = " (deleted)";
  std::string_view line;
  while (next_line(text, line)) {
    std::size_t first = line.find(':');
    std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    if (!path.starts_with('/')) continue;
    if (hierarchy == Hierarchy::v1 && names_memory(controllers)) return ProcCgroup{std::string(path), false};
    if (hierarchy == Hierarchy::v2 && line.substr(0, first) == "0" && controllers.empty()) {
      const bool deleted = path.ends_with(deleted_mark);
      if (deleted) path.remove_suffix(deleted_mark.size());
      return ProcCgroup{std::string(path), deleted};
    }
  }
  return std::nullopt;
}

MemInfo parse_meminfo(std::string_view text) {
  MemInfo out;
  out.total = find_kib(text, "MemTotal");
  out.free = find_kib(text, "MemFree");
  out.available = find_kib(text, "MemAvailable");
  out.swap_total = find_kib(text, "SwapTotal");
  out.swap_free = find_kib(text, "SwapFree");
  out.anon = find_kib(text, "AnonPages");
  out.cached = find_kib(text, "Cached");
  out.shmem = find_kib(text, "Shmem");
  out.active_file = find_kib(text, "Active(file)");
  out.inactive_file = find_kib(text, "Inactive(file)");
  out.slab_reclaimable = find_kib(text, "SReclaimable");
  out.slab_unreclaimable = find_kib(text, "SUnreclaim");
  out.kernel_stack = find_kib(text, "KernelStack");
  out.page_tables = find_kib(text, "PageTables");
  out.hugetlb = find_kib(text, "Hugetlb");
  return out;
}

Result<std::optional<ProcStat>> ProcFs::read_stat(std::uint32_t pid) const {
  return read_parsed<ProcStat>(pid_file(proc_, pid, "stat"), max_small, parse_proc_stat);
}

Result<std::optional<ProcStatus>> ProcFs::read_status(std::uint32_t pid) const {
  const std::string path = pid_file(proc_, pid, "status");
  if (is_slow_to_tell(pid)) return Error::failed(make_harmless(path) + " takes too long to read");
  const Nanos began = cpu_time_();
  std::size_t length = 0;
  auto status = read_parsed<ProcStatus>(path, max_status, [&](std::string_view text) {
    length = text.size();
    ProcStatus parsed = parse_status(text);
    return parsed.tgid ? std::optional(std::move(parsed)) : std::nullopt;
  });
  Nanos took = cpu_time_() - began;
  if (length > kLongStatus && took > kSlowStatus) note_slow(pid, took);
  return status;
}

bool ProcFs::is_slow_to_tell(std::uint32_t pid) const {
  if (auto known = slow_.find(pid); known != slow_.end()) {
    auto same = read_task_id(pid);
    if (same && *same && (*same)->start_ticks == known->second) return true;
    slow_.erase(known);
  }
  return slow_in_second_ >= kSlowInAll && mono_now() - slow_second_ < std::chrono::seconds(1);
}

void ProcFs::note_slow(std::uint32_t pid, Nanos took) const {
  if (slow_.size() >= kMaxSlow) slow_.clear();
  if (auto id = read_task_id(pid); id && *id) slow_[pid] = (*id)->start_ticks;
  if (mono_now() - slow_second_ >= std::chrono::seconds(1)) {
    slow_second_ = mono_now();
    slow_in_second_ = {};
  }
  slow_in_second_ += took;
}

Result<std::optional<ProcStatm>> ProcFs::read_statm(std::uint32_t pid) const {
  return read_parsed<ProcStatm>(pid_file(proc_, pid, "statm"), max_small, parse_statm);
}

Result<std::optional<ProcCgroup>> ProcFs::read_cgroup(std::uint32_t pid, Hierarchy hierarchy) const {
  auto text = read_of_pid(pid_file(proc_, pid, "cgroup"), max_large);
  if (!text.ok()) return text.error();
  return *text ? parse_proc_cgroup(**text, hierarchy) : std::nullopt;
}

Result<std::optional<ProcCgroup>> ProcFs::read_cgroup_of(const TaskId& id, Hierarchy hierarchy) const {
  auto cgroup = read_cgroup(id.tgid, hierarchy);
  if (!cgroup.ok() || !*cgroup) return cgroup;
  auto after = read_stat(id.tgid);
  if (!after.ok()) return after.error();
  if (!*after || (*after)->start_ticks != id.start_ticks || (*after)->exiting())
    return std::optional<ProcCgroup>();
  return cgroup;
}

Result<std::optional<TaskId>> ProcFs::read_task_id(std::uint32_t pid) const {
  auto stat = read_stat(pid);
  if (!stat.ok()) return stat.error();
  if (!*stat) return std::optional<TaskId>();
  return std::optional(TaskId{pid, (*stat)->start_ticks});
}

std::string what_it_costs(PidNumbers numbers) {
  if (numbers.foreign)
    return "this is another pid namespace than that of the processes of --root: no lines of code are told, "
           "and no signals sent (docker run --pid=host, hostPID: true)";
  if (numbers.space)
    return "this is a pid namespace: kills are told with the machine's process numbers, and without the "
           "lines that grew before (docker run --pid=host, hostPID: true)";
  return {};
}

PidNumbers ProcFs::pid_numbers() const {
  constexpr std::uint32_t kMachines = 0xEFFFFFFC;  // PROC_PID_INIT_INO, the same on every kernel
  auto self = read_short_link(proc_ + "/self");
  struct statfs fs {};
  if (!self)  // this process has no pid there; or it is a file tree
    return {.foreign = statfs(proc_.c_str(), &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC};
  if (parse_u32(*self) != static_cast<std::uint32_t>(::getpid())) return {.foreign = true};
  constexpr std::string_view kBefore = "pid:[";
  auto ns = read_short_link(proc_ + "/self/ns/pid");
  if (!ns || !ns->starts_with(kBefore) || !ns->ends_with(']')) return {};
  auto inode = parse_u32(std::string_view(*ns).substr(kBefore.size(), ns->size() - kBefore.size() - 1));
  return {.space = inode && *inode != kMachines ? *inode : 0};
}

namespace {

// Ascending.
Result<std::vector<std::uint32_t>> numbers_in(const std::string& directory, std::size_t most) {
  DirStream dir(::opendir(directory.c_str()));
  if (!dir) return Error::from_errno("listing " + make_harmless(directory));
  std::vector<std::uint32_t> out;
  errno = 0;
  while (const dirent* entry = out.size() < most ? ::readdir(dir.get()) : nullptr) {
    if (auto number = parse_u32(entry->d_name)) out.push_back(*number);
    errno = 0;
  }
  if (errno != 0) return Error::from_errno("listing " + make_harmless(directory));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Result<std::vector<std::uint32_t>> ProcFs::list_pids() const {
  return numbers_in(proc_, SIZE_MAX);
}

Result<std::vector<std::uint32_t>> ProcFs::list_threads(std::uint32_t pid, std::size_t most) const {
  return numbers_in(fmt::format("{}/{}/task", proc_, pid), most);
}

bool MemInfo::is_short() const {
  return available && total && available->as_double() < std::min(0.03 * total->as_double(), 2.0 * (1 << 30));
}

bool MemInfo::has_room() const {
  return available && total && available->as_double() >= std::min(total->as_double() / 16, 4.0 * (1 << 30));
}

Result<MemInfo> ProcFs::read_meminfo() const {
  const std::string path = proc_ + "/meminfo";
  std::array<char, max_small> buffer;
  auto take = [&] { return ::pread(meminfo_.get(), buffer.data(), buffer.size(), 0); };
  ssize_t size = take();
  if (size < 0) {  // first read, or lxcfs, which provides the file in a container, was restarted
    meminfo_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (meminfo_) size = take();
  }
  if (size < 0) return Error::from_errno("reading " + make_harmless(path));
  std::string_view text(buffer.data(), static_cast<std::size_t>(size));
  MemInfo info = parse_meminfo(text);
  if (!info.total) return garbled(path);
  return info;
}

Result<std::optional<std::uint64_t>> ProcFs::read_vmstat_oom_kill() const {
  const std::string path = proc_ + "/vmstat";
  auto text = read_file_at(AT_FDCWD, path.c_str(), max_large);
  if (!text) return Error::from_errno("reading " + make_harmless(path));
  auto value = find_value(*text, "oom_kill");
  return value ? parse_u64(*value) : std::nullopt;
}

Result<std::optional<Pressure>> ProcFs::read_pressure() const {
  const std::string path = proc_ + "/pressure/memory";
  auto text = read_file_at(AT_FDCWD, path.c_str(), 4096);
  if (text) return std::optional(parse_pressure(*text));
  if (errno == ENOENT || errno == EOPNOTSUPP) return std::optional<Pressure>();
  return Error::from_errno("reading " + make_harmless(path));
}

Result<std::uint64_t> ProcFs::read_swappiness() const {
  const std::string path = proc_ + "/sys/vm/swappiness";
  auto text = read_file_at(AT_FDCWD, path.c_str(), 64);
  if (!text) return Error::from_errno("reading " + make_harmless(path));
  auto value = parse_u64(trim(*text));
  if (!value) return garbled(path);
  return *value;
}

}  // namespace oomcast
