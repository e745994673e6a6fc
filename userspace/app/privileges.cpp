#include "app/privileges.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/capabilities.h"
#include "base/unique_fd.h"
#include "collect/perf_event.h"

namespace oomcast {
namespace {

constexpr cap_value_t kKeep[] = {
    CAP_BPF,     CAP_PERFMON, CAP_SYS_PTRACE,         CAP_DAC_READ_SEARCH,
    CAP_SYSLOG,  CAP_KILL,    CAP_CHECKPOINT_RESTORE,  // to open files that other processes have mapped
    CAP_IPC_LOCK};  // without it MCL_FUTURE makes allocations fail past RLIMIT_MEMLOCK

constexpr int kNice = -10;

rlimit limit_now(decltype(RLIMIT_NICE) which) {
  rlimit now{};
  getrlimit(which, &now);  // never fails for a valid resource
  return now;
}

}  // namespace

const ChildLimits& callers_limits() {
  static const ChildLimits before = [] {
    ChildLimits out;
    UniqueFd fd(open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC));
    char text[16] = {};
    ssize_t n = fd ? read(fd.get(), text, sizeof(text) - 1) : 0;
    if (n > 0) out.oom_score_adj.assign(text, static_cast<std::size_t>(n));
    out.nice = limit_now(RLIMIT_NICE);
    out.files = limit_now(RLIMIT_NOFILE);
    out.realtime = limit_now(RLIMIT_RTPRIO);
    return out;
  }();
  return before;
}

std::vector<Refused> protect_self() {
  std::vector<Refused> refused;
  callers_limits();  // caches the current limits
  UniqueFd adj(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!adj || write(adj.get(), "-1000", 5) != 5)
    refused.push_back({fmt::format("oom_score_adj stays as it is ({})", std::strerror(errno)),
                       "oomcast itself can be OOM-killed; needs CAP_SYS_RESOURCE"});
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
    refused.push_back({fmt::format("pages are not locked ({})", std::strerror(errno)),
                       "under pressure oomcast may be slow; needs CAP_IPC_LOCK"});
  // Above other processes when all CPUs are busy, but below kernel threads; unless the user set a priority.
  // Children get the old priority back.
  const sched_param none{};
  bool as_usual = getpriority(PRIO_PROCESS, 0) == 0;
  // For take_limits(), which runs without capabilities.
  if (rlimit more = limit_now(RLIMIT_NICE); as_usual) {
    more.rlim_max = std::max<rlim_t>(more.rlim_max, 20 - kNice);
    setrlimit(RLIMIT_NICE, &more);
  }
  if (as_usual && (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) != 0 ||
                   setpriority(PRIO_PROCESS, 0, kNice) != 0))
    refused.push_back({fmt::format("its priority stays as it is ({})", std::strerror(errno)),
                       "on a machine whose CPUs are all taken kills are told late, and in a storm some are "
                       "lost; needs CAP_SYS_NICE"});
  return refused;
}

void allow_reserves() {
  callers_limits();
  rlimit before = limit_now(RLIMIT_RTPRIO);
  rlimit more{std::max<rlim_t>(before.rlim_cur, 1), std::max<rlim_t>(before.rlim_max, 1)};
  setrlimit(RLIMIT_RTPRIO, &more);
}

void take_limits(const ChildLimits& limits) {
  if (limits.realtime) setrlimit(RLIMIT_RTPRIO, &*limits.realtime);
  if (limits.files) setrlimit(RLIMIT_NOFILE, &*limits.files);
  if (limits.before_others && getpriority(PRIO_PROCESS, 0) == 0) {
    rlimit now = limit_now(RLIMIT_NICE);
    now.rlim_cur = now.rlim_max;
    setrlimit(RLIMIT_NICE, &now);
    setpriority(PRIO_PROCESS, 0, kNice);
  }
  if (limits.nice) setrlimit(RLIMIT_NICE, &*limits.nice);
  if (!limits.data) return;
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  rlimit data = limit_now(RLIMIT_DATA);
  data.rlim_max = std::min<rlim_t>(data.rlim_max, static_cast<rlim_t>(limits.data->count));
  data.rlim_cur = data.rlim_max;
  setrlimit(RLIMIT_DATA, &data);
}

namespace {

// Exit codes of a reader that lacks one of these; beyond those of commands and shells.
enum Lacking : int { capabilities = 71, bounding_set, no_new_privs, system_call_filter };

bool is_in(std::span<const cap_value_t> all, cap_value_t cap) {
  return std::ranges::find(all, cap) != all.end();
}

bool has_effective(cap_value_t cap) {
  Capabilities now(cap_get_proc());
  cap_flag_value_t has = CAP_CLEAR;
  return now && cap_get_flag(now.get(), cap, CAP_EFFECTIVE, &has) == 0 && has == CAP_SET;
}

// Limits what an exec can gain: by default an exec as root regains all capabilities. Without CAP_SETPCAP, as
// in a container with a few capabilities, the bounding set cannot be narrowed. That is harmless: it matters
// only at an exec, where no_new_privs applies, and which a reader's filter forbids.
std::optional<Lacking> bound_to(std::span<const cap_value_t> keep) {
  std::optional<Lacking> out;
  bool may = has_effective(CAP_SETPCAP);
  for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; ++cap)
    if (!is_in(keep, cap) && cap_get_bound(cap) > 0 && cap_drop_bound(cap) != 0 && may) out = bounding_set;
  if (cap_reset_ambient() != 0 && errno != EINVAL) out = bounding_set;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) out = no_new_privs;
  return out;
}

