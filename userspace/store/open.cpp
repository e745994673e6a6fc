#include "store/open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/escape.h"
#include "base/unique_fd.h"
#include "store/schema.h"
#include "store/vfs.h"

namespace oomcast {
namespace {

constexpr int kBusyMs = 2000;
constexpr std::chrono::seconds kLockPatience(5);  // nothing is traced before the store is open

std::string_view shared_system_of(int fd) {
  struct statfs about {};
  return fstatfs(fd, &about) == 0 ? shared_file_system(static_cast<std::uint32_t>(about.f_type)) : "";
}

// "": a regular file of one name is there now, and `place` has it.
std::string make_file(SafePath& place) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  UniqueFd file(openat(place.directory.get(), place.name.c_str(), flags | O_CREAT, 0640));
  if (!file) return errno == ELOOP ? "it is a link" : std::strerror(errno);
  struct stat what {};
  if (fstat(file.get(), &what) != 0) return std::strerror(errno);
  if (!S_ISREG(what.st_mode)) return "it is no regular file";
  if (what.st_nlink > 1) return "it has another name";
  if (!is_ours(what.st_uid))
    return fmt::format("it belongs to uid {}: choose another directory with --store", what.st_uid);
  if (auto shared = shared_system_of(file.get()); !shared.empty())
    return fmt::format("it is on {}, which other machines may share: choose a local directory with --store",
                       shared);
  place.found = what;
  return wrong_beside(place, {.writes = true});
}

// "": it is empty, a store that can be written, or cannot be read yet.
std::string why_not_ours(sqlite3* db) {
  auto tables = ask(db, "SELECT count(*) FROM sqlite_schema");
  auto application = ask(db, "PRAGMA application_id"), schema = ask(db, "PRAGMA user_version");
  if (!tables || *tables == 0 || !application || !schema) return "";
  if (*application != kApplicationId) return "this database is not oomcast's";
  if (*schema > kSchema)
    return fmt::format(
        "it has schema {}, this oomcast writes schema {}: use the version that wrote it, or another --store",
        *schema, kSchema);
  if (*schema < 2)
    return fmt::format(
        "it is a recording of schema {}, to which nothing can be added: move it away, and oomcast report "
        "--store FILE "
        "still reads it",
        *schema);
  return "";
}

}  // namespace

