// oomcast history: all known OOM kills, and how often they recur.
#include <fmt/format.h>

#include <algorithm>

#include "app/commands.h"
#include "app/known_kills.h"
#include "app/scope.h"
#include "app/tracing.h"
#include "base/clock.h"
#include "base/print.h"
#include "present/past_kills.h"

namespace oomcast {
namespace {

bool is_below(const CgroupPtr& cgroup, const std::string& path) {
  return cgroup && in_scope(cgroup->path, path);
}

// Applies the filters.
void choose(const Options& options, std::vector<PastKill>& kills) {
  std::string path = path_of_typed(options.scope.cgroup.value_or("/"));
  std::erase_if(kills, [&](const PastKill& kill) {
    if (options.history.since && (!kill.time || *kill.time < *options.history.since)) return true;
    if (!options.scope.cgroup) return false;
    const Episode& e = kill.episode;
    return !is_below(e.limit_cgroup, path) &&
           std::ranges::none_of(e.victims, [&](const Victim& v) { return is_below(v.process.cgroup, path); });
  });
}

}  // namespace

Result<int> history(const Options& options) {
  HistoryFacts facts;
  facts.version = OOMCAST_VERSION;
  facts.now = wall_now();
  facts.of_files = !options.history.logs.empty() && !options.store.named;
  bool keeps = !facts.of_files && options.history.import && !options.store.path.empty();
  auto known = find_kills(options, facts.now, options.output.json ? EpisodeParts::all : EpisodeParts::victims,
                          keeps && !options.history.logs.empty());
  if (!known) return known.error();
  auto& kills = known->kills;
  if (keeps) keep_kills(options, kills);
  facts.sources = std::move(known->sources);
  facts.user_kills = std::move(known->user_kills);
  facts.left_out = known->left_out;
  facts.user_kills_left_out = known->user_kills_left_out;
  facts.without_victim = known->without_victim;
  facts.filtered = options.scope.cgroup || options.history.since;
  choose(options, kills);
  std::erase_if(facts.user_kills, [&](const LoggedUserKill& of) {
    bool outside = options.scope.cgroup &&
                   (!of.kill.cgroup || !in_scope(*of.kill.cgroup, path_of_typed(*options.scope.cgroup)));
    return outside || (options.history.since && (!of.time || *of.time < *options.history.since));
  });
  facts.machine = this_machine();
  facts.columns = terminal_columns();
  Output output(options);
  bool ok = print(stdout, options.output.json ? history_json(kills, facts)
                                              : history_text(kills, facts, TextStyle{output.color()}));
  if (!ok) return stdout_failed();
  if (known->unread) return *known->unread;
  return 0;
}

}  // namespace oomcast