// Capabilities that are missing already are ignored.
std::vector<std::string> keep_only(std::span<const cap_value_t> keep,
                                   std::span<const cap_value_t> in_reserve = {}) {
  Capabilities now(cap_get_proc()), wanted(cap_init());
  if (!now || !wanted) return {fmt::format("reading capabilities: {}", std::strerror(errno))};
  auto want = [&](cap_value_t cap, bool effective) {
    cap_flag_value_t has = CAP_CLEAR;
    if (cap_get_flag(now.get(), cap, CAP_PERMITTED, &has) != 0 || has != CAP_SET) return;
    cap_set_flag(wanted.get(), CAP_PERMITTED, 1, &cap, CAP_SET);
    if (effective) cap_set_flag(wanted.get(), CAP_EFFECTIVE, 1, &cap, CAP_SET);
  };
  for (cap_value_t cap : keep) want(cap, true);
  for (cap_value_t cap : in_reserve) want(cap, false);
  if (cap_set_proc(wanted.get()) != 0)
    return {fmt::format("dropping capabilities: {}", std::strerror(errno))};
  return {};
}

}  // namespace

std::vector<std::string> drop_privileges(bool writes_files, bool runs_commands) {
  std::vector<cap_value_t> keep(std::begin(kKeep), std::end(kKeep));
  if (writes_files) keep.push_back(CAP_DAC_OVERRIDE);
  // open_perf_event() makes it effective; a profile in a child process starts with it effective.
  std::vector<cap_value_t> in_reserve, bound = keep;
  if (perf_events_need_admin()) in_reserve.push_back(CAP_SYS_ADMIN);
  in_reserve.push_back(CAP_SETPCAP);  // it can only take away: a reader narrows its bounding set with it
  bound.insert(bound.end(), in_reserve.begin(), in_reserve.end());
  std::optional<Lacking> lacking;
  if (!runs_commands) lacking = bound_to(bound);
  auto refused = keep_only(keep, in_reserve);
  if (lacking)
    refused.push_back(*lacking == no_new_privs ? "no_new_privs could not be set"
                                               : "the bounding set could not be narrowed");
  return refused;
}

namespace {

// The system calls with which glibc, libelf and this program read, allocate and exit. Not openat2(): its
// flags are in memory, where no filter sees them, and root may write its own files without a capability.
constexpr const char* kReading[] = {"read",
                                    "pread64",
                                    "readv",
                                    "process_vm_readv",
                                    "recvfrom",
                                    "recvmsg",
                                    "sendto",
                                    "sendmsg",
                                    "write",
                                    "close",
                                    "fstat",
                                    "newfstatat",
                                    "stat",
                                    "lstat",
                                    "statx",
                                    "lseek",
                                    "access",
                                    "faccessat",
                                    "faccessat2",
                                    "readlink",
                                    "readlinkat",
                                    "getdents64",
                                    "munmap",
                                    "mremap",
                                    "brk",
                                    "madvise",
                                    "setitimer",
                                    "getitimer",
                                    "clock_gettime",
                                    "futex",
                                    "getpid",
                                    "gettid",
                                    "getuid",
                                    "sysinfo",
                                    "rt_sigaction",
                                    "rt_sigreturn",
                                    "rt_sigprocmask",
                                    "nanosleep",
                                    "getrandom",
                                    "sched_yield",
                                    "restart_syscall",
                                    "clock_nanosleep",
                                    "exit",
                                    "exit_group",
                                    "poll",
                                    "ppoll",
                                    "getrusage",
                                    "statfs",
                                    "fstatfs",
                                    "sched_getaffinity"};

bool only_read() {
  std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, decltype(&seccomp_release)> filter(
      seccomp_init(SCMP_ACT_ERRNO(EPERM)), &seccomp_release);
  if (!filter) return false;
  bool complete = true;
  // A system call that this machine lacks needs no rule.
  auto allow = [&](const char* name, auto... only_if) {
    if (int nr = seccomp_syscall_resolve_name(name); nr != __NR_SCMP_ERROR)
      complete &= seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, nr, sizeof...(only_if), only_if...) == 0;
  };
  for (const char* name : kReading) allow(name);
  constexpr unsigned kWrites = O_ACCMODE | O_CREAT | O_TRUNC;
  allow("openat", SCMP_CMP(2, SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  allow("open", SCMP_CMP(1, SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  for (const char* name : {"mmap", "mprotect"})  // no code but what it began with
    allow(name, SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  for (unsigned command : {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC})  // none that sends signals
    allow("fcntl", SCMP_CMP(1, SCMP_CMP_EQ, command, 0));
  allow("prlimit64", SCMP_CMP(0, SCMP_CMP_EQ, 0, 0));  // its own
  return complete && seccomp_load(filter.get()) == 0;
}

}  // namespace

std::optional<int> keep_reader_privileges() {
  constexpr std::array keep{CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE};
  if (auto lacking = bound_to(keep)) return *lacking;
  if (!keep_only(keep).empty()) return capabilities;
  if (!only_read()) return system_call_filter;
  return std::nullopt;
}

const char* lacking_privilege(int status) {
  switch (WIFEXITED(status) ? WEXITSTATUS(status) : 0) {
    case capabilities:
      return "could not give up its capabilities";
    case bounding_set:
      return "could not narrow its bounding set of capabilities";
    case no_new_privs:
      return "could not set no_new_privs";
    case system_call_filter:
      return "got no system call filter (the kernel needs CONFIG_SECCOMP_FILTER, a container its default "
             "profile)";
    default:
      return nullptr;
  }
}

void raise_file_limit() {
  callers_limits();
  rlimit limit = limit_now(RLIMIT_NOFILE);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace oomcast
