// What another user leaves beside a database, or in its place, that root opens: nothing of it is followed,
// waited for, written or removed.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "store/import.h"
#include "store/kept_store.h"
#include "store/open.h"
#include "store/recording.h"
#include "store/store.h"
#include "store/vfs.h"

namespace oomcast {
namespace {

using namespace test;
namespace fs = std::filesystem;
constexpr uid_t kOther = 65534;

void append_number(std::string& to, std::uint32_t value) {
  for (int shift : {24, 16, 8, 0}) to += static_cast<char>(value >> shift & 0xff);
}

// A rollback journal without pages, which SQLite plays back: it then removes the file that it names.
void leave_journal(const std::string& database, const std::string& names) {
  std::ifstream in(database, std::ios::binary);
  std::string begin(100, '\0');
  in.read(begin.data(), 100);
  auto byte = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(begin[at]));
  };
  std::uint32_t page = byte(16) << 8 | byte(17), sum = 0;
  auto pages = static_cast<std::uint32_t>(fs::file_size(database) / page);
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::string journal = magic;
  for (std::uint32_t number : {0u, 0x12345678u, pages, 512u, page}) append_number(journal, number);
  journal.resize(512);
  append_number(journal, 0x40000000 / page + 1);
  journal += names;
  for (unsigned char c : names) sum += c;
  append_number(journal, static_cast<std::uint32_t>(names.size()));
  append_number(journal, sum);
  std::ofstream(database + "-journal", std::ios::binary) << journal + magic;
}

class DatabaseFiles : public StoreTest {
 protected:
  DatabaseFiles() {
    char name[] = "/tmp/oomcast-precious-XXXXXX";
    elsewhere_ = mkdtemp(name);
    precious_ = elsewhere_ + "/precious";
    std::ofstream(precious_) << "x";
  }
  ~DatabaseFiles() override { fs::remove_all(elsewhere_); }

  std::string file() const { return dir_ + "/oomcast.db"; }
  std::string recording() const { return dir_ + "/run.db"; }
  void make_store() {
    auto writer = keep();
    writer->add(EpisodeFact{test::kill(1, 1000, 77, job_)});
    ASSERT_TRUE(writer->finish());
  }
  void make_recording() {
    auto made = StoreWriter::record(recording(), info(), false);
    ASSERT_TRUE(made) << made.error().message;
    (*made)->add(sample(job_, 1000, MiB(100)));
    ASSERT_TRUE((*made)->finish());
  }
  std::map<std::string, std::uintmax_t> listing(const std::string& directory) const {
    std::map<std::string, std::uintmax_t> out;
    for (const auto& entry : fs::directory_iterator(directory))
      out[entry.path().filename()] = entry.is_regular_file() ? entry.file_size() : 0;
    return out;
  }
  // What each of those that open a store says; none may hang.
  std::map<std::string, std::string> attempts() {
    std::map<std::string, std::string> out;
    auto read = Store::open(dir_);
    out["read"] = read ? "" : read.error().message;
    auto kept = StoreWriter::keep(dir_, info());
    out["keep"] = kept ? "" : kept.error().message;
    auto imported = EpisodeImport::open(dir_, "0.1.0");
    out["import"] = imported ? "" : imported.error().message;
    return out;
  }
  bool as_it_was() const { return fs::exists(precious_) && fs::file_size(precious_) == 1; }

  std::string elsewhere_, precious_;
};

TEST_F(DatabaseFiles, the_journal_of_these_tests_has_sqlite_remove_what_it_names) {
  make_store();
  leave_journal(file(), precious_);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_FALSE(fs::exists(precious_));
}

TEST_F(DatabaseFiles, a_journal_beside_a_store_is_refused_and_removes_nothing) {
  make_store();
  leave_journal(file(), precious_);
  auto before = listing(dir_);
  for (const auto& [who, said] : attempts()) {
    EXPECT_NE(said.find("oomcast.db-journal is beside it"), std::string::npos) << who << ": " << said;
    EXPECT_NE(said.find("remove it"), std::string::npos) << who << ": " << said;
  }
  EXPECT_TRUE(as_it_was());
  EXPECT_EQ(listing(dir_), before);
  fs::remove(file() + "-journal");
  EXPECT_EQ(episodes().size(), 1u);
}

