#include "store/vfs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/escape.h"

namespace oomcast {
namespace {

constexpr int kLongestValue = 16 << 20;
constexpr std::int64_t kWalHeader = 32;
constexpr std::string_view kWal = "-wal", kShm = "-shm", kJournal = "-journal";

// Of one connection, until its database is closed.
struct Opening {
  UniqueFd directory;
  struct stat database {};
  DatabaseAccess access;
  bool has_index = true;  // a -shm that is in use, where it shares
  const sqlite3_io_methods* base = nullptr;
  sqlite3_io_methods methods{};
};

// By the path that SQLite has of the database, which begins at its directory's descriptor: a number that is
// open is no other's.
struct Openings {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Opening>, std::less<>> by_path;

  std::shared_ptr<Opening> find(std::string_view path) {
    std::lock_guard lock(mutex);
    auto at = by_path.find(path);
    return at == by_path.end() ? nullptr : at->second;
  }
};

Openings& openings() {
  static Openings all;
  return all;
}

struct Owned {
  std::shared_ptr<Opening> opening;
  bool database = false, wal = false, shm = false;
};
// Whose file that is, and which; none: nobody's, and not to be touched.
Owned owner_of(std::string_view path) {
  if (auto opening = openings().find(path)) return {opening, true};
  auto of = [&](std::string_view suffix) {
    return path.ends_with(suffix) ? openings().find(path.substr(0, path.size() - suffix.size())) : nullptr;
  };
  if (auto opening = of(kWal)) return {opening, false, true};
  if (auto opening = of(kShm)) return {opening, false, false, true};
  return {};
}

// SQLite's open(2), of the -shm, too, which it asks no VFS for. What is not below our directories is as it
// was.
int open_owned(const char* path, int flags, int mode) {
  static const std::string prefix = path_of(0).substr(0, path_of(0).size() - 1);
  if (!std::string_view(path).starts_with(prefix)) return open(path, flags, mode);
  Owned owned = owner_of(path);
  bool writes = (flags & (O_ACCMODE | O_CREAT)) != O_RDONLY;
  if (!owned.opening) {
    // The directory, to be synced.
    bool directory = !writes && !(flags & O_NOFOLLOW);
    return directory ? open(path, flags | O_DIRECTORY | O_CLOEXEC) : (errno = EPERM, -1);
  }
  if (writes && !owned.opening->access.writes) return errno = EROFS, -1;
  struct stat about {};
  auto wrong = [&] {
    const struct stat& database = owned.opening->database;
    bool same = about.st_dev == database.st_dev && about.st_ino == database.st_ino;
    if (!S_ISREG(about.st_mode) || (owned.database && !same)) return EPERM;
    return writes && (about.st_nlink > 1 || about.st_uid != database.st_uid) ? EPERM : 0;
  };
  // Asked before: to open a device does something to it.
  if (lstat(path, &about) == 0) {
    if (int error = wrong()) return errno = error, -1;
  } else if (errno != ENOENT) {
    return -1;
  }
  UniqueFd fd(open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode));
  if (!fd) return -1;
  int error = fstat(fd.get(), &about) == 0 ? wrong() : errno;
  return error ? (errno = error, -1) : fd.release();
}

sqlite3_vfs* base() {
  static sqlite3_vfs* unix_vfs = [] {
    sqlite3_vfs* found = sqlite3_vfs_find("unix");
    if (found) found->xSetSystemCall(found, "open", reinterpret_cast<sqlite3_syscall_ptr>(open_owned));
    return found;
  }();
  return unix_vfs;
}

// The base's file is the beginning of ours; the opening stands behind it, of databases alone.
Opening*& opening_of(sqlite3_file* file) {
  return *reinterpret_cast<Opening**>(reinterpret_cast<char*>(file) + (base()->szOsFile + 7) / 8 * 8);
}

int close_file(sqlite3_file* file) {
  Opening* opening = opening_of(file);
  int code = opening->base->xClose(file);
  std::lock_guard lock(openings().mutex);
  std::erase_if(openings().by_path, [&](const auto& each) { return each.second.get() == opening; });
  return code;
}

// A reader that finds no index that is in use is opened again without one: what SQLite does there tries a
// torn log for ten seconds at each statement.
int map_shm(sqlite3_file* file, int region, int size, int extend, void volatile** to) {
  Opening* opening = opening_of(file);
  *to = nullptr;
  if (!opening->access.shares) return SQLITE_CANTOPEN;
  int code = opening->base->xShmMap(file, region, size, extend, to);
  bool none = code == SQLITE_READONLY_CANTINIT || (code & 0xff) == SQLITE_CANTOPEN;
  if (opening->access.writes || !none || region != 0) return code;
  opening->has_index = false;
  return SQLITE_CANTOPEN;
}

// Nothing is locked against others by who only reads, whatever SQLite wants for an index of its own.
int lock_shared(sqlite3_file* file, int level) {
  return level == SQLITE_LOCK_SHARED ? opening_of(file)->base->xLock(file, level) : SQLITE_OK;
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* got) {
  file->pMethods = nullptr;
  // A file without a name: SQLite's own for sorting, which nobody else can open.
  if (!name) return base()->xOpen(base(), name, file, flags, got);
  Owned owned = owner_of(name);
  bool wal = owned.wal && (flags & SQLITE_OPEN_WAL);
  if (!wal && !(owned.database && (flags & SQLITE_OPEN_MAIN_DB))) return SQLITE_CANTOPEN;
  if (!owned.opening->access.writes)
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
  int code = base()->xOpen(base(), name, file, flags, got);
  if (code != SQLITE_OK || wal || !file->pMethods) return code;
  Opening& opening = *owned.opening;
  opening.base = file->pMethods;
  opening.methods = *file->pMethods;
  opening.methods.xClose = close_file;
  opening.methods.xShmMap = map_shm;
  if (!opening.access.writes) opening.methods.xLock = lock_shared;
  opening_of(file) = &opening;
  file->pMethods = &opening.methods;
  return code;
}

int delete_file(sqlite3_vfs*, const char* name, int sync) {
  Owned owned = owner_of(name);
  if (!owned.wal) return SQLITE_IOERR_DELETE;
  // One beside an empty database, which a reader leaves where it is.
  if (!owned.opening->access.writes) return SQLITE_OK;
  return base()->xDelete(base(), name, sync);
}

int access_file(sqlite3_vfs*, const char* name, int flags, int* out) {
  *out = 0;
  return owner_of(name).wal ? base()->xAccess(base(), name, flags, out) : SQLITE_OK;
}

int keep_name(sqlite3_vfs*, const char* name, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", name);
  return SQLITE_OK;
}

const char* vfs() {
  static sqlite3_vfs ours = [] {
    sqlite3_vfs out = *base();
    out.pNext = nullptr;
    out.zName = "oomcast";
    out.szOsFile = (base()->szOsFile + 7) / 8 * 8 + static_cast<int>(sizeof(std::uintptr_t));
    out.xOpen = open_file;
    out.xDelete = delete_file;
    out.xAccess = access_file;
    out.xFullPathname = keep_name;
    return out;
  }();
  static bool registered = sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
  return registered ? ours.zName : nullptr;
}

// As a file: URI wants it.
std::string uri_of(const std::string& path) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out = "file:";
  for (char c : path) {
    auto byte = static_cast<unsigned char>(c);
    bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                 (byte >= '0' && byte <= '9') || c == '/' || c == '.' || c == '-' || c == '_';
    if (plain)
      out += c;
    else
      (out += '%') += {hex[byte >> 4], hex[byte & 15]};
  }
  return out;
}

