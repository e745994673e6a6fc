// Opens the files of recordings and stores for writing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/database.h"

namespace oomcast {

inline constexpr const char* kStoreFile = "oomcast.db";

/// The name of a file system that several machines may write to, by statfs(2)'s f_type; "": it is local.
/// There SQLite's log must not be shared: "all processes using a database must be on the same host computer;
/// WAL does not work over a network filesystem" (sqlite.org/wal.html).
std::string_view shared_file_system(std::uint32_t type);

/// A new file of mode 0640 with the tables in it, never through a link; on a shared_file_system(), and in a
/// directory in which others may write, nobody can read it before it is closed. Error: it exists (unless
/// `overwrite`), or cannot be written.
Result<DatabaseHandle> create_recording(const std::string& path, bool overwrite);

struct StoreOpening {
  DatabaseHandle db;
  bool broken = false;  // the file is no database, or damaged: put_aside() it
  bool busy = false;    // another held it locked for all that time
  std::string why;      // `db` is null
};
/// The store in `directory`; both are made if they are missing: 0750, and 0640 for the file. A directory that
/// another user may write to, or put another in place of, is refused: he could aim root at any file. So are
/// links, files with several names, a rollback journal beside it, and a shared_file_system(). Waits for a
/// lock for 5 s, and what SQLite waits beyond (2 s at a time).
StoreOpening open_store(const std::string& directory);

/// Renames the database with what belongs to it to PATH.corrupt-TIME.
Result<std::string> put_aside(const std::string& path);

}  // namespace oomcast
