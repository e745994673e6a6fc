#include "collect/bpf_source_additions.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "collect/procfs.h"
#include "wire/fault.h"

namespace oomcast {

Status AdditionProbes::watch(std::span<const std::uint64_t> lengths, MonoTime now) {
  lengths = lengths.first(std::min(lengths.size(), kMaxLengths));
  std::erase_if(lengths_, [&](const Length& length) {
    if (std::ranges::find(lengths, length.at) != lengths.end()) return false;
    bpf_map_delete_elem(programs_.lengths, wire::length_key(tgid_, length.at).data());
    return true;
  });
  auto threads = ProcFs(programs_.roots).list_threads(tgid_, kMaxThreads);
  if (!threads) return threads.error();
  Status last = Ok{};
  for (std::uint64_t at : lengths) {
    auto known = std::ranges::find(lengths_, at, &Length::at);
    if (known != lengths_.end() && known->threads == *threads) continue;
    if (known == lengths_.end()) known = lengths_.insert(known, Length{at, {}, {}});
    known->threads = *threads;
    if (auto ok = arm(*known); !ok) {
      last = ok;
      bpf_map_delete_elem(programs_.lengths, wire::length_key(tgid_, at).data());
      lengths_.erase(known);
    }
  }
  arm_at_ = now + kEvery;
  return lengths_.empty() ? last : Ok{};
}

// Opens a new event each time: on 6.18 one that was disabled by an overflow stays off, even if enabled again.
UniqueFd AdditionProbes::open_event(std::uint64_t at, std::uint32_t thread) const {
  UniqueFd event = open_data_breakpoint(at, static_cast<pid_t>(thread), programs_.breakpoints);
  if (event && ioctl(event.get(), PERF_EVENT_IOC_SET_BPF, bpf_program__fd(programs_.on_addition)) != 0)
    event.reset();
  return event;
}

// If one thread is untraced, another thread that removes elements would seem to add those that it added.
Status AdditionProbes::arm(Length& length) const {
  auto key = wire::length_key(tgid_, length.at);
  auto set = [&](wire::WatchedLength::State state) {
    auto value = wire::encode(wire::WatchedLength{state, 0});
    return bpf_map_update_elem(programs_.lengths, key.data(), value.data(), BPF_ANY) == 0;
  };
  length.events.clear();
  ++length.armed;
  if (!set(wire::WatchedLength::State::arming)) return Error::from_errno("watching a container's length");
  for (std::uint32_t thread : length.threads) {
    UniqueFd event = open_event(length.at, thread);
    if (!event && errno == ESRCH) continue;  // exited
    if (!event) return Error::from_errno("setting a data breakpoint");
    length.events.push_back(std::move(event));
  }
  for (const UniqueFd& event : length.events)
    if (ioctl(event.get(), PERF_EVENT_IOC_REFRESH, kMostWrites) != 0)
      return Error::from_errno("arming a data breakpoint");
  std::array<std::byte, 16> value{};
  bool read = bpf_map_lookup_elem(programs_.lengths, key.data(), value.data()) == 0;
  auto now = read ? wire::decode_length(value) : std::nullopt;
  bool all_seen = now && now->writes <= kMostWhileArmed;
  set(all_seen ? wire::WatchedLength::State::open : wire::WatchedLength::State::done);
  return Ok{};
}

void AdditionProbes::advance(MonoTime now) {
  if (now < arm_at_) return;
  arm_at_ = now + kEvery;
  for (Length& length : lengths_) {
    std::array<std::byte, 16> value{};
    auto key = wire::length_key(tgid_, length.at);
    if (length.armed >= kTimes || bpf_map_lookup_elem(programs_.lengths, key.data(), value.data()) != 0)
      continue;
    auto state = wire::decode_length(value);
    if (state && state->state == wire::WatchedLength::State::done) (void)arm(length);
  }
}

Nanos AdditionProbes::next(MonoTime now) const {
  return lengths_.empty() ? std::chrono::hours(1) : std::max<Nanos>(arm_at_ - now, Nanos{});
}

}  // namespace oomcast