TEST_F(DatabaseFiles, a_journal_beside_a_recording_is_refused_and_removes_nothing) {
  make_recording();
  leave_journal(recording(), precious_);
  auto read = RecordingReader::open(recording());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("run.db-journal is beside it"), std::string::npos)
      << read.error().message;
  EXPECT_FALSE(Store::open(recording()));
  fs::remove(recording());
  auto refused = StoreWriter::record(recording(), info(), false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("run.db-journal is beside it"), std::string::npos);
  EXPECT_FALSE(fs::exists(recording()));
  EXPECT_TRUE(StoreWriter::record(recording(), info(), true)) << "--force replaces it";
  EXPECT_TRUE(as_it_was());
}

// One that comes behind the check.
TEST_F(DatabaseFiles, a_journal_is_never_looked_at_by_sqlite) {
  make_store();
  for (bool writes : {false, true}) {
    leave_journal(file(), precious_);
    int code = SQLITE_OK;
    auto db = open_database(*resolve(file(), {}), {.writes = writes}, code);
    ASSERT_EQ(code, SQLITE_OK);
    EXPECT_EQ(oomcast::ask(db.get(), "SELECT count(*) FROM episodes"), 1);
    if (writes) {
      EXPECT_TRUE(execute(db.get(), "UPDATE episodes SET usage=7"));
    }
    db.reset();
    EXPECT_TRUE(as_it_was()) << writes;
    EXPECT_TRUE(fs::exists(file() + "-journal"));
  }
}

TEST_F(DatabaseFiles, none_of_ours_is_a_journal) {
  make_store();
  make_recording();
  EXPECT_EQ(listing(dir_).size(), 2u);
  int code = SQLITE_OK;
  auto db = open_database(*resolve(recording(), {}), {.writes = true}, code);
  ASSERT_EQ(code, SQLITE_OK);
  EXPECT_FALSE(execute(db.get(), "CREATE TABLE t(a)")) << "no journal can be made";
  ASSERT_TRUE(use_no_journal(db.get()));
  EXPECT_TRUE(execute(db.get(), "CREATE TABLE t(a)"));
  EXPECT_EQ(listing(dir_).size(), 2u);
}

TEST_F(DatabaseFiles, a_fifo_beside_a_store_is_not_waited_for) {
  make_store();
  for (const char* part : {"-journal", "-wal", "-shm"}) {
    ASSERT_EQ(mkfifo((file() + part).c_str(), 0600), 0);
    for (const auto& [who, said] : attempts())
      EXPECT_NE(said.find("oomcast.db" + std::string(part)), std::string::npos) << who << ": " << said;
    fs::remove(file() + part);
  }
  fs::rename(file(), elsewhere_ + "/store.db");
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  for (const auto& [who, said] : attempts()) EXPECT_NE(said, "") << who;
}

TEST_F(DatabaseFiles, a_link_or_a_device_is_no_store) {
  make_store();
  auto refused = [&](const char* what) {
    for (const auto& [who, said] : attempts()) {
      bool followed = who == "read" && std::string_view(what) == "link";  // it is our own
      EXPECT_EQ(said.empty(), followed) << what << ", " << who << ": " << said;
    }
  };
  for (const char* part : {"-wal", "-shm"}) {
    ASSERT_EQ(symlink(precious_.c_str(), (file() + part).c_str()), 0);
    for (const auto& [who, said] : attempts()) EXPECT_NE(said, "") << part << ", " << who;
    fs::remove(file() + part);
    ASSERT_EQ(link(precious_.c_str(), (file() + part).c_str()), 0);
    EXPECT_NE(attempts()["keep"].find("has another name"), std::string::npos) << part;
    fs::remove(file() + part);
  }
  fs::rename(file(), elsewhere_ + "/store.db");
  ASSERT_EQ(symlink((elsewhere_ + "/store.db").c_str(), file().c_str()), 0);
  refused("link");
  fs::remove(file());
  if (mknod(file().c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    refused("device");
    fs::remove(file());
  }
  EXPECT_TRUE(as_it_was());
}

// As a tracer that was killed leaves it.
void leave_log(const std::string& from, const std::string& to) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(from.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE episodes SET name='in the log'", nullptr, nullptr, nullptr), SQLITE_OK);
  for (const char* part : {"", "-wal"}) fs::copy_file(from + part, to + part);
  sqlite3_close(db);
}

TEST_F(DatabaseFiles, a_store_is_read_with_its_log_and_nothing_is_made_for_it) {
  make_store();
  std::string copy = elsewhere_ + "/oomcast.db";
  leave_log(file(), copy);
  auto before = listing(elsewhere_);
  auto read = [&] {
    auto store = Store::open(elsewhere_);
    if (!store) return store.error().message;
    auto kill = store->episode(std::nullopt);
    return kill ? kill->told.episode.id : kill.error().message;
  };
  EXPECT_EQ(read(), "in the log");
  EXPECT_EQ(listing(elsewhere_), before);
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(elsewhere_.c_str(), kOther, kOther), 0);
  std::ofstream(copy + "-shm") << std::string(40000, '\xff');
  ASSERT_EQ(chown((copy + "-shm").c_str(), kOther, kOther), 0);
  EXPECT_EQ(read(), "in the log") << "an index that another user made is not looked at";
}

