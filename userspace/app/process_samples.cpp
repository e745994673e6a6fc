#include "app/process_samples.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "app/cgroup_samples.h"
#include "base/clock.h"
#include "model/process_ref.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxRead = 64;  // processes in /proc, per interval
constexpr std::size_t kMaxInGrown = kMaxRead / 2;
constexpr std::size_t kMaxOfTree = 1024;
constexpr std::size_t kMaxNewest = 4096;  // samples: beyond that no more sleepers are read from /proc
constexpr Bytes kMoved = KiB(128);
constexpr Bytes kLookFrom = MiB(16);  // growth of a cgroup
constexpr std::size_t kMaxGrownIn = 64;
// Walks: each process at most this often and at 1/200 of a CPU, less often while its private memory is
// steady; all together at 1/100, and 2 ms or one walk at a time.
constexpr Nanos kWalkEvery = 3s, kWalkAtMost = 60s, kWalksFor = 2ms;
constexpr int kWalkShare = 200, kWalksShare = 100;
constexpr Nanos kLongWalk = 500ms;  // other requests to the reader wait meanwhile
constexpr Bytes kWalkFrom = MiB(16);
constexpr double kWalkMoved = 0.01, kStays = 0.01;

Bytes half(Bytes of) {
  return {of.count / 2};
}

}  // namespace

Bytes rss_error() {
  std::int64_t cpus = sysconf(_SC_NPROCESSORS_CONF), page = sysconf(_SC_PAGESIZE);
  return {3 * std::max<std::int64_t>(32, 2 * cpus) * cpus * page};
}

void ProcessSamples::on(const ProcessSampleFact& told) {
  ProcessSampleFact& newest = newest_[told.process.id];
  auto before = newest.private_bytes;
  Bytes rss_before = newest.rss;
  newest = told;
  if (newest.private_bytes || !before) return;
  // A value from before much was freed is too high. Only huge pages come on top of RSS.
  bool huge = *before > rss_before;
  if (told.rss >= rss_before || (huge && *before <= told.rss + told.rss_error))
    newest.private_bytes = before;
  else if (*before <= told.rss + told.rss_error)
    newest.private_bytes = std::min(*before, told.rss);
}

std::vector<ExitFact> ProcessSamples::ended(MonoTime now) {
  std::vector<ExitFact> out;
  for (auto at = newest_.begin(); at != newest_.end();) {
    const TaskState* task = model_.tasks().find(at->first);
    if (task && !task->died) {
      ++at;
      continue;
    }
    out.push_back({now, at->second.process});
    walks_.erase(at->first);
    at = newest_.erase(at);
  }
  return out;
}

// A task that reads a process's /proc files while its last thread exits holds the last reference to its mm
// and has to free it: the kernel waits for that, and may kill another process meanwhile.
bool ProcessSamples::is_near_a_kill(const ProcessRef& process) const {
  const CgroupState* around = process.cgroup ? model_.cgroups().find(process.cgroup->id.inode) : nullptr;
  if (around && is_nearly_full(*around)) return true;
  return model_.episodes().any_open_around(around ? std::optional(process.cgroup->id.inode) : std::nullopt);
}

// Reads /proc now. nullopt: it is gone, its pid was reused, or it has no memory of its own.
std::optional<ProcessSampleFact> ProcessSamples::ask(const ProcessSampleFact& last, MonoTime now) const {
  TaskId id = last.process.id;
  auto status = procfs_.read_status(id.tgid);
  auto same = procfs_.read_task_id(id.tgid);
  if (!status || !*status || !same || *same != id) return std::nullopt;
  const ProcStatus& now_is = **status;
  if (!now_is.rss || !now_is.rss_anon || !now_is.rss_file || !now_is.rss_shmem) return std::nullopt;
  ProcessSampleFact fact = last;
  fact.time = now;
  fact.private_bytes = std::nullopt;
  fact.rss = *now_is.rss;
  fact.anon = *now_is.rss_anon;
  fact.file = *now_is.rss_file;
  fact.shmem = *now_is.rss_shmem;
  if (now_is.swap) fact.swap = *now_is.swap;
  return fact;
}

