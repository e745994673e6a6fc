// What a process's samples, blocks and containers say of its growth.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "blame/blame.h"

namespace oomcast {
namespace {

constexpr Bytes kMinCopied = MiB(1);
constexpr double kMaxBeyondGrowth = 1.5;  // of kept blocks, which may lie where there was room
constexpr double kSureOfHeap = 3;
constexpr Bytes kAlwaysTold = KiB(64);  // at least: few of these are allocated while nobody watches
constexpr double kSlowed = 0.2;
constexpr double kMinHeld = 0.01;  // of what its process grew by
constexpr std::uint64_t kEnoughBlocks = 5;
constexpr Bytes kUntold = MiB(1);  // smaller growth waits for its record, or in a CPU's own counter

const Frame* innermost_python(const Stack& stack) {
  auto frame = std::find_if(stack.rbegin(), stack.rend(),
                            [](const Frame& f) { return f.kind == Frame::Kind::python; });
  return frame == stack.rend() ? nullptr : &*frame;
}

std::optional<Bytes> more_than(std::optional<Bytes> before, std::optional<Bytes> after) {
  return before && after ? std::optional(*after - *before) : std::nullopt;
}

// It has what is in swap in it, where that is known.
Bytes resident_anon(const ProcessLevel& level) {
  return level.swap ? level.anon - *level.swap : level.anon;
}

// Where what is in swap is not known of both, without it.
Bytes more_anon(const ProcessLevel& before, const ProcessLevel& after) {
  if (before.swap && after.swap) return after.anon - before.anon;
  return resident_anon(after) - resident_anon(before);
}

}  // namespace

// Its counters at the end of the window, or now if less is left since: who was killed meanwhile has lost the
// pages that were looked at. nullopt: as level_of().
std::optional<ProcessLevel> Blame::still_held(const Process& p) const {
  auto now = level_of(p.ref.id);
  if (now && p.after) {
    Bytes lost = more_anon(*now, *p.after);
    if (auto shmem = more_than(now->shmem, p.after->shmem)) lost += *shmem;
    if (lost <= kUntold) return p.after;
  }
  if (now) now->set_private(private_bytes_of(p.ref.id));
  return now;
}

BlameProcess Blame::judge(Process& p, Seconds window, double watched_share) const {
  BlameProcess out;
  out.process = p.ref;
  read_pages(p);
  const std::optional<ProcessLevel> after = still_held(p);
  if (after) out.anon = after->anon;
  if (after) out.own = after->uss;
  out.exited = !after && has_ended(p.ref.id);
  out.growth_unknown = !out.exited && (!after || (!p.before && began_before(p)));
  if (watched_share < 1 && after) settle(p, after->faults, true);
  if (const auto& python = p.view->python(); python.python) {
    out.python = to_string(*python.python);
  } else {
    out.python = python.why_not;
  }
  if (out.growth_unknown) out.grown_shmem.reset();
  if (after && !out.growth_unknown) {
    // A process that began in the window began with nothing of its own, but may hold what a fork shares.
    ProcessLevel before = p.before.value_or(ProcessLevel{{}, Bytes(), Bytes(), Bytes(), Bytes(), 0});
    out.grown_uss = more_than(before.uss, after->uss);
    out.grown_hugetlb = more_than(before.hugetlb, after->hugetlb);
    out.grown_anon = p.before ? more_anon(before, *after) : out.grown_uss.value_or(after->anon);
    out.grown_shmem = more_than(before.shmem, after->shmem);
  }

  judge_touched(p, watched_share, out);
  judge_kept(p, window, out);
  if (!out.exited && !out.growth_unknown) join_small_objects(out, parts_in_pools(p, out));
  if (!out.exited) out.gpu = judge_gpu(p);
  std::sort(out.sites.begin(), out.sites.end(), [](const BlameSite& a, const BlameSite& b) {
    return std::tuple(a.grown, a.kept.bytes, a.touched) > std::tuple(b.grown, b.kept.bytes, b.touched);
  });
  return out;
}

// Every call is seen: nothing has to be weighed.
std::vector<BlameGpuSite> Blame::judge_gpu(const Process& p) {
  std::vector<BlameGpuSite> out(p.gpu_sites.size());
  for (const auto& [stack, number] : p.gpu_sites) out[number].stack = stack;
  for (const auto& [object, taken] : p.gpu) {
    out[taken.first].bytes += taken.second;
    ++out[taken.first].calls;
  }
  std::erase_if(out, [](const BlameGpuSite& site) { return !site.calls; });
  std::stable_sort(out.begin(), out.end(),
                   [](const BlameGpuSite& a, const BlameGpuSite& b) { return a.bytes > b.bytes; });
  return out;
}

// Samples weigh what was touched, counters say what was kept.
void Blame::judge_touched(Process& p, double watched_share, BlameProcess& out) {
  for (const auto& [stack, number] : p.sites) {
    (void)number;
    out.sites.emplace_back();
  }
  while (!p.sites.empty()) {  // with names of a tenant's length there is no room for a copy
    auto site = p.sites.extract(p.sites.begin());
    out.sites[site.mapped()].stack = std::move(site.key());
  }
  Bytes staying;
  std::size_t counted = 0;
  for (const Sample& sample : p.samples) {
    BlameSite& site = out.sites[sample.site];
    site.touched += sample.weight;
    ++site.samples;
    if (out.exited || out.growth_unknown || sample.gone) continue;
    if (sample.shared && out.grown_shmem <= Bytes{}) continue;  // a file's pages: cache, not growth
    site.grown += sample.weight;
    staying += sample.weight;
    ++counted;
  }
  // Copies of shared pages make it hold more of its own, and faults; without such faults, others who shared
  // the pages have ended, which takes no memory.
  if (out.grown_uss && p.before) {
    Bytes copied = std::min(*out.grown_uss - out.grown_anon, staying - std::max(out.grown(), Bytes{}));
    if (copied >= kMinCopied) out.unshared = copied;
  }
  // What the samples lack beyond their own error made no faults that could be sampled. That error, of two
  // standard deviations: some pages not told of yet; whether a sampled page is still there speaks for its
  // neighbours; and with pauses, that a sample stands for what nobody saw.
  Bytes grown = std::max(out.grown(), Bytes{});
  double all = static_cast<double>(p.samples.size()), squares = 0;
  for (const Sample& sample : p.samples) squares += sample.weight.as_double() * sample.weight.as_double();
  double kept = (static_cast<double>(counted) + 1) / (all + 1);
  double error = kUntold.as_double() + (watched_share < 1 ? 4 * std::sqrt(squares * kept)
                                                          : 2 * std::sqrt(squares * kept * (1 - kept)));
  if (counted && (grown - staying).as_double() <= error) {
    for (BlameSite& site : out.sites)
      site.grown = scaled(site.grown, grown.as_double() / staying.as_double());
  } else {
    out.unseen = grown - staying;
  }
}

// A leak's blocks lie in holes that others left, and others touch new pages then: what has stayed says more
// than what was touched. The counters say how much there is to explain.
void Blame::judge_kept(const Process& p, Seconds window, BlameProcess& out) {
  out.why_not_kept = p.allocations.why_not_watched;
  if (out.exited || out.growth_unknown) return;
  if (!p.allocations.watched) return judge_holders(p, {}, out);
  if (p.survivors.dropped()) {
    out.why_not_kept = fmt::format("there was no room for {} of its blocks", p.survivors.dropped());
    return judge_holders(p, {}, out);
  }
  const WatchedAllocations& watched = *p.allocations.watched;
  Survivors::Estimate estimate = p.survivors.estimate(watched, window);
  std::vector<std::pair<std::uint64_t, Bytes>> pages;
  for (const Sample& sample : p.samples)
    if (!sample.gone) pages.emplace_back(sample.address, sample.weight);
  estimate.raise_to_pages(pages);
  Bytes grown = std::max(out.grown(), Bytes{}), kept = estimate.all.bytes;
  if (kept - estimate.all.error > scaled(grown, kMaxBeyondGrowth) + kUntold) {
    out.why_not_kept = "blocks that outlived others went later";
    return judge_holders(p, {}, out);
  }
  out.kept = {estimate.all,     estimate.outlived,   watched.all_watched(),
              estimate.watched, watched.calls_per_s, p.allocations.has_own_new};
  for (const auto& [site, of_site] : estimate.sites)
    if (site < out.sites.size()) out.sites[site].kept = of_site;
  judge_holders(p, estimate, out);
  if (grown <= Bytes{}) return;
  // What is left for those that touched: nothing, if that is within the error.
  Bytes left = std::max(grown - kept, Bytes{});
  Bytes error = std::max(estimate.all.error, kUntold);
  if (left <= error && kept > error) left = {};
  // While it was watched it went so much slower that it kept less in that time than it does otherwise: that
  // tells of which, not how much. Only as far as breakpoints may have slowed it: a few small blocks that stay
  // do not explain a hundred times as much. Nor where C++ blocks are not among them.
  bool slowed = watched.taken > kSlowed;
  if (slowed && !p.allocations.has_own_new && estimate.all.blocks >= kEnoughBlocks &&
      left <= scaled(kept + estimate.all.error, Survivors::most_faster(watched)))
    left = {};
  // Without that much more than the error, what is not seen to live may live.
  // A large block that lives, and was not told of, is one from before.
  Heap heap;
  if (p.allocations.blocks_tell && !slowed && left > scaled(error, kSureOfHeap))
    heap = p.view->heap(std::max(scaled(watched.sample, 2), kAlwaysTold));
  Bytes touched, in_heap;
  for (BlameSite& site : out.sites) site.grown = {};
  for (const Sample& sample : p.samples) {
    if (sample.gone || (sample.shared && out.grown_shmem <= Bytes{})) continue;
    auto place = estimate.at(sample.address);
    if (place == Survivors::Place::kept) continue;
    bool free = place == Survivors::Place::elsewhere && heap.may_be_free(sample.address);
    (free ? in_heap : touched) += sample.weight;
    if (!free) out.sites[sample.site].grown += sample.weight;
  }
  double of_kept = kept > Bytes{} ? (grown - left).as_double() / kept.as_double() : 0;
  Bytes both = touched + in_heap;
  double of_touched = both > Bytes{} ? left.as_double() / both.as_double() : 0;
  // More than their samples tell is nobody's.
  if (left - both > kUntold + error) of_touched = 1;
  for (BlameSite& site : out.sites)
    site.grown = scaled(site.grown, of_touched) + scaled(site.kept.bytes, of_kept);
  out.free_in_heap = scaled(in_heap, of_touched);
  out.unseen = left - scaled(both, of_touched);
}

bool holds_site(std::uint64_t reached, std::uint64_t own, std::uint64_t blocks, double part) {
  constexpr double kMost = 0.5;
  if (own && 2 * own >= blocks) return true;
  double likely = part * static_cast<double>(blocks - own);
  return (part >= kMost || likely >= 1) && static_cast<double>(reached) >= likely / 2;
}

std::vector<BlameAddition> Blame::additions_to(const Process& p, std::size_t holder) {
  constexpr std::size_t kMax = 8;
  std::map<Stack, std::uint64_t> all;
  for (const auto& [length_at, stacks] : p.containers.additions) {
    if (!p.view->python_heap()->has_length_at(holder, length_at)) continue;
    for (const auto& [stack, seen] : stacks) all[stack] += seen;
  }
  std::vector<BlameAddition> out;
  for (const auto& [stack, seen] : all) out.push_back({stack, seen});
  std::ranges::stable_sort(out, std::greater(), &BlameAddition::seen);
  if (out.size() > kMax) out.resize(kMax);
  return out;
}

// Whoever leads to at least half as many of a site's blocks as the sample of what was added makes likely.
void Blame::judge_holders(const Process& p, const Survivors::Estimate& kept, BlameProcess& out) {
  bool refused = p.containers.refused;
  if (refused && (!p.containers.grown || p.containers.grown->empty()))
    out.why_not_added =
        "not all of its objects were read: its cgroup or the machine is nearly full, or it has too many "
        "mappings";
  if (!p.containers.grown || !p.view->python_heap()) return;
  PythonHeap& heap = *p.view->python_heap();
  out.holders.emplace().cut = heap.cut() || refused;
  out.holders->types = heap.grown_types();
  struct Lead {
    std::uint64_t blocks = 0;
    std::uint32_t holder = 0;
  };
  std::map<std::uint32_t, Lead> leads;  // by site
  std::vector<BlameHolder> all;
  Bytes least = scaled(std::max(out.grown(), Bytes{}), kMinHeld);
  for (std::size_t i = 0; i < p.containers.grown->size(); ++i) {
    PythonHeap::Reached reached;
    if (!kept.living.empty()) reached = heap.reach(i, [&](std::uint64_t at) { return kept.kept_at(at); });
    std::uint64_t blocks = reached.blocks.size() + reached.own.has_value();
    if (!blocks && (*p.containers.grown)[i].least < least) continue;
    std::map<std::uint32_t, std::uint64_t> by_site;
    auto site_at = [&](std::uint64_t block) { return kept.living.at(block).site; };
    for (std::uint64_t block : reached.blocks) ++by_site[site_at(block)];
    std::optional<std::uint32_t> of_own;
    if (reached.own) by_site.try_emplace(*(of_own = site_at(*reached.own)));
    double part = std::min(
        1.0, static_cast<double>(reached.looked_at) / static_cast<double>((*p.containers.grown)[i].added));
    for (auto [site, count] : by_site) {
      std::uint64_t own = of_own == site;
      Lead& lead = leads[site];
      if (holds_site(count, own, kept.sites.at(site).blocks, part) && count + own > lead.blocks)
        lead = {count + own, static_cast<std::uint32_t>(all.size())};
    }
    all.push_back({(*p.containers.grown)[i], blocks, additions_to(p, i)});
  }
  std::vector<std::uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return all[a].blocks > all[b].blocks; });
  for (std::uint32_t i : order) out.holders->all.push_back(all[i]);
  for (const auto& [site, lead] : leads) {
    if (!lead.blocks || site >= out.sites.size()) continue;
    auto at = std::find(order.begin(), order.end(), lead.holder);
    out.sites[site].held_by = static_cast<std::uint32_t>(at - order.begin());
  }
}

