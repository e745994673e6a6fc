#include "present/blame_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "present/blame.h"

namespace oomcast {
namespace {

// With a value of its own in every field.
BlameReport whole_report() {
  BlameReport out;
  out.scope = "cgroup /docker/abc";
  out.window = Seconds(2.5);
  out.grown = MiB(7);
  out.cgroup_grown = MiB(8);
  out.watched_share = 0.5;
  out.samples = 3;
  out.incomplete_stacks = 11;
  out.incomplete_python = 12;
  out.misplaced_python = 13;
  out.unnamed_frames = 14;
  out.frames = 9;
  out.not_noted = 4;
  out.symbols_unread = 2;
  out.unread = {"evil[9]", "\xff\n[10]"};
  out.lost = {{"reader_full", 6}};
  out.gpu_followed = true;
  out.no_stacks = "no perf events";
  BlameProcess& p = out.processes.emplace_back();
  p.process.id = {7, 12345};
  p.process.comm = "a\nb\xe8\xae";  // cut within a character, as the kernel does
  p.process.cmdline = Arguments({"python3", "", "train.py", "\xff"});
  p.process.cmdline_source = CmdlineSource::exec;
  p.process.cmdline_truncated = true;
  p.process.uid = 1000;
  p.process.ppid = 6;
  p.process.ns_pid = 1;
  p.process.cgroup = std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, 99}, "/docker/abc", {}});
  p.anon = MiB(3);
  p.own = MiB(2);
  p.exited = p.growth_unknown = true;
  p.grown_anon = MiB(7);
  p.grown_shmem = MiB(4);
  p.grown_uss = MiB(-1);
  p.grown_hugetlb = MiB(2);
  p.unshared = MiB(5);
  p.unseen = MiB(6);
  p.python = "CPython 3.11.2";
  p.role = {ProcessRole::Kind::worker, "DataLoader", 6, 3, 2};
  p.holders.emplace().all.push_back({{"kept in __main__", "list", 9, 4, "Tensor", KiB(3), KiB(2), 3}, 5});
  p.holders->all.push_back(p.holders->all[0]);  // of the same path
  p.holders->all[1].additions = {{{{Frame::Kind::python, "load", "t.py", 31}}, 12}};
  p.holders->cut = true;
  p.holders->types = {{"Tensor", 2100, 1480, KiB(9)}};
  p.sites.push_back({{{Frame::Kind::native, "main", "a.out", {}}, {Frame::Kind::python, "\xc3(", "t.py", 31}},
                     MiB(7),
                     MiB(9),
                     3,
                     {MiB(6), MiB(2), 5, 90},
                     1});
  p.sites[0].adds = p.sites[0].small_objects = true;
  p.gpu = {{{{Frame::Kind::python, "load", "t.py", 31}}, MiB(512), 2}};
  p.free_in_heap = MiB(1);
  p.kept = KeptOfProcess{{MiB(6), MiB(2), 5, 8}, Seconds(.5), Seconds(.1), Seconds(2), 3600, true};
  p.why_not_kept = "no allocator";
  p.why_not_added = "no registers";
  BlameProcess& empty = out.processes.emplace_back();
  empty.grown_shmem.reset();
  empty.holders.emplace();
  return out;
}

std::vector<std::string> lines_of(const BlameReport& report) {
  std::vector<std::string> out;
  write_report(report, [&](std::string_view line) { out.emplace_back(line); });
  return out;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
}

std::optional<BlameReport> read_lines(std::string_view text, std::size_t most = 1 << 20) {
  ReportReader reader(most);
  reader.add(text);
  return reader.take();
}

