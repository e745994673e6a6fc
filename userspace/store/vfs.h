// The files that SQLite may touch: a database, its -wal and its -shm, each a regular file in one open
// directory.
#pragma once

#include <string>

#include "collect/safe_path.h"
#include "store/database.h"

namespace oomcast {

struct DatabaseAccess {
  /// False: nothing is made, written, locked against others or removed.
  bool writes = false;
  /// By the -shm file, with others who have it open. Its owner can end us by making it shorter: not with a
  /// stranger's. A reader without it reads the -wal by itself.
  bool shares = true;
};

/// Opens the database of that name, which is the file that was found there: no link, FIFO or device is opened
/// in its place, whatever another user does in the directory meanwhile. There is no rollback journal: one
/// that SQLite plays back names a file that it then removes, and anyone who writes to the directory can leave
/// one. Nothing is removed but a -wal and -shm. `code`: SQLite's.
DatabaseHandle open_database(SafePath path, DatabaseAccess access, int& code);

/// As long as its database is not in WAL mode; before anything is written to it. False: it is locked, or
/// cannot be read.
bool use_no_journal(sqlite3* db);

/// For reading what strangers may have written: nothing of it runs, nothing of it is unbounded, and nothing
/// is written or removed, also where it is written to at the same time. `shown` is its name for messages.
/// Error::usage: it cannot be opened.
Result<DatabaseHandle> open_to_read(SafePath path, const std::string& shown);

/// Why the files beside a database cannot be used, each by its name, and what to do; "": they can.
std::string wrong_beside(const SafePath& path, const DatabaseAccess& access);

}  // namespace oomcast
