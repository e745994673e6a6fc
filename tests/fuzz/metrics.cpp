// Any bytes as names of cgroups, programs, sources and losses: each line of the metrics is one that
// Prometheus reads, and no series is there twice. A line that it cannot read costs all of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/escape.h"
#include "stream/facts_of_each_type.h"
#include "stream/openmetrics.h"

namespace {

using namespace oomcast;

void must(bool holds) {
  if (!holds) std::abort();
}

std::string_view take(std::string_view& text, std::string_view of) {
  std::string_view out = text.substr(0, std::min(text.find_first_not_of(of), text.size()));
  text.remove_prefix(out.size());
  must(!out.empty());
  return out;
}

void skip(std::string_view& text, char c) {
  must(text.starts_with(c));
  text.remove_prefix(1);
}

void read_value(std::string_view& text) {
  std::size_t bytes = 0;
  for (skip(text, '"'); !text.starts_with('"'); ++bytes) {
    must(!text.empty() && static_cast<unsigned char>(text[0]) >= 0x20);
    if (text[0] == '\\') {
      text.remove_prefix(1);
      must(text.starts_with('\\') || text.starts_with('"'));
    }
    text.remove_prefix(1);
  }
  skip(text, '"');
  must(bytes <= Metrics::kLongestValue);
}

void read_series(std::string_view line, std::set<std::string, std::less<>>& seen) {
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyz_";
  std::string_view rest = line;
  must(take(rest, kName).starts_with("oomcast_"));
  if (rest.starts_with('{')) {
    do {
      rest.remove_prefix(1);
      take(rest, kName);
      skip(rest, '=');
      read_value(rest);
    } while (rest.starts_with(','));
    skip(rest, '}');
  }
  must(seen.emplace(line.substr(0, line.size() - rest.size())).second);
  skip(rest, ' ');
  must(rest == "+Inf" || (take(rest, "+-.0123456789e"), rest.empty()));
}

void read_page(const std::string& page) {
  must(to_valid_utf8(page) == page);
  std::set<std::string, std::less<>> seen;
  for (std::string_view rest = page; !rest.empty();) {
    std::size_t end = rest.find('\n');
    must(end != std::string_view::npos);
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (!line.starts_with("# ")) read_series(line, seen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string name(reinterpret_cast<const char*>(data), size);
  Metrics metrics;
  for (const Fact& fact : test::hostile_facts(name)) metrics.on(fact);
  metrics.on(StartFact{{}, name, name, {name, "bpf"}});
  metrics.on(LostFact{{}, name, 1});
  std::uint64_t inode = 100;
  for (std::string path :
       {name, "/" + name, "/system.slice/" + name, "/docker/" + name, "/slurm/uid_0/job_" + name}) {
    Sample sample = test::known_sample();
    sample.cgroup = test::cgroup(++inode, path);
    metrics.on(sample);
    metrics.on(test::known_oom(test::process(1, name, {}, sample.cgroup), sample.cgroup));
  }
  read_page(metrics.render({}, ClockMap{}));
  read_page(metrics.render({}, ClockMap{}, Metrics::Dialect::openmetrics));
  return 0;
}