namespace {

// What the parts have in common: of functions that touched none themselves, and without the line. Who touched
// some made them for a moment, perhaps, and what is called by the next line keeps.
Stack common_to(const BlameProcess& process, std::span<const std::size_t> parts) {
  Stack out = process.sites[parts.front()].stack;
  std::set<std::pair<std::string, std::string>> touched;
  for (std::size_t i : parts) {
    const Stack& stack = process.sites[i].stack;
    out.erase(std::mismatch(out.begin(), out.end(), stack.begin(), stack.end()).first, out.end());
    const Frame& inner = *innermost_python(stack);
    touched.emplace(inner.file, inner.function);
  }
  auto calls = [&](const Frame& frame) {
    return frame.kind == Frame::Kind::python && !touched.contains({frame.file, frame.function});
  };
  out.erase(std::find_if(out.rbegin(), out.rend(), calls).base(), out.end());
  if (!out.empty()) out.back().line.reset();
  return out;
}

// To each container what was added to it takes of them, by its number; to nullopt what none is known to hold.
std::map<std::optional<std::uint32_t>, Bytes> by_holder(const BlameProcess& process, Bytes small_objects) {
  constexpr double kMinOfThem = 0.05, kNearlyAll = 0.8;
  std::map<std::optional<std::uint32_t>, Bytes> out;
  Bytes held;
  for (std::uint32_t i = 0; process.holders && i < process.holders->all.size(); ++i) {
    Bytes small = process.holders->all[i].holder.small;
    if (small < scaled(small_objects, kMinOfThem)) continue;
    out[i] = small;
    held += small;
  }
  if (held >= scaled(small_objects, kNearlyAll))
    for (auto& [holder, bytes] : out) bytes = scaled(bytes, small_objects.as_double() / held.as_double());
  else
    out[std::nullopt] = small_objects - held;
  return out;
}

}  // namespace

