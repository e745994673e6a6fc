#include "app/child_cgroup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <utility>

#include "base/unique_fd.h"
#include "collect/procfs.h"

namespace oomcast {
namespace {

// Error for a cgroup's file or directory.
Error refused(std::string what) {
  int error = errno;
  if (error != EACCES && error != EPERM && error != EROFS) return Error::from_errno(std::move(what), error);
  return Error::forbidden(Error::from_errno(std::move(what), error).message +
                          ": run as root with cgroups mounted for writing, or without --memory");
}

Status write_file(const std::string& path, const std::string& text) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return refused(fmt::format("writing {} to {}", text, path));
  return Ok{};
}

std::string parent_of(const std::string& path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// Relative to the mount: the cgroup under which a limited one can be made.
Result<std::string> parent_for_child(const CgroupFs& fs) {
  const CgroupMount& mount = fs.mount();
  auto own = ProcFs(Roots{}).read_cgroup(static_cast<std::uint32_t>(getpid()), mount.hierarchy);
  if (!own || !*own) return Error::failed("finding oomcast's own memory cgroup in /proc/self/cgroup");
  auto path = mount.from_proc_path((*own)->path);
  auto relative = path ? mount.relative_path(*path) : std::nullopt;
  if (!relative) return Error::failed("oomcast's own memory cgroup is outside of what is mounted");
  std::string at = *relative == "/" ? "" : *relative;
  if (mount.hierarchy == Hierarchy::v1) return at;
  std::string parent = parent_of(at);
  std::string control = mount.mount_point + parent + "/cgroup.subtree_control";
  if (auto s = write_file(control, "+memory"); !s)
    return s.error().exit_code == 3
               ? s.error()
               : Error::forbidden(s.error().message +
                                  ": the memory controller cannot be used for a cgroup beside oomcast's; "
                                  "start oomcast in a cgroup whose parent has it, or without --memory");
  return parent;
}

}  // namespace

Result<ChildCgroup> ChildCgroup::make(const CgroupFs& fs, Bytes limit, pid_t pid) {
  auto parent = parent_for_child(fs);
  if (!parent) return parent.error();
  const CgroupMount& mount = fs.mount();
  std::string relative = fmt::format("{}/oomcast-run-{}", *parent, pid);
  std::string directory = mount.mount_point + relative;
  if (mkdir(directory.c_str(), 0755) != 0) return refused("making the memory cgroup " + directory);
  ChildCgroup child(directory, mount.kernel_path(relative));
  const char* limit_file = mount.hierarchy == Hierarchy::v1 ? "/memory.limit_in_bytes" : "/memory.max";
  if (auto s = write_file(directory + limit_file, fmt::format("{}", limit.count)); !s) return s.error();
  if (auto s = write_file(directory + "/cgroup.procs", fmt::format("{}", pid)); !s) return s.error();
  return child;
}

ChildCgroup::ChildCgroup(ChildCgroup&& other) noexcept
    : directory_(std::exchange(other.directory_, {})), path_(std::move(other.path_)) {}

ChildCgroup::~ChildCgroup() {
  if (directory_.empty()) return;
  // A process leaves its cgroup only a moment after it was reaped.
  for (int tries = 0; tries < 20 && rmdir(directory_.c_str()) != 0 && errno == EBUSY; ++tries) usleep(10'000);
}

std::vector<pid_t> ChildCgroup::processes() const {
  std::vector<pid_t> out;
  std::ifstream file(directory_ + "/cgroup.procs");
  // A process of a pid namespace that is not below ours is listed as 0, and kill(0) signals our own group.
  for (pid_t pid = 0; file >> pid;)
    if (pid > 0) out.push_back(pid);
  return out;
}

void ChildCgroup::signal(int signal) const {
  if (signal == SIGKILL && write_file(directory_ + "/cgroup.kill", "1")) return;
  for (pid_t pid : processes()) kill(pid, signal);
}

}  // namespace oomcast
