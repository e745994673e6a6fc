#include "collect/safe_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "base/escape.h"

namespace oomcast {
namespace {

constexpr int kMaxLinks = 40;  // as in the kernel
constexpr ino_t kProcRoot = 1;

// Includes ACLs: their mask is stored in the group bits.
bool others_write(const struct stat& directory) {
  bool own_group = directory.st_gid == 0 || (geteuid() != 0 && directory.st_gid == getegid());
  return !is_ours(directory.st_uid) || (directory.st_mode & S_IWOTH) ||
         ((directory.st_mode & S_IWGRP) && !own_group);
}

// As in /tmp (sticky): only a file's owner, and the directory's, can remove it.
bool keeps(const struct stat& directory) {
  return !others_write(directory) || (is_ours(directory.st_uid) && (directory.st_mode & S_ISVTX));
}

Error refused(std::string why) {
  errno = ELOOP;
  return Error::failed(std::move(why));
}

class Walk {
 public:
  Walk(const std::string& path, const PathRules& rules) : rules_(rules), rest_(path) {}

  Result<SafePath> run() {
    if (rest_.empty()) return because(ENOENT);
    if (auto ok = start(); !ok) return ok.error();
    while (auto name = take()) {
      if (!rest_.empty()) {
        if (auto ok = step(*name); !ok) return ok.error();
        continue;
      }
      struct stat found {};
      if (fstatat(at_.get(), name->c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) return because(errno, *name);
        return ended(*name, std::nullopt);
      }
      if (!S_ISLNK(found.st_mode) || !rules_.last_link) return ended(*name, found);
      bool descriptor = is_descriptor();
      if (auto ok = follow(*name, found, true); !ok) return ok.error();
      if (!descriptor) continue;
      auto out = ended(*name, found);
      out.is_descriptor = true;
      return out;
    }
    return ended(".", about_);
  }

 private:
  // The next component except "."; if it must be a directory, a slash stays in `rest_`.
  std::optional<std::string> take() {
    for (;;) {
      rest_.erase(0, rest_.find_first_not_of('/'));
      if (rest_.empty()) return std::nullopt;
      std::string name = rest_.substr(0, rest_.find('/'));
      rest_.erase(0, name.size());
      if (name == ".." && rest_.empty()) rest_ = "/";
      if (name != ".") return name;
    }
  }

