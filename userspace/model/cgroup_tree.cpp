#include "model/cgroup_tree.h"

#include <algorithm>

namespace oomcast {
namespace {

constexpr int kMaxDepth = 128;

std::string join(std::string_view parent, std::string_view name) {
  std::string path(parent);
  if (path.empty() || path.back() != '/') path += '/';
  path += name;
  return path;
}

CgroupPtr make_ref(CgroupId id, std::string path) {
  auto ref = std::make_shared<CgroupRef>();
  ref->id = id;
  ref->name = name_cgroup(path);
  ref->path = std::move(path);
  return ref;
}

}  // namespace

CgroupState& CgroupTree::add(std::uint64_t inode, std::optional<std::uint64_t> parent, std::string path) {
  CgroupState& state = cgroups_[inode];
  if (state.removed) state = {};  // the inode came again: another cgroup
  if (!state.ref || state.ref->path != path) state.ref = make_ref({hierarchy_, inode}, std::move(path));
  state.parent = parent;
  return state;
}

CgroupState* CgroupTree::add_child(std::uint64_t inode, std::uint64_t parent, std::string_view name) {
  const CgroupState* above = find(parent);
  return above ? &add(inode, parent, join(above->ref->path, name)) : nullptr;
}

void CgroupTree::rename(std::uint64_t inode, std::string_view name) {
  CgroupState* state = find(inode);
  if (!state) return;
  std::string old_path = state->ref->path;
  std::string new_path = join(old_path.substr(0, old_path.rfind('/')), name);
  for (auto& [id, other] : cgroups_) {
    const std::string& path = other.ref->path;
    bool below = path.size() > old_path.size() && path.starts_with(old_path) && path[old_path.size()] == '/';
    if (id == inode || below) other.ref = make_ref(other.ref->id, new_path + path.substr(old_path.size()));
  }
}

void CgroupTree::remove(std::uint64_t inode, MonoTime now) {
  if (CgroupState* state = find(inode); state && !state->removed) state->removed = now;
}

std::vector<std::uint64_t> CgroupTree::forget_removed(MonoTime before) {
  std::vector<std::uint64_t> gone;
  for (auto at = cgroups_.begin(); at != cgroups_.end();) {
    if (at->second.removed && *at->second.removed < before) {
      gone.push_back(at->first);
      at = cgroups_.erase(at);
    } else {
      ++at;
    }
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
  for (const auto& [inode, state] : cgroups_) {
    if (state.ref->path != path) continue;
    if (!state.removed) return &state;
    if (!removed || *removed->removed < *state.removed) removed = &state;
  }
  return removed;
}

CgroupPtr CgroupTree::ref(std::optional<std::uint64_t> inode) const {
  const CgroupState* state = inode ? find(*inode) : nullptr;
  return state ? state->ref : nullptr;
}

bool CgroupTree::is_below(std::uint64_t inode, std::uint64_t top) const {
  std::optional<std::uint64_t> at = inode;
  for (int depth = 0; at && depth < kMaxDepth; ++depth) {
    if (*at == top) return true;
    const CgroupState* state = find(*at);
    at = state ? state->parent : std::nullopt;
  }
  return false;
}

CgroupTree::Tightest CgroupTree::tightest_limit(std::uint64_t inode, std::optional<Bytes> host) const {
  Tightest out;
  std::optional<std::uint64_t> at = inode;
  for (int depth = 0; at && depth < kMaxDepth; ++depth) {
    const CgroupState* state = find(*at);
    if (!state) break;
    if (state->limit && (!out.limit || *state->limit < *out.limit)) out = {state->limit, state->ref};
    at = state->parent;
  }
  if (out.limit && host && *host <= *out.limit) return {};
  return out;
}

}  // namespace oomcast
