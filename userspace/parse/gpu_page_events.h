// Events of managed memory's pages, and where the driver's own event structures hold them. Pure.
//
// The driver calls uvm_perf_event_notify(events, id, data) for each fault and each move. Ids and offsets come
// from its headers (uvm_perf_events.h), 515.43 to 595.45; outside of these nothing is known, and nothing is
// read.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "parse/gpu_calls.h"
#include "wire/gpu_maps.h"

namespace oomcast {

/// Offsets of the relevant fields in a driver's page events.
struct GpuPageLayout {
  std::uint32_t fault_id = 0, move_id = 0;
  /// Offsets in the event's data: of a fault, who faulted; of a move, from and to which processor, how many
  /// bytes, and why.
  std::uint32_t fault_processor = 0, move_to = 0, move_from = 0, move_bytes = 0, move_cause = 0;
  /// What the low bits of a uvm file's private data are where the rest points to its va_space.
  int tag = 0;
  bool operator==(const GpuPageLayout&) const = default;
};
/// nullopt: not one of the drivers whose layout is known.
std::optional<GpuPageLayout> gpu_page_layout(const GpuDriverVersion& version);

/// Of one process since it was followed. What moves between two cards leaves the one and comes to the other.
struct GpuActivity {
  Bytes moved_in, moved_out;
  Bytes evicted;  // of `moved_out`: pushed out because the card was full
  std::uint64_t faults = 0, cpu_faults = 0;
  void add(const wire::GpuPageEvents& events);
  bool any() const { return *this != GpuActivity{}; }
  bool operator==(const GpuActivity&) const = default;
  GpuActivity operator-(const GpuActivity& before) const;
};

}  // namespace oomcast
