#include "app/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

#include "base/escape.h"
#include "base/unique_fd.h"

namespace oomcast {
namespace {

// Users can put any number of entries into a directory.
constexpr std::size_t kMaxTried = 1024, kMaxEntries = 16'384, kMaxFiles = 64;
constexpr std::size_t kRandom = 6;  // of mkdtemp()

struct Directory {
  void operator()(DIR* dir) const { closedir(dir); }
};
using DirectoryPtr = std::unique_ptr<DIR, Directory>;

// The number after the prefix; `rest`: the text that must follow it.
std::optional<std::uint32_t> pid_in(std::string_view name, std::string_view prefix, std::string_view& rest) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint32_t pid = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || pid == 0) return std::nullopt;
  rest = name.substr(static_cast<std::size_t>(end - name.data()));
  return pid;
}

// Owned by us and not writable by others: another user can neither have made it nor put anything into it.
UniqueFd open_own(int parent, const char* name, struct stat& is) {
  UniqueFd fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd && (fstat(fd.get(), &is) != 0 || is.st_uid != geteuid() || (is.st_mode & (S_IWGRP | S_IWOTH))))
    fd.reset();
  return fd;
}

std::vector<std::uint32_t> processes_in(const UniqueFd& cgroup) {
  std::vector<std::uint32_t> out;
  UniqueFd file(openat(cgroup.get(), "cgroup.procs", O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  char text[4096];
  ssize_t got = file ? read(file.get(), text, sizeof(text)) : -1;
  if (got <= 0) return out;
  for (const char *at = text, *end = text + got; at < end;) {
    std::uint32_t pid = 0;
    auto [next, error] = std::from_chars(at, end, pid);
    if (error != std::errc()) break;
    out.push_back(pid);
    at = next + 1;
  }
  return out;
}

std::string sentence(const ProcFs& procfs, const std::vector<std::uint32_t>& pids, const std::string& path) {
  std::string text = fmt::format("process {}", pids.front());
  if (auto stat = procfs.read_stat(pids.front()); stat && *stat)
    text = fmt::format("{}[{}]", escape_for_terminal((*stat)->comm), pids.front());
  bool one = pids.size() == 1;
  if (!one) text += fmt::format(" and {} more", pids.size() - 1);
  return fmt::format("{} still run{} in {}, left by a run that is gone: kill {} or let {} end", text,
                     one ? "s" : "", escape_for_terminal(path), one ? "it" : "them", one ? "it" : "them");
}

// Removes only files; the directory stays if anything else is in it.
bool remove_folder(int parent, const char* name, UniqueFd folder, const struct stat& is) {
  DirectoryPtr entries(fdopendir(dup(folder.get())));
  if (!entries) return false;
  std::size_t files = 0;
  for (const dirent* entry = readdir(entries.get()); entry && files < kMaxFiles;
       entry = readdir(entries.get())) {
    std::string_view file = entry->d_name;
    if (file == "." || file == "..") continue;
    ++files;
    (void)unlinkat(folder.get(), entry->d_name, 0);
  }
  struct stat now {};
  bool same = fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_dev == is.st_dev &&
              now.st_ino == is.st_ino;
  return same && unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

}  // namespace

bool is_named_as_we(const ProcFs& procfs, std::uint32_t pid) {
  auto own = procfs.read_stat(static_cast<std::uint32_t>(getpid())), other = procfs.read_stat(pid);
  return own && *own && other && *other && (*own)->comm == (*other)->comm;
}

std::vector<std::string> sweep_cgroups(const CgroupTree& known, const CgroupFs& fs, const ProcFs& procfs) {
  struct Left {
    std::string path;
    std::uint32_t pid;
  };
  std::vector<Left> all;
  known.for_each([&](const CgroupState& cgroup) {
    if (cgroup.removed || all.size() == kMaxTried) return;
    const std::string& path = cgroup.ref->path;
    std::string_view rest;
    auto pid = pid_in(std::string_view(path).substr(path.rfind('/') + 1), kRunCgroup, rest);
    if (pid && rest.empty()) all.push_back({path, *pid});
  });
  std::vector<std::string> out;
  std::size_t swept = 0;
  for (const Left& left : all) {
    if (swept == kMaxSwept || out.size() == kMaxSwept) break;
    // Its command waits for the exec, runs, or has not been reaped.
    auto command = procfs.read_stat(left.pid);
    if (!command || (*command && is_named_as_we(procfs, (*command)->ppid))) continue;
    auto relative = fs.mount().relative_path(left.path);
    if (!relative) continue;
    std::string directory = fs.mount().mount_point + *relative;
    struct stat is {};
    UniqueFd cgroup = open_own(AT_FDCWD, directory.c_str(), is);
    if (!cgroup) continue;
    auto pids = processes_in(cgroup);
    if (std::ranges::find(pids, 0U) != pids.end()) continue;  // of another pid namespace, like its name
    if (!pids.empty())
      out.push_back(sentence(procfs, pids, left.path));
    else if (rmdir(directory.c_str()) == 0)  // fails if it has processes or child cgroups
      ++swept;
  }
  return out;
}

std::size_t sweep_folders(const std::string& directory,
                          const std::function<bool(std::uint32_t)>& is_oomcast) {
  UniqueFd parent(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DirectoryPtr entries(parent ? fdopendir(dup(parent.get())) : nullptr);
  std::size_t swept = 0, seen = 0;
  if (!entries) return swept;
  for (const dirent* entry = readdir(entries.get()); entry && swept < kMaxSwept && ++seen < kMaxEntries;
       entry = readdir(entries.get())) {
    std::string_view rest;
    auto pid = pid_in(entry->d_name, kRunFolder, rest);
    if (!pid || rest.size() != 1 + kRandom || rest.front() != '-' || is_oomcast(*pid)) continue;
    struct stat is {};
    UniqueFd folder = open_own(parent.get(), entry->d_name, is);
    if (folder && remove_folder(parent.get(), entry->d_name, std::move(folder), is)) ++swept;
  }
  return swept;
}

}  // namespace oomcast
