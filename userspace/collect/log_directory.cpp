#include "collect/log_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <tuple>

#include "base/escape.h"
#include "collect/safe_path.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxNames = 100'000;
constexpr std::int64_t kMostlyHoles = 64;  // times what is on the disk
constexpr std::int64_t kBlock = 512;       // of st_blocks

struct ListedLog {
  std::tuple<std::int64_t, std::int64_t> written;  // s, ns
  std::int64_t size = 0;
  std::string name;
};

}  // namespace

Result<LogDirectory> list_logs(const std::string& directory) {
  std::string shown = escape_for_terminal(directory);
  auto place = resolve(directory, {});
  if (!place) return Error::failed(fmt::format("cannot read {}: {}", shown, place.error().message));
  int fd =
      openat(place->directory.get(), place->name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Error::from_errno("cannot read " + shown);
  std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(fd), closedir);
  if (!entries) return Error::from_errno("cannot read " + shown);
  std::vector<ListedLog> found;
  std::size_t names = 0;
  while (const dirent* entry = readdir(entries.get())) {
    if (++names > kMaxNames) break;
    struct stat what {};
    if (fstatat(fd, entry->d_name, &what, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(what.st_mode)) continue;
    bool holes = what.st_size > (1 << 20) && what.st_blocks * kBlock < what.st_size / kMostlyHoles;
    if (what.st_size == 0 || holes) continue;
    found.push_back({{what.st_mtim.tv_sec, what.st_mtim.tv_nsec}, what.st_size, entry->d_name});
  }
  std::ranges::sort(found, std::greater{}, &ListedLog::written);
  LogDirectory out;
  std::uint64_t bytes = 0;
  for (const ListedLog& log : found) {
    bytes += static_cast<std::uint64_t>(log.size);
    if (out.files.size() >= LogDirectory::kMaxFiles || bytes > LogDirectory::kMaxBytes) break;
    out.files.push_back(directory + (directory.ends_with('/') ? "" : "/") + log.name);
  }
  out.left_out = found.size() - out.files.size();
  std::ranges::reverse(out.files);
  return out;
}

LogContent content_of(int fd) {
  std::array<char, 4096> buffer{};
  ssize_t got = pread(fd, buffer.data(), buffer.size(), 0);
  if (got <= 0) return LogContent::text;
  std::string_view begin(buffer.data(), static_cast<std::size_t>(got));
  using namespace std::string_view_literals;
  if (begin.starts_with("\x1f\x8b"sv)) return LogContent::text;
  for (std::string_view magic : {"\xfd\x37zXZ\0"sv, "\x28\xb5\x2f\xfd"sv, "BZh"sv, "\x04\x22\x4d\x18"sv})
    if (begin.starts_with(magic)) return LogContent::compressed;
  if (begin.starts_with("LPKSHHRH"sv)) return LogContent::journal;
  for (std::string_view mark : {"\xff\xfe"sv, "\xfe\xff"sv})  // UTF-16
    if (begin.starts_with(mark)) return LogContent::text;
  return begin.find('\0') == std::string_view::npos ? LogContent::text : LogContent::binary;
}

}  // namespace oomcast
