// A store's files: who may read them, damaged ones, those of other versions.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "store/kept_store.h"
#include "store/open.h"
#include "store/schema_1.h"
#include "store/store.h"

namespace oomcast {
namespace {

using namespace test;

TEST(Database, what_the_system_refuses_is_told_in_its_words) {
  sqlite3* raw = nullptr;
  sqlite3_open_v2("/nowhere/oomcast.db", &raw, SQLITE_OPEN_READWRITE, nullptr);
  DatabaseHandle db(raw);
  EXPECT_EQ(why_failed(raw), "unable to open database file: No such file or directory");
  sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE, nullptr);
  db.reset(raw);
  EXPECT_FALSE(execute(raw, "nothing"));
  EXPECT_EQ(why_failed(raw), "near \"nothing\": syntax error");
}

TEST_F(StoreTest, is_readable_by_its_group_only) {
  umask(0);
  std::filesystem::remove_all(dir_);
  auto writer = keep();
  struct stat what {};
  ASSERT_EQ(stat(dir_.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777, 0750u);
  for (const char* part : {"", "-wal", "-shm"}) {
    ASSERT_EQ(stat((dir_ + "/oomcast.db" + part).c_str(), &what), 0) << part;
    EXPECT_EQ(what.st_mode & 0777, 0640u) << part;
  }
}

TEST_F(StoreTest, refuses_links_and_directories_that_anybody_may_write_to) {
  ASSERT_EQ(symlink("/tmp/oomcast-elsewhere", (dir_ + "/oomcast.db").c_str()), 0);
  auto refused = StoreWriter::keep(dir_, info());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("link"), std::string::npos);
  EXPECT_NE(access("/tmp/oomcast-elsewhere", F_OK), 0);
  std::filesystem::remove(dir_ + "/oomcast.db");
  std::ofstream(dir_ + "/precious") << "x";
  ASSERT_EQ(link((dir_ + "/precious").c_str(), (dir_ + "/oomcast.db").c_str()), 0);
  EXPECT_FALSE(StoreWriter::keep(dir_, info()));
  std::filesystem::remove(dir_ + "/oomcast.db");
  ASSERT_EQ(chmod(dir_.c_str(), 0777), 0);
  EXPECT_FALSE(StoreWriter::keep(dir_, info()));
}

TEST(StoreFiles, are_not_shared_with_other_machines) {
  EXPECT_EQ(shared_file_system(0x6969), "NFS");
  EXPECT_EQ(shared_file_system(0xff534d42), "CIFS");
  EXPECT_EQ(shared_file_system(0x0bd00bd0), "Lustre");
  EXPECT_EQ(shared_file_system(0x47504653), "GPFS");
  EXPECT_EQ(shared_file_system(0x01021997), "9P");
  // ext4, XFS, btrfs, ZFS, tmpfs, ramfs, overlayfs
  for (std::uint32_t local :
       {0xef53u, 0x58465342u, 0x9123683eu, 0x2fc12fc1u, 0x01021994u, 0x858458f6u, 0x794c7630u})
    EXPECT_EQ(shared_file_system(local), "") << local;
}

TEST_F(StoreTest, says_that_nothing_is_there) {
  auto store = Store::open(dir_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().exit_code, 1);
  ASSERT_TRUE(keep()->finish());
  auto none = read().episode(std::nullopt);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no OOM kill"), std::string::npos);
}

TEST_F(StoreTest, whose_making_was_cut_short_has_no_kills_and_can_be_written) {
  std::string file = dir_ + "/oomcast.db";
  std::ofstream(file).close();
  auto says = [&] {
    auto store = Store::open(dir_);
    return !store ? store.error().message : store->episode(std::nullopt).error().message;
  };
  EXPECT_NE(says().find("no OOM kill"), std::string::npos) << says();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_NE(says().find("no OOM kill"), std::string::npos) << says();
  ASSERT_TRUE(keep()->finish());
  EXPECT_TRUE(Store::open(dir_));
}

TEST_F(StoreTest, opens_a_recording_too) {
  std::string file = dir_ + "/run.db";
  auto made = StoreWriter::record(file, info(), false);
  ASSERT_TRUE(made);
  for (int s = 0; s < 10; ++s) (*made)->add(sample(job_, 990 + s, MiB(100)));
  (*made)->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE((*made)->finish());
  auto store = Store::open(file);
  ASSERT_TRUE(store) << store.error().message;
  auto e = store->episode(std::nullopt);
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_EQ(e->samples.size(), 10u) << "also those that did not change";
}

TEST_F(StoreTest, survives_damage_anywhere) {
  auto writer = keep();
  for (int s = 0; s < 200; ++s) {
    writer->add(sample(job_, 900 + s, MiB(100 + s)));
    if (s % 20 == 0)
      writer->add(EpisodeFact{kill(static_cast<std::uint64_t>(s + 1), 900 + s, 100 + s, job_)});
  }
  ASSERT_TRUE(writer->finish());
  std::string file = dir_ + "/oomcast.db";
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::mt19937 random(1);
  for (int round = 0; round < 150; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 1 + round % 40; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (round % 5 == 0) damaged.resize(random() % damaged.size());
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    auto store = Store::open(dir_);
    if (!store) continue;
    (void)store->episodes();
    (void)store->episode(std::nullopt);
    for (std::int64_t row = 1; row < 12; ++row) (void)store->episode_at(row, 30min);
  }
}

struct Lack {
  std::string name, sql;
};
const std::string kEvidence =
    "DROP TABLE growth_evidence; DROP TABLE growth_containers; DROP TABLE growth_adders;";
const std::string kGrowth =
    "DROP TABLE forecast_evidence; DROP TABLE growth_sites; DROP TABLE growth_code; DROP TABLE "
    "growth_holders;" +
    kEvidence;
const std::string kMachine = kGrowth +
                             "DROP TABLE machine_at_kill; DROP TABLE zones_at_kill; DROP TABLE slabs_at_kill;"
                             "PRAGMA user_version=2;";
const std::string kCode = kMachine + "DROP TABLE victim_code;";
const std::string kGpu =
    kCode + "DROP TABLE gpu_samples; DROP TABLE gpu_events; DROP TABLE forecast_devices;";

// As earlier versions wrote it.
class OlderStore : public StoreTest, public testing::WithParamInterface<Lack> {};

TEST_P(OlderStore, is_read_and_gone_on_with) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 100, job_)});
  ASSERT_TRUE(writer->finish());
  writer.reset();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((dir_ + "/oomcast.db").c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db, GetParam().sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  {
    auto store = Store::open(dir_);
    ASSERT_TRUE(store) << store.error().message;
    auto e = store->episode(std::nullopt);
    ASSERT_TRUE(e) << e.error().message;
    EXPECT_FALSE(e->told.episode.machine);
    const std::vector<GrewFrom>& sites = e->told.episode.grew_from.sites;
    EXPECT_EQ(sites.size(), GetParam().sql == kEvidence ? 2u : 0u);
    for (const GrewFrom& site : sites) {
      EXPECT_EQ(site.evidence.kept, std::nullopt) << "it was not recorded";
      EXPECT_EQ(site.sure_share(), 0) << "nothing is certain of it";
    }
    EXPECT_TRUE(e->told.episode.grew_from.holders.empty());
    EXPECT_TRUE(e->unread.empty()) << e->unread.front();
  }
  auto next = keep();
  OomEvent second = kill(1, 2000, 200, job_);
  second.episode.machine.emplace();
  second.episode.machine->mems_allowed = "0-1";
  next->add(EpisodeFact{second});
  ASSERT_TRUE(next->finish());
  auto store = Store::open(dir_);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_EQ(store->episodes()->size(), 2u);
  auto e = store->episode("2020-200");
  ASSERT_TRUE(e) << e.error().message;
  ASSERT_TRUE(e->told.episode.machine);
  EXPECT_EQ(e->told.episode.machine->mems_allowed, "0-1");
  ASSERT_EQ(e->told.episode.grew_from.sites.size(), second.episode.grew_from.sites.size());
  EXPECT_EQ(e->told.episode.grew_from.sites.at(0).code, second.episode.grew_from.sites[0].code);
  EXPECT_EQ(e->told.episode.grew_from.sites.at(0).evidence.kept,
            second.episode.grew_from.sites[0].evidence.kept);
  EXPECT_EQ(e->told.episode.grew_from.holders.size(), second.episode.grew_from.holders.size());
}

