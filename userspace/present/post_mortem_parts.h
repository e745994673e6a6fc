// The parts of make_post_mortem(), each a pure function of the results of earlier parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "present/post_mortem.h"
#include "stream/facts.h"
#include "stream/names.h"

namespace oomcast {

constexpr double kNearlyFull = 0.9;  // of what was available at the kill

ClockMap clock_of(const RunInfo& run);
/// For sums of known values only.
inline Bytes known(const std::optional<Bytes>& size) {
  return size ? *size : Bytes{};
}
/// The limit's cgroup starts a new life after an earlier kill at the same limit.
MonoTime life_began(const StoredEpisode& e);
/// Seconds from the kill; negative: before it.
double from_kill(const StoredEpisode& e, MonoTime t);
bool same_cgroup(const CgroupPtr& a, const CgroupPtr& b);
/// The cgroup whose limit was hit, or the host's root.
bool is_owner(const StoredEpisode& e, const CgroupPtr& cgroup);
/// "1 page (order 0), 0xcc0(GFP_KERNEL)": the allocation that failed; "": there was none, or it is unknown.
std::string request_of(const Episode& e);
bool is_victim(const Episode& e, const ProcessRef& process);
/// Time of the kill: format_moment(), or what an undated log has instead.
std::string moment_of(const StoredEpisode& e);

Timeline make_timeline(const PostMortem& report);
std::optional<PostMortemMemory> find_memory(const StoredEpisode& e);
std::optional<Rise> find_rise(const StoredEpisode& e);
std::vector<Finding> make_findings(const PostMortem& report);
std::vector<Finding> make_prevention(const PostMortem& report);
std::vector<std::string> make_unknown(const PostMortem& report);
std::vector<Finding> make_next(const PostMortem& report);

}  // namespace oomcast
