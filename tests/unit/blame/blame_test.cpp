#include "blame/blame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fixture_tree.h"

namespace oomcast {
namespace {

struct Fixture {
  FixtureTree tree;
  int page_tables_mib = 1;
  std::map<std::uint32_t, Bytes> baselines;
  std::set<std::uint32_t> read;
  Blame blame;
  explicit Fixture(std::unordered_set<std::uint32_t> unread = {}, bool blind = false,
                   std::size_t max_noted = 512)
      : blame(config_with(std::move(unread), blind, max_noted)) {}

  Blame::Config config_with(std::unordered_set<std::uint32_t> unread, bool blind, std::size_t max_noted) {
    Blame::Config config;
    config.roots = tree.roots();
    config.unread = std::move(unread);
    config.blind = blind;
    config.max_samples = 256;
    config.max_noted = max_noted;
    config.boot_time = [] { return std::chrono::seconds(2000); };
    config.on_read = [this](std::uint32_t pid) { read.insert(pid); };
    config.on_baseline = [this](std::uint32_t pid, Bytes resident) { baselines[pid] = resident; };
    return config;
  }

  void process(int pid, int anon_mib, int own_mib, const std::string& stack = "0", int start = 173001) {
    std::string dir = "proc/" + std::to_string(pid);
    tree.write(dir + "/stat", std::to_string(pid) +
                                  " (python3) S 1 1 1 0 -1 4194560 120 0 3 0 5 7 0 0 20 0 9 0 " +
                                  std::to_string(start) + " 3133440 427 18446744073709551615 1 1 " + stack +
                                  " 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
    auto kib = [](int mib) { return std::to_string(mib * 1024); };
    tree.write(dir + "/status",
               "Name:\tpython3\nTgid:\t7\nPid:\t7\nRssAnon:\t" + kib(anon_mib) +
                   " kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\nVmSwap:\t0 kB\nVmLck:\t0 kB\nVmPTE:\t" +
                   kib(page_tables_mib) + " kB\n");
    tree.write(dir + "/maps", "00000000-20000000 rw-p 00000000 00:00 0\n");
    constexpr std::uint64_t kOwn = std::uint64_t{1} << 63 | std::uint64_t{1} << 56;
    std::vector<std::uint64_t> pages(MiB(512).count / 4096);
    std::fill_n(pages.begin(), MiB(own_mib).count / 4096, kOwn);
    tree.write(dir + "/pagemap", {reinterpret_cast<const char*>(pages.data()), pages.size() * sizeof(kOwn)});
  }

  // As one whose status takes the kernel too long to read.
  void has_no_status(int pid, int anon_mib) {
    std::string dir = "proc/" + std::to_string(pid);
    tree.write(dir + "/status", "refused");
    tree.write(dir + "/statm", "400000 " + std::to_string(anon_mib * 256 + 1000) + " 1000 0 0 0 0\n");
  }
  void cannot_be_read(int pid) {
    has_no_status(pid, 0);
    tree.write("proc/" + std::to_string(pid) + "/statm", "refused");
  }

  void begin_with(std::initializer_list<std::uint32_t> pids) {
    for (std::uint32_t pid : pids) blame.note(pid);
    blame.begin();
  }
};

wire::Fault fault_of(std::uint32_t pid, std::uint64_t start, Bytes anon) {
  wire::Fault fault;
  fault.task.id = {pid, start};
  fault.weight = MiB(1);
  fault.faults = 1;
  fault.memory.emplace().anon = anon;
  return fault;
}

TEST(Blame, what_a_process_held_that_there_was_no_room_to_note_is_no_growth) {
  Fixture f({}, false, 1);
  f.process(6, 10, 10);
  f.process(7, 1000, 500);
  f.begin_with({6, 7});
  EXPECT_FALSE(f.baselines.contains(7));
  f.blame.add(fault_of(7, 173001, MiB(1000)));
  f.blame.add(fault_of(7, 173001, MiB(1005)));
  f.process(7, 1010, 510);
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1), 0.5);
  EXPECT_EQ(report.not_noted, 1u);
  ASSERT_EQ(report.processes.size(), 2u);
  const BlameProcess& p = report.processes.front();
  EXPECT_EQ(p.process.id.tgid, 7u);
  EXPECT_EQ(p.grown(), MiB(10));
  Bytes touched;
  for (const BlameSite& site : p.sites) touched += site.touched;
  EXPECT_LE(touched, MiB(10)) << "123 faults of its life are not what two samples stand for";
}

TEST(Blame, a_kernel_thread_takes_no_place_of_a_process) {
  Fixture f({}, false, 1);
  f.tree.write(
      "proc/2/stat",
      "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 18446744073709551615 0 0 0 0\n");
  f.process(7, 100, 100);
  f.begin_with({2, 7});
  EXPECT_EQ(f.baselines.count(7), 1u);
}

TEST(Blame, a_process_that_began_in_the_window_began_with_nothing) {
  Fixture f;
  f.process(6, 10, 10);
  f.begin_with({6});
  f.process(7, 100, 100, "0", 200001);
  f.blame.add(fault_of(7, 200001, MiB(60)));
  f.blame.end();
  EXPECT_EQ(f.blame.finish(Seconds(1)).processes.front().grown(), MiB(100));
}

// As `sh -c 'sleep 5; exec python app.py'` does under a look.
TEST(Blame, a_program_that_is_executed_before_any_fault_was_seen_begins_with_nothing) {
  Fixture f;
  f.process(7, 100, 100, "4096");
  f.process(8, 100, 100, "4096");
  f.begin_with({7, 8});
  f.process(7, 130, 130, "8192");
  f.process(8, 130, 130, "4096");
  for (std::uint32_t pid : {7U, 8U}) {
    wire::Fault fault;
    fault.task.id = {pid, 173001};
    fault.weight = MiB(1);
    fault.faults = 1;
    f.blame.add(fault);
  }
  f.blame.end();
  std::map<std::uint32_t, Bytes> grown;
  for (const BlameProcess& p : f.blame.finish(Seconds(1)).processes) grown[p.process.id.tgid] = p.grown_anon;
  EXPECT_EQ(grown, (std::map<std::uint32_t, Bytes>{{7, MiB(130)}, {8, MiB(30)}}));
}

TEST(Blame, whose_page_tables_are_large_is_not_walked) {
  Fixture f;
  f.page_tables_mib = 33;
  f.process(7, 100, 100);
  f.begin_with({7});
  f.process(7, 130, 130);
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1));
  EXPECT_EQ(report.processes.front().grown_anon, MiB(30));
  EXPECT_EQ(report.processes.front().grown_uss, std::nullopt);
}

