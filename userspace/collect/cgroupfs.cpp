#include "collect/cgroupfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <span>
#include <utility>

#include "base/escape.h"
#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

// ---- Directories ----

constexpr int dir_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

UniqueFd open_dir_at(int dirfd, const char* name) {
  return UniqueFd(::openat(dirfd, name, dir_flags));
}

std::optional<CgroupId> id_of(int fd, Hierarchy hierarchy) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return std::nullopt;
  return CgroupId{hierarchy, st.st_ino};
}

using NamedBy = decltype(CgroupEntry::named_by);

// The user who could have named what is in this directory.
NamedBy named_in(const struct stat& directory, NamedBy above) {
  if (above != 0) return above;
  if (directory.st_uid != 0) return directory.st_uid;
  bool others = (directory.st_mode & S_IWOTH) || (directory.st_gid != 0 && (directory.st_mode & S_IWGRP));
  return others ? std::nullopt : above;
}

// nullopt: open one component at a time. There is no openat2() before 5.6, some containers' filters refuse
// it, and a path may be too long for it.
std::optional<UniqueFd> open_at_once(int top, const std::string& path) {
  if (path.empty() || path.find('\0') != path.npos || ("/" + path + "/").find("/.") != path.npos)
    return std::nullopt;
  open_how how{};
  how.flags = static_cast<std::uint64_t>(dir_flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  UniqueFd out(static_cast<int>(::syscall(SYS_openat2, top, path.c_str(), &how, sizeof(how))));
  bool cannot = errno == ENOSYS || errno == EPERM || errno == ENAMETOOLONG || errno == EAGAIN;
  if (!out && cannot) return std::nullopt;
  return out;
}

// Opens `relative` ("a/b" or "/a/b") below `top`: no symlink, no "..", any length. With one call if possible:
// a thousand nested directories take a thousand calls otherwise.
UniqueFd open_below(int top, std::string_view relative) {
  std::string path(relative.substr(std::min(relative.find_first_not_of('/'), relative.size())));
  if (auto opened = open_at_once(top, path)) return *std::move(opened);
  UniqueFd at = open_dir_at(top, ".");
  while (at && !relative.empty()) {
    std::size_t end = relative.find('/');
    std::string name(relative.substr(0, end));
    relative.remove_prefix(end == std::string_view::npos ? relative.size() : end + 1);
    if (name.empty()) continue;
    if (name == "." || name == ".." || name.find('\0') != std::string::npos) {
      errno = ENOENT;
      return {};
    }
    at = open_dir_at(at.get(), name.c_str());
  }
  return at;
}

DirStream open_stream_at(int dirfd, const char* name) {
  int fd = ::openat(dirfd, name, dir_flags);
  if (fd < 0) return nullptr;
  DirStream dir(::fdopendir(fd));
  if (!dir) ::close(fd);
  return dir;
}

// errno values of a cgroup removed since it was listed.
bool means_gone(int err) {
  return err == ENOENT || err == ENODEV;
}

struct Walk {
  static constexpr std::size_t kPathOfOne = 128;  // bytes; a longer path counts as several
  static constexpr std::size_t kAnyone = 512;     // reserved for each directory, if there is any room
  CgroupListing tree;
  Hierarchy hierarchy;
  std::size_t listed = 0;  // in units of kPathOfOne

  // For a directory in `parent`.
  void skip(int err, std::optional<CgroupId> parent) {
    if (means_gone(err)) {
      ++tree.vanished;
    } else {
      ++tree.unreadable;
      if (parent) tree.not_all_below.insert(parent->inode);
    }
  }

  void enter(const DirStream& dir, std::optional<CgroupId> parent, const std::string& path, std::size_t depth,
             NamedBy named_by, std::size_t most) {
    const std::size_t end = listed + most;
    struct stat st {};
    if (::fstat(::dirfd(dir.get()), &st) != 0) return skip(errno, parent);
    const CgroupId id{hierarchy, st.st_ino};
    tree.cgroups.push_back({id, parent, path.empty() ? "/" : path, named_by});
    listed += 1 + path.size() / kPathOfOne;
    const NamedBy inside = named_in(st, named_by);
    // Descends while reading: a user with a million cgroups cannot make us hold a list of their names.
    for (errno = 0; const dirent* entry = ::readdir(dir.get()); errno = 0) {
      std::string name = entry->d_name;
      if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || name == "." || name == "..") continue;
      const bool is_full = listed >= end;
      if (depth == CgroupFs::max_depth || path.size() + name.size() >= PATH_MAX || is_full) {
        ++tree.too_deep;
        tree.not_all_below.insert(id.inode);
        if (is_full) return;
        continue;
      }
      const std::size_t room = end - listed;
      if (DirStream child = open_stream_at(::dirfd(dir.get()), name.c_str()))
        enter(child, id, path + "/" + name, depth + 1, inside, std::max(room / 2, std::min(room, kAnyone)));
      else if (errno != ENOTDIR && errno != ELOOP)  // a file or symlink, on a file system without d_type
        skip(errno, id);
    }
    if (errno != 0) skip(errno, id);
  }
};