INSTANTIATE_TEST_SUITE_P(Without, OlderStore,
                         testing::Values(Lack{"evidence", kEvidence}, Lack{"growth", kGrowth},
                                         Lack{"the_machine", kMachine}, Lack{"the_victims_code", kCode},
                                         Lack{"gpus", kGpu}),
                         [](const auto& of) { return of.param.name; });

TEST_F(StoreTest, leaves_a_file_of_another_schema_as_it_is_and_says_what_to_do) {
  ASSERT_TRUE(keep()->finish());
  std::string file = dir_ + "/oomcast.db";
  for (auto [schema, what] :
       {std::pair("1", "move it away"), std::pair("99", "use the version that wrote it")}) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    ASSERT_EQ(
        sqlite3_exec(db, (std::string("PRAGMA user_version=") + schema).c_str(), nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(db);
    auto opening = open_store(dir_);
    EXPECT_FALSE(opening.db);
    EXPECT_FALSE(opening.broken) << "it is not damaged";
    EXPECT_NE(opening.why.find(what), std::string::npos) << opening.why;
  }
}

TEST_F(StoreTest, opens_a_recording_of_schema_1) {
  std::string file = dir_ + "/old.db";
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, kRecordingOfSchema1, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);
  ASSERT_EQ(chmod(file.c_str(), 0440), 0);
  auto store = Store::open(file);
  ASSERT_TRUE(store) << store.error().message;
  auto all = store->episodes();
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  auto e = store->episode(std::nullopt);
  ASSERT_TRUE(e) << e.error().message;
  const Episode& told = e->told.episode;
  EXPECT_EQ(told.id, "old-1");
  EXPECT_EQ(told.time, at_s(1000));
  EXPECT_EQ(told.limit_cgroup->path, "/job");
  EXPECT_EQ(told.limit_cgroup->id, (CgroupId{Hierarchy::v1, 7}));
  EXPECT_FALSE(told.trigger);
  EXPECT_EQ(told.request.gfp, "0xcc0");
  ASSERT_EQ(told.victims.size(), 1u);
  const Victim& v = told.victims[0];
  EXPECT_EQ(v.process.id, (TaskId{55, 112})) << "1.12 s after boot, in ticks";
  EXPECT_EQ(v.process.cmdline, (std::vector<std::string>{"py", "a b"}));
  EXPECT_EQ(v.process.cgroup->path, "/job");
  EXPECT_EQ(v.tid, 56u);
  EXPECT_EQ(v.anon, Bytes{1500});
  EXPECT_EQ(v.file, std::nullopt);
  EXPECT_EQ(v.stack, (std::vector<std::uint64_t>{0x7f, 1}));
  ASSERT_EQ(told.grew_most.size(), 1u);
  EXPECT_EQ(told.grew_most[0].grew, Bytes{77});
  ASSERT_EQ(told.chain.size(), 2u);
  EXPECT_EQ(told.chain[1].cgroup->path, "/");
  EXPECT_EQ(told.checks.mark_victim, 1u);
  EXPECT_EQ(told.checks.vmstat, std::nullopt);
  EXPECT_EQ(e->told.first_forecast, at_s(990));
  ASSERT_TRUE(e->told.forecast_before);
  EXPECT_EQ(e->told.forecast_before->forecast.verdict, Verdict::leak);
  EXPECT_EQ(e->samples.size(), 1u);
  EXPECT_EQ(e->samples[0].time, at_s(999));
  EXPECT_EQ(e->forecasts.size(), 1u);
  EXPECT_EQ(e->lost["model_full"], 4u);
  EXPECT_TRUE(e->unread.empty()) << e->unread.front();
}

TEST_F(StoreTest, of_before_gpus_were_followed_is_read_and_gets_their_tables_when_it_is_written_again) {
  {
    auto writer = keep();
    writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
    ASSERT_TRUE(writer->finish());
  }
  for (const char* table : {"gpu_samples", "gpu_evictions", "gpu_events", "gpu_errors", "forecast_devices"})
    ask(std::string("DROP TABLE ") + table);
  EXPECT_TRUE(last().gpu.empty());
  {
    auto writer = keep();
    writer->add(on_card(2000, GiB(1), std::nullopt));
    ASSERT_TRUE(writer->finish());
  }
  EXPECT_EQ(ask("SELECT count(*) FROM gpu_samples"), 1);
  EXPECT_EQ(episodes().size(), 1u);
}

}  // namespace
}  // namespace oomcast