void ProcessSamples::look_in(std::uint64_t cgroup, Bytes grown) {
  if (!model_.scope().tasks.empty()) return;  // moved() asks every process of a tree
  if (grown < kLookFrom || (grown_in_.size() >= kMaxGrownIn && !grown_in_.contains(cgroup))) return;
  grown_in_[cgroup] = std::max(grown_in_[cgroup], grown);
}

// In turns: a server has more workers than are read in one interval.
std::vector<TaskId> ProcessSamples::sampled_lately(MonoTime now, std::size_t most) {
  std::vector<TaskId> out;
  for (const auto& [id, last] : newest_)
    if (now - last.time <= 3 * interval_ + 2s) out.push_back(id);
  std::ranges::sort(out);
  std::rotate(out.begin(), std::ranges::upper_bound(out, last_asked_), out.end());
  out.resize(std::min(out.size(), most));
  if (!out.empty()) last_asked_ = out.back();
  return out;
}

// In turns, too: of a thousand workers in a cgroup each gets its turn.
std::vector<TaskId> ProcessSamples::of_growing_cgroups(const std::unordered_map<std::uint64_t, Bytes>& grown,
                                                       MonoTime now) {
  std::vector<TaskId> out;
  if (grown.empty() && !model_.follows_any()) return out;
  model_.tasks().for_each([&](const TaskState& task) {
    bool there = task.cgroup && (grown.contains(*task.cgroup) || model_.is_followed(task));
    if (task.died || !there || !model_.task_in_scope(task.id)) return;
    auto known = newest_.find(task.id);
    if (known == newest_.end() ? newest_.size() < kMaxNewest : now - known->second.time > 3 * interval_ + 2s)
      out.push_back(task.id);
  });
  std::ranges::sort(out);
  std::rotate(out.begin(), std::ranges::upper_bound(out, last_looked_at_), out.end());
  out.resize(std::min(out.size(), kMaxInGrown));
  if (!out.empty()) last_looked_at_ = out.back();
  return out;
}

std::vector<ProcessSampleFact> ProcessSamples::moved(MonoTime now) {
  std::vector<ProcessSampleFact> out;
  std::size_t asked = 0;
  auto look = [&](const ProcessSampleFact& last, Bytes least = kMoved) {
    ++asked;
    auto fact = ask(last, now);
    if (!fact) return;
    Bytes by = fact->rss - last.rss;
    if (by < least && -by < least) return;
    fact->process = process_ref(model_.tasks(), model_.cgroups(), last.process.id);
    out.push_back(*std::move(fact));
  };
  if (model_.scope().tasks.empty()) {
    auto grown = std::exchange(grown_in_, {});
    for (TaskId id : of_growing_cgroups(grown, now)) {
      const TaskState& task = *model_.tasks().find(id);
      auto known = newest_.find(id);
      ProcessSampleFact last;
      if (known != newest_.end()) last = known->second;
      last.process = process_ref(model_.tasks(), model_.cgroups(), id);
      last.rss_error = rss_error();
      Bytes least = kMoved;
      if (auto in = grown.find(*task.cgroup); in != grown.end())
        least = std::max(least, Bytes{in->second.count / 4});
      if (!model_.is_followed(task) && model_.scope().whole_machine)
        least = std::max(least, MachineModel::kSmallProcess - last.rss);
      if (is_near_a_kill(last.process))
        ++asked;
      else
        look(last, least);
    }
    for (TaskId id : sampled_lately(now, kMaxRead - asked))
      if (const ProcessSampleFact& last = newest_.at(id); !is_near_a_kill(last.process)) look(last);
    return out;
  }
  model_.tasks().for_each([&](const TaskState& task) {
    if (task.died || asked == kMaxOfTree || !model_.task_in_scope(task.id)) return;
    if (auto known = newest_.find(task.id); known != newest_.end()) return look(known->second);
    ProcessSampleFact none;
    none.process.id = task.id;
    none.rss_error = rss_error();
    look(none);
  });
  return out;
}

// Not while some of the last list are left: the first ones would be checked again and again.
void ProcessSamples::ends_were_lost() {
  if (!to_find_.empty()) return;
  near_a_kill_.clear();
  model_.tasks().for_each([&](const TaskState& task) {
    if (!task.died) to_find_.push_back(task.id);
  });
}

