#include "present/blame_brief.h"

#include <gtest/gtest.h>

#include <string>

#include "present/blame.h"
#include "present/blame_json.h"
#include "present/frames.h"

namespace oomcast {
namespace {

using test::native;
using test::python;

BlameSite site(Stack stack, Bytes grown) {
  BlameSite out;
  out.stack = std::move(stack);
  out.grown = grown;
  out.touched = grown;
  out.samples = 1;
  return out;
}

TEST(BlameBrief, has_the_culprit_and_its_callers_as_the_whole_report_has_them) {
  Stack stack = {native("_start", "python3.11"), python("<module>", "/app/train.py", 9)};
  for (std::uint32_t i = 0; i < 40; ++i) stack.push_back(python("step", "/app/train.py", 100 + i));
  stack.push_back(python("cat", "/usr/lib/python3/dist-packages/torch/t.py", 3));
  stack.push_back(native("at::cat", "libtorch.so"));
  BlameReport report;
  report.processes.emplace_back().sites.push_back(site(stack, MiB(10)));
  BlameReport brief = in_brief(report);
  ASSERT_EQ(brief.processes.at(0).sites.size(), 1u);
  const Stack& shown = brief.processes[0].sites[0].stack;
  ASSERT_EQ(shown.size(), 8u);
  EXPECT_EQ(*culprit(shown), python("step", "/app/train.py", 139));
  EXPECT_EQ(shown.front(), python("step", "/app/train.py", 132));
  auto whole = from_culprit(stack, 8), short_of = from_culprit(shown, 8);
  ASSERT_EQ(whole.size(), short_of.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(*whole[i], *short_of[i]) << i;
}

TEST(BlameBrief, adds_up_what_differs_inside_of_the_culprit_alone) {
  BlameReport report;
  BlameProcess& p = report.processes.emplace_back();
  for (int i = 0; i < 100; ++i)
    p.sites.push_back(site({native("main", "job"), native("keep", "job"),
                            native("std::string" + std::to_string(i), "libstdc++.so.6")},
                           MiB(1)));
  p.sites.push_back(site({native("main", "job"), native("other", "job")}, MiB(2)));
  BlameReport brief = in_brief(report);
  ASSERT_EQ(brief.processes[0].sites.size(), 2u);
  EXPECT_EQ(brief.processes[0].sites[0].grown, MiB(100));
  EXPECT_EQ(culprit(brief.processes[0].sites[0].stack)->function, "keep");
  EXPECT_EQ(brief.processes[0].sites[1].grown, MiB(2));
}

TEST(BlameBrief, has_what_weakens_it_when_it_is_read_again) {
  BlameReport report;
  report.window = Seconds(5);
  report.samples = 40;
  report.watched_share = 0.25;
  report.lost = {{"faults_ring_full", 3}, {"reader_full", 30}};
  auto again = parse_blame(to_json(in_brief(report), {}, MonoTime{}), "a look");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->samples, 40u);
  EXPECT_EQ(again->watched_share, 0.25);
  EXPECT_EQ(again->lost, report.lost);
}

TEST(BlameBrief, has_what_its_lines_rest_on_when_it_is_read_again) {
  BlameReport report;
  report.window = Seconds(5);
  BlameProcess& p = report.processes.emplace_back();
  p.kept.emplace().all = {MiB(20), MiB(1), 10, 10};
  p.why_not_added = "no registers";
  p.sites.push_back(site({python("keep", "/a.py", 3)}, MiB(20)));
  p.sites[0].kept = {MiB(20), MiB(1), 10, 10};
  p.sites.push_back(site({python("note", "/a.py", 9)}, MiB(5)));
  p.sites[1].adds = true;
  p.sites[1].held_by = 0;
  BlameHolder& holder = p.holders.emplace().all.emplace_back();
  holder.holder.path = "cache in __main__";
  for (std::uint32_t line : {9, 10, 11, 12})
    holder.additions.push_back({{python("note", "/a.py", line)}, 20 - line});
  auto again = parse_blame(to_json(in_brief(report), {}, MonoTime{}), "a look");
  ASSERT_TRUE(again) << again.error().message;
  const BlameProcess& read = again->processes.at(0);
  ASSERT_TRUE(read.kept);
  EXPECT_EQ(read.why_not_added, "no registers");
  EXPECT_EQ(read.sites.at(0).kept, p.sites[0].kept);
  EXPECT_EQ(read.sites.at(0).sure(), MiB(20));
  EXPECT_TRUE(read.sites.at(1).adds);
  EXPECT_EQ(read.sites.at(1).held_by, 0u);
  ASSERT_TRUE(read.holders);
  const auto& additions = read.holders->all.at(0).additions;
  ASSERT_EQ(additions.size(), 3u);
  EXPECT_EQ(culprit(additions[0].stack)->line, 9u);
  EXPECT_TRUE(additions[2].stack.empty()) << "the sum of the others";
  EXPECT_EQ(additions[2].seen, 17u);
}

TEST(BlameBrief, of_hostile_programs_is_no_more_than_five_mebibytes) {
  BlameReport report;
  report.window = Seconds(10);
  for (int n = 0; n < 40; ++n) {
    BlameProcess& p = report.processes.emplace_back();
    p.process.comm = std::string(15, '\n');
    p.process.cmdline = {std::string(4000, '\x01')};
    p.why_not_kept = std::string(100'000, 'w');
    p.holders.emplace();
    for (int i = 0; i < 16; ++i) {
      BlameHolder& each = p.holders->all.emplace_back();
      each.holder.path = each.holder.type = each.holder.of = std::string(4000, '\x02');
      for (std::uint32_t a = 0; a < 8; ++a)
        each.additions.push_back(
            {{python(std::string(4000, '"'), std::string(4000, '\xff'), a), python("caller", "/a.py", a)},
             1});
    }
    for (std::uint32_t i = 0; i < 20; ++i) {
      Stack stack;
      for (std::uint32_t f = 0; f < 20; ++f)
        stack.push_back(python(std::string(4000, '"'), "/" + std::string(4000, '\xff'), i * 100 + f));
      p.sites.push_back(site(std::move(stack), MiB(1)));
    }
    report.unread.push_back(std::string(4000, 'u'));
  }
  std::string text = to_json(in_brief(std::move(report)), {}, MonoTime{});
  EXPECT_LT(text.size(), std::size_t{5} << 20);
  EXPECT_TRUE(parse_blame(text, "a look"));
}

}  // namespace
}  // namespace oomcast
