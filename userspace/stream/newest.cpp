#include "stream/newest.h"

#include <algorithm>
#include <utility>

namespace oomcast {
namespace {

std::uint64_t inode_of(const CgroupPtr& cgroup) {
  return cgroup ? cgroup->id.inode : 0;
}

TaskId id_of(const std::optional<ProcessRef>& process) {
  return process ? process->id : TaskId{};
}

}  // namespace

// What was done since the fact before, as of reclaim, is of no use to one that did not have that.
std::optional<NewestFacts::Subject> NewestFacts::subject_of(const Fact& fact) {
  std::size_t type = fact.index();
  if (auto* f = std::get_if<Sample>(&fact)) return Subject{inode_of(f->cgroup), {}, {}, type};
  if (auto* f = std::get_if<PressureFact>(&fact)) return Subject{inode_of(f->cgroup), {}, {}, type};
  if (auto* f = std::get_if<ProcessSampleFact>(&fact)) return Subject{0, f->process.id, {}, type};
  if (auto* f = std::get_if<GpuSample>(&fact)) return Subject{0, id_of(f->process), f->device, type};
  if (auto* f = std::get_if<ForecastFact>(&fact))
    return Subject{f->process || f->device ? 0 : inode_of(f->cgroup), id_of(f->process), f->device, type};
  return std::nullopt;
}

void NewestFacts::on(const Fact& fact) {
  if (auto* start = std::get_if<StartFact>(&fact)) start_ = *start;
  if (auto* lost = std::get_if<LostFact>(&fact)) {
    LostFact& sum = lost_.try_emplace(lost->reason, LostFact{lost->time, lost->reason, 0}).first->second;
    sum.time = lost->time;
    sum.count += lost->count;
  }
  if (auto* gone = std::get_if<ForgottenFact>(&fact)) return forget(gone->cgroup.inode, {});
  if (auto* gone = std::get_if<ExitFact>(&fact)) return forget(0, gone->process.id);
  auto* card = std::get_if<GpuSample>(&fact);
  if (card && card->ended) return forget(0, id_of(card->process));
  auto subject = subject_of(fact);
  if (!subject) return;
  if (auto known = states_.find(*subject); known != states_.end())
    known->second = fact;
  else if (states_.size() < kMost)
    states_.emplace(*subject, fact);
  else
    ++left_out_;
}

// All facts of a cgroup, or of a process, are beside each other.
void NewestFacts::forget(std::uint64_t inode, TaskId id) {
  if (!inode && !id.tgid) return;
  auto from = states_.lower_bound(Subject{inode, id, std::nullopt, 0}), to = from;
  while (to != states_.end() && std::get<0>(to->first) == inode && std::get<1>(to->first) == id) ++to;
  states_.erase(from, to);
}

std::vector<Fact> NewestFacts::all() const {
  std::vector<Fact> out;
  if (start_) out.push_back(*start_);
  for (const auto& [reason, lost] : lost_) out.push_back(lost);
  auto levels = static_cast<std::ptrdiff_t>(out.size());
  for (const auto& [subject, fact] : states_) out.push_back(fact);
  std::stable_sort(out.begin() + levels, out.end(),
                   [](const Fact& a, const Fact& b) { return a.index() < b.index(); });
  return out;
}

}  // namespace oomcast