TEST(BlameLines, bring_a_report_back_as_it_was) {
  BlameReport in = whole_report();
  auto out = read_lines(text_of(lines_of(in)));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->scope, in.scope);
  EXPECT_EQ(out->window, in.window);
  EXPECT_EQ(out->grown, in.grown);
  EXPECT_EQ(out->cgroup_grown, in.cgroup_grown);
  EXPECT_EQ(out->watched_share, in.watched_share);
  EXPECT_EQ(std::tuple(out->samples, out->incomplete_stacks, out->incomplete_python, out->misplaced_python),
            std::tuple(3u, 11u, 12u, 13u));
  EXPECT_EQ(std::tuple(out->unnamed_frames, out->frames, out->not_noted, out->symbols_unread),
            std::tuple(14u, 9u, 4u, 2u));
  EXPECT_EQ(out->unread, in.unread);
  EXPECT_EQ(out->lost, in.lost);
  EXPECT_TRUE(out->gpu_followed);
  EXPECT_EQ(out->no_stacks, in.no_stacks);
  ASSERT_EQ(out->processes.size(), 2u);
  const BlameProcess &a = in.processes[0], &b = out->processes[0];
  EXPECT_EQ(b.process.id, a.process.id);
  EXPECT_EQ(b.process.comm, a.process.comm);
  EXPECT_EQ(b.process.cmdline, a.process.cmdline);
  EXPECT_EQ(b.process.cmdline_source, a.process.cmdline_source);
  EXPECT_TRUE(b.process.cmdline_truncated);
  EXPECT_EQ(std::tuple(b.process.uid, b.process.ppid, b.process.ns_pid), std::tuple(1000u, 6u, 1u));
  ASSERT_TRUE(b.process.cgroup);
  EXPECT_EQ(b.process.cgroup->id, a.process.cgroup->id);
  EXPECT_EQ(b.process.cgroup->path, a.process.cgroup->path);
  EXPECT_EQ(b.process.cgroup->name.kind, name_cgroup("/docker/abc").kind);
  EXPECT_EQ(std::tuple(b.anon, b.own), std::tuple(a.anon, a.own));
  EXPECT_TRUE(b.exited && b.growth_unknown);
  EXPECT_EQ(std::tuple(b.grown_anon, b.grown_shmem, b.grown_uss, b.grown_hugetlb, b.unshared, b.unseen),
            std::tuple(a.grown_anon, a.grown_shmem, a.grown_uss, a.grown_hugetlb, a.unshared, a.unseen));
  EXPECT_EQ(b.free_in_heap, a.free_in_heap);
  EXPECT_EQ(b.python, a.python);
  EXPECT_EQ(std::tuple(b.role.kind, b.role.what, b.role.of, b.role.rank, b.role.workers),
            std::tuple(a.role.kind, a.role.what, a.role.of, a.role.rank, a.role.workers));
  ASSERT_EQ(b.sites.size(), 1u);
  EXPECT_EQ(b.sites[0].stack, a.sites[0].stack);
  EXPECT_EQ(std::tuple(b.sites[0].grown, b.sites[0].touched, b.sites[0].samples),
            std::tuple(a.sites[0].grown, a.sites[0].touched, a.sites[0].samples));
  EXPECT_EQ(b.sites[0].kept, a.sites[0].kept);
  EXPECT_EQ(b.sites[0].held_by, 1u) << "not the first one of that path";
  EXPECT_TRUE(b.sites[0].adds && b.sites[0].small_objects);
  ASSERT_TRUE(b.holders && b.holders->all.size() == 2);
  EXPECT_EQ(b.holders->all[0].holder, a.holders->all[0].holder);
  EXPECT_EQ(b.holders->all[0].blocks, 5u);
  ASSERT_EQ(b.holders->all[1].additions.size(), 1u);
  EXPECT_EQ(b.holders->all[1].additions[0].stack, a.holders->all[1].additions[0].stack);
  EXPECT_EQ(b.holders->all[1].additions[0].seen, 12u);
  EXPECT_TRUE(b.holders->cut);
  EXPECT_EQ(b.holders->types, a.holders->types);
  ASSERT_EQ(b.gpu.size(), 1u);
  EXPECT_EQ(b.gpu[0].stack, a.gpu[0].stack);
  EXPECT_EQ(b.gpu[0].bytes, MiB(512));
  EXPECT_EQ(b.gpu[0].calls, 2u);
  ASSERT_TRUE(b.kept);
  EXPECT_EQ(b.kept->all, a.kept->all);
  EXPECT_EQ(std::tuple(b.kept->outlived, b.kept->all_watched, b.kept->watched, b.kept->calls_per_s),
            std::tuple(a.kept->outlived, a.kept->all_watched, a.kept->watched, a.kept->calls_per_s));
  EXPECT_TRUE(b.kept->without_new);
  EXPECT_EQ(std::tuple(b.why_not_kept, b.why_not_added), std::tuple(a.why_not_kept, a.why_not_added));
  const BlameProcess& empty = out->processes[1];
  EXPECT_EQ(empty.grown_shmem, std::nullopt);
  EXPECT_FALSE(empty.anon || empty.own || empty.kept || empty.process.cgroup || empty.process.cmdline_source);
  EXPECT_TRUE(empty.holders && empty.holders->all.empty() && !empty.holders->types);
}

TEST(BlameLines, are_read_the_same_wherever_they_are_cut) {
  const std::string whole = text_of(lines_of(whole_report()));
  for (std::size_t size : {1, 7, 1000}) {
    ReportReader reader(whole.size());
    for (std::size_t at = 0; at < whole.size(); at += size)
      reader.add(std::string_view(whole).substr(at, size));
    auto out = reader.take();
    ASSERT_TRUE(out) << size;
    EXPECT_EQ(text_of(lines_of(*out)), whole) << size;
  }
}

