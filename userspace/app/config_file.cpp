#include "app/config_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <optional>
#include <sstream>

#include "base/unique_fd.h"
#include "collect/files.h"

namespace oomcast {

Result<std::vector<std::pair<std::string, std::string>>> read_config(const std::string& path,
                                                                     bool must_exist) {
  std::vector<std::pair<std::string, std::string>> out;
  // O_NONBLOCK: opening a FIFO would block the start.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd && errno == ENOENT && !must_exist) return out;
  if (!fd) return Error::from_errno(path);
  struct stat there {};
  if (fstat(fd.get(), &there) != 0 || !S_ISREG(there.st_mode))
    return Error::usage(fmt::format("{} is no regular file", path));
  auto text = read_file(fd.get(), kMaxConfig + 1);
  if (!text) return Error::from_errno(path);
  if (text->size() > kMaxConfig)
    return Error::usage(fmt::format("{}: a configuration has at most {} KiB", path, kMaxConfig >> 10));
  std::istringstream lines(*text);
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(lines)) {
      if (item.name == "++" || item.name == "--") continue;  // a section begins, or ends
      if (!item.parents.empty())
        return Error::usage(fmt::format("{}: '{}' is in a section, and there are none: move it to the top",
                                        path, item.fullname()));
      if (item.inputs.empty()) return Error::usage(fmt::format("{}: give '{}' a value", path, item.name));
      for (const std::string& value : item.inputs) out.emplace_back(item.name, value);
    }
  } catch (const CLI::Error& e) {
    return Error::usage(fmt::format("{}: {}", path, e.what()));
  }
  return out;
}

}  // namespace oomcast
