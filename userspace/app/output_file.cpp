#include "app/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/escape.h"

namespace oomcast {

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile out;
  out.shown_ = escape_for_terminal(path);
  constexpr int kEmptied = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  out.fd_.reset(::open(path.c_str(), kEmptied | O_NOFOLLOW, 0640));
  if (struct stat link{}; !out.fd_ && errno == ELOOP && lstat(path.c_str(), &link) == 0) {
    if (link.st_uid != 0 && link.st_uid != geteuid())
      return Error::failed(fmt::format("writing {}: it is a link that somebody else made", out.shown_));
    out.fd_.reset(::open(path.c_str(), kEmptied, 0640));
  }
  if (!out.fd_) return Error::from_errno("writing " + out.shown_);
  return out;
}

Status OutputFile::write(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    ssize_t n = ::write(fd_.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error::from_errno("writing " + shown_);
    done += static_cast<std::size_t>(n);
  }
  return Ok{};
}

}  // namespace oomcast
