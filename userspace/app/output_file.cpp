#include "app/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/escape.h"

namespace oomcast {

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile out;
  out.shown_ = escape_for_terminal(path);
  auto wrong = [&](const std::string& why) {
    return Error::failed(fmt::format("writing {}: {}", out.shown_, why));
  };
  auto place = resolve(path, {.writes = true});
  if (!place) return wrong(place.error().message);
  const auto& found = place->found;
  int directory = place->directory.get();
  if (place->is_directory()) return wrong("it is a directory");
  if (found && !place->is_regular()) {
    bool trusted = place->is_descriptor || (place->keeps_ours && is_ours(found->st_uid));
    if (!trusted) return wrong("it is no regular file, but another user's pipe or link: left alone");
    constexpr int kWrite = O_WRONLY | O_CLOEXEC | O_NOCTTY;
    out.fd_.reset(openat(directory, place->name.c_str(), kWrite | (place->is_descriptor ? 0 : O_NOFOLLOW)));
    if (!out.fd_) return Error::from_errno("writing " + out.shown_);
    return out;
  }
  // The file would become that user's again, readable to them.
  if (found && !is_ours(found->st_uid) && place->keeps_ours && !place->only_ours)
    return wrong(
        fmt::format("it belongs to uid {}, and {}: choose another name", found->st_uid, place->doubt));
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    return Error::from_errno("writing " + out.shown_);
  out.new_name_ = fmt::format(".oomcast-{:016x}", number);
  out.fd_.reset(
      openat(directory, out.new_name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640));
  if (!out.fd_) return Error::from_errno("writing " + out.shown_);
  // Keep owner and mode, unless the owner is another user without rights to the directory.
  if (found && (is_ours(found->st_uid) || found->st_uid == place->directory_owner)) {
    bool given = fchown(out.fd_.get(), found->st_uid, found->st_gid) == 0;
    if (given || found->st_uid == geteuid()) fchmod(out.fd_.get(), found->st_mode & (given ? 0777 : 0700));
  }
  out.place_ = *std::move(place);
  return out;
}

OutputFile::~OutputFile() {
  if (fd_ && !new_name_.empty()) unlinkat(place_.directory.get(), new_name_.c_str(), 0);
}

bool OutputFile::is_beside_others_files() const {
  return !new_name_.empty() && !is_ours(place_.directory_owner);
}

Status OutputFile::write(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    ssize_t n = ::write(fd_.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error::from_errno("writing " + shown_);
    done += static_cast<std::size_t>(n);
  }
  if (new_name_.empty()) return Ok{};
  int directory = place_.directory.get();
  if (renameat(directory, new_name_.c_str(), directory, place_.name.c_str()) != 0)
    return Error::from_errno("writing " + shown_);
  new_name_.clear();
  return Ok{};
}

}  // namespace oomcast