  Status start() {
    bool absolute = rest_.starts_with('/');
    at_.reset(open(absolute ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    where_ = absolute ? "/" : "";
    if (!at_ || fstat(at_.get(), &about_) != 0) return because(errno);
    placed_ = true;
    doubt_.clear();
    suspect();
    return Ok{};
  }

  // Enters a directory, or follows a symlink.
  Status step(const std::string& name) {
    // With O_DIRECTORY, as automounts would not be triggered otherwise.
    constexpr int kLook = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd next(openat(at_.get(), name.c_str(), kLook));
    if (!next && errno == ENOENT && rules_.makes_directories && placed_ && keeps(about_) &&
        (mkdirat(at_.get(), name.c_str(), 0750) == 0 || errno == EEXIST))
      next.reset(openat(at_.get(), name.c_str(), kLook));
    if (next) return enter(std::move(next), name, name == "..");
    int error = errno;
    struct stat found {};
    if ((error != ENOTDIR && error != ELOOP) ||
        fstatat(at_.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(found.st_mode))
      return because(error, name);
    return follow(name, found, false);
  }

  Status enter(UniqueFd next, const std::string& name, bool up) {
    struct stat about {};
    if (fstat(next.get(), &about) != 0) return because(errno, name);
    bool stays = !others_write(about_) || (keeps(about_) && is_ours(about.st_uid));
    bool only_its_owner = placed_ && keeps(about_);  // could replace it
    placed_ = placed_ && (up || stays);
    std::string there = shown(name);
    if (rules_.writes && !placed_ && is_ours(about.st_uid))
      return refused(
          fmt::format("{}, so {} may be another directory than was meant, moved there: choose another place",
                      doubt_, there));
    at_ = std::move(next);
    about_ = about;
    where_ = std::move(there);
    if (placed_ || only_its_owner) doubt_.clear();
    suspect();
    return Ok{};
  }

  Status follow(const std::string& name, const struct stat& link, bool last) {
    if (!is_ours(link.st_uid))
      return refused(fmt::format("{} is a link that uid {} made: it is not followed; name what it leads to",
                                 shown(name), link.st_uid));
    if (!placed_ || !keeps(about_))
      return refused(fmt::format("{} is a link, and {}: it is not followed; name what it leads to",
                                 shown(name), doubt_));
    if (++links_ > kMaxLinks) return because(ELOOP, name);
    if (is_descriptor()) {
      // Its target has no path to check.
      if (last) return Ok{};
      UniqueFd next(openat(at_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!next) return because(errno, name);
      placed_ = false;
      doubt_ = fmt::format("where {} leads to cannot be looked at", shown(name));
      return enter(std::move(next), name, false);
    }
    std::array<char, PATH_MAX> target{};
    ssize_t size = readlinkat(at_.get(), name.c_str(), target.data(), target.size());
    if (size < 0) return because(errno, name);
    if (size == 0 || static_cast<std::size_t>(size) == target.size()) return because(ENAMETOOLONG, name);
    rest_.insert(0, target.data(), static_cast<std::size_t>(size));
    return rest_.starts_with('/') ? start() : Ok{};
  }

  // A magic link of /proc leads to an open file, whatever its text: all links except those in its root.
  bool is_descriptor() const {
    struct statfs system {};
    return fstatfs(at_.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
           about_.st_ino != kProcRoot;
  }

  // Names the first directory that others can change.
  void suspect() {
    if (!doubt_.empty() || !others_write(about_)) return;
    std::string directory = where_.empty() ? "the directory that oomcast was started in" : where_;
    doubt_ = !is_ours(about_.st_uid)      ? fmt::format("{} belongs to uid {}", directory, about_.st_uid)
             : (about_.st_mode & S_IWOTH) ? fmt::format("anybody may write to {}", directory)
                                          : fmt::format("group {} may write to {}", about_.st_gid, directory);
  }

  SafePath ended(const std::string& name, const std::optional<struct stat>& found) {
    SafePath out;
    out.directory = std::move(at_);
    out.name = name;
    out.found = found;
    out.only_ours = placed_ && !others_write(about_);
    out.keeps_ours = placed_ && keeps(about_);
    out.directory_owner = about_.st_uid;
    out.doubt = std::move(doubt_);
    return out;
  }

  std::string shown(const std::string& name) const {
    bool none = where_.empty() || where_.ends_with('/');
    return where_ + (none ? "" : "/") + escape_for_terminal(name);
  }
  // Names the failed component, unless it is the last.
  Error because(int error, const std::string& name = {}) const {
    std::string of = name.empty() || rest_.empty() ? "" : shown(name) + ": ";
    errno = error;
    return Error::failed(of + std::strerror(error));
  }

  const PathRules& rules_;
  std::string rest_, where_, doubt_;
  UniqueFd at_;
  struct stat about_ {};
  // No other user can have replaced this directory.
  bool placed_ = true;
  int links_ = 0;
};

}  // namespace

bool is_ours(uid_t owner) {
  return owner == 0 || owner == geteuid();
}

std::string path_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

std::optional<struct stat> SafePath::beside(const std::string& suffix) const {
  struct stat about {};
  if (fstatat(directory.get(), (name + suffix).c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
    return std::nullopt;
  return about;
}

Result<SafePath> resolve(const std::string& path, const PathRules& rules) {
  return Walk(path, rules).run();
}

Result<UniqueFd> open_input(const SafePath& path) {
  constexpr int kRead = O_RDONLY | O_CLOEXEC | O_NOCTTY;
  auto opened = [&](int flags) -> Result<UniqueFd> {
    UniqueFd fd(openat(path.directory.get(), path.name.c_str(), kRead | flags));
    if (!fd) return Error::failed(std::strerror(errno));
    return fd;
  };
  if (!path.found) return errno = ENOENT, Error::failed(std::strerror(ENOENT));
  if (path.is_descriptor) return opened(0);
  if (path.is_directory()) return errno = EISDIR, Error::failed("it is a directory");
  if (!path.is_regular()) {
    if (path.keeps_ours && is_ours(path.found->st_uid)) return opened(O_NOFOLLOW);
    return refused(
        "it is no regular file, but a pipe or a device of another user's: by cat FILE | oomcast … - it is "
        "read all the same");
  }
  // It may have been replaced by now.
  auto fd = opened(O_NOFOLLOW | O_NONBLOCK);
  struct stat about {};
  if (fd && (fstat(fd->get(), &about) != 0 || !S_ISREG(about.st_mode)))
    return refused("it was replaced by what is no regular file while it was opened");
  return fd;
}

Result<UniqueFd> open_input(const std::string& path) {
  auto found = resolve(path, {});
  if (!found) return found.error();
  return open_input(*found);
}

}  // namespace oomcast