std::vector<TaskId> ProcessSamples::gone() {
  if (to_find_.empty()) to_find_ = std::exchange(near_a_kill_, {});
  for (std::size_t asked = 0; asked < kMaxRead && !to_find_.empty(); to_find_.pop_back()) {
    TaskId id = to_find_.back();
    const TaskState* task = model_.tasks().find(id);
    if (!task || task->died) continue;
    ++asked;
    if (is_near_a_kill(process_ref(model_.tasks(), model_.cgroups(), id))) {
      near_a_kill_.push_back(id);
      continue;
    }
    auto stat = procfs_.read_stat(id.tgid);
    if (!stat) continue;
    // A thread group leader that exited before other threads is a zombie, but the process is alive.
    bool lives = *stat && (*stat)->start_ticks == id.start_ticks &&
                 !((*stat)->state == 'Z' && (*stat)->num_threads <= 1);
    if (lives)
      found_any_ = true;
    else
      not_found_.push_back(id);
  }
  if (!found_any_) {
    if (to_find_.empty()) not_found_.clear();
    return {};
  }
  return std::exchange(not_found_, {});
}

std::vector<TaskId> ProcessSamples::to_measure(MonoTime now) {
  std::vector<TaskId> out;
  if (now < walks_from_) return out;
  // The longest wait first: all share one budget, and processes with expensive walks must not use it up.
  std::vector<std::pair<MonoTime, const ProcessSampleFact*>> due;
  for (const auto& [id, last] : newest_) {
    Walk& walk = walks_[id];
    // A process with growing RSS needs no walk: walks find memory that becomes private at a constant RSS.
    bool moves = std::abs((last.rss - walk.rss).as_double()) > kStays * last.rss.as_double();
    walk.rss = last.rss;
    if (!moves && last.rss >= kWalkFrom && now >= walk.next) due.emplace_back(walk.next, &last);
  }
  std::ranges::sort(due);
  Nanos cost{};
  std::size_t asked = 0;
  for (const auto& [since, last] : due) {
    if (cost > kWalksFor || asked == kMaxRead) break;
    TaskId id = last->process.id;
    Walk& walk = walks_[id];
    walk.next = now + kWalkEvery;
    if (is_near_a_kill(last->process)) continue;
    walk.next = now + kWalkAtMost;
    ++asked;
    auto status = procfs_.read_status(id.tgid);
    if (!status || !*status) continue;
    if (!(*status)->quick_to_walk(std::min(most_tables_, walk.most_tables))) continue;
    walk.tables = *(*status)->page_tables;
    cost += walk.cost;
    out.push_back(id);
  }
  return out;
}

void ProcessSamples::gave_up(const TaskId& id) {
  auto walk = walks_.find(id);
  if (walk != walks_.end()) walk->second.most_tables = half(walk->second.tables);
}

std::optional<ProcessSampleFact> ProcessSamples::measured(const TaskId& id, std::optional<Bytes> holds,
                                                          Nanos cost, MonoTime now) {
  auto last = newest_.find(id);
  if (!holds || last == newest_.end()) return std::nullopt;
  Walk& walk = walks_[id];
  walks_from_ = std::max(walks_from_, now) + kWalksShare * cost;
  if (cost > kLongWalk) most_tables_ = std::min(most_tables_, half(walk.tables));
  bool stays = walk.bytes && std::abs((*holds - *walk.bytes).as_double()) < kWalkMoved * holds->as_double();
  walk.bytes = holds;
  walk.cost = cost;
  walk.wait = std::clamp(stays ? 2 * walk.wait : kWalkEvery, kWalkEvery, kWalkAtMost);
  walk.next = now + std::max(walk.wait, kWalkShare * cost);
  auto fact = ask(last->second, now);
  auto status = procfs_.read_status(id.tgid);
  if (!fact || !status || !*status) return std::nullopt;
  // hugetlbfs pages are private, but not in RSS. Anything above both was freed after the walk, or is within
  // the error of RSS: a part must not exceed the whole.
  Bytes most = fact->rss;
  if ((*status)->hugetlb) most += *(*status)->hugetlb;
  if (*holds > most + fact->rss_error) return std::nullopt;
  fact->private_bytes = std::min(*holds, most);
  return fact;
}

}  // namespace oomcast