TEST(Blame, that_is_blind_reads_nobody_and_tells_of_all_what_they_grew_by) {
  Fixture f({}, true);
  for (int pid : {7, 8}) f.process(pid, 100, 100);
  f.begin_with({7, 8});
  for (int pid : {7, 8}) f.process(pid, 130, 130);
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1));
  EXPECT_TRUE(f.read.empty());
  ASSERT_EQ(report.processes.size(), 2u);
  for (const BlameProcess& p : report.processes) EXPECT_EQ(p.grown_anon, MiB(30));
  EXPECT_EQ(report.unread.size(), 2u);
}

TEST(HoldsSite, whoever_was_looked_at_for_the_most_part_leads_to_half_of_its_blocks) {
  EXPECT_TRUE(holds_site(1, 0, 1, 1));
  EXPECT_TRUE(holds_site(1, 0, 1, 0.75)) << "one of four could not be read";
  EXPECT_TRUE(holds_site(2, 0, 4, 1));
  EXPECT_FALSE(holds_site(1, 0, 4, 1));
}

TEST(HoldsSite, one_block_that_a_small_sample_leads_to_tells_nothing) {
  EXPECT_FALSE(holds_site(1, 0, 100, 0.005));
  EXPECT_TRUE(holds_site(3, 0, 1000, 0.005));
  EXPECT_FALSE(holds_site(2, 0, 1000, 0.005));
}

