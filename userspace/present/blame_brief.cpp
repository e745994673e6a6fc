#include "present/blame_brief.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "present/blame.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxProcesses = 16, kMaxSites = 8, kMaxCallers = 8, kMaxName = 256;
constexpr std::size_t kMaxAddedTo = 8, kMaxAdders = 2, kMaxAdderCallers = 2;

// Below main, or a thread's start function: every program has it.
bool begins_everything(const Frame& frame) {
  std::string_view f = frame.function;
  return frame.kind == Frame::Kind::native &&
         (f == "_start" || f.starts_with("__libc_start") || f == "start_thread" || f.starts_with("clone") ||
          f == "__clone3");
}

// The end of a path identifies a file better than its beginning.
void shorten_path(std::string& path) {
  if (path.size() > kMaxName) path.erase(0, path.size() - kMaxName);
}

void shorten(std::string& name) {
  if (name.size() > kMaxName) name.resize(kMaxName);
}

Stack in_brief(const Stack& stack, std::size_t most = kMaxCallers) {
  Stack out;
  for (const Frame* frame : from_culprit(stack, most)) out.push_back(*frame);
  for (Frame& frame : out) {
    shorten(frame.function);
    shorten_path(frame.file);
  }
  std::ranges::reverse(out);
  return out;
}

// Keeps those that add most, and the sum of the others, without a stack.
void cut_additions(std::vector<BlameAddition>& additions, std::size_t most) {
  BlameAddition others;
  for (std::size_t i = 0; i < additions.size(); ++i)
    if (i < most)
      additions[i].stack = in_brief(additions[i].stack, kMaxAdderCallers);
    else
      others.seen += additions[i].seen;
  if (additions.size() > most) additions.resize(most);
  if (others.seen) additions.push_back(std::move(others));
}

// Merges sites that differ only inside of their culprit; the largest first.
std::vector<BlameSite> in_brief(const std::vector<BlameSite>& sites) {
  std::map<std::tuple<Stack, std::optional<std::uint32_t>, bool, bool>, BlameSite> joined;
  for (const BlameSite& site : sites) {
    Stack stack = in_brief(site.stack);
    auto [at, fresh] = joined.try_emplace({stack, site.held_by, site.adds, site.small_objects});
    BlameSite& sum = at->second;
    if (fresh) {
      sum.stack = std::move(stack);
      sum.held_by = site.held_by;
      sum.adds = site.adds;
      sum.small_objects = site.small_objects;
    }
    sum.grown += site.grown;
    sum.touched += site.touched;
    sum.samples += site.samples;
    sum.kept.bytes += site.kept.bytes;
    sum.kept.error += site.kept.error;
    sum.kept.blocks += site.kept.blocks;
    sum.kept.objects += site.kept.objects;
  }
  std::vector<BlameSite> out;
  for (auto& [key, site] : joined) out.push_back(std::move(site));
  std::ranges::stable_sort(out, [](const BlameSite& a, const BlameSite& b) {
    return std::tie(a.grown, a.touched) > std::tie(b.grown, b.touched);
  });
  if (out.size() > kMaxSites) out.resize(kMaxSites);
  return out;
}

}  // namespace

std::vector<const Frame*> from_culprit(const Stack& stack, std::size_t most) {
  std::vector<const Frame*> out;
  const Frame* top = culprit(stack);
  bool inside = true;
  auto frames = readable(stack);
  if (top && std::ranges::find(frames, top) == frames.end()) out.push_back(top);
  for (auto frame = frames.rbegin(); frame != frames.rend() && out.size() < most; ++frame) {
    inside = inside && out.empty() && *frame != top;
    if (!inside && (out.empty() || !begins_everything(**frame))) out.push_back(*frame);
  }
  return out;
}

BlameReport in_brief(BlameReport report) {
  if (report.processes.size() > kMaxProcesses) report.processes.resize(kMaxProcesses);
  report.unread.clear();
  for (BlameProcess& process : report.processes) {
    process.process.cmdline = {};
    process.process.cgroup = nullptr;
    shorten(process.why_not_kept);
    shorten(process.why_not_added);
    process.sites = in_brief(process.sites);
    if (!process.holders) continue;
    for (std::size_t i = 0; i < process.holders->all.size(); ++i)
      cut_additions(process.holders->all[i].additions, i < kMaxAddedTo ? kMaxAdders : 0);
    for (BlameHolder& each : process.holders->all) {
      shorten(each.holder.path);
      shorten(each.holder.type);
      shorten(each.holder.of);
    }
    if (process.holders->types)
      for (GrownType& each : *process.holders->types) shorten(each.type);
  }
  return report;
}

}  // namespace oomcast
