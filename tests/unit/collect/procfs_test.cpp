#include "collect/procfs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "fixture_tree.h"

namespace oomcast {
namespace {

// A /proc/PID/stat line as 6.18 prints it, with `comm` in its parentheses.
std::string stat_line(const std::string& comm) {
  return "4312 (" + comm +
         ") S 4307 4312 3089 0 -1 4194560 120 0 3 0 5 7 0 0 20 0 9 0 173001 3133440 427 18446744073709551615 "
         "1 1 0 0 0 "
         "0 0 0 0 0 0 0 17 1 0 0 0 0 0\n";
}

TEST(ProcStat, fields_are_counted_from_the_last_parenthesis) {
  for (std::string comm : {"cat", ") R 1 (", "a b) S 9", "((", "))", "new\nline", "", "\xff\xfe"}) {
    auto stat = parse_proc_stat(stat_line(comm));
    ASSERT_TRUE(stat) << comm;
    EXPECT_EQ(stat->comm, comm);
    EXPECT_EQ(stat->state, 'S');
    EXPECT_EQ(stat->ppid, 4307u);
    EXPECT_EQ(stat->num_threads, 9u);
    EXPECT_EQ(stat->start_ticks, 173001u);
    EXPECT_FALSE(stat->kernel_thread());
  }
}

TEST(ProcStat, where_its_stack_begins_is_unknown_to_who_may_not_look) {
  auto stack_in = [](const char* stack) {
    return parse_proc_stat(
               std::string("7 (sh) S 1 1 1 0 -1 4194560 120 0 3 0 5 7 0 0 20 0 9 0 173001 3133440 427 "
                           "18446744073709551615 94 95 ") +
               stack + " 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n")
        ->stack;
  };
  EXPECT_EQ(stack_in("140720000000"), 140720000000u);
  EXPECT_EQ(stack_in("0"), std::nullopt);
}

TEST(ProcStat, what_is_cut_or_does_not_fit_is_refused) {
  EXPECT_FALSE(parse_proc_stat(""));
  EXPECT_FALSE(parse_proc_stat("12 (cat"));
  EXPECT_FALSE(parse_proc_stat("12 ) S 1 ("));
  EXPECT_FALSE(parse_proc_stat("12 (cat) S 1 2 3"));
  EXPECT_FALSE(parse_proc_stat("12 (cat) S 99999999999 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 1 2\n"));
}

TEST(ProcCgroup, of_who_exits_none_is_told_for_it_shows_in_the_root) {
  auto of = [](const std::string& stat) {
    FixtureTree tree;
    tree.write("proc/4312/cgroup", "5:memory:/\n0::/\n");
    tree.write("proc/4312/stat", stat);
    return *ProcFs(tree.roots()).read_cgroup_of({4312, 173001}, Hierarchy::v1);
  };
  std::string living = stat_line("grow"), exiting = living, another = living, zombie = living;
  exiting.replace(exiting.find("4194560"), 7, "4194564");
  zombie.replace(zombie.find(" S "), 3, " Z ");
  another.replace(another.find("173001"), 6, "173002");
  ASSERT_TRUE(of(living));
  EXPECT_EQ(of(living)->path, "/");
  EXPECT_EQ(of(exiting), std::nullopt);
  EXPECT_EQ(of(zombie), std::nullopt);
  EXPECT_EQ(of(another), std::nullopt);
}

TEST(Cmdline, arguments_are_separated_by_nul_and_may_be_empty) {
  using std::literals::operator""sv;
  EXPECT_EQ(parse_cmdline("python3\0-c\0\0x y\n\0"sv, 4096).args,
            (std::vector<std::string>{"python3", "-c", "", "x y\n"}));
  EXPECT_TRUE(parse_cmdline("", 4096).args.empty());
  EXPECT_EQ(parse_cmdline("nginx: worker", 4096).args, std::vector<std::string>{"nginx: worker"});
}

TEST(ProcStrings, are_the_fields_from_the_48th_on) {
  std::string text = "7 (a ) b) S";
  for (int field = 4; field <= 52; ++field) text += " " + std::to_string(field);
  auto strings = parse_proc_strings(text + "\n");
  ASSERT_TRUE(strings);
  EXPECT_EQ(strings->arguments, 48u);
  EXPECT_EQ(strings->arguments_end, 49u);
  EXPECT_EQ(strings->environment, 50u);
  EXPECT_EQ(strings->environment_end, 51u);
  EXPECT_FALSE(parse_proc_strings(stat_line("cat"))) << "0: they are not told";
  EXPECT_FALSE(parse_proc_strings("7 (cat) S 1 2 3"));
}

TEST(ProcStatus, memory_identity_and_pids_of_every_namespace) {
  ProcStatus s = parse_status(
      "Name:\tcat\nTgid:\t4312\nPid:\t4312\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t4312\t17\t1\nVmHWM:\t    "
      "2000 kB\n"
      "VmRSS:\t    1708 kB\nRssAnon:\t     112 kB\nRssFile:\t    1596 kB\nRssShmem:\t       0 kB\nVmSwap:\t "
      "4 kB\nHugetlbPages:\t    2048 kB\n"
      "Threads:\t3\nTracerPid:\t77\n");
  EXPECT_EQ(s.tgid, 4312u);
  EXPECT_EQ(s.tracer, 77u);
  EXPECT_EQ(s.uid, 1001u);
  EXPECT_EQ(s.ns_pid, (std::vector<std::uint32_t>{4312, 17, 1}));
  EXPECT_EQ(s.rss, KiB(1708));
  EXPECT_EQ(s.rss_anon, KiB(112));
  EXPECT_EQ(s.rss_file, KiB(1596));
  EXPECT_EQ(s.rss_shmem, KiB(0));
  EXPECT_EQ(s.swap, KiB(4));
  EXPECT_EQ(s.rss_peak, KiB(2000));
  EXPECT_EQ(s.hugetlb, MiB(2));
  EXPECT_EQ(s.threads, 3u);
}

TEST(ProcStatus, signals_that_it_takes) {
  ProcStatus s = parse_status(
      "Tgid:\t2\nSigQ:\t0/"
      "1\nSigPnd:\t0000000000000001\nSigBlk:\t0000000000010000\nSigIgn:\t0000000001001000\n"
      "SigCgt:\tfffffffe7ffbfeff\n");
  EXPECT_EQ(s.blocked, 0x10000u);
  EXPECT_EQ(s.caught, 0xfffffffe7ffbfeffu);
  EXPECT_EQ(parse_status("Tgid:\t2\nSigCgt:\tzz\n").caught, std::nullopt);
}

TEST(ProcStatus, a_kernel_thread_has_no_memory_rather_than_none_used) {
  ProcStatus s = parse_status("Name:\tkthreadd\nTgid:\t2\nThreads:\t1\n");
  EXPECT_EQ(s.rss, std::nullopt);
  EXPECT_EQ(s.swap, std::nullopt);
}

TEST(ProcCgroup, v1_takes_the_line_with_the_memory_controller) {
  constexpr std::string_view text =
      "9:name=memory:/decoy\n8:pids:/p\n4:cpu,memory,hugetlb:/docker/a:b\n3:memory_x:/no\n0::/unified\n";
  EXPECT_EQ(parse_proc_cgroup(text, Hierarchy::v1)->path, "/docker/a:b");
  EXPECT_EQ(parse_proc_cgroup(text, Hierarchy::v2)->path, "/unified");
  EXPECT_FALSE(parse_proc_cgroup("8:pids:/p\n", Hierarchy::v1));
}

TEST(ProcCgroup, v2_says_when_the_directory_is_gone) {
  auto c = parse_proc_cgroup("0::/a/b (deleted)\n", Hierarchy::v2);
  EXPECT_EQ(c->path, "/a/b");
  EXPECT_TRUE(c->deleted);
}

TEST(ProcFs, a_process_that_is_gone_is_a_normal_answer) {
  FixtureTree tree;
  tree.make_dir("proc");
  ProcFs proc(tree.roots());
  auto stat = proc.read_stat(1234);
  ASSERT_TRUE(stat.ok());
  EXPECT_EQ(*stat, std::nullopt);
  EXPECT_EQ(*proc.read_status(1234), std::nullopt);
  EXPECT_EQ(*proc.read_statm(1234), std::nullopt);
  EXPECT_EQ(*proc.read_cgroup(1234, Hierarchy::v1), std::nullopt);
  EXPECT_EQ(*proc.read_task_id(1234), std::nullopt);
}

TEST(ProcFs, a_file_that_is_not_the_kernels_is_an_error_that_names_it) {
  FixtureTree tree;
  tree.write("proc/9/stat", "rubbish");
  auto stat = ProcFs(tree.roots()).read_stat(9);
  ASSERT_FALSE(stat.ok());
  EXPECT_NE(stat.error().message.find("/proc/9/stat"), std::string::npos);
}

struct SlowStatus {
  FixtureTree tree;
  Nanos cpu{}, each{};  // of a reading
  ProcFs procfs{tree.roots(), [this] { return cpu += each; }};
  void process(std::uint32_t pid, int start, int of_groups = 65536) {
    std::string dir = "proc/" + std::to_string(pid), line = stat_line("a");
    line.replace(line.find("173001"), 6, std::to_string(start));
    tree.write(dir + "/stat", line);
    std::string groups;
    for (int i = 0; i < of_groups; ++i) groups += "4000000000 ";
    tree.write(dir + "/status", "Tgid:\t" + std::to_string(pid) + "\nGroups:\t" + groups +
                                    "\nVmRSS:\t100 kB\nSigCgt:\t0000000000000200\n");
  }
};

TEST(ProcFs, what_stands_behind_65536_groups_is_read_and_who_takes_long_to_tell_is_not_asked_again) {
  SlowStatus f;
  f.process(7, 1000);
  f.each = ProcFs::kSlowStatus + Nanos(1);
  auto first = f.procfs.read_status(7);
  ASSERT_TRUE(first.ok() && *first);
  EXPECT_EQ((*first)->rss, KiB(100));
  EXPECT_EQ((*first)->caught, 0x200u);
  EXPECT_FALSE(f.procfs.read_status(7).ok());
  f.process(7, 2000);
  EXPECT_TRUE(f.procfs.read_status(7).ok()) << "another process of that number";
}

TEST(ProcFs, who_has_little_to_tell_and_took_long_on_a_slow_machine_is_asked_again) {
  SlowStatus f;
  f.process(7, 1000, 32);
  f.each = 10 * ProcFs::kSlowStatus;
  EXPECT_TRUE(f.procfs.read_status(7).ok());
  EXPECT_TRUE(f.procfs.read_status(7).ok());
}

TEST(ProcFs, many_who_take_long_to_tell_take_a_part_of_a_second) {
  SlowStatus f;
  f.each = std::chrono::milliseconds(10);
  int read = 0;
  for (std::uint32_t pid = 10; pid < 40; ++pid) {
    f.process(pid, 1000);
    read += f.procfs.read_status(pid).ok();
  }
  EXPECT_LE(read, 2 * (ProcFs::kSlowInAll / f.each)) << "of one second, or of two";
}

TEST(ProcFs, pids_are_the_directories_that_are_numbers) {
  FixtureTree tree;
  for (auto name : {"proc/12", "proc/3", "proc/self", "proc/99999999999", "proc/1x"}) tree.make_dir(name);
  EXPECT_EQ(*ProcFs(tree.roots()).list_pids(), (std::vector<std::uint32_t>{3, 12}));
}

TEST(ProcFs, counters_of_the_machine) {
  FixtureTree tree;
  tree.write("proc/meminfo",
             "MemTotal:       24684100 kB\nSwapTotal:  0 kB\nSwapFree: 0 kB\nActive:  7 kB\n");
  tree.write("proc/vmstat", "nr_free_pages 6129087\noom_kill_x 9\noom_kill 3\n");
  tree.write("proc/sys/vm/swappiness", "60\n");
  ProcFs proc(tree.roots());
  EXPECT_EQ(proc.read_meminfo()->total, KiB(24684100));
  EXPECT_EQ(proc.read_meminfo()->swap_free, Bytes{0});
  EXPECT_EQ(proc.read_meminfo()->active_file, std::nullopt);
  EXPECT_EQ(*proc.read_vmstat_oom_kill(), 3u);
  EXPECT_EQ(*proc.read_swappiness(), 60u);
  EXPECT_EQ(proc.read_pressure()->has_value(), false);
}

TEST(ProcFs, knows_whether_the_machine_has_memory_left) {
  auto machine = [](Bytes total, Bytes available) {
    MemInfo info;
    info.total = total;
    info.available = available;
    return info;
  };
  EXPECT_TRUE(machine(GiB(16), GiB(1)).has_room());
  EXPECT_FALSE(machine(GiB(16), MiB(1000)).has_room());
  EXPECT_TRUE(machine(GiB(1024), GiB(4)).has_room());
  EXPECT_FALSE(machine(GiB(1024), GiB(3)).has_room());
  EXPECT_FALSE(machine(GiB(16), MiB(500)).is_short());
  EXPECT_TRUE(machine(GiB(16), MiB(400)).is_short());
  EXPECT_FALSE(machine(GiB(1024), GiB(2)).is_short());
  EXPECT_FALSE(MemInfo{}.is_short()) << "unknown";
  EXPECT_FALSE(MemInfo{}.has_room()) << "unknown";
}

TEST(ProcFs, opens_meminfo_anew_where_the_file_that_it_had_cannot_be_read_any_more) {
  FixtureTree tree;
  tree.make_dir("proc/meminfo");  // opens, and fails at each read
  ProcFs proc(tree.roots());
  EXPECT_FALSE(proc.read_meminfo().ok());
  tree.remove("proc/meminfo");
  tree.write("proc/meminfo", "MemTotal: 1024 kB\n");
  EXPECT_EQ(proc.read_meminfo()->total, MiB(1));
}

TEST(ProcFs, knows_whether_numbers_of_processes_are_the_kernels) {
  FixtureTree tree;
  ProcFs proc(tree.roots());
  auto is = [&](std::uint32_t space, bool foreign) {
    PidNumbers numbers = proc.pid_numbers();
    return numbers.space == space && numbers.foreign == foreign;
  };
  EXPECT_TRUE(is(0, false));  // nothing is told
  std::string self = std::to_string(::getpid());
  tree.make_dir("proc/" + self + "/ns");
  tree.link("proc/self", self);
  EXPECT_TRUE(is(0, false));
  tree.link("proc/" + self + "/ns/pid", "pid:[4026531836]");
  EXPECT_TRUE(is(0, false));
  tree.remove("proc/" + self + "/ns/pid");
  tree.link("proc/" + self + "/ns/pid", "pid:[4026532221]");
  EXPECT_TRUE(is(4026532221, false));
  tree.remove("proc/self");
  tree.link("proc/self", std::to_string(::getpid() + 1));
  EXPECT_TRUE(is(0, true));
}

TEST(ProcFs, reads_this_very_process) {
  ProcFs proc(Roots{});
  auto pid = static_cast<std::uint32_t>(::getpid());
  auto stat = proc.read_stat(pid);
  ASSERT_TRUE(stat.ok() && *stat);
  EXPECT_EQ((*stat)->ppid, static_cast<std::uint32_t>(::getppid()));
  auto status = proc.read_status(pid);
  ASSERT_TRUE(status.ok() && *status);
  EXPECT_EQ((*status)->tgid, pid);
  EXPECT_GT((*status)->rss, KiB(100));
  EXPECT_EQ((*proc.read_task_id(pid))->start_ticks, (*stat)->start_ticks);
}

}  // namespace
}  // namespace oomcast
