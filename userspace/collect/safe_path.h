// Paths that a person names, resolved so that no other user chooses what is opened, written or deleted there.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace oomcast {

struct PathRules {
  /// To be written: a directory of root's or one's own that another user could have moved there is refused,
  /// too.
  bool writes = false;
  /// A link in the last component is followed as those above it; otherwise it is what is found.
  bool last_link = true;
  /// Directories that are missing are made, 0750, where no other user may write.
  bool makes_directories = false;
};

/// A file by its directory, which is open, and its name there: a path that is opened again may lead
/// elsewhere.
struct SafePath {
  UniqueFd directory;  // O_PATH
  /// Without a slash; "." where the path is a directory's own, as "/" or "..".
  std::string name;
  /// What it is now, not followed; nullopt: it is not there.
  std::optional<struct stat> found;
  /// Only root and oneself can make, replace or remove files there.
  bool only_ours = false;
  /// Others may make files there, but not touch those of root and oneself: also true of a directory like
  /// /tmp.
  bool keeps_ours = false;
  /// `name` is a descriptor of a process in /proc, as /dev/stdout leads to.
  bool is_descriptor = false;
  uid_t directory_owner = 0;
  /// Why not `only_ours`: which directory, whose. Escaped.
  std::string doubt;

  bool is_regular() const { return found && S_ISREG(found->st_mode); }
  bool is_directory() const { return found && S_ISDIR(found->st_mode); }
  /// What has the same name with `suffix` behind it; nullopt: nothing.
  std::optional<struct stat> beside(const std::string& suffix) const;
};

/// Opens one directory of `path` after the other. A link is followed only if it is root's or one's own and no
/// other user may replace it: anyone else could aim root at any file. Error: the reason without the path as
/// it was given, and errno, ELOOP for what is refused.
Result<SafePath> resolve(const std::string& path, const PathRules& rules);

/// Root, or who runs this.
bool is_ours(uid_t owner);

/// A path to an open file, which begins at it.
std::string path_of(int fd);

/// Opens for reading what is there: a regular file, or a pipe or a device if it is root's or one's own; of
/// another user's the reader would wait as long as he likes. Error: as resolve().
Result<UniqueFd> open_input(const SafePath& path);
Result<UniqueFd> open_input(const std::string& path);

}  // namespace oomcast
