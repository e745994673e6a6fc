#include "collect/perf_event.h"

#include <fcntl.h>
#include <sys/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/capabilities.h"
#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

// false: not permitted, or already effective.
bool raise_admin() {
  constexpr cap_value_t admin = CAP_SYS_ADMIN;
  Capabilities now(cap_get_proc());
  cap_flag_value_t permitted = CAP_CLEAR, effective = CAP_SET;
  return now && cap_get_flag(now.get(), admin, CAP_PERMITTED, &permitted) == 0 && permitted == CAP_SET &&
         cap_get_flag(now.get(), admin, CAP_EFFECTIVE, &effective) == 0 && effective == CAP_CLEAR &&
         cap_set_flag(now.get(), CAP_EFFECTIVE, 1, &admin, CAP_SET) == 0 && cap_set_proc(now.get()) == 0;
}

}  // namespace

bool perf_events_need_admin() {
  constexpr std::size_t kLongest = 16;
  constexpr int kUpstream = 2;  // has no more than that
  auto text = read_file_at(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid", kLongest);
  if (!text) return false;
  std::string_view rest = *text;
  auto level = take_number<int>(rest);
  return level && *level > kUpstream;
}

UniqueFd open_perf_event(perf_event_attr& attr, pid_t pid, int cpu) {
  Capabilities before(perf_events_need_admin() ? cap_get_proc() : nullptr);
  bool raised = before && raise_admin();
  UniqueFd fd(static_cast<int>(syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)));
  int why = errno;
  if (raised) cap_set_proc(before.get());
  errno = why;
  return fd;
}

}  // namespace oomcast
