#include "app/file_message.h"

#include <sys/socket.h>

#include <array>
#include <cstring>

namespace oomcast {
namespace {

struct FileMessage {
  explicit FileMessage(std::span<std::byte> bytes) : part{bytes.data(), bytes.size()} {
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    head.msg_control = control.data();
    head.msg_controllen = CMSG_LEN(sizeof(int));  // what is left of CMSG_SPACE() would hold a second file
  }
  FileMessage(const FileMessage&) = delete;
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr head{};
};

}  // namespace

ssize_t send_with_file(int socket, std::span<const std::byte> bytes, int file) {
  FileMessage message({const_cast<std::byte*>(bytes.data()), bytes.size()});  // an iovec is for reading, too
  cmsghdr* beside = CMSG_FIRSTHDR(&message.head);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(beside), &file, sizeof(file));
  return sendmsg(socket, &message.head, MSG_NOSIGNAL);
}

ssize_t receive_with_file(int socket, std::span<std::byte> to, UniqueFd& file) {
  FileMessage message(to);
  ssize_t n = recvmsg(socket, &message.head, MSG_CMSG_CLOEXEC);
  const cmsghdr* came = n > 0 ? CMSG_FIRSTHDR(&message.head) : nullptr;
  if (came && came->cmsg_level == SOL_SOCKET && came->cmsg_type == SCM_RIGHTS &&
      came->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(came), sizeof(fd));
    file.reset(fd);
  }
  return n;
}

}  // namespace oomcast
