#include "present/blame_quiet.h"

#include <gtest/gtest.h>

#include "present/blame.h"
#include "present/frames.h"
#include "stream/growth.h"

namespace oomcast {
namespace {

using test::python;

BlameReport varying(Bytes grown) {
  BlameReport out;
  out.scope = "--pid 123";
  out.window = Seconds(30);
  out.grown = grown;
  BlameProcess& p = out.processes.emplace_back();
  p.process.id = {123, 1};
  p.process.comm = "python3";
  p.process.cmdline = {"python3", "job.py"};
  p.grown_anon = grown;
  p.anon = MiB(40);
  p.sites.push_back({{python("step", "/app/job.py", 7)}, grown, MiB(300), 40});
  return out;
}

KeptOfProcess all_watched() {
  KeptOfProcess out;
  out.all_watched = out.watched = Seconds(30);
  return out;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NothingGrows, is_said_of_a_healthy_program_in_a_sentence_with_the_window_and_the_size) {
  BlameReport r = varying(KiB(8));
  r.processes[0].kept = all_watched();
  r.processes[0].sites[0].kept = {KiB(8), MiB(53), 7, 7};
  std::string text = to_text(r);
  EXPECT_TRUE(says(text, "--pid 123: nothing grows: python3[123] job.py kept 8.00 KiB more in 30 s\n"))
      << text;
  EXPECT_TRUE(says(text, "a growth of 34.1 KiB/s would have stood out")) << text;
  EXPECT_FALSE(says(text, "100%")) << text;
  EXPECT_FALSE(says(text, "at most")) << text;
}

TEST(NothingGrows, says_where_it_is_not_known_what_stays) {
  BlameReport r = varying(KiB(80));
  EXPECT_FALSE(says(to_text(r), "seen to stay")) << to_text(r);
  r.processes[0].why_not_kept = "it may not be read";
  EXPECT_TRUE(says(to_text(r), "  which of its allocations stay is not known: it may not be read\n"))
      << to_text(r);
  r.processes[0].why_not_kept.clear();
  r.processes[0].kept = all_watched();
  EXPECT_TRUE(says(to_text(r), "and any whose blocks are seen to stay")) << to_text(r);
}

TEST(NothingGrows, is_not_said_of_a_slow_leak_whose_blocks_were_seen_to_stay) {
  BlameReport r = varying(KiB(36));
  r.processes[0].kept = all_watched();
  r.processes[0].sites[0].kept = {KiB(20), KiB(2), 19, 19};
  EXPECT_EQ(nothing_grows(r), "");
  EXPECT_TRUE(says(to_text(r), "kept: 19 blocks, 20.0 KiB ± 2.00 KiB")) << to_text(r);
}

TEST(NothingGrows, is_said_where_a_few_blocks_were_made_once) {
  BlameReport r = varying(KiB(16));
  r.processes[0].kept = all_watched();
  r.processes[0].sites[0].kept = {KiB(16), KiB(1), 3, 3};
  EXPECT_NE(nothing_grows(r), "");
}

TEST(NothingGrows, is_not_said_where_a_container_grew) {
  BlameReport r = varying(KiB(200));
  r.processes[0].holders.emplace();
  Holder holder{"keep in __main__", "list", 220, 148, "bytes", KiB(180), Bytes()};
  r.processes[0].holders->all.push_back({holder, 0});
  EXPECT_TRUE(grows(r.processes[0]));
  r.processes[0].holders->all[0].holder.added = 1;
  EXPECT_FALSE(grows(r.processes[0]));
}

TEST(NothingGrows, is_not_said_of_more_than_programs_vary_by_whatever_is_known_of_its_lines) {
  EXPECT_NE(nothing_grows(varying(MiB(1))), "");
  EXPECT_EQ(nothing_grows(varying(MiB(1) + KiB(4))), "");
  BlameReport large = varying(MiB(3));
  large.processes[0].anon = MiB(400);
  EXPECT_NE(nothing_grows(large), "") << "1 % of what it has";
  large.processes[0].anon = GiB(400);
  large.processes[0].grown_anon = MiB(17);
  EXPECT_EQ(nothing_grows(large), "");
}

TEST(NothingGrows, is_said_of_several_with_their_sum_and_the_one_that_kept_most) {
  BlameReport r = varying(KiB(300));
  r.processes.push_back(r.processes[0]);
  r.processes[1].process.id = {124, 1};
  r.processes[1].process.cmdline = {};
  r.processes[1].grown_anon = KiB(-900);
  r.grown = KiB(-600);
  EXPECT_TRUE(
      says(to_text(r),
           "nothing grows: 2 processes shrank by 600 KiB (most: python3[123] job.py +300 KiB) in 30 s"))
      << to_text(r);
}

TEST(NothingGrows, is_said_of_processes_alone_where_their_cgroup_grew_beside_them) {
  BlameReport r = varying(KiB(12));
  r.cgroup_grown = MiB(300);
  EXPECT_TRUE(says(to_text(r), "no process grows: ")) << to_text(r);
  EXPECT_TRUE(says(to_text(r), "the cgroup grew by 300 MiB beside them")) << to_text(r);
}

TEST(NothingGrows, is_not_said_where_no_growth_is_known_or_huge_pages_were_taken) {
  BlameReport r = varying(KiB(12));
  r.processes[0].growth_unknown = true;
  EXPECT_EQ(nothing_grows(r), "");
  r = varying(KiB(12));
  r.processes[0].grown_hugetlb = MiB(2);
  EXPECT_EQ(nothing_grows(r), "");
}

TEST(NothingGrows, has_a_line_without_a_tree_for_who_only_varies_beside_one_that_grows) {
  BlameReport r = varying(MiB(30));
  r.processes.push_back(varying(KiB(700)).processes[0]);
  r.processes[1].process.id = {124, 1};
  std::string text = to_text(r);
  EXPECT_TRUE(
      says(text, "python3[124] job.py  +700 KiB  +23.3 KiB/s  2%  no more than a program varies by\n"))
      << text;
}

TEST(Growth, of_a_process_that_only_varied_while_it_was_profiled_has_no_line) {
  GrowthOrigins of;
  GrewFrom& site = of.sites.emplace_back();
  site.of = KiB(8);
  site.grown = KiB(8);
  site.watched = Seconds(5);
  EXPECT_EQ(describe(growth_sources(of)[0], {}),
            "nothing grew in pid 0: it kept 8.00 KiB more in a 5.0 s profile");
  site.of = MiB(50);
  site.grown = MiB(40);
  EXPECT_FALSE(only_varied(growth_sources(of)[0]));
}

}  // namespace
}  // namespace oomcast