// ---- A cgroup's files ----

enum class File : std::size_t { usage, limit, stat, kmem, swap_usage, swap_limit, high, swappiness };

const char* file_name(Hierarchy hierarchy, File file) {
  static constexpr const char* v1[] = {"memory.usage_in_bytes",
                                       "memory.limit_in_bytes",
                                       "memory.stat",
                                       "memory.kmem.usage_in_bytes",
                                       "memory.memsw.usage_in_bytes",
                                       "memory.memsw.limit_in_bytes",
                                       nullptr,
                                       "memory.swappiness"};
  static constexpr const char* v2[] = {"memory.current",      "memory.max",      "memory.stat", "memory.stat",
                                       "memory.swap.current", "memory.swap.max", "memory.high"};
  return (hierarchy == Hierarchy::v1 ? v1 : v2)[static_cast<std::size_t>(file)];
}

Error read_error(const std::string& path, std::string_view file) {
  int err = errno;
  return Error::from_errno(fmt::format("reading {} of cgroup {}", file, make_harmless(path)), err);
}
Error garbled(const std::string& path, std::string_view file) {
  return Error::failed(
      fmt::format("{} of cgroup {} is not what the kernel prints", file, make_harmless(path)));
}

// A file may be missing because the cgroup has none (v2's root, no swap accounting) or because the cgroup was
// removed.
bool absent_but_alive(int dirfd) {
  return errno == ENOENT && ::faccessat(dirfd, "cgroup.procs", F_OK, 0) == 0;
}

// The readers below use a Source: hierarchy(), path(), read(File, buffer), and absent() after a failed read.
using Number = std::array<char, 64>;

template <typename Source>
Error read_error(Source& source, File file) {
  return read_error(source.path(), file_name(source.hierarchy(), file));
}

template <typename Source>
Result<Bytes> bytes_from(Source& source, File file) {
  Number buffer;
  auto text = source.read(file, buffer);
  if (!text) return read_error(source, file);
  auto value = parse_bytes(trim(*text));
  if (!value) return garbled(source.path(), file_name(source.hierarchy(), file));
  return *value;
}

template <typename Source>
Result<std::optional<Bytes>> limit_from(Source& source, File file) {
  Number buffer;
  auto text = source.read(file, buffer);
  if (!text && source.absent()) return std::optional<Bytes>();
  if (!text) return read_error(source, file);
  auto value = parse_limit(*text);
  if (!value) return garbled(source.path(), file_name(source.hierarchy(), file));
  return *value;
}

// A value whose file may be missing: nullopt then.
template <typename Source>
Result<std::optional<Bytes>> optional_bytes_from(Source& source, File file) {
  Number buffer;
  auto text = source.read(file, buffer);
  if (!text && source.absent()) return std::optional<Bytes>();
  if (!text) return read_error(source, file);
  return parse_bytes(trim(*text));
}

