#include "collect/bpf_source_additions.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "collect/perf_event.h"
#include "collect/procfs.h"
#include "wire/fault.h"

namespace oomcast {

Status AdditionProbes::watch(std::span<const std::uint64_t> lengths, MonoTime now) {
  lengths = lengths.first(std::min(lengths.size(), kMaxLengths));
  std::erase_if(probes_,
                [&](const Probe& probe) { return std::ranges::find(lengths, probe.at) == lengths.end(); });
  auto threads = ProcFs(programs_.roots).list_threads(tgid_, kMaxThreads);
  if (!threads) return threads.error();
  Status first = Ok{};
  for (std::uint64_t at : lengths)
    for (std::uint32_t thread : *threads) {
      Probe probe{{}, at, thread};
      bool is_set = std::ranges::any_of(
          probes_, [&](const Probe& other) { return other.at == at && other.thread == thread; });
      if (is_set) continue;
      if (arm(probe))
        probes_.push_back(std::move(probe));
      else if (first)
        first = Error::from_errno("setting a data breakpoint");
    }
  arm_at_ = now + kEvery;
  return probes_.empty() ? first : Ok{};
}

// By a new event: one that has gone off by itself stays off on 6.18, whatever is asked of it. What was
// written meanwhile is not known: the first write is no addition.
bool AdditionProbes::arm(Probe& probe) const {
  auto key = wire::length_key(tgid_, probe.at);
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = PERF_TYPE_BREAKPOINT;
  attr.bp_type = HW_BREAKPOINT_W;
  attr.bp_addr = probe.at;
  attr.bp_len = HW_BREAKPOINT_LEN_8;
  attr.sample_period = 1;
  attr.exclude_kernel = attr.exclude_hv = 1;
  attr.disabled = 1;
  probe.event.reset();
  bpf_map_delete_elem(programs_.lengths, key.data());
  probe.event = open_perf_event(attr, static_cast<pid_t>(probe.thread), -1);
  ++probe.armed;
  int program = bpf_program__fd(programs_.on_addition);
  return probe.event && ioctl(probe.event.get(), PERF_EVENT_IOC_SET_BPF, program) == 0 &&
         ioctl(probe.event.get(), PERF_EVENT_IOC_REFRESH, kWrites) == 0;
}

void AdditionProbes::advance(MonoTime now) {
  if (now < arm_at_) return;
  arm_at_ = now + kEvery;
  for (Probe& probe : probes_) {
    std::uint64_t writes = 0;
    bool off = probe.armed < kTimes && probe.event &&
               read(probe.event.get(), &writes, sizeof(writes)) == sizeof(writes) && writes >= kWrites;
    if (off) arm(probe);
  }
}

Nanos AdditionProbes::next(MonoTime now) const {
  return probes_.empty() ? std::chrono::hours(1) : std::max<Nanos>(arm_at_ - now, Nanos{});
}

}  // namespace oomcast
