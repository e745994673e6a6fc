#include "blame/report_bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace oomcast {
namespace {

BlameReport report() {
  BlameReport out;
  out.window = Seconds(2.5);
  out.grown = MiB(7);
  out.watched_share = 0.5;
  out.samples = 3;
  out.frames = 9;
  out.not_noted = 4;
  out.symbols_unread = 2;
  out.unread = {"evil[9]"};
  BlameProcess& p = out.processes.emplace_back();
  p.process.id = {7, 12345};
  p.process.comm = "a\nb";
  p.process.cmdline = Arguments({"python3", "", "train.py"});
  p.process.cmdline_source = CmdlineSource::shown;
  p.process.uid = 1000;
  p.process.cgroup = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v1, 99}, "/docker/abc", {}});
  p.after = ProcessLevel{MiB(3), MiB(1), MiB(2), std::nullopt, {}, 17};
  p.growth_unknown = true;
  p.grown_anon = MiB(7);
  p.grown_shmem.reset();
  p.grown_uss = MiB(-1);
  p.python = "CPython 3.11.2";
  p.role.kind = ProcessRole::Kind::worker;
  p.role.of = 6;
  p.sites.push_back({{{Frame::Kind::native, "main", "a.out", {}}, {Frame::Kind::python, "load", "t.py", 31}},
                     MiB(7),
                     MiB(9),
                     3,
                     {MiB(6), MiB(2), 5, 90},
                     0});
  p.sites[0].adds = true;
  p.holders.emplace().all.push_back({{"kept in __main__", "list", 9, 4, "Tensor", KiB(3), KiB(2), 3}, 5});
  p.holders->all[0].additions = {{{{Frame::Kind::python, "load", "t.py", 31}}, 12}};
  p.holders->cut = true;
  p.holders->types = {{"Tensor", 2100, 1480, KiB(9)}};
  p.gpu = {{{{Frame::Kind::python, "load", "t.py", 31}}, MiB(512), 2}};
  p.free_in_heap = MiB(1);
  p.kept = KeptOfProcess{{MiB(6), MiB(2), 5}, Seconds(.5), Seconds(.1), Seconds(2), 3600, true};
  p.why_not_kept = "no allocator";
  return out;
}

TEST(ReportBytes, a_report_comes_back_as_it_was) {
  BlameReport in = report();
  auto out = decode_report(encode_report(in));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->window, in.window);
  EXPECT_EQ(out->grown, in.grown);
  EXPECT_EQ(out->watched_share, in.watched_share);
  EXPECT_EQ(out->not_noted, 4u);
  EXPECT_EQ(out->symbols_unread, 2u);
  EXPECT_EQ(out->unread, in.unread);
  ASSERT_EQ(out->processes.size(), 1u);
  const BlameProcess &a = in.processes[0], &b = out->processes[0];
  EXPECT_EQ(b.process.id, a.process.id);
  EXPECT_EQ(b.process.comm, a.process.comm);
  EXPECT_EQ(b.process.cmdline, a.process.cmdline);
  EXPECT_EQ(b.process.cmdline_source, a.process.cmdline_source);
  EXPECT_EQ(b.process.uid, a.process.uid);
  EXPECT_EQ(b.process.ns_pid, std::nullopt);
  ASSERT_TRUE(b.process.cgroup);
  EXPECT_EQ(b.process.cgroup->id, a.process.cgroup->id);
  EXPECT_EQ(b.process.cgroup->path, a.process.cgroup->path);
  EXPECT_EQ(b.before.has_value(), false);
  EXPECT_EQ(b.after->uss, a.after->uss);
  EXPECT_EQ(b.after->faults, a.after->faults);
  EXPECT_EQ(b.growth_unknown, true);
  EXPECT_EQ(b.grown_shmem, std::nullopt);
  EXPECT_EQ(b.grown_uss, a.grown_uss);
  EXPECT_EQ(b.role.of, a.role.of);
  ASSERT_EQ(b.sites.size(), 1u);
  EXPECT_EQ(b.sites[0].stack, a.sites[0].stack);
  EXPECT_EQ(b.sites[0].touched, a.sites[0].touched);
  EXPECT_EQ(b.sites[0].kept, a.sites[0].kept);
  EXPECT_EQ(b.sites[0].held_by, 0u);
  ASSERT_TRUE(b.holders && b.holders->all.size() == 1);
  EXPECT_EQ(b.holders->all[0].holder, a.holders->all[0].holder);
  EXPECT_EQ(b.holders->all[0].blocks, 5u);
  EXPECT_TRUE(b.sites[0].adds);
  ASSERT_EQ(b.holders->all[0].additions.size(), 1u);
  EXPECT_EQ(b.holders->all[0].additions[0].stack, a.holders->all[0].additions[0].stack);
  EXPECT_EQ(b.holders->all[0].additions[0].seen, 12u);
  EXPECT_TRUE(b.holders->cut);
  EXPECT_EQ(b.holders->types, a.holders->types);
  EXPECT_EQ(b.free_in_heap, a.free_in_heap);
  ASSERT_EQ(b.gpu.size(), 1u);
  EXPECT_EQ(b.gpu[0].stack, a.gpu[0].stack);
  EXPECT_EQ(b.gpu[0].bytes, MiB(512));
  EXPECT_EQ(b.gpu[0].calls, 2u);
  ASSERT_TRUE(b.kept);
  EXPECT_EQ(b.kept->all, a.kept->all);
  EXPECT_EQ(b.kept->all_watched, a.kept->all_watched);
  EXPECT_EQ(b.kept->watched, a.kept->watched);
  EXPECT_TRUE(b.kept->without_new);
  EXPECT_EQ(b.why_not_kept, a.why_not_kept);
}

TEST(ReportBytes, whatever_is_cut_off_or_changed_makes_no_report_or_a_sane_one) {
  const std::string whole = encode_report(report());
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(decode_report(whole.substr(0, size)));
  EXPECT_FALSE(decode_report(whole + "x"));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (char to : {'\0', '\1', '\x7f', '\xff'}) {
      std::string changed = whole;
      changed[at] = to;
      auto out = decode_report(changed);
      if (!out) continue;
      EXPECT_GE(out->window.count(), 0);
      for (const BlameProcess& p : out->processes) {
        EXPECT_LE(p.role.kind, ProcessRole::Kind::worker);
        for (const BlameSite& site : p.sites)
          for (const Frame& frame : site.stack) EXPECT_LE(frame.kind, Frame::Kind::python);
        for (const BlameHolder& holder : p.holders ? p.holders->all : std::vector<BlameHolder>())
          for (const BlameAddition& addition : holder.additions)
            for (const Frame& frame : addition.stack) EXPECT_LE(frame.kind, Frame::Kind::python);
      }
    }
}

TEST(ReportBytes, a_line_that_is_held_by_what_is_not_told_is_refused) {
  BlameReport in = report();
  in.processes[0].sites[0].held_by = 1;
  EXPECT_FALSE(decode_report(encode_report(in)));
}

TEST(ReportBytes, a_number_that_overflows_sums_is_refused) {
  BlameReport in = report();
  in.processes[0].grown_anon = {std::numeric_limits<std::int64_t>::max()};
  EXPECT_FALSE(decode_report(encode_report(in)));
}

}  // namespace
}  // namespace oomcast
