// One of each fact: with everything known, with nothing known, and with names that strangers chose to do
// harm.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stream/facts.h"

namespace oomcast::test {

inline CgroupPtr cgroup(std::uint64_t inode, std::string path) {
  auto ref = std::make_shared<CgroupRef>();
  ref->id = {Hierarchy::v1, inode};
  ref->name = name_cgroup(path);
  ref->path = std::move(path);
  return ref;
}

inline ProcessRef process(std::uint32_t pid, std::string comm, std::vector<std::string> cmdline,
                          CgroupPtr in) {
  ProcessRef p;
  p.id = {pid, 4200};
  p.comm = std::move(comm);
  p.cmdline = std::move(cmdline);
  p.cmdline_source = CmdlineSource::shown;
  p.uid = 1000;
  p.ppid = 1;
  p.ns_pid = 7;
  p.cgroup = std::move(in);
  return p;
}

inline ProcessRef unknown_process() {
  ProcessRef p;
  p.id = {77, 0};
  return p;
}

inline Sample known_sample() {
  Sample s;
  s.time = mono_from_ns(1'000'000'000);
  s.cgroup = cgroup(11, "/job/step");
  s.usage = MiB(50);
  s.limit = MiB(100);
  s.limit_cgroup = cgroup(10, "/job");
  s.stat.anon = MiB(40);
  s.stat.file = Bytes{};
  s.stat.shmem = MiB(1);
  s.stat.kernel = MiB(2);
  s.stat.swap = MiB(3);
  s.pinned = MiB(45);
  s.headroom_limit = MiB(100);
  s.peak = MiB(60);
  return s;
}

inline Forecast known_forecast() {
  Forecast f;
  f.verdict = Verdict::leak;
  f.growth = Growth{{2e6}, {1e6}, {3e6}, Seconds(30), 20};
  f.limit = MiB(100);
  f.eta = Seconds(13);
  f.eta_low = Seconds(11);
  f.eta_high = Seconds(15);
  f.alert = true;
  f.why = "grew";
  return f;
}

inline OomEvent known_oom(const ProcessRef& victim, const CgroupPtr& limit) {
  OomEvent line;
  Episode& e = line.episode;
  e.id = "e1";
  e.time = mono_from_ns(5'000'000'000);
  e.scope = OomScope::memcg;
  e.limit_cgroup = limit;
  e.usage = MiB(100);
  e.limit = MiB(100);
  e.trigger = victim;
  e.request.order = 0;
  e.request.gfp = "0xcc0(GFP_KERNEL)";
  e.group_kill = false;
  Victim v;
  v.process = victim;
  v.tid = victim.id.tgid;
  v.anon = MiB(90);
  v.file = MiB(1);
  v.shmem = Bytes{};
  v.swap = Bytes{};
  v.pgtables = KiB(200);
  v.total_vm = MiB(300);
  v.oom_score_adj = 0;
  v.killed = true;
  v.freed_after = Seconds(0.25);
  v.stack = {0x1000};
  e.victims.push_back(v);
  e.also_killed.push_back(victim);
  e.grew_most.push_back({victim, MiB(80), Seconds(20)});
  e.grew_from.sites.push_back({victim, {{"f", "/a.py", 7}}, MiB(8), MiB(9), Seconds(2), e.time, e.time});
  e.grew_from.holders.push_back({victim,
                                 "kept in __main__",
                                 "list",
                                 "bytes",
                                 1,
                                 55,
                                 36,
                                 MiB(5),
                                 MiB(9),
                                 Seconds(2),
                                 e.time,
                                 e.time,
                                 {{"f", "/a.py", 7}},
                                 5,
                                 6});
  e.chain.push_back({limit, MiB(100), MiB(100)});
  e.checks = {1, 1, 1};
  line.forecast_before =
      ForecastFact{mono_from_ns(4'000'000'000), limit, std::nullopt, limit, known_forecast()};
  line.first_forecast = mono_from_ns(3'000'000'000);
  return line;
}

inline AlertFact known_alert(const ProcessRef& receiver, const CgroupPtr& of) {
  AlertFact alert{mono_from_ns(4'000'000'000), "eta<20m", of, "/job grows", std::nullopt, {}};
  alert.forecast = ForecastFact{alert.time, of, std::nullopt, of, known_forecast()};
  ActionRun exec{ActionRun::Kind::exec, "mail root", ActionRun::Result::failed};
  exec.exit_code = 3;
  exec.took = Seconds(0.5);
  ActionRun sent{ActionRun::Kind::signal, "SIGUSR1", ActionRun::Result::ok};
  sent.process = receiver;
  alert.actions = {sent, {ActionRun::Kind::touch, "/job/.stop", ActionRun::Result::ok}, exec};
  return alert;
}

inline std::vector<Fact> known_facts() {
  MonoTime t = mono_from_ns(1'000'000'000);
  CgroupPtr job = cgroup(10, "/job");
  ProcessRef p = process(100, "python3", {"python3", "-u", "train.py"}, job);
  return {
      StartFact{t, "0.1.0", "6.1.0", {"bpf", "kmsg"}},
      known_sample(),
      ProcessSampleFact{t, p, MiB(9), MiB(8), MiB(1), Bytes{}, Bytes{}, MiB(7), BytesPerSec{5.5}, KiB(256)},
      ForecastFact{t, job, p, job, known_forecast()},
      known_oom(p, job),
      UserKillFact{t, p, p, "earlyoom"},
      ReclaimFact{t, job, 3, Seconds(0.5), MiB(2)},
      PressureFact{t, job, {PressureLine{1, 2, 3, 4'000'000}, PressureLine{5, 6, 7, 8'000'000}}},
      known_alert(p, job),
      LostFact{t, "samples_ring_full", 12},
      TotalsFact{t, t, {{"memcg", 3}}, {{"memcg", 2}}, 1, 4, 5, {{"samples_ring_full", 12}}},
      EndFact{t, 99, {{"samples_ring_full", 12}}}};
}

inline std::vector<Fact> unknown_facts() {
  MonoTime t = mono_from_ns(1'000'000'000);
  ProcessRef p = unknown_process();
  Sample sample;
  sample.time = t;
  OomEvent oom;
  oom.episode.time = t;
  Victim victim;
  victim.process = p;
  oom.episode.victims.push_back(victim);
  return {StartFact{t, "", "", {}},
          sample,
          ProcessSampleFact{t, p, MiB(1), MiB(1), MiB(1), MiB(1), MiB(1), std::nullopt, std::nullopt, KiB(1)},
          ForecastFact{t, nullptr, std::nullopt, nullptr, {}},
          oom,
          UserKillFact{t, p, p, std::nullopt},
          ReclaimFact{t, nullptr, 1, Seconds(1), MiB(1)},
          PressureFact{t, nullptr, {}},
          AlertFact{t, "", nullptr, "", std::nullopt, {}},
          LostFact{t, "x", 1},
          TotalsFact{t, t, {}, {}, 0, 0, 0, {}},
          EndFact{t, 1, {}}};
}

// Every string that a stranger can choose is `name`.
inline std::vector<Fact> hostile_facts(const std::string& name) {
  MonoTime t = mono_from_ns(1'000'000'000);
  CgroupPtr at = cgroup(10, "/docker/" + std::string(64, 'a') + "/" + name + ".service/" + name);
  ProcessRef p = process(100, name.substr(0, 15), {name, name, "-c", name}, at);
  Sample sample = known_sample();
  sample.cgroup = at;
  sample.limit_cgroup = cgroup(11, "/" + name);
  OomEvent oom = known_oom(p, at);
  oom.episode.request.gfp = name;
  AlertFact alert = known_alert(p, at);
  alert.rule = name;
  for (ActionRun& run : alert.actions) run.what = name, run.error = name;
  return {
      alert,
      sample,
      ProcessSampleFact{t, p, MiB(1), MiB(1), MiB(1), MiB(1), MiB(1), std::nullopt, BytesPerSec{1}, KiB(1)},
      ForecastFact{t, at, p, at, known_forecast()},
      ForecastFact{t, at, std::nullopt, at, known_forecast()},
      oom,
      UserKillFact{t, p, p, name},
      ReclaimFact{t, at, 1, Seconds(1), MiB(1)},
      PressureFact{t, at, {}}};
}

inline std::vector<std::string> hostile_names() {
  using namespace std::string_literals;
  return {"\xff\xfe\x80"s, "\xc0\xaf\xed\xa0\x80"s,
          "a\nb\r\nc"s,    "\x1b[2J\x1b]0;x\x07"s,
          "\"},{\""s,      "\\\\\"\\u0000"s,
          "nul\0byte"s,    "\u202egpj.exe\u2028"s,
          "{}{0}%s%n"s,    "\xe6\x97"s,
          "\u009b31m"s,    std::string(300, '\n')};
}

}  // namespace oomcast::test
