#include "parse/series_names.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "parse/text.h"

namespace oomcast {
namespace {

bool has(const std::vector<std::string>& words, std::initializer_list<std::string_view> any) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return std::ranges::find(any, word) != any.end(); });
}

// "memory_rss{pod="a"}" of Prometheus, "run-1 - system.memory" of W&B: the metric without labels or run.
std::string_view metric_of(std::string_view name) {
  name = name.substr(0, name.find('{'));
  if (std::size_t of_run = name.rfind(" - "); of_run != npos) name.remove_prefix(of_run + 3);
  return name;
}

}  // namespace

int memory_rank(std::string_view name) {
  name = metric_of(name);
  auto words = words_of(name);
  if (words.empty() || name.find('%') != npos) return 0;
  if (has(words, {"percent", "pct",   "cpu",     "swap",    "vms",      "vsz",         "virt",
                  "virtual", "cache", "cached",  "buffers", "buff",     "buffer",      "shared",
                  "disk",    "net",   "network", "io",      "free",     "avail",       "available",
                  "limit",   "clock", "temp",    "power",   "util",     "utilization", "threads",
                  "time",    "peak",  "hwm",     "commit",  "committed"}))
    return 0;
  if (words.back() == "min" || words.back() == "max") return 0;
  if (has(words, {"uss", "pss", "private"})) return 5;
  if (has(words, {"wss"}) || (has(words, {"working"}) && has(words, {"set"}))) return 4;
  if (has(words, {"rss", "rssmb", "res", "resident", "real"})) return 3;
  if (has(words, {"total", "max", "capacity", "quota"}) && !has(words, {"used", "usage"})) return 0;
  if (has(words, {"used", "usage", "inuse", "allocated", "current"})) return 2;
  return has(words, {"mem", "memory", "ram", "heap", "vram"}) ? 1 : 0;
}

bool is_limit(std::string_view name) {
  name = metric_of(name);
  auto words = words_of(name);
  return has(words, {"limit", "quota", "total", "capacity"}) && name.find('%') == npos &&
         !has(words, {"percent", "swap", "cpu", "time", "rss", "used", "usage"});
}

bool is_key(std::string_view name) {
  auto words = words_of(name);
  constexpr std::string_view kDigits = "0123456789";
  return name.find_first_of("{=") == npos && !words.empty() && kDigits.find(words.back().back()) == npos &&
         words.size() <= 3 &&
         has(words, {"name",   "pod",  "container", "instance", "host",    "hostname", "gpu",
                     "index",  "uuid", "process",   "comm",     "command", "device",   "series",
                     "metric", "node", "service",   "job",      "pid",     "rank",     "id"}) &&
         memory_rank(name) == 0;
}

bool is_time(std::string_view name) {
  auto words = words_of(name);
  if (has(words, {"cpu", "user", "gc", "idle", "up", "uptime"}) || name.find('/') != npos) return false;
  if (words.size() == 1 && has(words, {"t", "s", "ms"})) return true;
  return has(words, {"time", "timestamp", "date", "datetime", "ts", "elapsed", "seconds", "secs", "sec",
                     "epoch", "unix", "runtime", "timestamps", "when"});
}

std::optional<MemoryUnit> unit_of_name(std::string_view name) {
  name = bare(metric_of(bare(name)));
  if (!name.empty() && (name.back() == ')' || name.back() == ']')) {
    std::size_t open = name.find_last_of("([");
    if (open != npos) return memory_unit(name.substr(open + 1, name.size() - open - 2));
  }
  auto words = words_of(name);
  for (auto word = words.rbegin(); word != words.rend(); ++word)
    if (word->size() > 1 && *word != "gi" && *word != "mi" && *word != "ti")
      if (auto unit = memory_unit(*word)) return unit;
  return std::nullopt;
}

double scale_of_time(std::string_view name) {
  auto words = words_of(name);
  if (has(words, {"ms", "millis", "milliseconds", "msec"})) return 1e-3;
  if (has(words, {"us", "micros", "microseconds", "usec"})) return 1e-6;
  if (has(words, {"ns", "nanos", "nanoseconds"})) return 1e-9;
  if (has(words, {"min", "mins", "minutes"})) return 60;
  if (has(words, {"hours", "hour", "hrs", "h"})) return 3600;
  return 1;
}

bool is_no_memory(std::string_view name) {
  name = metric_of(name);
  return name.find('%') != npos || is_limit(name) || is_key(name) ||
         has(words_of(name), {"step", "percent", "pct", "cpu", "free", "available", "avail", "swap", "vms",
                              "vsz", "virt", "virtual", "min", "max"});
}

}  // namespace oomcast
