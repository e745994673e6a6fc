// Records as the kernel side sends them around an OOM kill, for tests of what is made of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/cgroup_tree.h"
#include "model/episodes.h"
#include "model/task_table.h"
#include "parse/oom_log.h"
#include "wire/records.h"

namespace oomcast::test {

using std::chrono::milliseconds;

constexpr std::int64_t kSigkill = 9;

inline MonoTime ms(std::int64_t n) {
  return MonoTime(milliseconds(n));
}

inline wire::Task task(std::uint32_t tgid, std::optional<std::uint64_t> cgroup = {},
                       std::string comm = "python3") {
  wire::Task t;
  t.id = {tgid, 1000 + tgid};
  t.tid = tgid;
  t.parent = TaskId{1, 1};
  t.cgroup = cgroup;
  t.comm = std::move(comm);
  return t;
}

inline wire::Task thread(wire::Task of, std::uint32_t tid) {
  of.tid = tid;
  return of;
}

inline wire::Memcg level(std::uint64_t inode, Bytes usage, std::optional<Bytes> limit, bool oom_lock = false,
                         bool oom_group = false) {
  return {inode, usage, limit, usage, oom_lock, oom_group};
}

inline wire::Memory memory(Bytes anon, std::uint64_t mm_key = 0) {
  return {anon, MiB(1), {}, {}, anon + MiB(20), KiB(200), mm_key};
}

inline wire::OomMark mark(MonoTime when, wire::Task victim, wire::Task trigger,
                          std::vector<wire::Memcg> chain, Bytes anon = MiB(90)) {
  wire::OomMark m;
  m.time = when;
  m.memory = memory(anon, victim.id.tgid);
  m.victim = std::move(victim);
  m.trigger = std::move(trigger);
  m.chain = m.victim_chain = std::move(chain);
  return m;
}

inline wire::KernelKill kernel_kill(MonoTime when, wire::Task victim, wire::Task sender,
                                    std::optional<wire::Memory> held = {}) {
  if (!held) held = memory(MiB(90), victim.id.tgid);
  return {when, std::move(victim), held, std::move(sender)};
}

inline wire::Exit death(MonoTime when, wire::Task of, int exit_code = kSigkill) {
  wire::Exit e;
  e.time = when;
  e.task = std::move(of);
  e.exit_code = exit_code;
  e.killed_by_kernel = true;
  return e;
}

inline wire::Reaper reaped(MonoTime when, std::uint32_t tid) {
  return {when, wire::Reaper::Op::done, tid};
}

inline OomVictimLine line(std::uint32_t tid, Bytes anon = MiB(91), std::string comm = "python3") {
  OomVictimLine v;
  v.tid = tid;
  v.comm = std::move(comm);
  v.anon_rss = anon;
  v.file_rss = MiB(2);
  v.shmem_rss = Bytes{};
  v.oom_score_adj = 7;
  return v;
}

inline OomDump dump(std::vector<OomVictimLine> victims, std::optional<std::string> limit_cgroup = {}) {
  OomDump d;
  d.victims = std::move(victims);
  if (limit_cgroup) {
    OomConstraint c;
    c.scope = OomConstraintScope::memcg;
    c.oom_memcg = c.task_memcg = limit_cgroup;
    d.constraint = c;
  }
  return d;
}

}  // namespace oomcast::test