template <typename Source>
Result<std::optional<SwapUse>> swap_from(Source& source) {
  auto usage = optional_bytes_from(source, File::swap_usage);
  if (!usage.ok()) return usage.error();
  if (!*usage) return std::optional<SwapUse>();
  auto limit = limit_from(source, File::swap_limit);
  if (!limit.ok()) return limit.error();
  if (source.hierarchy() == Hierarchy::v2) return std::optional(SwapUse{**usage, *limit, std::nullopt});
  auto memory = bytes_from(source, File::usage);
  if (!memory.ok()) return memory.error();
  // memory+swap, read before memory: pages moving in between must not make the difference negative.
  return std::optional(SwapUse{std::max(Bytes{}, **usage - *memory), std::nullopt, *limit});
}

template <typename Source>
Result<MemoryStat> stat_from(Source& source) {
  std::array<char, 16384> buffer;
  auto text = source.read(File::stat, buffer);
  if (!text) return read_error(source, File::stat);
  std::string_view whole = *text;
  if (whole.size() == buffer.size()) whole = whole.substr(0, whole.rfind('\n') + 1);  // no half numbers
  MemoryStat stat = parse_memory_stat(source.hierarchy(), whole);
  const bool v1 = source.hierarchy() == Hierarchy::v1;
  auto other = optional_bytes_from(source, v1 ? File::kmem : File::swap_usage);
  if (!other.ok()) return other.error();
  (v1 ? stat.kernel : stat.swap) = *other;
  return stat;
}

struct DirSource {
  const CgroupDir& dir;
  Hierarchy hierarchy() const { return dir.id().hierarchy; }
  const std::string& path() const { return dir.path(); }
  std::optional<std::string_view> read(File file, std::span<char> buffer) const {
    return read_file_at(dir.fd(), file_name(hierarchy(), file), buffer);
  }
  bool absent() const { return absent_but_alive(dir.fd()); }
};

// Reads a file that may be missing: nullopt then, if the cgroup still exists.
Result<std::optional<std::string>> read_optional(const CgroupDir& dir, const char* name) {
  auto text = read_file_at(dir.fd(), name, 4096);
  if (text || absent_but_alive(dir.fd())) return text;
  return read_error(dir.path(), name);
}

}  // namespace

// ---- CgroupDir ----

CgroupDir::CgroupDir(CgroupId id, std::string path, UniqueFd fd)
    : id_(id), path_(std::move(path)), fd_(std::move(fd)) {}

Result<Bytes> CgroupDir::read_usage() const {
  DirSource source{*this};
  return bytes_from(source, File::usage);
}
Result<std::optional<Bytes>> CgroupDir::read_limit() const {
  DirSource source{*this};
  return limit_from(source, File::limit);
}
Result<MemoryStat> CgroupDir::read_stat() const {
  DirSource source{*this};
  return stat_from(source);
}

Result<std::optional<Bytes>> CgroupDir::read_peak() const {
  auto text =
      read_optional(*this, id_.hierarchy == Hierarchy::v1 ? "memory.max_usage_in_bytes" : "memory.peak");
  if (!text.ok()) return text.error();
  auto value = *text ? parse_u64(trim(**text)) : std::nullopt;
  return value && *value < (1ull << 63) ? std::optional(Bytes{static_cast<std::int64_t>(*value)})
                                        : std::nullopt;
}

Result<std::optional<Pressure>> CgroupDir::read_pressure() const {
  auto text = read_file_at(fd_.get(), "memory.pressure", 4096);
  if (text) return std::optional(parse_pressure(*text));
  if (errno == EOPNOTSUPP || absent_but_alive(fd_.get())) return std::optional<Pressure>();
  return read_error(path_, "memory.pressure");
}

// ---- CgroupFs ----

Result<CgroupFs> CgroupFs::open(const Roots& roots) {
  auto mount = find_memory_hierarchy(roots);
  if (!mount.ok()) return mount.error();
  return open(*std::move(mount));
}

Result<CgroupFs> CgroupFs::open(CgroupMount mount) {
  UniqueFd top = open_dir_at(AT_FDCWD, mount.mount_point.c_str());
  if (!top) return Error::from_errno("opening cgroup tree " + make_harmless(mount.mount_point));
  return CgroupFs(std::move(mount), std::move(top));
}

