#include "stream/names.h"

#include <fmt/format.h>

#include "stream/cells.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kLongestName = 64;   // columns, in a sentence
constexpr std::size_t kLongestOwner = 32;  // of the limit: it is in most sentences

}  // namespace

std::string label(const CgroupPtr& cgroup) {
  if (!cgroup) return "host";
  // A plain directory's last component says little; what a runtime made is better known by its short name.
  return displayable(cgroup->name.kind == CgroupKind::plain ? cgroup->path : cgroup->name.name);
}

std::string path_of(const CgroupPtr& cgroup) {
  return cgroup ? displayable(cgroup->path) : "the host";
}

std::string name_of(const ProcessRef& process) {
  return settle_marks(describe(process));
}

std::string short_name(const std::string& name) {
  return cut_middle(name, kLongestName);
}

std::string owner_name(const Episode& e) {
  if (!e.limit_cgroup) return "the machine";
  std::string name = label(e.limit_cgroup);
  return display_width(name) <= kLongestOwner ? name : short_name(displayable(e.limit_cgroup->name.name));
}

std::string oom_message(const Episode& e, const std::string& host) {
  std::string who = e.victims.empty() ? "A process" : short_name(name_of(e.victims.front().process));
  if (e.victims.size() > 1)
    who +=
        fmt::format(" and {} more process{} were", e.victims.size() - 1, e.victims.size() == 2 ? "" : "es");
  else
    who += " was";
  std::string why;
  switch (e.scope.value_or(e.limit_cgroup ? OomScope::memcg : OomScope::global)) {
    case OomScope::memcg:
      why = fmt::format("{} hit its memory limit{}",
                        e.limit_cgroup ? short_name(label(e.limit_cgroup)) : "a memory cgroup",
                        e.limit ? " of " + format_size(*e.limit) : "");
      break;
    case OomScope::global:
      why = "the machine ran out of memory";
      break;
    case OomScope::cpuset:
      why = "the memory nodes of its cpuset ran out, not those of the whole machine";
      break;
    case OomScope::mempolicy:
      why = "the memory nodes of its NUMA policy ran out, not those of the whole machine";
      break;
    case OomScope::sysrq:
      why = "somebody asked for an OOM kill (SysRq f)";
      break;
  }
  std::string on = host.empty() ? "" : " on " + short_name(displayable(host));
  return fmt::format("{} OOM-killed{}: {}", who, on, why);
}

}  // namespace oomcast
