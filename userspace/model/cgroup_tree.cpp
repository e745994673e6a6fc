#include "model/cgroup_tree.h"

#include <algorithm>
#include <tuple>

namespace oomcast {
namespace {

constexpr std::size_t kMaxRefused = 100'000;

std::string join(std::string_view parent, std::string_view name) {
  std::string path(parent);
  if (path.empty() || path.back() != '/') path += '/';
  path += name;
  return path;
}

CgroupPtr make_ref(CgroupId id, std::string path, bool sees_root) {
  auto ref = std::make_shared<CgroupRef>();
  ref->id = id;
  ref->name = name_cgroup(path);
  if (!sees_root && ref->name.kind == CgroupKind::root) ref->name.kind = CgroupKind::plain;
  ref->path = std::move(path);
  return ref;
}

}  // namespace

// Includes map nodes, the parts of its name, and what others keep for each cgroup: the store its last written
// sample and the pending one, the sums of stalls, the level before a profile.
std::size_t CgroupTree::bytes_of(const CgroupState& state) {
  constexpr std::size_t kNodes = 192, kElsewhere = 512;
  return sizeof(CgroupState) + sizeof(CgroupRef) + kNodes + kElsewhere +
         (state.ref ? 2 * state.ref->path.size() : 0);
}

bool CgroupTree::has_room(const CgroupState* known, std::size_t path) const {
  std::size_t before = known ? bytes_of(*known) : 0;
  return path <= kMaxPath && bytes_ - before + bytes_of({}) + 2 * path <= most_bytes_;
}

void CgroupTree::refuse(std::uint64_t inode, bool idle) {
  if (refused_.size() >= kMaxRefused && !refused_.contains(inode)) return;
  auto [at, is_new] = refused_.try_emplace(inode, false);
  if (is_new) ++refusals_;
  if (!idle && !std::exchange(at->second, true)) ++not_followed_;
}

bool CgroupTree::reconsider(std::uint64_t inode) {
  auto at = refused_.find(inode);
  if (at == refused_.end()) return false;
  if (crowded_) {
    refuse(inode, false);
    return false;
  }
  refused_.erase(at);
  return true;
}

// Frees down to 7/8, so that the next cgroup does not trigger it again. Cost: n log n.
bool CgroupTree::make_room(bool idle_alone) {
  if (crowded_) return false;
  std::unordered_set<std::uint64_t> parents;
  for (const auto& [inode, state] : cgroups_)
    if (state.parent) parents.insert(*state.parent);
  // Idle cgroups go first, those without a limit before others.
  std::vector<std::tuple<bool, bool, std::int64_t, std::uint64_t>> leaves;
  for (const auto& [inode, state] : cgroups_) {
    Bytes usage = state.usage ? *state.usage : Bytes{};
    bool idle = is_idle(usage);
    if (state.parent && !parents.contains(inode) && !state.removed && (idle || !idle_alone))
      leaves.emplace_back(!idle, idle && state.limit, usage.count, inode);
  }
  std::ranges::sort(leaves);
  for (const auto& [busy, limited, usage, inode] : leaves) {
    if (bytes_ <= most_bytes_ / 8 * 7) break;
    forget(cgroups_.find(inode));
    evicted_.push_back(inode);
    refuse(inode, !busy);
  }
  crowded_ = leaves.empty();
  return !crowded_;
}

void CgroupTree::set_room(double part) {
  most_bytes_ = static_cast<std::size_t>(part * static_cast<double>(bound_));
  crowded_ = false;
  while (bytes_ > most_bytes_ && make_room(false)) {  // evicts the innermost level of nested ones each time
  }
}

void CgroupTree::set_ref(CgroupState& state, std::uint64_t inode, std::string path) {
  if (state.ref) {
    bytes_ -= bytes_of(state);
    by_path_.erase({state.ref->path, inode});
  }
  state.ref = make_ref({hierarchy_, inode}, std::move(path), sees_root_);
  bytes_ += bytes_of(state);
  by_path_.emplace(state.ref->path, inode);
}

void CgroupTree::forget(Cgroups::iterator at) {
  bytes_ -= bytes_of(at->second);
  by_path_.erase({at->second.ref->path, at->first});
  cgroups_.erase(at);
}

CgroupState* CgroupTree::add(std::uint64_t inode, std::optional<std::uint64_t> parent, std::string path) {
  CgroupState* known = find(inode);
  // A cgroup refused once evicts no other: there may be 100,000 of them, found again by each walk.
  if (!has_room(known, path.size()) && (known || is_refused(inode) || path.size() > kMaxPath ||
                                        !make_room(true) || !has_room(known, path.size()))) {
    refuse(inode, path.size() <= kMaxPath && !known);  // how much a new one holds is unknown
    return nullptr;
  }
  refused_.erase(inode);
  CgroupState& state = known ? *known : cgroups_[inode];
  if (state.removed) {  // the inode was reused by another cgroup
    CgroupPtr before = state.ref;
    state = {};
    state.ref = std::move(before);
  }
  if (!state.ref || state.ref->path != path) set_ref(state, inode, std::move(path));
  state.parent = parent;
  return &state;
}

CgroupState* CgroupTree::add_child(std::uint64_t inode, std::uint64_t parent, std::string_view name) {
  const CgroupState* above = find(parent);
  if (auto refused = refused_.find(parent); !above && refused != refused_.end())
    refuse(inode, !refused->second);
  return above ? add(inode, parent, join(above->ref->path, name)) : nullptr;
}

void CgroupTree::rename(std::uint64_t inode, std::string_view name) {
  CgroupState* state = find(inode);
  if (!state) return;
  std::string old_path = state->ref->path;
  std::string new_path = join(old_path.substr(0, old_path.rfind('/')), name);
  std::vector<std::uint64_t> moved{inode};
  std::string above = old_path + '/';
  for (auto at = by_path_.lower_bound({above, 0}); at != by_path_.end() && at->first.starts_with(above); ++at)
    moved.push_back(at->second);
  for (std::uint64_t id : moved) {
    CgroupState& other = cgroups_.at(id);
    std::string path = new_path + other.ref->path.substr(old_path.size());
    if (has_room(&other, path.size())) set_ref(other, id, std::move(path));
  }
}

void CgroupTree::remove(std::uint64_t inode, MonoTime now) {
  refused_.erase(inode);
  if (CgroupState* state = find(inode); state && !state->removed) {
    state->removed = now;
    removed_.emplace_back(now, inode);
  }
}

std::vector<std::uint64_t> CgroupTree::forget_removed(MonoTime before) {
  std::vector<std::uint64_t> gone;
  for (; !removed_.empty() && removed_.front().first < before; removed_.pop_front()) {
    auto [when, inode] = removed_.front();
    auto at = cgroups_.find(inode);
    if (at == cgroups_.end() || at->second.removed != when) continue;  // the inode was reused
    gone.push_back(inode);
    forget(at);
    crowded_ = false;  // not before: each new cgroup would search for room in vain
  }
  return gone;
}

CgroupState* CgroupTree::find(std::uint64_t inode) {
  auto at = cgroups_.find(inode);
  return at == cgroups_.end() ? nullptr : &at->second;
}

const CgroupState* CgroupTree::find(std::uint64_t inode) const {
  auto at = cgroups_.find(inode);
  return at == cgroups_.end() ? nullptr : &at->second;
}

const CgroupState* CgroupTree::by_path(std::string_view path) const {
  const CgroupState* removed = nullptr;
  for (auto at = by_path_.lower_bound({path, 0}); at != by_path_.end() && at->first == path; ++at) {
    const CgroupState& state = cgroups_.at(at->second);
    if (!state.removed) return &state;
    if (!removed || *removed->removed < *state.removed) removed = &state;
  }
  return removed;
}

CgroupPtr CgroupTree::ref(std::optional<std::uint64_t> inode) const {
  const CgroupState* state = inode ? find(*inode) : nullptr;
  return state ? state->ref : nullptr;
}

template <typename IsTop>
bool CgroupTree::climb(std::uint64_t inode, IsTop is_top) const {
  std::optional<std::uint64_t> at = inode;
  for (int depth = 0; at && depth < kMaxDepth; ++depth) {
    if (is_top(*at)) return true;
    const CgroupState* state = find(*at);
    at = state ? state->parent : std::nullopt;
  }
  return false;
}

bool CgroupTree::is_below(std::uint64_t inode, std::uint64_t top) const {
  return climb(inode, [top](std::uint64_t at) { return at == top; });
}

bool CgroupTree::is_below_any(std::uint64_t inode, const std::unordered_set<std::uint64_t>& tops) const {
  return !tops.empty() && climb(inode, [&](std::uint64_t at) { return tops.contains(at); });
}

bool CgroupTree::Below::operator()(std::uint64_t inode) {
  auto [known, is_new] = known_.try_emplace(inode, false);
  if (is_new) known->second = tree_.is_below(inode, top_);
  return known->second;
}

template <typename Limit>
CgroupTree::Tightest CgroupTree::tightest(std::uint64_t inode, Limit limit_of) const {
  Tightest out;
  std::optional<std::uint64_t> at = inode;
  for (int depth = 0; at && depth < kMaxDepth; ++depth) {
    const CgroupState* state = find(*at);
    if (!state) break;
    const std::optional<Bytes>& own = limit_of(*state);
    if (own && (!out.limit || *own < *out.limit)) out = {own, state->ref};
    at = state->parent;
  }
  return out;
}

CgroupTree::Tightest CgroupTree::tightest_limit(std::uint64_t inode, std::optional<Bytes> host) const {
  Tightest out = tightest(
      inode, [](const CgroupState& c) -> const auto& { return c.limit; });
  if (out.limit && host && *host <= *out.limit) return {};
  return out;
}

CgroupTree::Tightest CgroupTree::tightest_high(std::uint64_t inode) const {
  return tightest(
      inode, [](const CgroupState& c) -> const auto& { return c.high.size; });
}

void CgroupTree::limit_swap(const CgroupState& cgroup, Bytes host_free, HeadroomInput& in) const {
  std::vector<SwapUse> levels;
  const CgroupState* at = &cgroup;
  for (int depth = 0; at && depth < kMaxDepth; ++depth) {
    if (at->swap) levels.push_back(*at->swap);
    at = at->parent ? find(*at->parent) : nullptr;
  }
  in.swap_free = swap_left(levels, host_free);
  for (const SwapUse& level : levels)
    if (in.swap && level.with_memory_limit &&
        (!in.swap->with_memory_limit || *level.with_memory_limit < *in.swap->with_memory_limit))
      in.swap->with_memory_limit = level.with_memory_limit;
}

}  // namespace oomcast