Result<CgroupDir> CgroupFs::open_dir(std::string_view path) const {
  std::string kernel_path = path.empty() ? mount_.kernel_path("") : std::string(path);
  while (kernel_path.size() > 1 && kernel_path.ends_with('/')) kernel_path.pop_back();
  auto relative = mount_.relative_path(kernel_path);
  if (!relative)
    return Error::failed(fmt::format("cgroup {} is outside of {}, which is mounted at {}",
                                     make_harmless(kernel_path), make_harmless(mount_.mount_root),
                                     make_harmless(mount_.machine_mount_point)));
  UniqueFd fd = open_below(top_.get(), *relative);
  auto id = fd ? id_of(fd.get(), mount_.hierarchy) : std::nullopt;
  if (!id) return Error::from_errno("opening cgroup " + make_harmless(kernel_path));
  return CgroupDir(*id, std::move(kernel_path), std::move(fd));
}

Result<CgroupEntry> CgroupFs::lookup(std::string_view path) const {
  auto dir = open_dir(path);
  if (!dir.ok()) return dir.error();
  CgroupEntry entry{dir->id(), std::nullopt, dir->path()};
  if (mount_.relative_path(entry.path)->empty()) return entry;
  std::string parent = entry.path.substr(0, entry.path.rfind('/'));
  auto parent_dir = open_dir(parent);
  if (!parent_dir.ok()) return parent_dir.error();
  entry.parent = parent_dir->id();
  return entry;
}

Result<CgroupEntry> CgroupFs::find_below(std::string_view parent, std::uint64_t inode) const {
  auto above = lookup(parent);
  if (!above.ok()) return above.error();
  UniqueFd fd = open_below(top_.get(), *mount_.relative_path(above->path));
  DirStream dir = fd ? open_stream_at(fd.get(), ".") : nullptr;
  if (!dir) return Error::from_errno("opening cgroup " + make_harmless(above->path));
  std::string prefix = above->path == "/" ? above->path : above->path + '/';
  while (const dirent* entry = ::readdir(dir.get()))
    if (std::string_view name = entry->d_name; entry->d_ino == inode && name != "." && name != "..")
      return CgroupEntry{{mount_.hierarchy, inode}, above->id, prefix + std::string(name)};
  return Error::failed("no such cgroup below " + make_harmless(above->path));
}

Result<CgroupListing> CgroupFs::list(std::string_view path, std::size_t most) const {
  auto top = lookup(path);
  if (!top.ok()) return top.error();
  auto relative = mount_.relative_path(top->path);
  UniqueFd fd = open_below(top_.get(), *relative);
  DirStream dir = fd ? open_stream_at(fd.get(), ".") : nullptr;
  if (!dir) return Error::from_errno("opening cgroup " + make_harmless(top->path));
  Walk walk{{}, mount_.hierarchy};
  walk.enter(dir, top->parent, top->path == "/" ? "" : top->path, 0,
             relative->empty() ? NamedBy(0) : NamedBy(), most);
  return std::move(walk.tree);
}

// ---- CgroupReader ----

std::size_t descriptor_budget(std::size_t reserve) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= reserve) return 0;
  return std::min(static_cast<std::size_t>(limit.rlim_cur) - reserve, kMaxKeptOpen);
}

struct ReaderSource {
  CgroupReader& reader;
  const CgroupEntry& cgroup;
  bool was_absent = false;

  Hierarchy hierarchy() const { return cgroup.id.hierarchy; }
  const std::string& path() const { return cgroup.path; }
  bool absent() const { return was_absent; }

  std::optional<std::string_view> read(File file, std::span<char> buffer) {
    was_absent = false;
    auto slot = static_cast<std::size_t>(file);
    auto kept = reader.open_.find(cgroup.id);
    if (kept != reader.open_.end() && kept->second.fds[slot]) {
      kept->second.read = true;
      auto text = read_kept(kept->second.fds[slot].get(), file, buffer);
      if (!text) drop();
      return text;
    }
    return open_and_read(file, slot, buffer);
  }