std::string_view shared_file_system(std::uint32_t type) {
  constexpr std::pair<std::uint32_t, std::string_view> known[] = {
      {0x6969, "NFS"},        {0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},    {0x517b, "SMB"},
      {0x01021997, "9P"},     {0x65735546, "FUSE"},  {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},
      {0x6b414653, "AFS"},    {0x73757245, "Coda"},  {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
      {0x19830326, "BeeGFS"}, {0x7461636f, "OCFS2"}, {0x01161970, "GFS2"},   {0x20030528, "OrangeFS"}};
  for (const auto& [magic, name] : known)
    if (magic == type) return name;
  return "";
}

Result<DatabaseHandle> create_recording(const std::string& path, bool overwrite) {
  std::string shown = escape_for_terminal(path);
  auto place = resolve(path, {.writes = true, .last_link = false});
  if (!place) return Error::failed(fmt::format("making {}: {}", shown, place.error().message));
  int directory = place->directory.get();
  if (overwrite)
    for (const char* part : {"", "-wal", "-shm", "-journal"})
      if (auto what = place->beside(part); what && S_ISREG(what->st_mode))
        unlinkat(directory, (place->name + part).c_str(), 0);
  // Made here and not by SQLite: never through a link, and for its group to read.
  constexpr int kNew = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  UniqueFd made(openat(directory, place->name.c_str(), kNew, 0640));
  if (!made && errno == EEXIST)
    return Error::failed(fmt::format("{} exists: choose another name{}", shown,
                                     overwrite ? "; only a file is replaced" : ", or --force to replace it"));
  if (!made || fstat(made.get(), &place->found.emplace()) != 0) return Error::from_errno("making " + shown);
  if (auto why = wrong_beside(*place, {.writes = true}); !why.empty()) {
    unlinkat(directory, place->name.c_str(), 0);
    return Error::failed(fmt::format("making {}: {}", shown, why));
  }
  // Alone it needs no memory that is shared with readers, which other machines would not see, and which
  // another user could take away in a directory of his.
  bool alone = !shared_system_of(made.get()).empty() || !place->keeps_ours;
  made.reset();  // closed later, it would take SQLite's locks with it
  int code = SQLITE_OK;
  DatabaseHandle db = open_database(*std::move(place), {.writes = true, .shares = !alone}, code);
  sqlite3* raw = db.get();
  // Whose it is stands in the file itself, also while all else is in the log beside it.
  if (code != SQLITE_OK || !use_no_journal(raw) ||
      !execute(raw, fmt::format("PRAGMA locking_mode={}; PRAGMA application_id={}; PRAGMA user_version={};"
                                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; BEGIN",
                                alone ? "EXCLUSIVE" : "NORMAL", kApplicationId, kSchema)) ||
      !make_tables(raw) || !execute(raw, "COMMIT"))
    return Error::failed(fmt::format("writing {}: {}", shown, why_failed(raw)));
  return db;
}

StoreOpening open_store(const std::string& directory) {
  StoreOpening out;
  std::string path = directory + "/" + kStoreFile;
  auto wrong = [&](const std::string& of, std::string_view why) {
    out.db.reset();
    out.why = fmt::format("{}: {}", escape_for_terminal(of), why);
    return std::move(out);
  };
  auto place = resolve(path, {.writes = true, .last_link = false, .makes_directories = true});
  if (!place) return wrong(directory, place.error().message);
  if (!place->only_ours)
    return wrong(directory,
                 fmt::format("{}, so others could replace the files in it: name with --store a directory "
                             "that only {} may write to",
                             place->doubt, geteuid() == 0 ? "root" : "you"));
  if (auto why = make_file(*place); !why.empty()) return wrong(path, why);
  int code = SQLITE_OK;
  out.db = open_database(*std::move(place), {.writes = true}, code);
  sqlite3* db = out.db.get();
  auto failed = [&] {
    out.broken = is_damage(sqlite3_extended_errcode(db));
    return wrong(path, why_failed(db));
  };
  if (code != SQLITE_OK) return failed();
  sqlite3_busy_timeout(db, kBusyMs);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  // Before anything is changed in it, and again when nobody else can.
  if (auto why = why_not_ours(db); !why.empty()) return wrong(path, why);
  // Two that begin at once: the change to WAL does not wait for the other.
  auto until = std::chrono::steady_clock::now() + kLockPatience;
  while (!use_no_journal(db) ||
         !execute(db,
                  "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA cache_size=-512;"
                  "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                  "PRAGMA journal_size_limit=4194304; BEGIN IMMEDIATE")) {
    if ((sqlite3_errcode(db) & 0xff) != SQLITE_BUSY) return failed();
    out.busy = std::chrono::steady_clock::now() >= until;
    if (out.busy) return failed();
    sqlite3_sleep(100);
  }
  if (auto why = why_not_ours(db); !why.empty()) return wrong(path, why);
  auto tables = ask(db, "SELECT count(*) FROM sqlite_schema");
  if (!tables) return failed();
  if (!(*tables == 0 ? make_tables(db) : complete_tables(db))) return failed();
  if (!execute(db, "COMMIT")) return failed();
  // From now on the file is a store even if its log is torn.
  if (*tables == 0) execute(db, "PRAGMA wal_checkpoint(TRUNCATE)");
  return out;
}

Result<std::string> put_aside(const std::string& path) {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::string to = fmt::format("{}.corrupt-{:04}{:02}{:02}T{:02}{:02}{:02}Z", path, utc.tm_year + 1900,
                               utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
  auto place = resolve(path, {.writes = true, .last_link = false});
  if (!place)
    return Error::failed(fmt::format("renaming {}: {}", escape_for_terminal(path), place.error().message));
  std::size_t base = path.size();
  for (int n = 2; place->beside(to.substr(base)); ++n) to = fmt::format("{}-{}", to, n);
  // The log first: a database without its log is older, a log without its database is another's.
  int directory = place->directory.get();
  for (std::string part : {"-wal", "-shm", ""}) {
    std::string now_named = place->name + part, then = place->name + to.substr(base) + part;
    if (renameat(directory, now_named.c_str(), directory, then.c_str()) != 0 && errno != ENOENT)
      return Error::from_errno("renaming " + escape_for_terminal(path + part));
  }
  return to;
}

}  // namespace oomcast