TEST(HoldsSite, the_block_that_elements_stand_in_is_no_sample) {
  EXPECT_TRUE(holds_site(0, 1, 1, 0.005));
  EXPECT_TRUE(holds_site(0, 1, 2, 0.005));
  EXPECT_FALSE(holds_site(0, 1, 100, 0.005)) << "of lists that others have";
}

// Two lines below one caller, with what each has grown by.
BlameProcess of_two_lines(Bytes first, Bytes second) {
  auto python = [](const char* function, std::uint32_t line) {
    return Frame{Frame::Kind::python, function, "/train.py", line};
  };
  BlameProcess out;
  out.grown_anon = first + second;
  BlameSite site;
  site.stack = {python("run", 9), python("parse", 3), {Frame::Kind::native, "alloc", "python3", {}}};
  site.grown = site.touched = first;
  out.sites.push_back(site);
  site.stack = {python("run", 9), python("index", 5)};
  site.grown = site.touched = second;
  out.sites.push_back(site);
  out.holders.emplace().all.push_back(
      {Holder{"rows in __main__", "dict", 90, 80, "Row", MiB(20), MiB(19)}, 0});
  return out;
}

TEST(SmallObjects, whose_adding_nobody_saw_are_of_no_line_but_of_a_container) {
  BlameProcess process = of_two_lines(MiB(14), MiB(6));
  join_small_objects(process, std::vector<double>{1, 0.5});
  ASSERT_EQ(process.sites.size(), 3u);
  const BlameSite& joined = process.sites[2];
  EXPECT_TRUE(joined.small_objects);
  EXPECT_FALSE(joined.adds);
  EXPECT_EQ(joined.grown, MiB(17));
  EXPECT_EQ(process.sites[0].grown, Bytes{});
  EXPECT_EQ(process.sites[1].grown, MiB(3));
  ASSERT_EQ(joined.stack.size(), 1u);
  EXPECT_EQ(joined.stack[0].function, "run");
  EXPECT_EQ(joined.stack[0].line, std::nullopt) << "the next line may be the one that keeps";
  EXPECT_EQ(joined.held_by, 0u);
}

// A comprehension of strings that go meets each new page before the line whose dicts stay.
TEST(SmallObjects, that_one_line_alone_meets_need_not_be_those_that_it_keeps) {
  BlameProcess process = of_two_lines(MiB(20), Bytes{});
  process.sites.pop_back();
  join_small_objects(process, std::vector<double>{1});
  ASSERT_EQ(process.sites.size(), 2u);
  ASSERT_EQ(process.sites[1].stack.size(), 1u);
  EXPECT_EQ(process.sites[1].stack[0].function, "run");
  EXPECT_EQ(process.sites[1].stack[0].line, std::nullopt);
}

TEST(SmallObjects, that_two_lines_of_a_function_meet_are_not_said_to_be_of_that_function) {
  BlameProcess process = of_two_lines(MiB(14), MiB(6));
  process.sites[0].stack.insert(process.sites[0].stack.begin() + 2,
                                {Frame::Kind::python, "parse.<locals>.<listcomp>", "/train.py", 3});
  process.sites[1].stack.back() = {Frame::Kind::python, "parse", "/train.py", 3};
  join_small_objects(process, std::vector<double>{1, 1});
  ASSERT_EQ(process.sites.size(), 3u);
  ASSERT_EQ(process.sites[2].stack.size(), 1u);
  EXPECT_EQ(process.sites[2].stack[0].function, "run");
}

TEST(SmallObjects, are_of_the_lines_that_were_seen_to_add_them_to_what_holds_them) {
  BlameProcess process = of_two_lines(MiB(14), MiB(6));
  const Stack keeps = {{Frame::Kind::python, "keep", "/train.py", 7}},
              imports = {{Frame::Kind::python, "load", "/train.py", 2}};
  process.holders->all[0].additions = {{keeps, 30}, {imports, 10}};
  join_small_objects(process, std::vector<double>{1, 1});
  ASSERT_EQ(process.sites.size(), 4u);
  const BlameSite &first = process.sites[2], &second = process.sites[3];
  EXPECT_EQ(first.stack, keeps);
  EXPECT_EQ(first.grown, MiB(15));
  EXPECT_TRUE(first.adds);
  EXPECT_FALSE(first.small_objects);
  EXPECT_EQ(first.held_by, 0u);
  EXPECT_EQ(second.stack, imports);
  EXPECT_EQ(second.grown, MiB(5));
}

