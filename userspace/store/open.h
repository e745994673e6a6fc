// The files of recordings and stores, opened for writing.
#pragma once

#include <string>

#include "base/result.h"
#include "store/database.h"

namespace oomcast {

inline constexpr const char* kStoreFile = "oomcast.db";

/// A new file of mode 0640 with the tables in it, never through a link. Error: it exists (unless
/// `overwrite`), or cannot be written.
Result<DatabaseHandle> create_recording(const std::string& path, bool overwrite);

struct StoreOpening {
  DatabaseHandle db;
  bool broken = false;  // the file is no database, or damaged: put_aside() it
  bool busy = false;    // another held it locked for all that time
  std::string why;      // `db` is null
};
/// The store in `directory`; both are made if they are missing: 0750, and 0640 for the file. Links and files
/// with several names are refused: in a directory of others they could aim root at any file. Waits for a lock
/// for 5 s, and what SQLite waits beyond (2 s at a time).
StoreOpening open_store(const std::string& directory);

/// Renames the database with what belongs to it to PATH.corrupt-TIME.
Result<std::string> put_aside(const std::string& path);

}  // namespace oomcast
