// Who writes to a store, one or several, and what waits.
#include <gtest/gtest.h>

#include <filesystem>

#include "store/import.h"
#include "store/kept_store.h"
#include "store/writer.h"

namespace oomcast {
namespace {

using namespace test;

TEST_F(StoreTest, has_an_episode_at_once_and_completes_it) {
  auto writer = keep();
  OomEvent begun = kill(1, 1000, 77, job_);
  begun.episode.victims[0].freed_after.reset();
  writer->add(EpisodeFact{begun, false});
  for (int i = 0; i < 200 && ask("SELECT count(*) FROM episodes") == 0; ++i) usleep(10'000);
  auto all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].complete);
  OomEvent told = kill(1, 999.5, 77, job_);
  told.episode.id = "another, as it began earlier";
  writer->add(EpisodeFact{told});
  ASSERT_TRUE(writer->finish());
  all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].complete);
  EXPECT_EQ(all[0].episode.id, told.episode.id);
  EXPECT_EQ(all[0].time, WallTime(at_s(999.5).time_since_epoch() + kZero));
  EXPECT_EQ(ask("SELECT count(*) FROM victims"), 1);
}

TEST_F(StoreTest, waits_for_another_that_has_it_locked_and_loses_nothing) {
  auto writer = keep();
  sqlite3* db = lock();
  writer->add(sample(job_, 999, MiB(100)));
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  sleep(3);  // longer than SQLite itself waits
  writer->add(sample(job_, 1006, MiB(200)));
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->lost(), 0u);
  EXPECT_TRUE(writer->take_notices().empty());
  EXPECT_EQ(last().samples.size(), 2u);
}

TEST_F(StoreTest, that_is_locked_holds_the_start_up_for_seconds_only_and_is_opened_later) {
  ASSERT_TRUE(keep()->finish());
  sqlite3* db = lock();
  auto began = std::chrono::steady_clock::now();
  auto writer = keep();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 8s);
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->lost(), 0u);
  EXPECT_TRUE(writer->take_notices().empty());
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 1);
}

TEST_F(StoreTest, of_which_another_took_the_place_and_is_locked_is_tried_again) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  for (int i = 0; i < 500 && writer->behind(); ++i) usleep(10'000);
  std::filesystem::rename(dir_ + "/oomcast.db", dir_ + "/elsewhere.db");
  ASSERT_TRUE(keep()->finish());
  sqlite3* db = lock();
  writer->add(EpisodeFact{kill(2, 1010, 78, job_)});
  sleep(3);  // longer than SQLite itself waits
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 1) << "the second";
  EXPECT_EQ(writer->lost(), 0u);
}

TEST_F(StoreTest, whose_list_of_runs_is_damaged_is_put_aside_at_the_start) {
  ASSERT_TRUE(keep()->finish());
  damage("runs");
  auto writer = keep();
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->take_notices().size(), 1u);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM runs"), 1);
}

// The notices of a writer that met the damage with a kill, and has ended since.
std::string met_by_a_kill(std::unique_ptr<StoreWriter> writer, const OomEvent& met) {
  writer->add(EpisodeFact{met});
  for (int i = 0; i < 1000 && writer->behind(); ++i) usleep(10'000);
  EXPECT_FALSE(writer->behind());
  EXPECT_TRUE(writer->finish());
  std::string out;
  for (const std::string& notice : writer->take_notices()) out += notice + "\n";
  return out;
}

TEST_F(StoreTest, whose_index_is_damaged_loses_no_kill) {
  auto writer = keep();
  for (std::uint32_t i = 1; i <= 30; ++i) {
    OomEvent each = kill(i, 100 + 20. * i, 100 + 10 * i, job_);
    each.episode.victims[0].process.comm = "job" + std::to_string(i);
    writer->add(EpisodeFact{each});
  }
  ASSERT_TRUE(writer->finish());
  writer.reset();
  damage("episodes_by_time");
  std::string told = met_by_a_kill(keep(), kill(1, 1000, 7777, job_));
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 31) << told;
  EXPECT_NE(told.find("with 30 OOM episodes of it"), std::string::npos) << told;
  EXPECT_EQ(told.find("could not be taken over"), std::string::npos) << told;
}

