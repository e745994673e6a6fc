// Names of cgroups, processes and kills in sentences. Every text is safe on a terminal.
#pragma once

#include <string>

#include "model/facts.h"

namespace oomcast {

/// Short: a plain cgroup's path, what its runtime calls another; "host" for null.
std::string label(const CgroupPtr& cgroup);
/// The whole path; "the host" for null.
std::string path_of(const CgroupPtr& cgroup);
/// "python3[1234] train.py": the name, the pid and the most telling argument.
std::string name_of(const ProcessRef& process);
/// 64 columns at most; what is longer loses its middle.
std::string short_name(const std::string& name);
/// "/train", "the machine": as a sentence names the limit's owner. Of a long path its last part: the headline
/// has all of it.
std::string owner_name(const Episode& e);
/// "python3[4301] train.py was OOM-killed: /train hit its memory limit of 512 MiB"; `host`: where, empty:
/// here.
std::string oom_message(const Episode& e, const std::string& host = "");

}  // namespace oomcast
