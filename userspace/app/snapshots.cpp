#include "app/snapshots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "model/headroom.h"

namespace oomcast {
namespace {

std::optional<Bytes> memory_of_host(const MachineModel& model) {
  return model.host() ? model.host()->total : std::nullopt;
}

std::optional<Forecast> known(const Forecast* forecast) {
  return forecast ? std::optional(*forecast) : std::nullopt;
}

bool is_subject(const MachineModel& model, const CgroupState& cgroup) {
  return cgroup.ref->name.kind != CgroupKind::root && !cgroup.removed &&
         model.cgroup_in_scope(cgroup.ref->id.inode);
}

std::optional<AlertInput> host_input(const MachineModel& model, const ForecastRegistry& forecasts) {
  auto room = model.host() ? host_headroom(*model.host()) : std::nullopt;
  if (!model.scope().whole_machine || !room) return std::nullopt;
  AlertInput in;
  in.host = true;
  model.cgroups().for_each([&](const CgroupState& c) {
    if (c.ref->name.kind == CgroupKind::root) in.cgroup = c.ref;  // identifies the host elsewhere
  });
  in.level = room->pinned;
  in.limit = room->limit;
  in.forecast = known(forecasts.of(model.host_ref()->id));
  return in;
}

AlertInput card_input(const OverviewCard& card, const ForecastRegistry& forecasts) {
  AlertInput in;
  in.device = card.now.device;
  in.level = card.now.held;
  in.limit = card.now.limit;
  in.forecast = known(forecasts.of(*in.device));
  return in;
}

AlertInput tree_input(const ForecastFact& tree, const ForecastRegistry& forecasts) {
  AlertInput in;
  in.process = tree.process;
  in.cgroup = tree.process->cgroup;
  in.level = forecasts.tree_holds();
  in.limit = tree.forecast.limit;
  in.limit_cgroup = tree.limit_cgroup;
  in.forecast = tree.forecast;
  return in;
}

}  // namespace

std::vector<AlertInput> alert_inputs(const MachineModel& model, const ForecastRegistry& forecasts,
                                     const std::vector<OverviewCard>& cards) {
  std::vector<AlertInput> out;
  model.cgroups().for_each([&](const CgroupState& c) {
    if (!c.pinned || !is_subject(model, c)) return;
    AlertInput in;
    in.cgroup = c.ref;
    in.level = c.pinned->value;
    in.limit = c.high.throttle ? c.high.throttle->limit : c.headroom_limit;
    in.limit_cgroup = c.high.throttle ? c.high.throttle->owner : c.headroom_cgroup;
    in.forecast = known(forecasts.of(c.ref->id));
    out.push_back(std::move(in));
  });
  if (auto host = host_input(model, forecasts)) out.push_back(*std::move(host));
  for (const OverviewCard& card : cards) out.push_back(card_input(card, forecasts));
  if (const ForecastFact* tree = forecasts.tree()) out.push_back(tree_input(*tree, forecasts));
  return out;
}

std::vector<Fact> newest_facts(const MachineModel& model, const ForecastRegistry& forecasts,
                               std::uint64_t inode) {
  std::vector<Fact> out;
  bool host = model.host_ref() && model.host_ref()->id.inode == inode;
  auto sample = host ? model.newest_host_sample() : model.newest_sample(inode);
  if (!sample) return out;
  CgroupId id = sample->cgroup->id;
  out.emplace_back(*std::move(sample));
  if (const ForecastFact* forecast = forecasts.newest(id)) out.emplace_back(*forecast);
  return out;
}

std::vector<OverviewRow> overview_rows(const MachineModel& model, const ForecastRegistry& forecasts) {
  std::vector<OverviewRow> out;
  if (model.scope().whole_machine && model.host()) {
    OverviewRow host;
    const MemInfo& info = *model.host();
    if (info.total && info.free) host.usage = *info.total - *info.free;
    host.limit = info.total;
    if (auto room = host_headroom(info)) host.pinned = room->pinned;
    if (const Forecast* forecast = forecasts.of(model.host_ref()->id)) host.forecast = *forecast;
    out.push_back(std::move(host));
  }
  model.cgroups().for_each([&](const CgroupState& c) {
    if (!is_subject(model, c)) return;
    auto tightest = model.cgroups().tightest_limit(c.ref->id.inode, memory_of_host(model));
    OverviewRow row;
    row.cgroup = c.ref;
    row.usage = c.usage;
    row.limit = tightest.limit;
    row.limit_cgroup = tightest.owner;
    if (c.pinned) row.pinned = c.pinned->value;
    if (const Forecast* forecast = forecasts.of(c.ref->id)) row.forecast = *forecast;
    out.push_back(std::move(row));
  });
  return out;
}

std::unordered_set<std::uint64_t> growing_cgroups(const MachineModel& model,
                                                  const ForecastRegistry& forecasts, std::size_t most) {
  struct Candidate {
    double deadline, slowness;  // s; less comes first
    std::uint64_t inode;
  };
  std::vector<Candidate> all;
  model.cgroups().for_each([&](const CgroupState& c) {
    const Forecast* f = is_subject(model, c) ? forecasts.of(c.ref->id) : nullptr;
    if (!f) return;
    Candidate candidate{std::numeric_limits<double>::infinity(), 0, c.ref->id.inode};
    for (const auto& time : {f->eta, f->eta_low})
      if (time) candidate.deadline = std::min(candidate.deadline, time->count());
    if (f->growth && std::isfinite(f->growth->rate.value)) candidate.slowness = -f->growth->rate.value;
    if (candidate.slowness < 0 || std::isfinite(candidate.deadline)) all.push_back(candidate);
  });
  auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), most));
  std::ranges::partial_sort(all, end, [](const Candidate& a, const Candidate& b) {
    return a.deadline != b.deadline ? a.deadline < b.deadline : a.slowness < b.slowness;
  });
  std::unordered_set<std::uint64_t> out;
  for (auto at = all.begin(); at != end; ++at) out.insert(at->inode);
  return out;
}

}  // namespace oomcast
