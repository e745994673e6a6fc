// From where processes grew, as JSON.
#include "stream/code_text.h"
#include "stream/json_parts.h"

namespace oomcast {
namespace {

Json place_text(const std::vector<CodePlace>& code) {
  return code.empty() ? Json(nullptr) : text(to_text(code.front()));
}

Json text_or_null(const std::string& bytes) {
  return bytes.empty() ? Json(nullptr) : text(bytes);
}

}  // namespace

Json places_json(const std::vector<CodePlace>& code) {
  Json out = Json::array();
  for (const CodePlace& place : code)
    out.push_back({{"function", to_valid_utf8(place.function)},
                   {"file", to_valid_utf8(place.file)},
                   {"line", maybe(place.line)}});
  return out;
}

Json growth_json(const GrewFrom& g, const ClockMap& clock) {
  const GrowthEvidence& known = g.evidence;
  return {{"process", process_json(g.process, clock)},
          {"at", place_text(g.code)},
          {"held_by", text_or_null(known.held_by)},
          {"basis", to_string(known.kind())},
          {"share", g.sure_share() > 0 ? Json(g.sure_share()) : Json(nullptr)},
          {"grown_bytes", g.grown.count},
          {"kept_bytes", maybe(known.kept)},
          {"kept_error_bytes", maybe(known.kept_error)},
          {"kept_unknown", text_or_null(known.kept_unknown)},
          {"touched_bytes", maybe(known.touched)},
          {"of_bytes", g.of.count},
          {"watched_s", g.watched.count()},
          {"samples", maybe(g.samples)},
          {"samples_lost", maybe(g.lost)},
          {"watched_share", maybe(g.faults_watched)},
          {"from", format_rfc3339(clock.wall(g.from))},
          {"to", format_rfc3339(clock.wall(g.to))},
          {"stack", places_json(g.code)}};
}

Json growth_json(const GrownHolder& h, const ClockMap& clock) {
  return {{"process", process_json(h.process, clock)},
          {"path", text(h.path)},
          {"type", text(h.type)},
          {"containers", h.containers},
          {"length", h.length},
          {"added", h.added},
          {"added_type", text_or_null(h.added_type)},
          {"bytes_at_least", h.least.count},
          {"of_bytes", h.of.count},
          {"added_at", place_text(h.adder)},
          {"added_at_seen", h.adder_seen},
          {"additions_seen", h.adds_seen},
          {"watched_s", h.watched.count()},
          {"from", format_rfc3339(clock.wall(h.from))},
          {"to", format_rfc3339(clock.wall(h.to))},
          {"stack", places_json(h.adder)}};
}

}  // namespace oomcast
