#include "present/gpu_at_kill.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "present/blame.h"
#include "present/post_mortem_parts.h"
#include "present/rows.h"
#include "stream/cells.h"
#include "stream/gpu_xid.h"
#include "stream/text.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxNews = 6;
constexpr Nanos kXidBefore = std::chrono::minutes(1);  // earlier events are unrelated

std::string clock_at(const StoredEpisode& e, MonoTime t) {
  return format_clock(clock_of(e.run).wall(t)).substr(0, 8);
}

// An XID on a card that one of them used, or on an unknown card, shortly before the kill.
std::optional<std::string> xid_of(const StoredEpisode& e, const std::vector<GpuAtKill>& holders,
                                  const GpuFact& f) {
  const GpuEvent& g = f.event;
  Nanos before = e.told.episode.time - f.time;
  if (before < Nanos{} || before > kXidBefore || !g.status) return std::nullopt;
  bool theirs = !g.device;
  for (const GpuAtKill& holder : holders)
    for (const GpuSample& card : holder.cards) theirs = theirs || card.device == g.device;
  if (!theirs) return std::nullopt;
  std::string out = fmt::format("{}: the driver reported Xid {}", clock_at(e, f.time), *g.status);
  if (std::string_view name = gpu_xid_name(*g.status); !name.empty()) out += fmt::format(" ({})", name);
  if (f.process) out += " of " + name_of(*f.process);
  if (g.device) out += " on " + to_string(*g.device);
  if (!g.message.empty()) out += ": " + displayable(g.message);
  return out;
}

std::optional<std::string> news_of(const StoredEpisode& e, const std::vector<GpuAtKill>& holders,
                                   const GpuFact& f) {
  const GpuEvent& g = f.event;
  if (g.op == GpuEvent::Op::xid) return xid_of(e, holders, f);
  if (!f.process) return std::nullopt;
  std::string bytes = g.bytes ? format_size(*g.bytes) : "unknown size";
  std::string who = fmt::format("{} {}", clock_at(e, f.time), name_of(*f.process));
  if (g.op == GpuEvent::Op::again && g.first)
    return fmt::format("{}: the same {} allocated again, first at {}", who, bytes, clock_at(e, *g.first));
  const CodePlace* line = culprit(g.code);
  if (g.op == GpuEvent::Op::oom)
    return fmt::format("{}: out of {}, asked for {}{}", who, memory_of(g.kind), bytes,
                       line ? " in " + to_text(*line) : std::string());
  if (g.op == GpuEvent::Op::recovered) return fmt::format("{}: got {} a moment later", who, bytes);
  if (g.op == GpuEvent::Op::oversubscribed)
    return fmt::format("{}: more than the card has, {} of managed memory pushed out", who, bytes);
  return std::nullopt;
}

}  // namespace

std::vector<GpuAtKill> gpu_at_kill(const StoredEpisode& e) {
  std::map<TaskId, std::map<std::optional<GpuUuid>, const GpuSample*>> newest;
  for (const GpuSample& s : e.gpu) {
    if (!s.process) continue;
    // A victim's final GPU memory is reported after the kill.
    if (s.time > e.told.episode.time && !is_victim(e.told.episode, *s.process)) continue;
    auto& cards = newest[s.process->id];
    if (s.ended && s.time <= e.told.episode.time)
      cards.erase(s.device);
    else
      cards[s.device] = &s;
  }
  std::vector<GpuAtKill> out;
  for (const auto& [task, cards] : newest) {
    GpuAtKill one;
    for (const auto& [device, s] : cards) {
      one.process = *s->process;
      one.held += s->held;
      one.managed = s->managed;
      one.pinned = s->pinned;
      one.since_before = one.since_before || s->since_before;
      if (s->held.count) one.cards.push_back(*s);
    }
    one.victim = is_victim(e.told.episode, one.process);
    if (one.held + known(one.managed) + known(one.pinned) > Bytes{} || one.since_before)
      out.push_back(std::move(one));
  }
  std::stable_sort(out.begin(), out.end(), [](const GpuAtKill& a, const GpuAtKill& b) {
    return a.victim != b.victim ? a.victim : a.held > b.held;
  });
  return out;
}

std::optional<Finding> who_held_gpu_memory(const StoredEpisode& e) {
  auto all = gpu_at_kill(e);
  if (all.empty()) return std::nullopt;
  auto holds = [](const GpuAtKill& g) {
    std::string out =
        fmt::format("{}{} of GPU memory", g.since_before ? "at least " : "", format_size(g.held));
    if (known(g.managed).count) out += fmt::format(", {} of managed memory", format_size(*g.managed));
    if (known(g.pinned).count) out += fmt::format(" and {} of pinned host memory", format_size(*g.pinned));
    return out;
  };
  const GpuAtKill& first = all.front();
  Finding out{fmt::format("{} {} holding {}.", cut_middle(name_of(first.process), 60),
                          first.victim ? "died" : "was", holds(first)),
              {}};
  for (const GpuSample& s : first.cards)
    out.evidence.push_back(fmt::format("{}{} on {}", format_size(s.held),
                                       s.limit ? " of " + format_size(*s.limit) : "",
                                       s.device ? to_string(*s.device) : "a card that is not known"));
  if (first.since_before)
    out.evidence.push_back("it used the driver before oomcast ran: what it had then is not known");
  for (std::size_t i = 1; i < all.size() && i < kMaxNews; ++i)
    out.evidence.push_back(fmt::format("{} held {}", name_of(all[i].process), holds(all[i])));
  std::size_t news = 0;
  for (auto f = e.gpu_events.rbegin(); f != e.gpu_events.rend() && news < kMaxNews; ++f)
    if (auto text = news_of(e, all, *f)) {
      out.evidence.push_back(*std::move(text));
      ++news;
    }
  return out;
}

std::optional<Bytes> pinned_for_gpus(const StoredEpisode& e) {
  Bytes out{};
  for (const GpuAtKill& g : gpu_at_kill(e)) out += known(g.pinned);
  return out.count ? std::optional(out) : std::nullopt;
}

}  // namespace oomcast