void join_small_objects(BlameProcess& process, std::span<const double> in_pools) {
  constexpr double kMinOfGrowth = 0.1;
  BlameSite joined;
  joined.small_objects = true;
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < process.sites.size(); ++i) {
    if (in_pools[i] <= 0 || !innermost_python(process.sites[i].stack)) continue;
    joined.grown += scaled(process.sites[i].grown, in_pools[i]);
    parts.push_back(i);
  }
  if (joined.grown <= Bytes{} || joined.grown < scaled(process.grown(), kMinOfGrowth)) return;
  joined.stack = common_to(process, parts);
  for (std::size_t i : parts) {
    BlameSite& site = process.sites[i];
    site.grown -= scaled(site.grown, in_pools[i]);
    Bytes touched = scaled(site.touched, in_pools[i]);
    site.touched -= touched;
    joined.touched += touched;
  }
  auto add = [&](BlameSite site, Bytes grown) {
    site.touched = scaled(joined.touched, grown.as_double() / joined.grown.as_double());
    site.grown = grown;
    process.sites.push_back(std::move(site));
  };
  for (auto [holder, bytes] : by_holder(process, joined.grown)) {
    BlameSite site = joined;
    site.held_by = holder;
    std::span<const BlameAddition> additions;
    if (holder) additions = process.holders->all[*holder].additions;
    std::uint64_t seen = 0;
    for (const BlameAddition& each : additions) seen += each.seen;
    if (!seen) add(site, bytes);
    site.small_objects = false;
    site.adds = true;
    for (const BlameAddition& each : additions) {
      site.stack = each.stack;
      add(site, scaled(bytes, static_cast<double>(each.seen) / static_cast<double>(seen)));
    }
  }
}

// Of each site.
std::vector<double> Blame::parts_in_pools(const Process& p, const BlameProcess& out) {
  std::vector<double> pools(out.sites.size()), all(out.sites.size());
  // 32 MiB of cache each: of who was looked at alone.
  PythonHeap* heap = p.containers.grown ? p.view->python_heap() : nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = out.sites[i].kept.bytes.as_double();
  for (const Sample& sample : p.samples) {
    if (!heap || sample.gone || sample.shared) continue;
    all[sample.site] += sample.weight.as_double();
    if (heap->has_small_objects(sample.address)) pools[sample.site] += sample.weight.as_double();
  }
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (all[i] > 0) pools[i] /= all[i];
  return pools;
}

}  // namespace oomcast