 private:
  void drop() {
    int err = errno;
    reader.forget(cgroup.id);
    errno = err;
  }

  static std::optional<std::string_view> read_kept(int fd, File file, std::span<char> buffer) {
    std::size_t got = 0;
    while (got < buffer.size()) {
      ssize_t n = ::pread(fd, buffer.data() + got, buffer.size() - got, static_cast<off_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return std::nullopt;
      got += static_cast<std::size_t>(n);
      if (n == 0 || file != File::stat) break;  // other files have one line, read whole
    }
    return std::string_view(buffer.data(), got);
  }

  std::optional<std::string_view> open_and_read(File file, std::size_t slot, std::span<char> buffer) {
    auto relative = reader.fs_->mount_.relative_path(cgroup.path);
    UniqueFd dir = relative ? open_below(reader.fs_->top_.get(), *relative) : UniqueFd();
    if (!relative) errno = ENOENT;
    if (!dir) return drop(), std::nullopt;
    // A new cgroup may have the same name.
    if (id_of(dir.get(), hierarchy()) != cgroup.id) {
      errno = ENOENT;
      return drop(), std::nullopt;
    }
    const char* name = file_name(hierarchy(), file);
    if (reader.open_fds_ >= reader.max_fds_) {
      auto text = read_file_at(dir.get(), name, buffer);
      if (!text) was_absent = absent_but_alive(dir.get());
      return text;
    }
    UniqueFd fd(::openat(dir.get(), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) {
      was_absent = absent_but_alive(dir.get());
      return std::nullopt;
    }
    auto text = read_kept(fd.get(), file, buffer);
    if (!text) return text;
    auto& files = reader.open_[cgroup.id];
    files.fds[slot] = std::move(fd);
    files.read = true;
    ++reader.open_fds_;
    return text;
  }
};

Result<Bytes> CgroupReader::usage(const CgroupEntry& cgroup) {
  ReaderSource source{*this, cgroup};
  return bytes_from(source, File::usage);
}
Result<std::optional<Bytes>> CgroupReader::limit(const CgroupEntry& cgroup) {
  ReaderSource source{*this, cgroup};
  return limit_from(source, File::limit);
}
Result<std::optional<Bytes>> CgroupReader::high(const CgroupEntry& cgroup) {
  if (cgroup.id.hierarchy == Hierarchy::v1) return std::optional<Bytes>();
  ReaderSource source{*this, cgroup};
  return limit_from(source, File::high);
}
Result<std::optional<SwapUse>> CgroupReader::swap(const CgroupEntry& cgroup) {
  ReaderSource source{*this, cgroup};
  return swap_from(source);
}
Result<std::optional<std::uint64_t>> CgroupReader::swappiness(const CgroupEntry& cgroup) {
  if (cgroup.id.hierarchy == Hierarchy::v2) return std::optional<std::uint64_t>();
  ReaderSource source{*this, cgroup};
  Number buffer;
  auto text = source.read(File::swappiness, buffer);
  if (!text && source.absent()) return std::optional<std::uint64_t>();
  if (!text) return read_error(source, File::swappiness);
  return parse_u64(trim(*text));
}
Result<MemoryStat> CgroupReader::stat(const CgroupEntry& cgroup) {
  ReaderSource source{*this, cgroup};
  return stat_from(source);
}

void CgroupReader::forget(CgroupId id) {
  auto kept = open_.find(id);
  if (kept == open_.end()) return;
  count_out(kept->second);
  open_.erase(kept);
}

void CgroupReader::close_unread() {
  for (auto kept = open_.begin(); kept != open_.end();) {
    if (std::exchange(kept->second.read, false)) {
      ++kept;
      continue;
    }
    count_out(kept->second);
    kept = open_.erase(kept);
  }
}

void CgroupReader::count_out(const Files& files) {
  for (const UniqueFd& fd : files.fds)
    if (fd) --open_fds_;
}

}  // namespace oomcast
