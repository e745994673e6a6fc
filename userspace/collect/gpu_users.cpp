#include "collect/gpu_users.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <memory>
#include <string>

namespace oomcast {
namespace {

constexpr std::size_t kMostDescriptors = 4096;

}  // namespace

bool has_gpu_file(const Roots& roots, std::uint32_t pid, const GpuFiles& files) {
  constexpr std::uint32_t kMajor = 195, kModeset = 254;
  std::string folder = roots.at("/proc/" + std::to_string(pid) + "/fd");
  struct Close {
    void operator()(DIR* d) const { closedir(d); }
  };
  std::unique_ptr<DIR, Close> dir(opendir(folder.c_str()));
  std::size_t seen = 0;
  while (dirent* entry = dir && seen++ < kMostDescriptors ? readdir(dir.get()) : nullptr) {
    struct stat what {};
    if (fstatat(dirfd(dir.get()), entry->d_name, &what, 0) != 0) continue;
    if (S_ISCHR(what.st_mode)) {
      std::uint32_t number = major(what.st_rdev);
      if ((number == kMajor && minor(what.st_rdev) != kModeset) ||
          (files.uvm_major && number == *files.uvm_major))
        return true;
      continue;
    }
    std::uint64_t device = std::uint64_t{major(what.st_dev)} << 20 | minor(what.st_dev);
    for (const auto& [of, inode] : files.test_files)
      if (of == device && inode == what.st_ino) return true;
  }
  return false;
}

}  // namespace oomcast