// SQLite, without an index that is in use, tries some of these for ten seconds at each statement.
TEST_F(DatabaseFiles, a_log_that_is_torn_anywhere_is_read_at_once) {
  make_store();
  std::string copy = elsewhere_ + "/oomcast.db";
  leave_log(file(), copy);
  fs::rename(copy + "-wal", elsewhere_ + "/whole");
  auto reads = [&] {
    auto began = std::chrono::steady_clock::now();
    auto store = Store::open(elsewhere_);
    bool fine = store && store->episode(std::nullopt);
    return fine && std::chrono::steady_clock::now() - began < 5s;
  };
  for (bool stale : {false, true}) {
    if (stale) std::ofstream(copy + "-shm") << std::string(32768, '\x5a');
    for (std::uintmax_t size : {0u, 1u, 31u, 32u, 33u, 56u, 4151u, 4152u}) {
      fs::copy_file(elsewhere_ + "/whole", copy + "-wal", fs::copy_options::overwrite_existing);
      fs::resize_file(copy + "-wal", size);
      EXPECT_TRUE(reads()) << size << " bytes of it";
    }
    std::ofstream(copy + "-wal") << std::string(9000, '\x5a');
    EXPECT_TRUE(reads()) << "what is no log";
  }
}

TEST_F(DatabaseFiles, a_store_that_is_written_is_read_as_it_is_now) {
  auto writer = keep();
  writer->add(EpisodeFact{test::kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file().c_str(), &db), SQLITE_OK);
  for (const char* name : {"one", "two", "three"}) {
    ASSERT_EQ(sqlite3_exec(db, fmt::format("UPDATE episodes SET name='{}'", name).c_str(), nullptr, nullptr,
                           nullptr),
              SQLITE_OK);
    EXPECT_EQ(last().told.episode.id, name);
  }
  sqlite3_close(db);
}

TEST_F(DatabaseFiles, a_store_is_not_kept_where_another_user_could_replace_it) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives directories to others";
  std::string inner = dir_ + "/inner";
  ASSERT_TRUE(StoreWriter::keep(inner, info()));
  ASSERT_EQ(chown(dir_.c_str(), kOther, kOther), 0);
  for (const std::string& directory : {dir_, inner}) {
    auto refused = StoreWriter::keep(directory, info());
    ASSERT_FALSE(refused) << directory;
    EXPECT_NE(refused.error().message.find(dir_ + " belongs to uid 65534"), std::string::npos)
        << refused.error().message;
  }
  EXPECT_TRUE(Store::open(inner)) << "it is read there";
}

TEST_F(DatabaseFiles, a_recording_in_another_users_directory_shares_nothing_with_him) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives directories to others";
  ASSERT_EQ(chown(dir_.c_str(), kOther, kOther), 0);
  auto made = StoreWriter::record(recording(), info(), false);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(fs::exists(recording() + "-wal"));
  EXPECT_FALSE(fs::exists(recording() + "-shm"));
  (*made)->add(sample(job_, 1000, MiB(100)));
  ASSERT_TRUE((*made)->finish());
  EXPECT_TRUE(RecordingReader::open(recording()));
  EXPECT_EQ(listing(dir_).size(), 1u);
  // Of his, it could be changed while it is written.
  std::ofstream(dir_ + "/next.db-wal").close();
  ASSERT_EQ(chown((dir_ + "/next.db-wal").c_str(), kOther, kOther), 0);
  auto refused = StoreWriter::record(dir_ + "/next.db", info(), false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("next.db-wal beside it belongs to uid 65534"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace oomcast