DatabaseHandle connect(const std::string& name, const std::string& uri,
                       const std::shared_ptr<Opening>& opening, int& code) {
  opening->base = nullptr;
  {
    std::lock_guard lock(openings().mutex);
    openings().by_path[name] = opening;
  }
  sqlite3* raw = nullptr;
  int flags = opening->access.writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  code = sqlite3_open_v2(uri.c_str(), &raw, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, vfs());
  if (!opening->base) {
    std::lock_guard lock(openings().mutex);
    openings().by_path.erase(name);
  }
  if (code == SQLITE_OK) sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  return DatabaseHandle(raw);
}

}  // namespace

DatabaseHandle open_database(SafePath path, DatabaseAccess access, int& code) {
  code = SQLITE_CANTOPEN;
  if (!path.found || sqlite3_initialize() != SQLITE_OK || !base() || !vfs()) return {};
  std::string name = fmt::format("{}/{}", path_of(path.directory.get()), path.name);
  std::string uri = uri_of(name);
  bool logged = false;
  if (!access.writes) {
    // Without a log nobody has it open, and with its first 32 bytes alone nothing is in it: then nothing is
    // locked, and what is on a disk that cannot be written is read.
    auto wal = path.beside(std::string(kWal)), shm = path.beside(std::string(kShm));
    logged = wal && (wal->st_size == 0 || wal->st_size > kWalHeader);
    uri += logged ? "?readonly_shm=1" : "?immutable=1";
    access.shares = access.shares && path.keeps_ours && shm && is_ours(shm->st_uid);
  }
  auto opening = std::make_shared<Opening>();
  opening->directory = std::move(path.directory);
  opening->database = *path.found;
  opening->access = access;
  DatabaseHandle db = connect(name, uri, opening, code);
  if (code != SQLITE_OK || !logged) return db;
  if (opening->access.shares && !ask(db.get(), "SELECT count(*) FROM sqlite_schema") && !opening->has_index) {
    db.reset();
    opening->access.shares = false;
    db = connect(name, uri, opening, code);
  }
  // Its index is in our memory.
  if (code == SQLITE_OK && !opening->access.shares) execute(db.get(), "PRAGMA locking_mode=EXCLUSIVE");
  return db;
}