TEST(SmallObjects, more_than_their_containers_hold_are_of_nobody) {
  BlameProcess process = of_two_lines(MiB(70), MiB(30));
  const Stack keeps = {{Frame::Kind::python, "keep", "/train.py", 7}};
  process.holders->all[0].additions = {{keeps, 30}};
  join_small_objects(process, std::vector<double>{1, 1});
  ASSERT_EQ(process.sites.size(), 4u);
  EXPECT_EQ(process.sites[2].held_by, std::nullopt);
  EXPECT_EQ(process.sites[2].grown, MiB(81));
  EXPECT_EQ(process.sites[3].held_by, 0u);
  EXPECT_EQ(process.sites[3].grown, MiB(19));
}

TEST(SmallObjects, that_are_few_stay_where_they_are) {
  BlameProcess few = of_two_lines(MiB(5), MiB(5));
  join_small_objects(few, std::vector<double>{0.05, 0.05});
  EXPECT_EQ(few.sites.size(), 2u);
}

TEST(Blame, of_what_may_not_be_read_only_the_counters_count) {
  Fixture f({7});
  f.process(7, 100, 100);
  f.process(8, 100, 100);
  f.begin_with({7, 8});
  f.process(7, 130, 130);
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1));
  EXPECT_EQ(report.processes.front().grown_anon, MiB(30));
  EXPECT_EQ(report.processes.front().grown_uss, std::nullopt);
  EXPECT_EQ(report.unread, std::vector<std::string>{"python3[7]"});
  EXPECT_EQ(f.read, std::set<std::uint32_t>{8});
}

TEST(Blame, growth_is_what_came_between_the_beginning_and_the_end_of_the_window) {
  Fixture f;
  f.process(7, 100, 100);
  f.process(8, 50, 50);
  f.blame.note(7);
  f.blame.note(8);
  f.process(7, 130, 130);  // while 8 was being read: no fault is watched yet
  f.blame.begin();
  EXPECT_EQ(f.baselines.at(7), MiB(130));
  f.process(7, 170, 165);
  f.blame.end();
  f.process(7, 300, 300);  // while what was seen is being weighed: its faults are nowhere
  BlameReport report = f.blame.finish(Seconds(1));
  ASSERT_EQ(report.processes.size(), 2u);
  const BlameProcess& p = report.processes.front();
  EXPECT_EQ(p.process.id.tgid, 7u);
  EXPECT_FALSE(p.exited);
  EXPECT_EQ(p.grown_anon, MiB(40));
  EXPECT_EQ(p.grown_uss, MiB(35));
  EXPECT_EQ(report.grown, MiB(40));
}

TEST(Blame, a_process_that_is_gone_at_the_end_has_exited) {
  Fixture f;
  f.process(7, 100, 100);
  f.begin_with({7});
  std::filesystem::remove_all(f.tree.roots().proc() + "/7");
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1));
  ASSERT_EQ(report.processes.size(), 1u);
  EXPECT_TRUE(report.processes.front().exited);
  EXPECT_EQ(report.grown, Bytes{});
}

TEST(Blame, a_zombie_has_exited) {
  Fixture f;
  f.process(7, 100, 100);
  f.begin_with({7});
  f.tree.write(
      "proc/7/stat",
      "7 (python3) Z 1 1 1 0 -1 4194564 120 0 3 0 5 7 0 0 20 0 1 0 173001 0 0 18446744073709551615 0 0 "
      "0 0\n");
  f.tree.write("proc/7/status", "Name:\tpython3\nTgid:\t7\nPid:\t7\n");
  f.blame.end();
  EXPECT_TRUE(f.blame.finish(Seconds(1)).processes.front().exited);
}

