// The corpus of logs: tests/unit/parse/logs/*.log, the facts in each beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "parse/oom_reports.h"
#include "sanitized.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;
using Lines = std::vector<std::string>;
namespace fs = std::filesystem;

template <typename T>
void put(Json& to, const char* key, const std::optional<T>& value) {
  if constexpr (std::is_same_v<T, Bytes>) {
    if (value) to[key] = value->count;
  } else {
    if (value) to[key] = *value;
  }
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json tasks_of(const OomDump& d) {
  Json out = Json::array();
  for (const TaskRow& t : d.tasks)
    out.push_back({t.pid, or_null(t.tgid), or_null(t.uid), or_null(t.total_vm_pages), or_null(t.rss_pages),
                   or_null(t.swap_pages), or_null(t.oom_score_adj), t.name});
  return out;
}

void put_machine(Json& out, const OomMemInfo& m) {
  for (const PageCount& count : m.pages) out["pages"][count.kind] = count.pages;
  auto zone = [](const auto& z) { return (z.node ? std::to_string(*z.node) : "-") + "/" + z.zone; };
  for (const ZoneLine& z : m.zones) {
    Json& to = out["zones"][zone(z)];
    for (const auto& level : {z.free, z.min, z.low, z.high})
      to.push_back(level ? Json(level->count) : Json(nullptr));
  }
  for (const ZoneBlocks& z : m.blocks) out["blocks"][zone(z)] = z.blocks;
  if (m.swap.free || m.swap.total)
    out["swap"] = {m.swap.free ? Json(m.swap.free->count) : Json(nullptr),
                   m.swap.total ? Json(m.swap.total->count) : Json(nullptr)};
  if (m.ram.pages || m.ram.reserved)
    out["ram"] = {m.ram.pages ? Json(*m.ram.pages) : Json(nullptr),
                  m.ram.reserved ? Json(*m.ram.reserved) : Json(nullptr)};
  for (const SlabRow& slab : m.slabs) out["slabs"].push_back({slab.name, slab.used.count, slab.total.count});
}

Json facts_of(const OomDump& d) {
  Json out = Json::object();
  if (d.invoked) {
    out["trigger"] = d.invoked->trigger_comm;
    put(out, "order", d.invoked->order);
    put(out, "gfp_mask", d.invoked->gfp_mask);
  }
  put(out, "trigger_tid", d.trigger_tid);
  if (auto scope = d.scope()) out["scope"] = to_string(*scope);
  put(out, "limit_cgroup", d.limit_cgroup());
  if (d.cpuset) {
    out["cpuset"] = d.cpuset->cpuset;
    out["mems_allowed"] = d.cpuset->mems_allowed;
  }
  if (d.constraint)
    put(out, "task_cgroup", d.constraint->task_memcg);
  else if (d.memcg_task)
    put(out, "task_cgroup", d.memcg_task->task_memcg);
  if (const auto* usage = d.usage_of(MemcgCounter::memory)) {
    out["usage"] = usage->usage.count;
    put(out, "limit", usage->limit);
  }
  for (const MemcgStatsHead& head : d.stats)
    for (const MemcgStat& stat : head.stats) out["stats"][stat.key] = stat.value;
  if (!d.tasks.empty()) out["tasks"] = tasks_of(d);
  if (d.group_kill) out["group"] = d.group_kill->cgroup;
  put_machine(out, d.mem_info);
  for (const OomVictimLine& v : d.victims) {
    Json victim = {{"tid", v.tid}};
    put(victim, "comm", v.comm);
    put(victim, "vm", v.total_vm);
    put(victim, "anon", v.anon_rss);
    put(victim, "file", v.file_rss);
    put(victim, "shmem", v.shmem_rss);
    put(victim, "uid", v.uid);
    put(victim, "pgtables", v.pgtables);
    put(victim, "adj", v.oom_score_adj);
    out["victims"].push_back(victim);
  }
  return out;
}

Json facts_of(std::vector<LoggedOom> found) {
  Json out = Json::array();
  for (const LoggedOom& oom : found) out.push_back(facts_of(oom.dump));
  return out;
}

Json facts_of(const Lines& lines) {
  OomReports reports;
  for (const std::string& line : lines) reports.line(line);
  return facts_of(reports.finish());
}

Lines lines_of(const fs::path& file) {
  std::ifstream in(file);
  Lines out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<fs::path> logs() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(OOMCAST_TESTS "/unit/parse/logs"))
    if (entry.path().extension() == ".log") out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

Json facts_beside(const fs::path& log) {
  std::ifstream in(fs::path(log).replace_extension(".json"));
  return Json::parse(in);
}

// Whether everything `part` says, `whole` says too. A list's items need not all be there, but keep their
// order, except victims: the kernel names the chosen one of a group twice, and one of the lines may be lost.
bool is_part(const Json& part, const Json& whole) {
  if (part.is_null()) return true;  // not known
  if (part.is_object()) {
    for (const auto& [key, value] : part.items())
      if (!whole.contains(key) || !is_part(value, whole[key])) return false;
    return true;
  }
  if (!part.is_array()) return part == whole;
  auto in_whole = [&](const Json& item) {
    return std::ranges::any_of(whole, [&](const Json& other) { return is_part(item, other); });
  };
  if (!part.empty() && part[0].is_object() && part[0].contains("tid"))
    return std::ranges::all_of(part, in_whole);
  std::size_t at = 0;
  for (const Json& item : part) {
    while (at < whole.size() && !is_part(item, whole[at])) ++at;
    if (at++ >= whole.size()) return false;
  }
  return true;
}

// Of reports whose beginning is lost, some come apart.
bool are_parts(const Json& parts, const Json& whole) {
  return std::ranges::all_of(parts, [&](const Json& part) {
    return std::ranges::any_of(whole, [&](const Json& report) { return is_part(part, report); });
  });
}

// The text of a line of the corpus, whatever its form.
std::string text_of(const std::string& line) {
  LogLineReader reader;
  LogLine out;
  reader.read(line, false, out);
  return std::string(out.text);
}

TEST(Corpus, is_there_for_every_kernel) {
  EXPECT_GE(logs().size(), 35u);
}

TEST(Corpus, gives_the_facts_beside_each_log) {
  for (const fs::path& log : logs()) {
    Json found = facts_of(lines_of(log)), expected = facts_beside(log);
    EXPECT_EQ(found, expected) << log << Json::diff(expected, found).dump(1);
  }
}

TEST(Corpus, gives_the_same_facts_in_every_form_of_log) {
  for (const fs::path& log : logs()) {
    Json expected = facts_beside(log);
    Lines plain, crlf, kmsg, journal, syslog, stamped;
    for (const std::string& line : lines_of(log)) {
      std::string text = text_of(line);
      plain.push_back(text);
      crlf.push_back(line + "\r");
      kmsg.push_back("6," + std::to_string(kmsg.size()) + ",8123500000,-;" + text);
      journal.push_back(Json{
          {"_TRANSPORT", "kernel"},
          {"MESSAGE", text},
          {"SYSLOG_FACILITY", "0"},
          {"__REALTIME_TIMESTAMP", "1763690584000000"},
          {"_SOURCE_MONOTONIC_TIMESTAMP",
           "8123500000"}}.dump());
      syslog.push_back("Nov 21 02:03:04 node kernel: " + text);
      stamped.push_back("<6>Nov  1 02:03:04 node kernel: [ 8123.500000] " + text);
      // What others write between the lines is none of the kernel's.
      syslog.push_back(
          "Nov 21 02:03:04 node app: Out of memory: Killed process 1 (init) total-vm:4kB, "
          "anon-rss:4kB, file-rss:0kB, shmem-rss:0kB");
      syslog.push_back("Nov 21 02:03:04 node kernel: message repeated 2 times: [ IPv6: link becomes ready]");
    }
    for (const Lines& form : {plain, crlf, kmsg, journal, syslog, stamped})
      EXPECT_EQ(facts_of(form), expected) << log << "\n"
                                          << form[1] << "\n"
                                          << Json::diff(expected, facts_of(form));
  }
}

TEST(Corpus, loses_no_line_and_says_nothing_wrong_when_a_log_is_cut_at_any_byte) {
  std::size_t step = test::kSanitized ? 7 : 1, from = 0;
  for (const fs::path& log : logs()) {
    Json whole = facts_beside(log);
    OomReports before;
    std::string cut;
    for (const std::string& line : lines_of(log)) {
      OomReports so_far = before;
      Json told_before = facts_of(so_far.finish());
      from = from % step + 1;  // another one in each line
      for (std::size_t size = from; size <= line.size(); size += step) {
        OomReports reports = before;
        cut = line.substr(0, size);
        reports.line(cut, true);
        Json found = facts_of(reports.finish());
        ASSERT_TRUE(is_part(found, whole)) << log << "\n" << cut << "\n" << found.dump();
        ASSERT_TRUE(is_part(told_before, found)) << log << "\n" << cut << "\n" << found.dump();
      }
      before.line(line);
    }
  }
}

TEST(Corpus, says_nothing_wrong_when_the_beginning_of_a_log_is_lost) {
  for (const fs::path& log : logs()) {
    Json whole = facts_beside(log);
    Lines lines = lines_of(log);
    for (std::size_t first = 1; first < lines.size(); ++first) {
      Lines rest(lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end());
      for (std::size_t bytes : {std::size_t{0}, rest[0].size() / 3, rest[0].size() / 2}) {
        rest[0].erase(0, bytes);
        Json found = facts_of(rest);
        EXPECT_TRUE(are_parts(found, whole)) << log << " from line " << first << "\n"
                                             << rest[0] << "\n"
                                             << found.dump();
      }
    }
  }
}

TEST(Corpus, keeps_two_reports_apart_that_were_printed_at_once_by_named_callers) {
  auto all = logs();
  for (std::size_t i = 1; i < all.size(); ++i) {
    Lines a = lines_of(all[i - 1]), b = lines_of(all[i]), mixed;
    for (std::size_t line = 0; line < std::max(a.size(), b.size()); ++line) {
      if (line < a.size()) mixed.push_back("[  100.000000][  T100] " + text_of(a[line]));
      if (line < b.size()) mixed.push_back("[  100.000000][  T200] " + text_of(b[line]));
    }
    Json found = facts_of(mixed);
    ASSERT_EQ(found.size(), 2u) << all[i];
    // Which of them began first depends on what stands before the reports.
    Json first = facts_beside(all[i - 1])[0], second = facts_beside(all[i])[0];
    if (found[0] != first) std::swap(found[0], found[1]);
    EXPECT_EQ(found[0], first) << all[i];
    EXPECT_EQ(found[1], second) << all[i];
  }
}

TEST(Corpus, loses_only_what_is_missing_when_lines_are_lost) {
  for (const fs::path& log : logs()) {
    Json whole = facts_beside(log);
    Lines lines = lines_of(log);
    for (std::size_t lost = 0; lost < lines.size(); ++lost) {
      Lines rest = lines;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(lost));
      Json found = facts_of(rest);
      EXPECT_TRUE(are_parts(found, whole)) << log << " without\n" << lines[lost] << "\n" << found.dump();
    }
  }
}

}  // namespace
}  // namespace oomcast