TEST_F(StoreTest, whose_kills_are_damaged_says_how_many_could_not_be_taken_over) {
  auto writer = keep();
  for (std::uint32_t i = 1; i <= 3; ++i) writer->add(EpisodeFact{kill(i, 100 + 20. * i, 100 + 10 * i, job_)});
  ASSERT_TRUE(writer->finish());
  writer.reset();
  damage("episodes");
  std::string told = met_by_a_kill(keep(), kill(1, 1000, 7777, job_));
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 1) << told;
  EXPECT_NE(told.find("up to 3 more could not be taken over"), std::string::npos) << told;
}

TEST_F(StoreTest, is_not_waited_for_where_its_disk_stands_still) {
  auto writer = keep();
  sqlite3* db = lock();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  usleep(50'000);  // it waits for the lock, as it would for a disk
  EXPECT_FALSE(writer->ends_within(Nanos{}));
  unlock(db);
  EXPECT_TRUE(writer->ends_within(std::chrono::minutes(1)));
  EXPECT_TRUE(writer->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 1);
}

TEST_F(StoreTest, keeps_half_of_the_room_for_what_not_any_user_can_make_without_end) {
  auto writer = keep();
  sqlite3* db = lock();
  for (std::uint64_t i = 0; i < 2 * StoreWriter::kMaxWaiting; ++i) {
    Sample idle = sample(group("/idle-" + std::to_string(i), 1000 + i), 999, {});
    idle.usage = KiB(4);
    writer->add(std::move(idle));
  }
  EXPECT_GT(writer->lost(), 0u);
  for (int i = 0; i < 1000; ++i) writer->add(sample(job_, 1000 + i, MiB(100 + i)));
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM samples JOIN cgroups ON cgroups.id=cgroup WHERE path='/job'"), 1000);
}

TEST_F(StoreTest, that_has_less_room_lets_the_oldest_samples_go_and_counts_them_but_no_kill) {
  auto writer = keep();
  sqlite3* db = lock();
  constexpr int kSamples = 4000;
  for (unsigned i = 0; i < kSamples; ++i) {
    writer->add(sample(job_, 1000 + i, MiB(100 + i)));
    if (i % 1000 == 0) writer->add(EpisodeFact{kill(1 + i / 1000, 1000. + i, 77 + i, job_)});
  }
  writer->set_room(1.0 / 8);
  EXPECT_GE(writer->lost(), kSamples - StoreWriter::kMaxWaiting / 8 - 2 * StoreWriter::kBatch);
  EXPECT_LE(writer->lost(), static_cast<std::uint64_t>(kSamples));
  std::uint64_t lost = writer->lost();
  writer->set_room(1);
  unlock(db);
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->lost(), lost);
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 4);
  EXPECT_EQ(ask("SELECT max(usage) FROM samples"), MiB(100 + kSamples).count) << "the newest stay";
}

