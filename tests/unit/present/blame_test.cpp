#include "present/blame.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <protozero/pbf_reader.hpp>

#include "present/blame_diff.h"
#include "present/blame_json.h"
#include "present/frames.h"
#include "present/stack_profile.h"

namespace oomcast {
namespace {

using test::native;
using test::python;

BlameReport report() {
  BlameReport out;
  out.scope = "--pid 7";
  out.window = Seconds(10);
  out.grown = MiB(100);
  out.samples = 4;
  out.frames = 12;
  out.processes.emplace_back();
  BlameProcess& p = out.processes.back();
  p.process.id = {7, 1};
  p.process.comm = "py;thon\n";
  p.grown_anon = MiB(100);
  p.unseen = MiB(10);
  p.sites.push_back({{native("_start", "python3.11"), python("<module>", "/app/train.py", 9),
                      python("keep", "/app/train.py", 3), native("memset", "/lib/libc.so.6")},
                     MiB(80),
                     MiB(90),
                     3});
  p.sites.push_back(
      {{native("_start", "python3.11"), python("<module>", "/app/train.py", 10)}, MiB(10), MiB(10), 1});
  return out;
}

TEST(Culprit, is_the_innermost_python_line_outside_of_libraries) {
  Stack stack = {python("step", "/app/train.py", 3),
                 python("ones", "/usr/lib/python3/dist-packages/numpy/n.py", 8),
                 python("api", "<__array_function__ internals>", 1), native("memset", "libc.so.6")};
  EXPECT_EQ(culprit(stack)->function, "step");
  stack.erase(stack.begin());
  EXPECT_EQ(culprit(stack)->function, "api") << "a library's line is better than none";
}

TEST(Culprit, of_native_code_is_the_caller_of_the_allocator) {
  Stack stack = {native("main", "prog"), native("grow", "prog"), native("malloc", "prog"),
                 native("_int_malloc", "/usr/lib/x86_64-linux-gnu/libc.so.6")};
  EXPECT_EQ(culprit(stack)->function, "grow");
  EXPECT_EQ(culprit(Stack{}), nullptr);
}

TEST(Culprit, is_no_template_of_the_library_but_who_calls_it) {
  for (const char* function :
       {"void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int const&)",
        "int& std::vector<int, std::allocator<int> >::emplace_back<int>(int&&)",
        "std::enable_if<(true), std::pair<int, int> >::type std::map<int, int>::insert<int>(int)",
        "std::pair<int, int>* __gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
        "operator new[](unsigned long)", "malloc@plt", "realloc.part.0",
        "memcpy(void*, void const*, unsigned long)"}) {
    Stack stack = {native("main", "prog"), native("grow(int)", "prog"), native(function, "prog")};
    EXPECT_EQ(culprit(stack)->function, "grow(int)") << function;
  }
  for (const char* file : {"libjemalloc.so.2", "/usr/lib/libtcmalloc_minimal.so.4", "libmimalloc.so.2.0",
                           "/lib/ld-musl-x86_64.so.1", "libc.musl-x86_64.so.1"}) {
    Stack stack = {native("grow", "prog"), native("chunk_alloc", file)};
    EXPECT_EQ(culprit(stack)->function, "grow") << file;
  }
}

TEST(Culprit, is_a_programs_own_function_whose_name_begins_as_an_allocators) {
  for (const char* function :
       {"reallocate_table", "malloc_pool_grow", "memcpy_rows(int)", "std::vector<int> rows<int>(int)",
        "void (anonymous namespace)::grow<int>(int)", "Pool::operator new(unsigned long)",
        "std::string (anonymous namespace)::Table::operator()<char>(std::vector<int> const&)",
        "Table::operator std::string<char>() const"}) {
    Stack stack = {native("main", "prog"), native(function, "prog"), native("malloc", "prog")};
    EXPECT_EQ(culprit(stack)->function, function);
  }
}

TEST(BlameText, names_the_line_its_bytes_and_what_no_fault_showed) {
  std::string text = to_text(report());
  EXPECT_NE(text.find("keep (/app/train.py:3)"), std::string::npos) << text;
  EXPECT_NE(text.find("+8.00 MiB/s   80%"), std::string::npos) << text;
  EXPECT_NE(text.find("10%  unseen by faults"), std::string::npos) << text;
  EXPECT_EQ(text.find("_start"), std::string::npos) << "what only runs Python is left out\n" << text;
}

// Of compilers it had 600 lines.
TEST(BlameText, of_many_branches_shows_the_largest_and_counts_the_others) {
  BlameReport many = report();
  std::vector<BlameSite>& sites = many.processes[0].sites;
  Stack deep;
  for (int i = 0; i < 60; ++i) deep.push_back(native("call_" + std::to_string(i), "cc1plus"));
  sites.push_back({deep, MiB(9), MiB(9), 1});
  std::string text = to_text(many);
  EXPECT_NE(text.find("keep (/app/train.py:3)"), std::string::npos) << text;
  EXPECT_NE(text.find(" lines more: --format html, folded or pprof have them"), std::string::npos) << text;
  EXPECT_LT(std::ranges::count(text, '\n'), 60) << text;
}

TEST(BlameText, names_who_ended_before_its_growth_was_known) {
  BlameReport r = report();
  for (std::uint32_t pid = 20; pid < 27; ++pid) {
    r.processes.emplace_back();
    r.processes.back().process.id = {pid, 1};
    r.processes.back().process.comm = "worker\x1b";
    r.processes.back().exited = pid != 20;
  }
  std::string text = to_text(r);
  EXPECT_NE(text.find("\n1 other process grew by less than 1 % or shrank\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ended in this time, and what they had grown with them: worker"), std::string::npos)
      << text;
  EXPECT_NE(text.find("[25] and 1 more\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(BlameText, names_some_of_the_many_that_could_not_be_read_and_counts_the_others) {
  BlameReport r = report();
  for (int pid = 100; pid < 120; ++pid) r.unread.push_back("worker[" + std::to_string(pid) + "]");
  std::string text = to_text(r);
  EXPECT_NE(text.find("the memory of worker[115] could not be read"), std::string::npos) << text;
  EXPECT_EQ(text.find("worker[116]"), std::string::npos) << text;
  EXPECT_NE(text.find("nor could those of 4 more processes\n"), std::string::npos) << text;
}

TEST(BlameText, says_no_growth_where_every_process_has_ended) {
  BlameReport r;
  r.scope = "process 20";
  r.processes.emplace_back();
  r.processes.back().process.id = {20, 1};
  r.processes.back().exited = true;
  std::string text = to_text(r);
  EXPECT_EQ(text.find("process 20: every process has ended, what they grew by is not known"), 0u) << text;
  EXPECT_EQ(text.find("grew by +"), std::string::npos) << text;
  auto process = nlohmann::json::parse(to_json(r, {}, MonoTime{}))["processes"][0];
  for (const char* key : {"grown_bytes", "grown_anon_bytes", "grown_shmem_bytes", "unshared_bytes",
                          "unseen_bytes", "free_in_heap_bytes"})
    EXPECT_TRUE(process.at(key).is_null()) << key;
}

TEST(BlameText, says_whose_growth_is_not_known_and_of_whom_a_part) {
  BlameReport r;
  r.scope = "process 20";
  BlameProcess& p = r.processes.emplace_back();
  p.process.id = {20, 1};
  p.process.comm = "worker";
  p.growth_unknown = true;
  p.grown_shmem.reset();
  std::string text = to_text(r);
  EXPECT_EQ(text.find("process 20: no process's counters could be read, what they grew by is not known"), 0u)
      << text;
  EXPECT_NE(text.find("what worker[20] grew by is not known: its counters could not be read"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("other process"), std::string::npos) << text;
  auto json = nlohmann::json::parse(to_json(r, {}, MonoTime{}))["processes"][0];
  EXPECT_EQ(json.at("exited"), false);
  for (const char* key : {"grown_bytes", "grown_anon_bytes", "grown_shmem_bytes", "unseen_bytes"})
    EXPECT_TRUE(json.at(key).is_null()) << key;

  p.growth_unknown = false;
  p.grown_anon = MiB(3);
  EXPECT_NE(to_text(r).find("of worker[20] only anonymous memory in RAM is counted"), std::string::npos);
  json = nlohmann::json::parse(to_json(r, {}, MonoTime{}))["processes"][0];
  EXPECT_EQ(json.at("grown_bytes"), MiB(3).count);
  EXPECT_TRUE(json.at("grown_shmem_bytes").is_null());
}

TEST(BlameText, says_of_a_line_whether_its_blocks_stay_or_it_only_touched_the_pages) {
  BlameReport r = report();
  BlameProcess& p = r.processes.front();
  p.sites[0].kept = {MiB(79), MiB(3), 12};
  p.free_in_heap = MiB(5);
  p.kept = KeptOfProcess{{MiB(79), MiB(3), 12}, Seconds(.5), Seconds(.2), Seconds(9.5), 250'000};
  std::string text = to_text(r);
  EXPECT_NE(text.find("keep (/app/train.py:3)  kept: 12 blocks, 79.0 MiB ± 3.00 MiB\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("<module> (/app/train.py:10)  touched\n"), std::string::npos) << text;
  EXPECT_NE(text.find("5%  free within the heap, not given back\n"), std::string::npos) << text;
  EXPECT_NE(text.find("calls its allocator 250000 times a second: all of it was watched for 200 ms"),
            std::string::npos)
      << text;
  p.sites[0].kept = {MiB(1), MiB(280), 2};
  EXPECT_NE(to_text(r).find("kept: 2 blocks, at most 281 MiB\n"), std::string::npos) << to_text(r);
  p.kept.reset();
  p.why_not_kept = "no allocator is found in it";
  text = to_text(r);
  EXPECT_EQ(text.find("kept:"), std::string::npos) << text;
  EXPECT_NE(text.find("which allocations of py;thon\\n[7] stay is not known, only who touched new pages: no "
                      "allocator is found in it"),
            std::string::npos)
      << text;
}

TEST(BlameText, says_that_an_operator_new_of_the_allocators_own_is_not_watched) {
  BlameReport r = report();
  r.processes[0].kept.emplace();
  EXPECT_EQ(to_text(r).find("operator new"), std::string::npos);
  r.processes[0].kept->without_new = true;
  EXPECT_NE(to_text(r).find("operator new"), std::string::npos);
}

TEST(BlameText, says_for_which_line_memory_of_a_card_was_taken_from_the_driver) {
  BlameReport r;
  r.gpu_followed = true;
  BlameProcess& p = r.processes.emplace_back();
  p.process.comm = "python3";
  p.gpu = {{{python("load", "/app/train.py", 12), native("ioctl", "/lib/libc.so.6")}, MiB(384), 3},
           {{python("step", "/app/train.py", 30)}, MiB(128), 1}};
  std::string text = to_text(r);
  EXPECT_NE(text.find("GPU memory +512 MiB, by the line for which it was taken from the driver:\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("75%  load (/app/train.py:12)  3 calls\n"), std::string::npos) << text;
  auto json = nlohmann::json::parse(to_json(r, ClockMap{}, MonoTime{}))["processes"][0];
  ASSERT_EQ(json["gpu"].size(), 2u);
  EXPECT_EQ(json["gpu"][0]["taken_bytes"], MiB(384).count);
  EXPECT_EQ(json["gpu"][0]["culprit"]["line"], 12);
  r.gpu_followed = false;
  EXPECT_TRUE(nlohmann::json::parse(to_json(r, ClockMap{}, MonoTime{}))["processes"][0]["gpu"].is_null());
}

TEST(BlameText, names_the_types_that_grew_if_what_they_take_matters) {
  BlameReport r = report();
  r.processes[0].holders.emplace().types = {{"Cycle\x1b", 41'000, 40'000, MiB(9)},
                                            {"dict", 700, 300, KiB(90)}};
  std::string text = to_text(r);
  EXPECT_NE(text.find("  objects: +40000 Cycle"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find("dict"), std::string::npos) << text;
}

TEST(BlameText, says_objects_where_the_name_of_a_holders_type_would_be_read_as_a_size) {
  BlameReport r = report();
  Holder& holder = r.processes[0].holders.emplace().all.emplace_back().holder;
  holder = {"cache in __main__", "list", 62, 50, "bytes", MiB(9), {}};
  EXPECT_NE(to_text(r).find("held by cache in __main__, list of 62: +50 objects (bytes)\n"),
            std::string::npos)
      << to_text(r);
  holder.of = "bytearray";
  EXPECT_NE(to_text(r).find(", list of 62: +50 bytearray\n"), std::string::npos) << to_text(r);
}

TEST(BlameText, names_who_adds_to_a_container_where_that_is_another_line) {
  BlameReport r = report();
  BlameHolder& holder = r.processes[0].holders.emplace().all.emplace_back();
  holder.holder = {"users[…] in __main__", "list", 9120, 1480, "dict", MiB(9), MiB(9), 40};
  Frame note{Frame::Kind::python, "note\x1b", "audit.py", 7},
      load{Frame::Kind::python, "load", "audit.py", 2};
  holder.additions = {{{note}, 40}, {{load}, 23}, {{load, note}, 1}};
  std::string text = to_text(r);
  EXPECT_NE(text.find("held by users[…] in __main__, 40 × list of 9120: +1480 dict, added by note\\x1b "
                      "(audit.py:7) (41 of 64 seen), load (audit.py:2) (23 of 64 seen)\n"),
            std::string::npos)
      << text;
  r.processes[0].sites[0].stack = {note};
  r.processes[0].sites[0].adds = true;
  r.processes[0].sites[0].held_by = 0;
  holder.additions = {{{note}, 64}};
  text = to_text(r);
  EXPECT_NE(text.find("(audit.py:7)  small objects, added here\n"), std::string::npos) << text;
  EXPECT_NE(text.find(": +1480 dict\n"), std::string::npos) << "by the line that stands above: " << text;
}

TEST(BlameText, says_of_small_objects_that_their_line_is_not_known) {
  BlameReport r = report();
  r.processes[0].sites[0].stack.clear();
  r.processes[0].sites[0].small_objects = true;
  BlameHolder& holder = r.processes[0].holders.emplace().all.emplace_back();
  holder.holder = {"users[…] in __main__", "list", 9120, 1480, "dict", MiB(9), MiB(9), 40};
  EXPECT_EQ(to_text(r).find("not known"), std::string::npos) << "nobody needed to know: " << to_text(r);
  r.processes[0].why_not_added = "no data breakpoints";
  std::string text = to_text(r);
  EXPECT_NE(text.find(": +1480 dict, added by a line that is not known (see below)\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("%  small objects of no known line\n"), std::string::npos) << text;
  EXPECT_NE(text.find("which lines add to the containers of"), std::string::npos) << text;
  EXPECT_NE(text.find("is not known: no data breakpoints"), std::string::npos) << text;
}

TEST(BlameJson, has_types_that_grew_and_null_where_they_were_not_counted) {
  BlameReport r = report();
  auto types = [&] {
    return nlohmann::json::parse(to_json(r, ClockMap{}, MonoTime{}))["processes"][0]["grown_types"];
  };
  EXPECT_TRUE(types().is_null());
  r.processes[0].holders.emplace();
  EXPECT_TRUE(types().is_null());
  r.processes[0].holders->types = {{"Cycle", 41'000, 40'000, KiB(9)}};
  EXPECT_EQ(types(), nlohmann::json::parse(
                         R"([{"type":"Cycle","objects":41000,"added":40000,"bytes_at_least":9216}])"));
}

TEST(BlameText, is_safe_on_a_terminal) {
  BlameReport r = report();
  r.processes[0].sites[0].stack[2].function = "evil\x1b[2J";
  EXPECT_EQ(to_text(r).find('\x1b'), std::string::npos);
}

TEST(BlameFolded, has_one_line_a_stack_whatever_the_names) {
  std::string text = to_folded(profile_of(report(), {}, MonoTime{}));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << "the third has what no fault showed";
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "py:thon\\n[7];_start (python3.11);<module> (/app/train.py:9);keep (/app/train.py:3);memset "
            "(libc.so.6) "
            "83886080");
}

TEST(BlameJson, says_each_site_in_bytes) {
  auto json = nlohmann::json::parse(to_json(report(), {}, MonoTime{}));
  EXPECT_EQ(json["type"], "blame");
  EXPECT_EQ(json["processes"][0]["grown_bytes"], MiB(100).count);
  EXPECT_EQ(json["processes"][0]["sites"][0]["culprit"]["line"], 3);
  EXPECT_EQ(json["processes"][0]["sites"][0]["grown_bytes"], MiB(80).count);
  EXPECT_EQ(json["cgroup_grown_bytes"], nullptr);
}

TEST(BlamePprof, is_gzipped_and_holds_each_stack_innermost_first) {
  std::string gzipped = to_pprof(profile_of(report(), {}, MonoTime{}));
  z_stream z{};
  ASSERT_EQ(inflateInit2(&z, 15 + 16), Z_OK);
  std::string bytes(1 << 16, '\0');
  z.next_in = reinterpret_cast<Bytef*>(gzipped.data());
  z.avail_in = static_cast<uInt>(gzipped.size());
  z.next_out = reinterpret_cast<Bytef*>(bytes.data());
  z.avail_out = static_cast<uInt>(bytes.size());
  ASSERT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
  bytes.resize(z.total_out);
  inflateEnd(&z);

  std::vector<std::string> strings;
  std::vector<std::vector<std::uint64_t>> stacks;
  std::vector<std::int64_t> grown;
  std::size_t locations = 0;
  protozero::pbf_reader profile(bytes);
  while (profile.next()) {
    if (profile.tag() == 6) {
      strings.push_back(profile.get_string());
    } else if (profile.tag() == 2) {
      protozero::pbf_reader sample = profile.get_message();
      while (sample.next())
        if (sample.tag() == 1) {
          auto ids = sample.get_packed_uint64();
          stacks.emplace_back(ids.begin(), ids.end());
        } else if (sample.tag() == 2) {
          grown.push_back(*sample.get_packed_int64().begin());
        } else {
          sample.skip();
        }
    } else {
      locations += profile.tag() == 4;
      profile.skip();
    }
  }
  EXPECT_EQ(strings.at(0), "");
  EXPECT_EQ(grown, (std::vector<std::int64_t>{MiB(80).count, MiB(10).count, MiB(10).count}));
  ASSERT_EQ(stacks.size(), 3u);
  EXPECT_EQ(stacks[0].size(), 5u) << "the process is the outermost";
  EXPECT_EQ(stacks[0][4], stacks[1].back()) << "the same process";
  EXPECT_EQ(stacks[0][3], stacks[1][1]) << "the same _start";
  EXPECT_NE(stacks[0][2], stacks[1][0]) << "another line of <module>";
  EXPECT_EQ(locations, 7u);
  EXPECT_NE(std::find(strings.begin(), strings.end(), "py;thon\\n"), strings.end());
  EXPECT_EQ(strings.at(1), "inuse_space") << "is shown first";
  EXPECT_NE(std::find(strings.begin(), strings.end(), "inuse_objects"), strings.end());
}

TEST(BlameProfile, has_memory_of_cards_as_a_kind_of_its_own_that_adds_to_nothing_else) {
  BlameReport r = report();
  std::string without = to_folded(profile_of(r, {}, MonoTime{}));
  r.processes[0].gpu.push_back({r.processes[0].sites[0].stack, GiB(2), 3});
  StackProfile p = profile_of(r, {}, MonoTime{});
  EXPECT_EQ(p.kinds.back().name, "gpu_space");
  std::int64_t sum = 0;
  for (const StackProfile::Row& row : p.rows) {
    ASSERT_EQ(row.values.size(), p.kinds.size());
    sum += row.values.back();
  }
  EXPECT_EQ(sum, GiB(2).count);
  EXPECT_EQ(to_folded(p), without);
}

TEST(BlameHtml, keeps_a_hostile_name_within_its_data) {
  BlameReport r = report();
  r.processes[0].sites[0].stack[2].function = "</script><script>alert(1)";
  auto html = to_html(profile_of(r, {}, MonoTime{}));
  if (!html) GTEST_SKIP() << html.error().message;
  EXPECT_EQ(html->find("<script>alert"), std::string::npos);
  EXPECT_NE(html->find("alert(1)"), std::string::npos);
}

TEST(BlameDifference, is_of_growth_a_second_by_stack) {
  auto before = parse_blame(to_json(report(), {}, MonoTime{}), "a");
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(before->processes.at(0).process.id, (TaskId{7, 1}));
  BlameReport after = report();
  after.window = Seconds(5);
  after.processes[0].process.id = {8, 2};  // another run of the program
  after.processes[0].sites[1].grown = Bytes{};
  StackProfile d = difference(*before, after);
  ASSERT_EQ(d.rows.size(), 3u);
  EXPECT_EQ(d.rows[0].values, (std::vector<std::int64_t>{MiB(8).count, MiB(16).count, MiB(8).count}));
  EXPECT_EQ(culprit(d.rows[0].stack)->line, 3u);
  std::string text = to_text(d);
  EXPECT_NE(text.find("+8.00 MiB/s   +16.0 MiB/s   +8.00 MiB/s  py;thon\\n: keep (/app/train.py:3)"),
            std::string::npos)
      << text;
  auto json = nlohmann::json::parse(to_json(d));
  EXPECT_EQ(json["sites"][0]["difference_bytes_per_s"], MiB(8).count);
  EXPECT_EQ(json["time"], "1970-01-01T00:00:00.000000000Z") << "as every object has one";
  std::string folded = to_folded(d);
  EXPECT_NE(folded.find(" 8388608 16777216\n"), std::string::npos) << folded;
}

TEST(BlameDifference, refuses_what_blame_did_not_write) {
  for (const char* text : {"", "[]", "{}", R"({"type":"blame"})", R"({"type":"blame","window_s":0})",
                           R"({"type":"blame","window_s":"x"})", R"({"type":"oom","window_s":1})"})
    EXPECT_FALSE(parse_blame(text, "file")) << text;
  auto odd = parse_blame(
      R"({"type":"blame","window_s":1,"processes":[1,{"process":3,"sites":[7,{"stack":[{},8,{"line":-1}]}]}]})",
      "file");
  ASSERT_TRUE(odd) << odd.error().message;
  EXPECT_EQ(odd->processes.size(), 1u);
}

}  // namespace
}  // namespace oomcast
