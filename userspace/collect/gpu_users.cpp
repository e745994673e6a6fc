#include "collect/gpu_users.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace oomcast {
namespace {

constexpr std::size_t kMaxDescriptors = 4096;

}  // namespace

bool has_gpu_file(const Roots& roots, std::uint32_t pid, const GpuFiles& files) {
  constexpr std::uint32_t kMajor = 195, kModeset = 254;
  std::string folder = roots.at("/proc/" + std::to_string(pid) + "/fd");
  struct Close {
    void operator()(DIR* d) const { closedir(d); }
  };
  std::unique_ptr<DIR, Close> dir(opendir(folder.c_str()));
  std::array<char, 64> target;  // the prefix is enough
  std::size_t seen = 0;
  while (dirent* entry = dir && seen++ < kMaxDescriptors ? readdir(dir.get()) : nullptr) {
    // Checks the name before statx(), which would block forever on a dead network file system.
    std::string_view name(target.data(),
                          static_cast<std::size_t>(std::max<ssize_t>(
                              0, readlinkat(dirfd(dir.get()), entry->d_name, target.data(), target.size()))));
    if (!name.starts_with("/dev/") && files.test_files.empty()) continue;
    struct statx what {};
    if (statx(dirfd(dir.get()), entry->d_name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &what) != 0)
      continue;
    if (S_ISCHR(what.stx_mode)) {
      if ((what.stx_rdev_major == kMajor && what.stx_rdev_minor != kModeset) ||
          (files.uvm_major && what.stx_rdev_major == *files.uvm_major))
        return true;
      continue;
    }
    std::uint64_t device = std::uint64_t{what.stx_dev_major} << 20 | what.stx_dev_minor;
    for (const auto& [of, inode] : files.test_files)
      if (of == device && inode == what.stx_ino) return true;
  }
  return false;
}

}  // namespace oomcast