TEST_F(StoreTest, lets_kills_wait_up_to_a_bound_in_bytes_and_counts_the_rest) {
  auto writer = keep();
  sqlite3* db = lock();
  constexpr unsigned kKills = 200;
  for (unsigned i = 1; i <= kKills; ++i) {
    OomEvent line = kill(i, 1000 + 20. * i, 77 + i, job_);
    for (unsigned n = 0; n < Episode::kMaxTasks; ++n) {
      TaskAtKill task;
      task.process = process(10'000 + n, "worker", job_);
      task.process.cmdline = {std::string(2000, 'x')};
      line.episode.tasks.rows.push_back(task);
    }
    writer->add(EpisodeFact{line});
  }
  unlock(db);
  OomEvent after = kill(kKills + 1, 9000, 7777, job_);
  for (int i = 0; i < 500 && ask("SELECT count(*) FROM episodes") == 0; ++i) usleep(10'000);
  writer->add(EpisodeFact{after});
  ASSERT_TRUE(writer->finish());
  auto kept = static_cast<std::uint64_t>(ask("SELECT count(*) FROM episodes"));
  EXPECT_EQ(kept + writer->lost(), kKills + 1);
  EXPECT_GT(writer->lost(), kKills / 2) << "each is 150 KiB";
  EXPECT_GE(kept, StoreWriter::kMaxOfEpisodes / (200 << 10));
  EXPECT_EQ(ask("SELECT count(*) FROM episodes WHERE name='2020-7777'"), 1) << "there is room again";
}

TEST_F(StoreTest, counts_a_kill_once_that_two_oomcasts_saw) {
  auto a = keep(), b = keep();
  a->add(EpisodeFact{kill(1, 1000, 77, job_), false});
  for (int i = 0; i < 200 && ask("SELECT count(*) FROM episodes") == 0; ++i) usleep(10'000);
  b->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(b->finish());
  ASSERT_TRUE(a->finish());
  auto all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].complete) << "the first ended before it told of it";
  EXPECT_EQ(ask("SELECT count(*) FROM runs"), 2);
}

TEST_F(StoreTest, has_the_episode_of_the_oomcast_that_ran_longest) {
  auto until = [&](const std::string& sql, std::int64_t n) {
    for (int i = 0; i < 1000 && ask(sql) != n; ++i) usleep(10'000);
    ASSERT_EQ(ask(sql), n) << sql;
  };
  auto first = keep();
  until("SELECT count(*) FROM runs", 1);
  auto second = keep();
  until("SELECT count(*) FROM runs", 2);
  second->add(EpisodeFact{kill(1, 1000, 77, job_), false});
  until("SELECT count(*) FROM episodes", 1);
  first->add(EpisodeFact{kill(1, 1000, 77, job_)});
  until("SELECT count(*) FROM episodes WHERE complete AND run=1", 1);
  second->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(second->finish());
  EXPECT_EQ(ask("SELECT run FROM episodes"), 1) << "the second, which told of it first, came back to its row";
  auto third = keep();
  third->add(EpisodeFact{kill(1, 2000, 99, job_)});
  until("SELECT run FROM episodes WHERE time_ns>(SELECT min(time_ns) FROM episodes)", 3);
  first->add(EpisodeFact{kill(2, 2000, 99, job_)});
  ASSERT_TRUE(first->finish());
  EXPECT_EQ(ask("SELECT count(*) FROM episodes WHERE run=1"), 2);
  EXPECT_EQ(ask("SELECT count(*) FROM episodes"), 2);
}

TEST_F(StoreTest, takes_an_episode_from_a_log_once_and_completes_the_live_one) {
  auto writer = keep();
  OomEvent live = kill(1, 1000, 77, job_);
  live.episode.request.gfp.reset();
  writer->add(EpisodeFact{live});
  ASSERT_TRUE(writer->finish());
  auto wall = [](double s) { return WallTime(at_s(s).time_since_epoch() + kZero); };
  auto on_v1 = std::make_shared<CgroupRef>(*other_);
  on_v1->id.hierarchy = Hierarchy::v1;
  for (int again = 0; again < 2; ++again) {
    auto import = EpisodeImport::open(dir_, "0.1.0");
    ASSERT_TRUE(import) << import.error().message;
    Episode same = kill(0, 0, 77, job_).episode, older = kill(0, 0, 99, on_v1).episode;
    same.usage = MiB(1);
    same.machine = two_zones();
    same.memory = MemoryAtKill{MiB(1), {}, {}, {}, {}, {}};
    auto a = import->add(same, EpisodeSource::journal, wall(1003), "boot1");  // journald writes no dashes
    ASSERT_TRUE(a);
    EXPECT_FALSE(*a);
    auto b = import->add(older, EpisodeSource::journal, wall(10), "boot-0");
    ASSERT_TRUE(b);
    EXPECT_EQ(*b, again == 0);
    auto c = import->add(same, EpisodeSource::journal, wall(1003), "boot-2");
    ASSERT_TRUE(c);
    EXPECT_EQ(*c, again == 0) << "another boot: another kill";
    ASSERT_TRUE(import->finish());
  }
  auto all = episodes();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].source, EpisodeSource::journal);
  EXPECT_EQ(all[0].time, wall(10));
  EXPECT_EQ(all[0].run->boot_id, "boot-0");
  EXPECT_EQ(all[0].run->hierarchy, Hierarchy::v1) << "this store's own runs are on v2";
  EXPECT_EQ(all[1].source, EpisodeSource::live);
  EXPECT_EQ(all[1].episode.request.gfp, "0xcc0(GFP_KERNEL)") << "only the log knew";
  EXPECT_EQ(all[1].episode.usage, MiB(512)) << "what is known stays";
  auto completed = Store::open(dir_)->episode(all[1].episode.id);
  ASSERT_TRUE(completed);
  ASSERT_TRUE(completed->told.episode.machine);
  EXPECT_EQ(completed->told.episode.machine->zones.size(), 2u);
  EXPECT_EQ(completed->told.episode.memory->anon, MiB(1));
}

