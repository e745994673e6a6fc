// Building blocks of sentences about a kill.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "present/post_mortem_parts.h"

namespace oomcast {

std::string ago(double s);
/// "18.4 MiB/s", for a sentence that already says that it is growth.
std::string speed(BytesPerSec rate);
std::string ago(Seconds s);
std::string short_name_of(const ProcessRef& p);
std::string clock_at(const StoredEpisode& e, double at);
/// The forecasts for the limit's cgroup before the kill, without those made too early for a verdict.
std::vector<const ForecastFact*> foretold(const StoredEpisode& e);
std::optional<Bytes> limit_of(const StoredEpisode& e);
const Victim* first_victim(const Episode& e);
/// The flag that makes a command follow the limit's owner, or else the victim's cgroup: " --unit NAME" or "
/// --cgroup PATH". "": that cgroup is unknown, the root, gone, or its name needs quotes in a shell.
std::string scope_of(const Episode& e);
bool culprit_is_victim(const PostMortem& r);
/// The kernel's data on the machine for a global OOM kill: zones, NUMA nodes, swap.
std::optional<Finding> where_it_ran_out(const PostMortem& report);
/// For a global OOM kill: the largest counter of the kernel's report, and the others if anonymous memory is
/// less than half of the RAM. nullopt: the report has no such counters.
std::optional<Finding> where_the_machines_memory_was(const PostMortem& report);
/// "zone Normal of node 1".
std::string name_of(const ZoneLine& zone);
/// The largest slabs, as evidence; "": not in the report.
std::string largest_slabs(const Episode& e);

}  // namespace oomcast
