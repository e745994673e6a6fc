#include "app/snapshots.h"

#include <optional>
#include <utility>

#include "collect/headroom.h"

namespace oomcast {
namespace {

std::optional<Bytes> memory_of_host(const World& world) {
  return world.host() ? world.host()->total : std::nullopt;
}

std::optional<Forecast> known(const Forecast* forecast) {
  return forecast ? std::optional(*forecast) : std::nullopt;
}

bool is_subject(const World& world, const CgroupState& cgroup) {
  return cgroup.ref->name.kind != CgroupKind::root && !cgroup.removed &&
         world.cgroup_in_scope(cgroup.ref->id.inode);
}

std::optional<AlertInput> host_input(const World& world, const Book& book) {
  auto room = world.host() ? host_headroom(*world.host()) : std::nullopt;
  if (!world.scope().whole_machine || !room) return std::nullopt;
  AlertInput in;
  in.host = true;
  world.cgroups().for_each([&](const CgroupState& c) {
    if (c.ref->name.kind == CgroupKind::root) in.cgroup = c.ref;  // what stands for it elsewhere
  });
  in.level = room->pinned;
  in.limit = room->limit;
  in.forecast = known(book.of(world.host_ref()->id));
  return in;
}

AlertInput card_input(const OverviewCard& card, const Book& book) {
  AlertInput in;
  in.device = card.now.device;
  in.level = card.now.held;
  in.limit = card.now.limit;
  in.forecast = known(book.of(*in.device));
  return in;
}

AlertInput tree_input(const ForecastFact& tree, const Book& book) {
  AlertInput in;
  in.process = tree.process;
  in.cgroup = tree.process->cgroup;
  in.level = book.tree_holds();
  in.limit = tree.forecast.limit;
  in.limit_cgroup = tree.limit_cgroup;
  in.forecast = tree.forecast;
  return in;
}

}  // namespace

std::vector<AlertInput> alert_inputs(const World& world, const Book& book,
                                     const std::vector<OverviewCard>& cards) {
  std::vector<AlertInput> out;
  world.cgroups().for_each([&](const CgroupState& c) {
    if (!c.pinned || !is_subject(world, c)) return;
    AlertInput in;
    in.cgroup = c.ref;
    in.level = c.pinned->value;
    in.limit = c.headroom_limit;
    in.limit_cgroup = world.cgroups().tightest_limit(c.ref->id.inode, memory_of_host(world)).owner;
    in.forecast = known(book.of(c.ref->id));
    out.push_back(std::move(in));
  });
  if (auto host = host_input(world, book)) out.push_back(*std::move(host));
  for (const OverviewCard& card : cards) out.push_back(card_input(card, book));
  if (const ForecastFact* tree = book.tree()) out.push_back(tree_input(*tree, book));
  return out;
}

std::vector<OverviewRow> overview_rows(const World& world, const Book& book) {
  std::vector<OverviewRow> out;
  if (world.scope().whole_machine && world.host()) {
    OverviewRow host;
    const MemInfo& info = *world.host();
    if (info.total && info.free) host.usage = *info.total - *info.free;
    host.limit = info.total;
    if (auto room = host_headroom(info)) host.pinned = room->pinned;
    if (const Forecast* forecast = book.of(world.host_ref()->id)) host.forecast = *forecast;
    out.push_back(std::move(host));
  }
  world.cgroups().for_each([&](const CgroupState& c) {
    if (!is_subject(world, c)) return;
    auto tightest = world.cgroups().tightest_limit(c.ref->id.inode, memory_of_host(world));
    OverviewRow row;
    row.cgroup = c.ref;
    row.usage = c.usage;
    row.limit = tightest.limit;
    row.limit_cgroup = tightest.owner;
    if (c.pinned) row.pinned = c.pinned->value;
    if (const Forecast* forecast = book.of(c.ref->id)) row.forecast = *forecast;
    out.push_back(std::move(row));
  });
  return out;
}

}  // namespace oomcast
