#include "collect/cgroup_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/escape.h"
#include "collect/files.h"
#include "parse/text.h"

namespace oomcast {
namespace {

struct MountLine {
  std::string root;
  std::string point;
  std::string_view fs_type;
  std::string_view super_options;
};

// mountinfo escapes space, tab, newline and backslash as \ooo.
std::string decode_octal(std::string_view text) {
  auto digit = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && digit(text[i + 1]) && digit(text[i + 2]) &&
        digit(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory"
std::optional<MountLine> parse_mount_line(std::string_view line) {
  MountLine mount;
  for (int skipped = 0; skipped < 3; ++skipped) next_field(line);
  mount.root = decode_octal(next_field(line));
  mount.point = decode_octal(next_field(line));
  std::string_view field;
  do field = next_field(line);
  while (!field.empty() && field != "-");
  mount.fs_type = next_field(line);
  next_field(line);
  mount.super_options = next_field(line);
  if (mount.fs_type.empty() || !mount.root.starts_with('/') || !mount.point.starts_with('/'))
    return std::nullopt;
  return mount;
}

bool has_word(std::string_view list, char separator, std::string_view word) {
  while (!list.empty()) {
    std::size_t end = list.find(separator);
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  return false;
}

struct ControllerRow {
  std::uint32_t hierarchy_id = 0;
  bool enabled = true;
};

// The memory row of /proc/cgroups: "memory	4	9	1".
std::optional<ControllerRow> find_memory_row(std::string_view text) {
  auto row = find_value(text, "memory");
  if (!row) return std::nullopt;
  auto id = parse_u32(next_field(*row));
  next_field(*row);
  std::string_view enabled = next_field(*row);
  if (!id) return std::nullopt;
  return ControllerRow{*id, enabled != "0"};
}

bool lists_memory(const std::string& mount_point) {
  auto controllers = read_file_at(AT_FDCWD, (mount_point + "/cgroup.controllers").c_str(), 4096);
  return controllers && has_word(trim(*controllers), ' ', "memory");
}

// Removes leading "/.." components, and returns their number.
std::size_t take_parents(std::string_view& path) {
  std::size_t count = 0;
  while (path.starts_with("/..") && (path.size() == 3 || path[3] == '/')) {
    path.remove_prefix(3);
    ++count;
  }
  return count;
}

constexpr long cgroup1_magic = 0x27e0eb;
constexpr long cgroup2_magic = 0x63677270;

// The top directory of every cgroup hierarchy has inode 1 (kernfs). False for what is not a cgroup file
// system.
std::optional<bool> is_hierarchy_top(const std::string& dir) {
  struct statfs fs {};
  struct stat st {};
  if (::statfs(dir.c_str(), &fs) != 0 || ::stat(dir.c_str(), &st) != 0) return std::nullopt;
  if (fs.f_type != cgroup1_magic && fs.f_type != cgroup2_magic) return std::nullopt;
  return st.st_ino == 1;
}

Result<std::string> read_mount_table(const Roots& roots) {
  // Under --root, proc/self is this process in its own mount namespace; the machine's is that of its init.
  constexpr std::size_t max_table = std::size_t{16} << 20;
  std::string first = roots.proc() + (roots.rerooted() ? "/1/mountinfo" : "/self/mountinfo");
  auto table = read_file_at(AT_FDCWD, first.c_str(), max_table);
  if (!table && roots.rerooted())
    table = read_file_at(AT_FDCWD, (roots.proc() + "/self/mountinfo").c_str(), max_table);
  if (table) return *std::move(table);
  std::string reason = Error::from_errno("reading " + make_harmless(first)).message;
  return Error::forbidden(reason + (roots.rerooted() ? "; --root needs the machine's proc and sys below it"
                                                     : "; run: mount -t proc proc /proc"));
}

Error no_memory_hierarchy(const std::optional<ControllerRow>& row,
                          const std::optional<std::string>& v2_point) {
  if (row && !row->enabled)
    return Error::forbidden(
        "the memory controller is switched off; boot with cgroup_enable=memory and without "
        "cgroup_disable=memory");
  if (row && row->hierarchy_id != 0)
    return Error::forbidden(
        "the memory controller is in a cgroup v1 hierarchy that is not mounted here; run: mkdir -p "
        "/sys/fs/cgroup/memory && mount -t cgroup -o memory cgroup /sys/fs/cgroup/memory");
  if (v2_point)
    return Error::forbidden(
        fmt::format("{}/cgroup.controllers does not list memory; enable it above (echo +memory > "
                    "cgroup.subtree_control in the "
                    "parent), or run: mkdir -p /sys/fs/cgroup/memory && mount -t cgroup -o memory cgroup "
                    "/sys/fs/cgroup/memory",
                    make_harmless(*v2_point)));
  if (!row)
    return Error::forbidden(
        "no memory controller in /proc/cgroups and no cgroup2 mounted; the kernel needs CONFIG_MEMCG, then "
        "run: mount "
        "-t cgroup2 cgroup2 /sys/fs/cgroup");
  return Error::forbidden("no cgroup hierarchy is mounted; run: mount -t cgroup2 cgroup2 /sys/fs/cgroup");
}

bool is_directory(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

}  // namespace

std::string CgroupMount::kernel_path(std::string_view relative) const {
  std::string_view prefix = mount_root;
  take_parents(prefix);
  if (prefix == "/") prefix = {};
  if (relative == "/") relative = {};
  std::string path = std::string(prefix).append(relative);
  return path.empty() ? "/" : path;
}

std::optional<std::string> CgroupMount::relative_path(std::string_view kernel_path) const {
  std::string_view prefix = mount_root;
  take_parents(prefix);
  if (prefix == "/") prefix = {};
  if (!kernel_path.starts_with(prefix)) return std::nullopt;
  kernel_path.remove_prefix(prefix.size());
  if (kernel_path == "/") kernel_path = {};
  if (!kernel_path.empty() && kernel_path[0] != '/') return std::nullopt;
  return std::string(kernel_path);
}

std::optional<std::string> CgroupMount::from_proc_path(std::string_view proc_path) const {
  std::string_view root = mount_root;
  if (take_parents(proc_path) != take_parents(root)) return std::nullopt;
  return proc_path.empty() ? "/" : std::string(proc_path);
}

Result<CgroupMount> find_memory_hierarchy(const Roots& roots) {
  auto table = read_mount_table(roots);
  if (!table.ok()) return table.error();
  auto controllers = read_file_at(AT_FDCWD, (roots.proc() + "/cgroups").c_str(), 65536);
  auto row = controllers ? find_memory_row(*controllers) : std::nullopt;

  std::optional<CgroupMount> best;
  std::optional<std::string> v2_without_memory;
  std::string_view rest = *table;
  std::string_view line;
  while (next_line(rest, line)) {
    auto mount = parse_mount_line(line);
    if (!mount || (mount->fs_type != "cgroup" && mount->fs_type != "cgroup2")) continue;
    const bool v1 = mount->fs_type == "cgroup";
    if (v1 && !has_word(mount->super_options, ',', "memory")) continue;
    std::string point = roots.at(mount->point);
    if (!is_directory(point)) continue;
    if (!v1 && !lists_memory(point)) {
      v2_without_memory = mount->point;
      continue;
    }
    // A controller is in one hierarchy only, so the mounts differ in which part of it they show: prefer the
    // whole.
    if (best && (best->mount_root == "/" || mount->root != "/")) continue;
    best = CgroupMount{v1 ? Hierarchy::v1 : Hierarchy::v2, point, mount->point, mount->root, 0, false};
    if (v1 && row) best->hierarchy_id = row->hierarchy_id;
  }
  if (!best) return no_memory_hierarchy(row, v2_without_memory);

  auto top = is_hierarchy_top(best->mount_point);
  std::string_view root = best->mount_root;
  const bool above = take_parents(root) > 0;
  best->namespaced = above ? top != true : best->mount_root == "/" && top == false;
  best->sees_root = top.value_or(best->mount_root == "/");
  return *std::move(best);
}

}  // namespace oomcast
