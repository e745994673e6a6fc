#include "collect/tracepoint_ids.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/unique_fd.h"

namespace oomcast {
namespace {

UniqueFd open_tracefs(const Roots& roots) {
  for (const char* path : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    UniqueFd mounted(open(roots.at(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (mounted && faccessat(mounted.get(), "events", X_OK, 0) == 0) return mounted;
  }
  UniqueFd filesystem(fsopen("tracefs", FSOPEN_CLOEXEC));
  if (!filesystem || fsconfig(filesystem.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0)) return {};
  return UniqueFd(fsmount(filesystem.get(), FSMOUNT_CLOEXEC, 0));
}

}  // namespace

std::map<std::string, std::uint64_t> read_tracepoint_ids(const Roots& roots,
                                                         const std::vector<std::string>& names) {
  std::map<std::string, std::uint64_t> ids;
  UniqueFd tracefs = open_tracefs(roots);
  if (!tracefs) return ids;
  for (const std::string& name : names) {
    UniqueFd file(openat(tracefs.get(), ("events/" + name + "/id").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 32> text{};
    auto size = file ? read(file.get(), text.data(), text.size()) : 0;
    std::uint64_t id = 0;
    if (size > 0 && std::from_chars(text.data(), text.data() + size, id).ec == std::errc()) ids[name] = id;
  }
  return ids;
}

}  // namespace oomcast