TEST(BlameLines, that_lack_a_field_or_have_another_type_in_it_are_no_report) {
  const std::vector<std::string> lines = lines_of(whole_report());
  const std::string whole = text_of(lines);
  std::size_t tried = 0;
  auto refuses = [&](std::size_t at, const nlohmann::ordered_json& changed, const std::string& what) {
    std::vector<std::string> some = lines;
    some[at] = changed.dump() + "\n";
    ++tried;
    EXPECT_FALSE(read_lines(text_of(some))) << what << " of " << some[at];
  };
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const auto line = nlohmann::ordered_json::parse(lines[at]);
    for (const auto& [key, value] : line.begin().value().items()) {
      for (bool typed : {false, true}) {
        auto changed = line;
        if (typed)
          changed.begin().value()[key] = {{"no", "field is"}};
        else
          changed.begin().value().erase(key);
        // Whether there are containers decides what else there is of them; a map of counts takes any reason.
        if (key == "lost" ? typed : key.starts_with("holders") || key == "grown_types") continue;
        refuses(at, changed, key + (typed ? " of another type" : " missing"));
      }
    }
  }
  EXPECT_GT(tried, 100u);
}

TEST(BlameLines, that_were_cut_off_or_are_out_of_their_place_are_no_report) {
  const std::vector<std::string> lines = lines_of(whole_report());
  const std::string whole = text_of(lines);
  ASSERT_TRUE(read_lines(whole));
  EXPECT_FALSE(read_lines(""));
  for (std::size_t size = 0; size < whole.size(); ++size)
    if (size == 0 || whole[size - 1] != '\n') {
      EXPECT_FALSE(read_lines(std::string_view(whole).substr(0, size))) << size;
    }
  EXPECT_FALSE(read_lines(whole + "x"));
  EXPECT_FALSE(read_lines(whole + whole)) << "two reports";
  EXPECT_FALSE(read_lines(lines[0] + lines[2])) << "a container of no process";
  EXPECT_FALSE(read_lines(text_of({lines.begin() + 1, lines.end()})));
  EXPECT_FALSE(read_lines(whole + "{\"odd\":{}}\n"));
  EXPECT_FALSE(read_lines(lines[0] + "\"" + std::string(2 << 20, 'x') + "\"\n", 4 << 20))
      << "a line of 2 MiB";
}

TEST(BlameLines, that_were_changed_make_no_report_or_a_sane_one) {
  const std::string whole = text_of(lines_of(whole_report()));
  std::size_t sane = 0;
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (char to : {'\0', '1', '9', '-', ']', '\xff'}) {
      std::string changed = whole;
      changed[at] = to;
      auto out = read_lines(changed);
      if (!out) continue;
      ++sane;
      EXPECT_GE(out->window.count(), 0);
      EXPECT_LE(out->watched_share, 1);
      for (const BlameProcess& p : out->processes)
        for (const BlameSite& site : p.sites)
          EXPECT_TRUE(!site.held_by || (p.holders && *site.held_by < p.holders->all.size())) << changed;
    }
  EXPECT_GT(sane, 100u) << "a name may be any";
}

TEST(BlameLines, beyond_their_bound_are_no_report_and_too_long) {
  const std::string whole = text_of(lines_of(whole_report()));
  ReportReader reader(whole.size() - 1);
  reader.add(whole);
  EXPECT_TRUE(reader.too_long());
  EXPECT_FALSE(reader.take());
}

TEST(BlameLines, with_a_line_that_is_held_by_no_container_are_refused) {
  BlameReport in = whole_report();
  in.processes[0].sites[0].held_by = 2;
  EXPECT_FALSE(read_lines(text_of(lines_of(in))));
}

TEST(BlameLines, with_a_number_that_overflows_sums_are_refused) {
  for (std::int64_t most :
       {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    BlameReport in = whole_report();
    in.processes[0].grown_anon = {most};
    EXPECT_FALSE(read_lines(text_of(lines_of(in))));
  }
}

TEST(BlameJson, for_people_hides_what_is_not_known_and_what_processes_tell_each_other) {
  auto json = nlohmann::json::parse(to_json(whole_report(), {}, MonoTime{}));
  const auto& p = json["processes"][0];
  for (const char* key : {"grown_bytes", "grown_anon_bytes", "grown_shmem_bytes", "unseen_bytes", "gpu"})
    EXPECT_TRUE(p.contains(key) && p[key].is_null()) << key << ": it has ended";
  for (const char* key : {"growth_unknown", "anon_bytes", "private_bytes", "workers"})
    EXPECT_FALSE(p.contains(key)) << key;
  EXPECT_FALSE(p["sites"][0].contains("holder"));
  EXPECT_EQ(p["process"]["comm"], "a\nb\\xe8\\xae");
  EXPECT_TRUE(json["watched_share"].is_null());
}

}  // namespace
}  // namespace oomcast