TEST_F(StoreTest, what_a_text_file_tells_adds_to_no_other_and_is_of_the_source_that_confirms_it) {
  auto wall = [](double s) { return WallTime(at_s(s).time_since_epoch() + kZero); };
  auto import = EpisodeImport::open(dir_, "0.1.0");
  ASSERT_TRUE(import) << import.error().message;
  Episode bare = kill(0, 0, 77, job_).episode, claim = kill(0, 0, 77, job_).episode;
  bare.request.gfp.reset();
  ASSERT_TRUE(import->add(bare, EpisodeSource::kmsg, wall(1000), "boot-1"));
  ASSERT_TRUE(import->add(claim, EpisodeSource::file, wall(1001), std::nullopt));
  Episode forged = kill(0, 0, 99, job_).episode;
  forged.victims.push_back(forged.victims.front());
  forged.victims.back().tid = 1;
  ASSERT_TRUE(import->add(forged, EpisodeSource::file, wall(2000), std::nullopt));
  ASSERT_TRUE(import->finish());
  auto all = episodes();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].episode.request.gfp);
  EXPECT_EQ(all[1].source, EpisodeSource::file);
  auto store = Store::open(dir_);
  EXPECT_EQ(store->episode(std::nullopt)->source, EpisodeSource::kmsg) << "the newest that is no mere claim";
  auto later = EpisodeImport::open(dir_, "0.1.0");
  ASSERT_TRUE(later);
  auto added = later->add(kill(0, 0, 99, job_).episode, EpisodeSource::journal, wall(2001), "boot-1");
  ASSERT_TRUE(added && later->finish());
  EXPECT_FALSE(*added);
  all = episodes();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].source, EpisodeSource::journal);
  EXPECT_EQ(all[1].episode.victims.size(), 1u) << "whom only the file names was not killed";
}

TEST_F(StoreTest, a_kill_that_only_a_text_file_tells_of_is_none_that_came_before) {
  auto wall = [](double s) { return WallTime(at_s(s).time_since_epoch() + kZero); };
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  auto before_it = [&](EpisodeSource source, double at) {
    auto import = EpisodeImport::open(dir_, "0.1.0");
    EXPECT_TRUE(import && import->add(kill(0, 0, 55, job_).episode, source, wall(at), std::nullopt));
    EXPECT_TRUE(import->finish());
    return Store::open(dir_)->episode(kill(1, 1000, 77, job_).episode.id)->before.at_limit.size();
  };
  EXPECT_EQ(before_it(EpisodeSource::file, 100), 0u);
  EXPECT_EQ(before_it(EpisodeSource::journal, 200), 1u);
}

TEST_F(StoreTest, reads_a_time_that_nobody_can_have_written) {
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  ask("UPDATE episodes SET time_ns=-9223372036854734592 RETURNING 1");
  ASSERT_EQ(episodes().size(), 1u);
  EXPECT_EQ(episodes()[0].time, WallTime{});
}

TEST_F(StoreTest, has_one_run_for_all_that_is_read_from_the_log_of_a_boot) {
  for (int day = 0; day < 3; ++day) {
    auto import = EpisodeImport::open(dir_, "0.1.0");
    ASSERT_TRUE(import) << import.error().message;
    ASSERT_TRUE(import->add(kill(0, 0, 77 + day, job_).episode, EpisodeSource::journal,
                            WallTime(at_s(1000 + 100 * day).time_since_epoch() + kZero), "boot-1"));
    ASSERT_TRUE(import->finish());
  }
  EXPECT_EQ(episodes().size(), 3u);
  EXPECT_EQ(ask("SELECT count(*) FROM runs"), 1);
}

TEST_F(StoreTest, has_the_live_episode_in_place_of_the_one_of_the_log) {
  auto import = EpisodeImport::open(dir_, "0.1.0");
  ASSERT_TRUE(import);
  ASSERT_TRUE(import->add(kill(0, 0, 77, job_).episode, EpisodeSource::kmsg,
                          WallTime(at_s(1001).time_since_epoch() + kZero), "boot-1"));
  ASSERT_TRUE(import->finish());
  auto writer = keep();
  writer->add(EpisodeFact{kill(1, 1000, 77, job_)});
  ASSERT_TRUE(writer->finish());
  auto all = episodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].source, EpisodeSource::live);
  EXPECT_EQ(all[0].episode.time, at_s(1000));
}

}  // namespace
}  // namespace oomcast
