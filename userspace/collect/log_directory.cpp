#include "collect/log_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "base/escape.h"
#include "base/unique_fd.h"
#include "collect/safe_path.h"
#include "parse/utf16.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxNames = 100'000;
constexpr std::int64_t kMostlyHoles = 64;  // times the size on disk
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
  UniqueFd fd(
      openat(place->directory.get(), place->name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  DirStream entries(fd ? fdopendir(fd.get()) : nullptr);
  if (!entries) return Error::from_errno("cannot read " + shown);
  int directory_fd = fd.release();  // owned by the stream now
  LogDirectory out;
  std::vector<ListedLog> found;
  std::size_t names = 0;
  while (const dirent* entry = readdir(entries.get())) {
    if (++names > kMaxNames) {
      out.more_names = true;
      break;
    }
    struct stat what {};
    if (fstatat(directory_fd, entry->d_name, &what, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(what.st_mode))
      continue;
    bool holes = what.st_size > (1 << 20) && what.st_blocks * kBlock < what.st_size / kMostlyHoles;
    if (what.st_size == 0 || holes) continue;
    found.push_back({{what.st_mtim.tv_sec, what.st_mtim.tv_nsec}, what.st_size, entry->d_name});
  }
  std::ranges::sort(found, std::greater{}, &ListedLog::written);
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
  if (Utf16Decoder::of(begin)) return LogContent::text;
  return begin.find('\0') == std::string_view::npos ? LogContent::text : LogContent::binary;
}

}  // namespace oomcast
