// The allocation that failed, and the time of the kill, in words.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/escape.h"
#include "present/post_mortem_parts.h"
#include "present/report.h"
#include "stream/cells.h"

namespace oomcast {
namespace {

struct GfpMeaning {
  std::string_view flag, meaning;
};
// The first entry whose name is among the flags is used.
constexpr std::array kGfpMeanings = {
    GfpMeaning{"GFP_HIGHUSER", "a page for a process's own memory or a file"},
    GfpMeaning{"GFP_TRANSHUGE", "a huge page for a process's own memory"},
    GfpMeaning{"__GFP_MOVABLE",
               "a page for a process's own memory or a file"},  // GFP_NOFS for the page cache
    GfpMeaning{"GFP_USER", "memory for a process, which the kernel reads and writes, too"},
    GfpMeaning{"GFP_DMA32", "memory below 4 GiB, for a device"},
    GfpMeaning{"GFP_DMA", "memory below 16 MiB, for a device"},
    GfpMeaning{"GFP_ATOMIC", "the kernel's own memory, at once: it could not wait"},
    GfpMeaning{"GFP_NOFS", "the kernel's own memory, in the middle of a file system's work"},
    GfpMeaning{"GFP_NOIO", "the kernel's own memory, in the middle of a device's work"},
    GfpMeaning{"GFP_KERNEL", "the kernel's own memory: a page table, a stack, a buffer"},
};

// A charge to a memory cgroup has GFP_KERNEL for process memory, too.
std::string meaning_of_request(const Episode& e) {
  std::string_view flags = *e.request.gfp;
  bool charge = e.limit_cgroup || e.scope == OomScope::memcg;
  if (charge && flags.find("(GFP_KERNEL)") != std::string_view::npos) return "a charge to the cgroup";
  for (const GfpMeaning& known : kGfpMeanings)
    if (flags.find(known.flag) != std::string_view::npos) return std::string(known.meaning);
  return "";
}

// Decimals of the second. A log line is printed some ms after its kill, and the log's clock drifts from wall
// time, so four sources of one kill differ by some 30 ms.
unsigned true_digits(const StoredEpisode& e, WallTime at) {
  if (e.source == EpisodeSource::live) return 3;
  constexpr Nanos kTenth = std::chrono::milliseconds(100);
  bool whole = at.time_since_epoch() % std::chrono::seconds(1) == Nanos{};
  return whole || e.logged.time_error >= kTenth ? 0 : 1;
}

}  // namespace

std::string request_of(const Episode& e) {
  if (!e.request.order || *e.request.order < 0 || *e.request.order > 20) return "";
  std::string out = *e.request.order == 0 ? "1 page (order 0)"
                                          : fmt::format("{} pages in a row (order {})", 1 << *e.request.order,
                                                        *e.request.order);
  if (e.request.gfp) out += ", " + displayable(*e.request.gfp);
  if (std::string meaning = e.request.gfp ? meaning_of_request(e) : ""; !meaning.empty())
    out += ": " + meaning;
  return out;
}

std::string moment_of(const StoredEpisode& e) {
  std::string after = e.logged.since_boot ? format_duration(*e.logged.since_boot) + " after the boot" : "";
  if (!e.logged.dated) return "time of day not known" + (after.empty() ? "" : ": " + after);
  WallTime at = clock_of(e.run).wall(e.told.episode.time);
  std::string out = format_moment(at, true_digits(e, at));
  if (e.logged.time_error > std::chrono::seconds(2)) out += " ±" + format_duration(e.logged.time_error);
  return out;
}

}  // namespace oomcast
