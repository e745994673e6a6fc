// What make_post_mortem() is put together from, each a pure function of what the parts before it left.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "present/post_mortem.h"
#include "stream/facts.h"
#include "stream/names.h"

namespace oomcast {

constexpr double kNearlyFull = 0.9;  // of what was there at the kill

ClockMap clock_of(const RunInfo& run);
/// As a part of a sum of what is known.
inline Bytes known(const std::optional<Bytes>& size) {
  return size ? *size : Bytes{};
}
/// After an earlier kill at the same limit it is another life.
MonoTime life_began(const StoredEpisode& e);
/// Seconds from the kill; negative: before it.
double from_kill(const StoredEpisode& e, MonoTime t);
bool same_cgroup(const CgroupPtr& a, const CgroupPtr& b);
/// The cgroup whose limit was met, or the host's root.
bool is_owner(const StoredEpisode& e, const CgroupPtr& cgroup);
/// "1 page (order 0), 0xcc0(GFP_KERNEL)": what could not be given; "": nothing was asked for, or it is not
/// known.
std::string request_of(const Episode& e);
bool is_victim(const Episode& e, const ProcessRef& process);
/// When the kill was: format_moment(), or what an undated log has instead.
std::string moment_of(const StoredEpisode& e);

Timeline make_timeline(const PostMortem& report);
std::optional<PostMortemMemory> find_memory(const StoredEpisode& e);
std::optional<Rise> find_rise(const StoredEpisode& e);
std::vector<Finding> make_findings(const PostMortem& report);
std::vector<Finding> make_prevention(const PostMortem& report);
std::vector<std::string> make_unknown(const PostMortem& report);
std::vector<Finding> make_next(const PostMortem& report);

}  // namespace oomcast
