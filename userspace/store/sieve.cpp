#include "store/sieve.h"

#include <algorithm>

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxSeries = 20'000;
constexpr Nanos kLongest = 10s;  // that a change, however small, goes unwritten
constexpr Bytes kMatters = MiB(16);

Bytes largest_gap(const std::optional<Bytes>& a, const std::optional<Bytes>& b) {
  if (!a || !b) return a.has_value() == b.has_value() ? Bytes{} : Bytes{INT64_MAX};
  return *a > *b ? *a - *b : *b - *a;
}

}  // namespace

template <typename Fact>
void Sieve::pass_series(Series<Fact>& series, Fact fact, bool moved) {
  if (series.written && !moved && fact.time - series.written->time < kLongest) {
    series.skipped = std::make_unique<Fact>(std::move(fact));
    return;
  }
  if (series.written) {
    // It stood still until the last look, or until what was left out.
    Fact before = series.skipped ? std::move(*series.skipped) : *series.written;
    bool stood = tick_ > before.time && fact.time - before.time > 2 * interval_;
    if (stood) before.time = tick_;
    if ((stood || series.skipped) && before.time < fact.time) out_(std::move(before));
  }
  series.skipped.reset();
  series.written = fact;
  out_(std::move(fact));
}

template <typename Fact>
void Sieve::flush_series(Series<Fact>& series) {
  if (!series.skipped) return;
  series.written = std::move(*series.skipped);
  series.skipped.reset();
  out_(*series.written);
}

void Sieve::sift(Sample s) {
  if (!s.cgroup) return;
  std::uint64_t inode = s.cgroup->id.inode;
  if (cgroups_.size() >= kMaxSeries && !cgroups_.contains(inode)) cgroups_.clear();
  auto& series = cgroups_[inode];
  bool moved = true;
  if (series.written && series.written->cgroup->path == s.cgroup->path) {
    const Sample& last = *series.written;
    auto limit = s.limit ? s.limit : s.headroom_limit;
    Bytes step = std::max(KiB(64), limit ? Bytes{limit->count / 1024} : MiB(1));
    moved = largest_gap(s.usage, last.usage) >= step || largest_gap(s.pinned, last.pinned) >= step ||
            s.limit != last.limit;
  } else {
    series = {};
  }
  pass_series(series, std::move(s), moved);
}

void Sieve::sift(ProcessSampleFact s) {
  Bytes held = s.private_bytes.value_or(s.anon + s.shmem) + s.swap;
  auto known = processes_.find(s.process.id);
  if (known == processes_.end()) {
    // In a small cgroup a small process matters.
    Bytes matters = kMatters;
    if (s.process.cgroup)
      if (auto at = cgroups_.find(s.process.cgroup->id.inode); at != cgroups_.end() && at->second.written)
        if (auto limit = at->second.written->limit) matters = std::min(matters, Bytes{limit->count / 16});
    if (held < matters) return;
    if (processes_.size() >= kMaxSeries) processes_.clear();
  }
  auto& series = processes_[s.process.id];
  bool moved = true;
  if (series.written) {
    Bytes step = std::max(KiB(256), Bytes{series.written->rss.count / 256});
    moved =
        largest_gap(s.rss, series.written->rss) >= step || largest_gap(s.swap, series.written->swap) >= step;
  }
  pass_series(series, std::move(s), moved);
}

void Sieve::sift(GpuSample s) {
  std::pair key{s.process ? s.process->id : TaskId{}, s.device};
  if (gpu_.size() >= kMaxSeries && !gpu_.contains(key)) gpu_.clear();
  auto& series = gpu_[key];
  bool ended = s.ended, moved = true;
  if (series.written && !ended) {
    const GpuSample& last = *series.written;
    Bytes step = std::max(MiB(1), s.limit ? Bytes{s.limit->count / 1024} : MiB(1));
    moved = largest_gap(s.held, last.held) >= step || largest_gap(s.managed, last.managed) >= step ||
            largest_gap(s.pinned, last.pinned) >= step || (s.moved_out && s.moved_out->count);
  }
  pass_series(series, std::move(s), moved);
  if (ended) gpu_.erase(key);
}

void Sieve::sift(ReclaimFact r) {
  if (!r.cgroup || reclaim_.size() >= kMaxSeries) return;
  if (!begun_) begun_ = r.time;
  auto [at, is_new] = reclaim_.try_emplace(r.cgroup->id.inode, r);
  if (is_new) return;
  at->second.time = r.time;
  at->second.stalls += r.stalls;
  at->second.stalled += r.stalled;
  at->second.reclaimed += r.reclaimed;
}

void Sieve::sift(PressureFact p) {
  if (pressure_.size() >= kMaxSeries) return;
  if (!begun_) begun_ = p.time;
  pressure_[p.cgroup ? p.cgroup->id.inode : 0] = std::move(p);
}

void Sieve::flush_sums() {
  for (auto& [inode, r] : reclaim_) out_(std::move(r));
  for (auto& [inode, p] : pressure_) out_(std::move(p));
  reclaim_.clear();
  pressure_.clear();
  begun_.reset();
}

void Sieve::flush() {
  for (auto& [inode, series] : cgroups_) flush_series(series);
  for (auto& [id, series] : processes_) flush_series(series);
  for (auto& [key, series] : gpu_) flush_series(series);
  flush_sums();
}

void Sieve::pass(StoreItem item) {
  if (auto* sample = std::get_if<Sample>(&item)) return sift(std::move(*sample));
  if (auto* sample = std::get_if<ProcessSampleFact>(&item)) return sift(std::move(*sample));
  if (auto* sample = std::get_if<Boxed<GpuSample>>(&item)) return sift(GpuSample(*sample));
  if (auto* reclaim = std::get_if<ReclaimFact>(&item)) return sift(std::move(*reclaim));
  if (auto* pressure = std::get_if<PressureFact>(&item)) return sift(std::move(*pressure));
  if (auto* tick = std::get_if<TickFact>(&item)) {
    if (tick->killed) return;
    tick_ = tick->time;
    if (begun_ && tick_ - *begun_ >= kLongest) flush_sums();
    return;
  }
  if (auto* exit = std::get_if<ExitFact>(&item)) {
    auto at = processes_.find(exit->process.id);
    if (at == processes_.end()) return;
    flush_series(at->second);
    processes_.erase(at);
  }
  if (auto* gone = std::get_if<ForgottenFact>(&item)) {
    if (auto at = cgroups_.find(gone->cgroup.inode); at != cgroups_.end()) {
      flush_series(at->second);
      // Without an end its curve would go on at the last level.
      if (at->second.written) {
        Sample end;
        end.time = gone->time;
        end.cgroup = at->second.written->cgroup;
        out_(std::move(end));
      }
      cgroups_.erase(at);
    }
  }
  if (is_episode(item)) flush();
  if (!std::holds_alternative<RecordedEvent>(item)) out_(std::move(item));
}

}  // namespace oomcast
