#include "stream/totals.h"

namespace oomcast {

Totals::Totals(MonoTime since) {
  totals_.since = since;
  for (int scope = 0; scope <= static_cast<int>(OomScope::sysrq); ++scope)
    for (auto* counts : {&totals_.kills, &totals_.episodes})
      (*counts)[std::string(to_string(static_cast<OomScope>(scope)))] = 0;
}

void Totals::on(const Fact& fact) {
  if (auto* oom = std::get_if<OomEvent>(&fact)) {
    const Episode& e = oom->episode;
    std::string scope = e.scope ? std::string(to_string(*e.scope)) : "unknown";
    totals_.kills[scope] += e.victims.size();
    ++totals_.episodes[scope];
    if (e.group_kill == true) ++totals_.group_kills;
  }
  if (std::holds_alternative<UserKillFact>(fact)) ++totals_.user_kills;
  if (std::holds_alternative<AlertFact>(fact)) ++totals_.alerts;
  if (auto* lost = std::get_if<LostFact>(&fact)) totals_.lost[lost->reason] += lost->count;
}

TotalsFact Totals::now(MonoTime time) const {
  TotalsFact out = totals_;
  out.time = time;
  return out;
}

}  // namespace oomcast
