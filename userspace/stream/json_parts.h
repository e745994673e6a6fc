// Shared parts of the JSON renderers.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/escape.h"
#include "base/escape_json.h"
#include "base/units.h"
#include "stream/facts.h"

namespace oomcast {

using Json = nlohmann::ordered_json;

inline Json text(std::string_view bytes) {
  return to_valid_utf8(bytes);
}

template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json maybe(const std::optional<std::string>& value) {
  return value ? text(*value) : Json(nullptr);
}
inline Json maybe(const std::optional<Bytes>& value) {
  return value ? Json(value->count) : Json(nullptr);
}
inline Json maybe(const std::optional<Seconds>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}
inline Json maybe(const std::optional<BytesPerSec>& value) {
  return value ? Json(value->value) : Json(nullptr);
}

Json cgroup_json(const CgroupPtr& cgroup);
/// Whether a kernel log shows which hierarchy its cgroups are of: v1 counts memory and swap together, v2 swap
/// alone. Where it does not, leave_hierarchy_open().
bool log_shows_hierarchy(const Episode& e);
/// Makes each "hierarchy" in it null.
void leave_hierarchy_open(Json& in);
Json process_json(const ProcessRef& process, const ClockMap& clock);
Json machine_at_kill_json(const std::optional<MachineAtKill>& machine);
Json places_json(const std::vector<CodePlace>& code);
Json growth_json(const GrewFrom& from, const ClockMap& clock);
Json growth_json(const GrownHolder& holder, const ClockMap& clock);
/// null for a fact that is not shown.
Json fact_json(const Fact& fact, const ClockMap& clock);

/// JSON as every command prints it, safe on a terminal. Every string went through text(), so the writer
/// meets valid UTF-8 only; replacing is the last resort.
inline std::string dump(const Json& json) {
  return escape_json_for_terminal(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}
/// ASCII, so that no character in a page is more than what it looks like.
inline std::string dump_ascii(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace oomcast
