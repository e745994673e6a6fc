#include "parse/series_form_table.h"

#include <algorithm>

#include "parse/text.h"

namespace oomcast {
namespace {

// Formats as of procps-ng 4, sysstat 12, docker CLI 27, psrecord 1.4, NVIDIA driver 580. The first that fits
// counts.
constexpr std::array kForms = {
    SeriesForm{.name = "docker stats",
               .needs = {"MEM USAGE / LIMIT"},
               .used = "MEM USAGE / LIMIT",
               .keys = "NAME|CONTAINER|CONTAINER ID|name",
               .unit = "B",
               .memory = "MEM USAGE, which leaves inactive page cache out, of LIMIT"},
    SeriesForm{.name = "sar -r",
               .needs = {"kbmemfree", "kbavail", "kbmemused", "%memused"},
               .used = "-kbavail",
               .unit = "KiB",
               .memory = "total - kbavail, with the total from the other columns as the limit",
               .total = SeriesTotal::sysstat},
    SeriesForm{.name = "sar -r",
               .needs = {"kbmemfree", "kbmemused", "kbbuffers", "kbcached"},
               .used = "kbmemused -kbbuffers -kbcached",
               .limit = "kbmemfree kbmemused",
               .unit = "KiB",
               .memory = "kbmemused - kbbuffers - kbcached, with kbmemfree + kbmemused as the limit"},
    SeriesForm{
        .name = "vmstat",
        .needs = {"swpd", "free", "buff", "cache"},
        .used = "-free -buff -cache",
        .unit = "KiB",
        .memory =
            "what free + buff + cache has lost since the first row, with what it was there as the limit "
            "(vmstat does not say how much memory there is; --limit SIZE does)",
        .total = SeriesTotal::first},
    SeriesForm{.name = "vmstat -a",
               .needs = {"swpd", "free", "inact", "active"},
               .used = "-free -inact",
               .unit = "KiB",
               .memory =
                   "what free + inact has lost since the first row, with what it was there as the limit "
                   "(vmstat does "
                   "not say how much memory there is; --limit SIZE does)",
               .total = SeriesTotal::first},
    SeriesForm{.name = "free",
               .needs = {"total", "used", "free", "available"},
               .used = "total -available",
               .limit = "total",
               .memory = "total - available, with total as the limit",
               .blanks = true,
               .labelled = true},
    SeriesForm{.name = "free",
               .needs = {"total", "used", "buffers", "cached"},
               .used = "used -buffers -cached",
               .limit = "total",
               .memory = "used - buffers - cached, with total as the limit",
               .blanks = true,
               .labelled = true},
    SeriesForm{.name = "ps",
               .needs = {"PID", "RSS"},
               .used = "RSS",
               .keys = "COMMAND|CMD|COMM|Command|UCMD",
               .unit = "KiB",
               .memory = "RSS of each process, and their sum",
               .blanks = true,
               .skips_empty = true},
    SeriesForm{.name = "top",
               .needs = {"PID", "VIRT", "RES"},
               .used = "RES",
               .keys = "COMMAND",
               .unit = "KiB",
               .memory = "RES of each process, and their sum",
               .blanks = true,
               .skips_empty = true},
    SeriesForm{.name = "nvidia-smi",
               .needs = {"memory.used"},
               .used = "memory.used",
               .limit = "memory.total",
               .keys = "index|gpu_uuid|uuid|pci.bus_id|gpu_bus_id",
               .unit = "MiB",
               .memory = "memory.used of each card, with memory.total as its limit"},
    SeriesForm{.name = "nvidia-smi",
               .needs = {"pid", "used_gpu_memory"},
               .used = "used_gpu_memory",
               .keys = "process_name|name",
               .unit = "MiB",
               .memory = "used_gpu_memory of each process, and their sum"},
    SeriesForm{.name = "nvidia-smi pmon",
               .needs = {"gpu", "pid", "type", "fb"},
               .used = "fb",
               .keys = "command",
               .unit = "MiB",
               .memory = "fb of each process, and their sum"},
    SeriesForm{.name = "nvidia-smi dmon",
               .needs = {"gpu", "fb"},
               .used = "fb",
               .keys = "gpu",
               .unit = "MiB",
               .memory = "fb, the frame buffer, of each card"},
    SeriesForm{.name = "meminfo",
               .needs = {"MemTotal", "MemAvailable"},
               .used = "MemTotal -MemAvailable",
               .limit = "MemTotal",
               .memory = "MemTotal - MemAvailable, with MemTotal as the limit"},
    SeriesForm{.name = "meminfo",
               .needs = {"MemTotal", "MemFree", "Buffers", "Cached"},
               .used = "MemTotal -MemFree -Buffers -Cached",
               .limit = "MemTotal",
               .memory = "MemTotal - MemFree - Buffers - Cached, with MemTotal as the limit"},
    SeriesForm{.name = "meminfo",
               .needs = {"MemAvailable"},
               .used = "-MemAvailable",
               .memory =
                   "what MemAvailable has lost since the first row, with what it was there as the limit "
                   "(--limit SIZE gives MemTotal)",
               .total = SeriesTotal::first},
    SeriesForm{.name = "a process's status", .needs = {"VmRSS"}, .used = "VmRSS", .memory = "VmRSS"},
    SeriesForm{.name = "psrecord",
               .needs = {"Elapsed time", "Real (MB)", "USS (MB)"},
               .used = "USS (MB)",
               .unit = "MiB",
               .memory = "USS (MB)"},
    SeriesForm{.name = "psrecord",
               .needs = {"Elapsed time", "Real (MB)"},
               .used = "Real (MB)",
               .unit = "MiB",
               .memory = "Real (MB), which is the RSS"},
    SeriesForm{.name = "mprof",
               .needs = {"mprof"},
               .used = "mprof",
               .keys = "name",
               .unit = "MiB",
               .memory = "MEM, and each child's CHLD, which is the RSS"},
    SeriesForm{.name = "a table",
               .needs = {"total", "available"},
               .used = "total -available",
               .limit = "total",
               .memory = "total - available, with total as the limit"},
};

}  // namespace

std::optional<std::size_t> name_index(Names names, std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (bare(names[i]) == name || without_unit(names[i]) == name) return i;
  return std::nullopt;
}

std::optional<std::size_t> first_name_of(Names names, std::string_view choices) {
  for (; !choices.empty();) {
    std::size_t end = std::min(choices.find('|'), choices.size());
    if (auto at = name_index(names, choices.substr(0, end))) return at;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return std::nullopt;
}

const SeriesForm* form_of(Names names, Split split) {
  bool blanks = split == Split::blanks || split == Split::wide;
  for (const SeriesForm& form : kForms) {
    if (form.blanks && !blanks) continue;
    bool all =
        std::ranges::all_of(form.needs, [&](auto need) { return need.empty() || name_index(names, need); });
    if (all) return &form;
  }
  return nullptr;
}

std::string_view without_unit(std::string_view name) {
  name = bare(name);
  if (name.ends_with(']')) name = bare(name.substr(0, name.find_last_of('[')));
  return name;
}

}  // namespace oomcast
