#include "parse/gpu_page_events.h"

#include <array>

namespace oomcast {
namespace {

struct Row {
  GpuDriverVersion from;
  GpuPageLayout layout;
};
// Each of them is in force until the next begins.
constexpr std::array kRows = {
    Row{{515, 43, 4}, {5, 6, 16, 16, 20, 32, 44, 0}},
    Row{{530, 30, 2}, {6, 7, 16, 16, 20, 32, 44, 2}},
    Row{{550, 40, 7}, {6, 7, 16, 16, 20, 40, 52, 2}},
    Row{{580, 65, 6}, {6, 7, 8, 16, 20, 40, 56, 2}},
};
constexpr GpuDriverVersion kFirstUnknown{596, 0, 0};

constexpr std::uint16_t kEviction = 4;
constexpr std::uint64_t kMaxMoved = std::uint64_t{1} << 60;

}  // namespace

std::optional<GpuPageLayout> gpu_page_layout(const GpuDriverVersion& version) {
  if (version >= kFirstUnknown) return std::nullopt;
  std::optional<GpuPageLayout> out;
  for (const Row& row : kRows)
    if (version >= row.from) out = row.layout;
  return out;
}

void GpuActivity::add(const wire::GpuPageEvents& events) {
  using Moved = wire::GpuPageEvents::What;
  if (events.bytes > kMaxMoved) return;
  Bytes bytes{static_cast<std::int64_t>(events.bytes)};
  switch (events.what) {
    case Moved::cpu_fault:
      cpu_faults += events.count;
      return;
    case Moved::card_fault:
      faults += events.count;
      return;
    case Moved::to_card:
      moved_in += bytes;
      return;
    case Moved::between_cards:
      moved_in += bytes;
      [[fallthrough]];
    case Moved::from_card:
      moved_out += bytes;
      if (events.cause == kEviction) evicted += bytes;
  }
}

GpuActivity GpuActivity::operator-(const GpuActivity& before) const {
  return {moved_in - before.moved_in, moved_out - before.moved_out, evicted - before.evicted,
          faults - before.faults, cpu_faults - before.cpu_faults};
}

}  // namespace oomcast