TEST(Blame, who_takes_too_long_to_tell_is_told_by_its_pages_and_has_not_exited) {
  Fixture f;
  f.process(7, 100, 100);
  f.has_no_status(7, 100);
  f.begin_with({7});
  EXPECT_FALSE(f.baselines.contains(7));
  f.has_no_status(7, 140);
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1));
  const BlameProcess& p = report.processes.front();
  EXPECT_FALSE(p.exited);
  EXPECT_FALSE(p.growth_unknown);
  EXPECT_EQ(p.grown(), MiB(40));
  EXPECT_EQ(p.grown_shmem, std::nullopt);
}

TEST(Blame, what_was_in_swap_when_its_status_could_be_read_has_not_gone_when_it_cannot) {
  Fixture f;
  f.process(7, 100, 100);
  f.tree.write("proc/7/status",
               "Tgid:\t7\nRssAnon:\t102400 kB\nRssFile:\t0 kB\nRssShmem:\t1024 kB\nVmSwap:\t512000 kB\n");
  f.begin_with({7});
  f.has_no_status(7, 140);
  f.blame.end();
  EXPECT_EQ(f.blame.finish(Seconds(1)).processes.front().grown(), MiB(40));
}

TEST(Blame, growth_of_who_could_not_be_read_is_unknown_and_it_has_not_exited) {
  Fixture f;
  for (int pid : {7, 8}) f.process(pid, 100, 100);
  f.cannot_be_read(7);
  f.begin_with({7, 8});
  f.process(7, 100, 100);
  f.cannot_be_read(8);
  f.blame.end();
  BlameReport report = f.blame.finish(Seconds(1));
  ASSERT_EQ(report.processes.size(), 2u);
  EXPECT_EQ(report.grown, Bytes{});
  for (const BlameProcess& p : report.processes) {
    EXPECT_FALSE(p.exited) << p.process.id.tgid;
    EXPECT_TRUE(p.growth_unknown) << p.process.id.tgid;
    EXPECT_EQ(p.grown_shmem, std::nullopt);
  }
}

TEST(Blame, who_could_not_be_read_when_the_window_began_grows_from_its_first_fault_on) {
  Fixture f;
  f.process(7, 100, 100);
  f.cannot_be_read(7);
  f.begin_with({7});
  f.blame.add(fault_of(7, 173001, MiB(100)));
  f.process(7, 130, 130);
  f.blame.end();
  EXPECT_EQ(f.blame.finish(Seconds(1)).processes.front().grown(), MiB(30));
}

TEST(Blame, who_loses_its_memory_while_its_pages_are_looked_at_has_not_grown) {
  Fixture f;
  f.process(7, 100, 100);
  f.process(8, 100, 100);
  f.begin_with({7, 8});
  f.process(7, 140, 140);
  f.process(8, 140, 140);
  f.blame.end();
  f.process(7, 3, 3);  // the OOM reaper
  std::filesystem::remove_all(f.tree.roots().proc() + "/8");
  BlameReport report = f.blame.finish(Seconds(1));
  ASSERT_EQ(report.processes.size(), 2u);
  for (const BlameProcess& p : report.processes) {
    EXPECT_EQ(p.exited, p.process.id.tgid == 8);
    EXPECT_LE(p.grown(), Bytes{}) << p.process.id.tgid;
    EXPECT_EQ(p.unseen, Bytes{}) << "growth of which no stack tells";
  }
}

// A program of which two lines are seen, told apart by how many Python frames lead there.
struct Watched : Fixture {
  static constexpr std::size_t kKeeper = 1, kToucher = 2;
  WatchedAllocations watched;
  std::vector<wire::LivingBlock> living;