bool use_no_journal(sqlite3* db) {
  Statement mode(db, "PRAGMA journal_mode");
  return mode.row() && (mode.text(0) == "wal" || execute(db, "PRAGMA journal_mode=MEMORY"));
}

Result<DatabaseHandle> open_to_read(SafePath path, const std::string& shown) {
  DatabaseAccess access;
  if (auto why = wrong_beside(path, access); !why.empty())
    return Error::failed(fmt::format("{}: {}", shown, why));
  int code = SQLITE_OK;
  DatabaseHandle db = open_database(std::move(path), access, code);
  if (code != SQLITE_OK) return Error::usage(fmt::format("{}: {}", shown, why_failed(db.get())));
  sqlite3_limit(db.get(), SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_busy_timeout(db.get(), 2000);
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_ENABLE_VIEW, 0,
                    nullptr);  // tables only: no SQL of the file runs
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  execute(db.get(), "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY");
  // One moment of what is still written; and without its -shm the whole -wal is read at each beginning.
  execute(db.get(), "BEGIN");
  return db;
}

std::string wrong_beside(const SafePath& path, const DatabaseAccess& access) {
  std::string name = escape_for_terminal(path.name);
  if (path.beside(std::string(kJournal)))
    return fmt::format(
        "{0}{1} is beside it, and oomcast makes no such file: SQLite would remove any file that is named in "
        "it. "
        "Unless another program was writing the database, remove it",
        name, kJournal);
  for (std::string_view suffix : {kWal, kShm}) {
    auto about = path.beside(std::string(suffix));
    if (!about) continue;
    if (!S_ISREG(about->st_mode))
      return fmt::format("{}{} beside it is no regular file: remove it", name, suffix);
    if (access.writes && (about->st_nlink > 1 || about->st_uid != path.found->st_uid))
      return fmt::format(
          "{}{} beside it {}: remove it", name, suffix,
          about->st_nlink > 1 ? "has another name" : fmt::format("belongs to uid {}", about->st_uid));
  }
  return {};
}

}  // namespace oomcast