  static MonoTime at(Nanos since) { return MonoTime{} + std::chrono::seconds(100) + since; }
  static wire::Task task() {
    wire::Task out;
    out.id = {7, 173001};
    return out;
  }
  int own_mib;  // of addresses from 0 on there is memory behind so many
  explicit Watched(Nanos until, int own = 500) : own_mib(own) {
    process(7, 10, own);
    begin_with({7});
    watched.tgid = 7;
    watched.begin = at({});
    watched.until.fill(at(until));
    watched.frees_until = at(until);
    watched.end = at(std::chrono::seconds(10));
    watched.sample = Bytes{1};
  }
  void touch(std::uint64_t address, Bytes weight, std::size_t frames = kToucher) {
    wire::Fault fault;
    fault.task = task();
    fault.time = at({});
    fault.address = address;
    fault.weight = weight;
    fault.faults = 1;
    fault.python.resize(frames);
    blame.add(fault);
  }
  void keep(Nanos born, std::uint64_t address, Bytes size) {
    wire::Allocation a;
    a.task = task();
    a.time = a.born = at(born);
    a.address = address;
    a.size = a.weight = size;
    a.python.resize(kKeeper);
    blame.add(std::move(a));
    living.push_back({address, at(born)});
  }
  BlameProcess after(int grown_mib) {
    process(7, 10 + grown_mib, own_mib);
    blame.end();
    blame.add_living(7, living);
    blame.set_watched(watched);
    return blame.finish(Seconds(10)).processes.front();
  }
  static Bytes grown(const BlameProcess& process, std::size_t frames) {
    for (const BlameSite& site : process.sites)
      if (static_cast<std::size_t>(std::ranges::count(site.stack, Frame::Kind::python, &Frame::kind)) ==
          frames)
        return site.grown;
    return {};
  }
};

using namespace std::chrono_literals;

TEST(Blame, of_a_program_that_was_slowed_small_blocks_that_stay_do_not_explain_all_that_it_grew_by) {
  Watched f(440ms);
  f.watched.taken = 0.225;
  for (int i = 0; i < 44; ++i) f.keep(i * 10ms, 0x40000000 + static_cast<std::uint64_t>(i) * 0x10000, KiB(4));
  for (int i = 0; i < 200; ++i) f.touch(static_cast<std::uint64_t>(MiB(i).count), MiB(1));
  BlameProcess process = f.after(204);
  EXPECT_GT(Watched::grown(process, Watched::kToucher), MiB(190));
  EXPECT_LT(Watched::grown(process, Watched::kKeeper), MiB(14));
}

TEST(Blame, of_a_program_that_was_slowed_what_breakpoints_may_explain_is_its_kept_blocks) {
  Watched f(440ms);
  f.watched.taken = 0.225;
  for (int i = 0; i < 44; ++i)
    f.keep(i * 10ms, 0x40000000 + static_cast<std::uint64_t>(i) * 0x10000, KiB(32));
  for (int i = 0; i < 200; ++i) f.touch(static_cast<std::uint64_t>(MiB(i).count), MiB(1));
  EXPECT_GT(Watched::grown(f.after(204), Watched::kKeeper), MiB(203));
}

TEST(Blame, of_a_long_look_all_growth_has_its_samples) {
  Watched f(10s);
  for (int i = 0; i < 480; ++i)
    f.touch(static_cast<std::uint64_t>(MiB(i).count), MiB(1), i < 120 ? Watched::kKeeper : Watched::kToucher);
  f.process(7, 490, f.own_mib);
  f.blame.end();
  BlameProcess process = f.blame.finish(Seconds(3600)).processes.front();
  EXPECT_EQ(process.unseen, Bytes{});
  EXPECT_NEAR(Watched::grown(process, Watched::kKeeper).as_double(), MiB(120).as_double(),
              MiB(4).as_double());
  EXPECT_NEAR(Watched::grown(process, Watched::kToucher).as_double(), MiB(360).as_double(),
              MiB(4).as_double());
}

TEST(Blame, a_large_block_that_nobody_touches_is_not_kept) {
  Watched f(10s, 100);
  f.keep(1s, static_cast<std::uint64_t>(MiB(128).count), MiB(256));
  for (int i = 0; i < 50; ++i) f.touch(static_cast<std::uint64_t>(MiB(i).count), MiB(1));
  BlameProcess process = f.after(50);
  EXPECT_EQ(Watched::grown(process, Watched::kKeeper), Bytes{});
  EXPECT_EQ(Watched::grown(process, Watched::kToucher), MiB(50));
}

}  // namespace
}  // namespace oomcast
