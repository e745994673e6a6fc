#include "stream/read_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace oomcast {
namespace {

using Json = nlohmann::ordered_json;  // an alert's actions have an order

constexpr std::int64_t kEpochDays1970 = 719468;  // days from 0000-03-01 to 1970-01-01

// Days since 1970 of a date of the Gregorian calendar.
std::int64_t days_of(std::int64_t year, unsigned month, unsigned day) {
  year -= month <= 2;
  std::int64_t era = year / 400;
  auto in_era = static_cast<unsigned>(year - era * 400);
  unsigned in_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
  return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - kEpochDays1970;
}

// As format_rfc3339() writes it: "2026-11-21T02:03:04.123456789Z".
std::optional<std::int64_t> ns_of(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd";
  if (text.size() < kForm.size() + 1 || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != kForm[i]) return std::nullopt;
  auto number = [&](std::size_t at, std::size_t length) {
    unsigned out = 0;
    for (char digit : text.substr(at, length)) out = out * 10 + static_cast<unsigned>(digit - '0');
    return out;
  };
  unsigned year = number(0, 4), month = number(5, 2), day = number(8, 2);
  if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31) return std::nullopt;
  std::int64_t seconds =
      days_of(year, month, day) * 86400 + number(11, 2) * 3600 + number(14, 2) * 60 + number(17, 2);
  std::int64_t ns = 0;
  std::string_view rest = text.substr(kForm.size(), text.size() - kForm.size() - 1);
  if (!rest.empty()) {
    if (rest[0] != '.' || rest.size() < 2 || rest.size() > 10) return std::nullopt;
    for (std::size_t i = 1; i < 10; ++i) {
      char digit = i < rest.size() ? rest[i] : '0';
      if (digit < '0' || digit > '9') return std::nullopt;
      ns = ns * 10 + (digit - '0');
    }
  }
  return seconds * 1'000'000'000 + ns;
}

// The first thing that is wrong with a line; what follows is read all the same, and dropped.
struct Problem {
  std::string type, what;
  void note(std::string_view name, std::string_view expected) {
    if (what.empty()) what = fmt::format("reading a line of type {}: {} is not {}", type, name, expected);
  }
};

// One object of a line. A field that is absent, or null, is nullopt.
class Fields {
 public:
  Fields(const Json* json, Problem& problem) : json_(json), problem_(problem) {}
  explicit operator bool() const { return json_ != nullptr; }

  std::optional<std::string> text(const char* name) const {
    const Json* value = find(name);
    if (value && !value->is_string()) problem_.note(name, "a text");
    return value && value->is_string() ? std::optional(value->get<std::string>()) : std::nullopt;
  }
  std::string text_or_empty(const char* name) const { return text(name).value_or(""); }
  template <typename T>
  std::optional<T> number(const char* name) const {
    const Json* value = find(name);
    if (!value) return std::nullopt;
    if constexpr (std::is_floating_point_v<T>) {
      if (value->is_number()) return value->get<T>();
    } else if (value->is_number_unsigned()) {
      auto n = value->get<std::uint64_t>();
      if (n <= static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return static_cast<T>(n);
    } else if (value->is_number_integer()) {
      auto n = value->get<std::int64_t>();
      if (std::is_signed_v<T> && n >= std::int64_t{std::numeric_limits<T>::min()}) return static_cast<T>(n);
    }
    problem_.note(name, "a number of its range");
    return std::nullopt;
  }
  std::optional<bool> flag(const char* name) const {
    const Json* value = find(name);
    if (value && !value->is_boolean()) problem_.note(name, "true or false");
    return value && value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
  }
  std::optional<Bytes> bytes(const char* name) const {
    auto n = number<std::int64_t>(name);
    return n ? std::optional(Bytes{*n}) : std::nullopt;
  }
  std::optional<BytesPerSec> rate(const char* name) const {
    auto n = number<double>(name);
    return n ? std::optional(BytesPerSec{*n}) : std::nullopt;
  }
  std::optional<Seconds> seconds(const char* name) const {
    auto n = number<double>(name);
    return n ? std::optional(Seconds(*n)) : std::nullopt;
  }
  std::optional<MonoTime> time(const char* name) const {
    auto written = text(name);
    auto ns = written ? ns_of(*written) : std::nullopt;
    if (written && !ns) problem_.note(name, "a time as 2026-11-21T02:03:04.123Z");
    return ns ? std::optional(MonoTime(Nanos(*ns))) : std::nullopt;
  }
  // "0x7f01": an address.
  std::optional<std::uint64_t> address(const char* name) const {
    auto written = text(name);
    return written ? address_of(name, *written) : std::nullopt;
  }
  template <typename Enum>
  std::optional<Enum> name_of(const char* name, Enum last) const {
    auto written = text(name);
    if (!written) return std::nullopt;
    for (int value = 0; value <= static_cast<int>(last); ++value)
      if (to_string(static_cast<Enum>(value)) == *written) return static_cast<Enum>(value);
    problem_.note(name, "a word that this version knows");
    return std::nullopt;
  }
  Fields object(const char* name) const {
    const Json* value = find(name);
    if (value && !value->is_object()) problem_.note(name, "an object");
    return {value && value->is_object() ? value : nullptr, problem_};
  }
  // `each` takes the Fields of each object of a list.
  template <typename Each>
  void list(const char* name, const Each& each) const {
    for_each(name, [&](const Json& item) {
      if (!item.is_object()) return problem_.note(name, "a list of objects");
      each(Fields(&item, problem_));
    });
  }
  std::vector<std::string> texts(const char* name) const {
    std::vector<std::string> out;
    for_each(name, [&](const Json& item) {
      if (!item.is_string()) return problem_.note(name, "a list of texts");
      out.push_back(item.get<std::string>());
    });
    return out;
  }
  std::vector<std::uint64_t> addresses(const char* name) const {
    std::vector<std::uint64_t> out;
    for (const std::string& written : texts(name))
      if (auto address = address_of(name, written)) out.push_back(*address);
    return out;
  }
  // `each` takes the name and the Fields of each object in this one, in their order.
  template <typename Each>
  void members(const Each& each) const {
    for (const auto& [name, value] : json_->items())
      if (value.is_object()) each(name, Fields(&value, problem_));
  }
  std::map<std::string, std::uint64_t> counts() const {
    std::map<std::string, std::uint64_t> out;
    if (json_)
      for (const auto& [name, value] : json_->items())
        if (auto count = number<std::uint64_t>(name.c_str())) out[name] = *count;
    return out;
  }
  // What a fact cannot be without.
  template <typename T>
  T needed(const char* name, std::optional<T> value) const {
    if (!value) problem_.note(name, "there");
    return value ? *std::move(value) : T{};
  }

 private:
  const Json* find(const char* name) const {
    if (!json_) return nullptr;
    auto at = json_->find(name);
    return at == json_->end() || at->is_null() ? nullptr : &*at;
  }
  template <typename Each>
  void for_each(const char* name, const Each& each) const {
    const Json* value = find(name);
    if (value && !value->is_array()) return problem_.note(name, "a list");
    if (value)
      for (const Json& item : *value) each(item);
  }
  std::optional<std::uint64_t> address_of(const char* name, std::string_view written) const {
    std::uint64_t out = 0;
    if (written.starts_with("0x")) {
      auto [end, error] = std::from_chars(written.data() + 2, written.data() + written.size(), out, 16);
      if (error == std::errc() && end == written.data() + written.size()) return out;
    }
    problem_.note(name, "an address as 0x7f01");
    return std::nullopt;
  }

  const Json* json_;
  Problem& problem_;
};

CgroupPtr cgroup_of(const Fields& in) {
  if (!in) return nullptr;
  auto out = std::make_shared<CgroupRef>();
  if (auto inode = in.number<std::uint64_t>("id")) out->id.inode = *inode;
  out->id.hierarchy = in.text("hierarchy") == "v1" ? Hierarchy::v1 : Hierarchy::v2;
  out->path = in.needed("path", in.text("path"));
  CgroupName& name = out->name;
  name = name_cgroup(out->path);  // its kind's own parts, which a line leaves out
  name.name = in.needed("name", in.text("name"));
  name.kind = in.name_of("kind", CgroupKind::slurm).value_or(name.kind);
  name.container = in.text("container");
  name.pod = in.text("pod");
  name.unit = in.text("unit");
  name.slurm_job = in.text("slurm_job");
  name.slurm_step = in.text("slurm_step");
  return out;
}

ProcessRef process_of(const Fields& in) {
  ProcessRef out;
  if (auto pid = in.number<std::uint32_t>("pid")) out.id.tgid = *pid;
  if (auto start = in.time("start_time"))
    out.id.start_ticks = static_cast<std::uint64_t>(start->time_since_epoch().count());
  out.comm = in.text_or_empty("comm");
  // Arguments of which a line does not say where they are from are not known.
  if (auto source = in.text("cmdline_source")) {
    out.cmdline_source = *source == "shown" ? CmdlineSource::shown : CmdlineSource::exec;
    out.cmdline = in.texts("cmdline");
  }
  out.cmdline_truncated = in.flag("cmdline_truncated") == true;
  out.uid = in.number<std::uint32_t>("uid");
  out.ppid = in.number<std::uint32_t>("ppid");
  out.ns_pid = in.number<std::uint32_t>("ns_pid");
  out.cgroup = cgroup_of(in.object("cgroup"));
  return out;
}

std::optional<ProcessRef> process_if_any(const Fields& in) {
  return in ? std::optional(process_of(in)) : std::nullopt;
}

std::vector<CodePlace> places_of(const Fields& in, const char* name) {
  std::vector<CodePlace> out;
  in.list(name, [&](const Fields& place) {
    out.push_back(
        {place.text_or_empty("function"), place.text_or_empty("file"), place.number<std::uint32_t>("line")});
  });
  return out;
}

std::optional<GpuUuid> device_of(const Fields& in) {
  auto written = in.text("device");
  return written ? parse_gpu_uuid(*written) : std::nullopt;
}

MonoTime time_of(const Fields& in) {
  return in.needed("time", in.time("time"));
}

// Of a line of a series, which has seconds since it began.
MonoTime time_of(const Fields& in, std::optional<double>& time_s) {
  time_s = in.number<double>("time_s");
  return time_s ? MonoTime() : time_of(in);
}

StartFact start_of(const Fields& in) {
  StartFact out;
  out.time = time_of(in, out.time_s);
  out.version = in.text_or_empty("version");
  out.kernel = in.text_or_empty("kernel");
  out.sources = in.texts("sources");
  out.read_as = in.text_or_empty("read_as");
  out.host = in.text_or_empty("host");
  out.boot_id = in.text_or_empty("boot_id");
  return out;
}

Sample sample_of(const Fields& in) {
  Sample out;
  out.time = time_of(in);
  out.cgroup = cgroup_of(in.object("cgroup"));
  out.usage = in.bytes("usage_bytes");
  out.limit = in.bytes("limit_bytes");
  out.limit_cgroup = cgroup_of(in.object("limit_cgroup"));
  out.stat.anon = in.bytes("anon_bytes");
  out.stat.file = in.bytes("file_bytes");
  out.stat.shmem = in.bytes("shmem_bytes");
  out.stat.kernel = in.bytes("kernel_bytes");
  out.stat.swap = in.bytes("swap_bytes");
  out.pinned = in.bytes("pinned_bytes");
  out.peak = in.bytes("peak_bytes");
  return out;
}

LimitChangedFact limit_changed_of(const Fields& in) {
  return {time_of(in),
          cgroup_of(in.object("cgroup")),
          cgroup_of(in.object("limit_cgroup")),
          in.needed("limit_kind", in.name_of("limit_kind", LimitKind::host)),
          in.bytes("before_bytes"),
          in.bytes("limit_bytes")};
}

ProcessSampleFact process_sample_of(const Fields& in) {
  ProcessSampleFact out;
  out.time = time_of(in);
  out.process = process_of(in.object("process"));
  out.rss = in.needed("rss_bytes", in.bytes("rss_bytes"));
  out.anon = in.needed("anon_bytes", in.bytes("anon_bytes"));
  out.file = in.needed("file_bytes", in.bytes("file_bytes"));
  out.shmem = in.needed("shmem_bytes", in.bytes("shmem_bytes"));
  out.swap = in.needed("swap_bytes", in.bytes("swap_bytes"));
  out.private_bytes = in.bytes("private_bytes");
  out.growth = in.rate("growth_bytes_per_s");
  out.rss_error = in.needed("rss_error_bytes", in.bytes("rss_error_bytes"));
  return out;
}

Evidence evidence_of(const Fields& in) {
  Evidence out;
  out.floor = in.bytes("floor_bytes");
  out.peak_above = in.bytes("peak_above_bytes");
  out.period = in.seconds("period_s");
  out.peaks = in.number<std::size_t>("peaks");
  out.regime = in.seconds("regime_s");
  out.stepped = in.bytes("stepped_bytes");
  out.step_ago = in.seconds("step_ago_s");
  out.shared = in.bytes("shared_bytes");
  if (Fields near = in.object("near_limit"))
    out.near_limit = NearLimit{near.needed("left_bytes", near.bytes("left_bytes")),
                               near.needed("moved_bytes", near.bytes("moved_bytes")),
                               near.needed("within_s", near.seconds("within_s"))};
  if (Fields thrashing = in.object("thrashing")) {
    Thrashing& to = out.thrashing.emplace();
    to.lasts = thrashing.needed("lasts_s", thrashing.seconds("lasts_s"));
    to.waiting = thrashing.needed("waiting_share", thrashing.number<double>("waiting_share"));
    to.reclaimed = thrashing.needed("reclaimed_bytes_per_s", thrashing.rate("reclaimed_bytes_per_s"));
  }
  return out;
}

ForecastFact forecast_of(const Fields& in) {
  ForecastFact out;
  out.time = time_of(in, out.time_s);
  out.cgroup = cgroup_of(in.object("cgroup"));
  out.device = device_of(in);
  out.process = process_if_any(in.object(out.device ? "device_process" : "process"));
  out.series = in.text_or_empty("series");
  out.limit_cgroup = cgroup_of(in.object("limit_cgroup"));
  Forecast& f = out.forecast;
  f.verdict = in.needed("verdict", in.name_of("verdict", Verdict::unknown));
  Fields evidence = in.object("evidence");
  f.evidence = evidence_of(evidence);
  if (auto rate = in.rate("growth_bytes_per_s"))
    f.growth = Growth{*rate, in.needed("growth_low_bytes_per_s", in.rate("growth_low_bytes_per_s")),
                      in.needed("growth_high_bytes_per_s", in.rate("growth_high_bytes_per_s")),
                      evidence.needed("span_s", evidence.seconds("span_s")),
                      evidence.needed("samples", evidence.number<std::size_t>("samples"))};
  f.limit = in.bytes("limit_bytes");
  f.limit_kind = in.name_of("limit_kind", LimitKind::host);
  f.eta = in.seconds("eta_s");
  f.eta_low = in.seconds("eta_low_s");
  f.eta_high = in.seconds("eta_high_s");
  f.alert = in.needed("alert", in.flag("alert"));
  f.why = in.text_or_empty("why");
  return out;
}

Victim victim_of(const Fields& in) {
  Victim out;
  out.process = process_of(in);
  if (auto tid = in.number<std::uint32_t>("tid")) out.tid = *tid;
  out.time = in.time("time");
  out.anon = in.bytes("anon_bytes");
  out.file = in.bytes("file_bytes");
  out.shmem = in.bytes("shmem_bytes");
  out.swap = in.bytes("swap_bytes");
  out.pgtables = in.bytes("pgtables_bytes");
  out.total_vm = in.bytes("total_vm_bytes");
  out.oom_score_adj = in.number<int>("oom_score_adj");
  out.killed = in.flag("killed");
  out.freed_after = in.seconds("freed_after_s");
  out.stack = in.addresses("stack");
  out.code = places_of(in, "python");
  return out;
}

GrewFrom grew_from_of(const Fields& in) {
  GrewFrom out;
  out.process = process_of(in.object("process"));
  out.code = places_of(in, "stack");
  out.grown = in.needed("grown_bytes", in.bytes("grown_bytes"));
  out.of = in.needed("of_bytes", in.bytes("of_bytes"));
  out.watched = in.needed("watched_s", in.seconds("watched_s"));
  out.from = in.needed("from", in.time("from"));
  out.to = in.needed("to", in.time("to"));
  GrowthEvidence& known = out.evidence;
  if (auto share = in.number<double>("share"); share && *share >= 0 && *share <= 1)
    known.sure = Bytes{std::llround(*share * out.of.as_double())};
  known.kept = in.bytes("kept_bytes");
  known.kept_error = in.bytes("kept_error_bytes");
  known.kept_unknown = in.text_or_empty("kept_unknown");
  known.touched = in.bytes("touched_bytes");
  known.held_by = in.text_or_empty("held_by");
  known.adds = in.text("basis") == to_string(GrowthEvidence::Kind::added);
  out.samples = in.number<std::uint64_t>("samples");
  out.lost = in.number<std::uint64_t>("samples_lost");
  out.faults_watched = in.number<double>("watched_share");
  return out;
}

GrownHolder holder_of(const Fields& in) {
  GrownHolder out;
  out.process = process_of(in.object("process"));
  out.path = in.text_or_empty("path");
  out.type = in.text_or_empty("type");
  out.added_type = in.text_or_empty("added_type");
  out.containers = in.needed("containers", in.number<std::uint64_t>("containers"));
  out.length = in.needed("length", in.number<std::uint64_t>("length"));
  out.added = in.needed("added", in.number<std::uint64_t>("added"));
  out.least = in.needed("bytes_at_least", in.bytes("bytes_at_least"));
  out.of = in.needed("of_bytes", in.bytes("of_bytes"));
  out.watched = in.needed("watched_s", in.seconds("watched_s"));
  out.from = in.needed("from", in.time("from"));
  out.to = in.needed("to", in.time("to"));
  out.adder = places_of(in, "stack");
  out.adder_seen = in.needed("added_at_seen", in.number<std::uint64_t>("added_at_seen"));
  out.adds_seen = in.needed("additions_seen", in.number<std::uint64_t>("additions_seen"));
  return out;
}

MachineAtKill machine_of(const Fields& in) {
  MachineAtKill out;
  out.cpuset = in.text("cpuset");
  out.mems_allowed = in.text("mems_allowed");
  out.nodemask = in.text("nodemask");
  out.ram = in.bytes("ram_bytes");
  out.free = in.bytes("free_bytes");
  out.swap_total = in.bytes("swap_total_bytes");
  out.swap_free = in.bytes("swap_free_bytes");
  in.list("zones", [&](const Fields& zone) {
    out.zones.push_back({zone.number<std::uint32_t>("node"), zone.text_or_empty("zone"),
                         zone.bytes("free_bytes"), zone.bytes("min_bytes"), zone.bytes("low_bytes"),
                         zone.bytes("high_bytes"), zone.bytes("present_bytes"), zone.bytes("managed_bytes")});
  });
  in.list("slabs", [&](const Fields& slab) {
    out.slabs.push_back({slab.text_or_empty("name"), slab.needed("used_bytes", slab.bytes("used_bytes")),
                         slab.needed("total_bytes", slab.bytes("total_bytes"))});
  });
  return out;
}

OomEvent oom_of(const Fields& in) {
  OomEvent out;
  Episode& e = out.episode;
  e.time = time_of(in);
  e.id = in.text_or_empty("id");
  e.scope = in.name_of("scope", OomScope::sysrq);
  e.limit_cgroup = cgroup_of(in.object("limit_cgroup"));
  e.usage = in.bytes("usage_bytes");
  e.limit = in.bytes("limit_bytes");
  e.trigger = process_if_any(in.object("trigger"));
  e.request = {in.number<int>("order"), in.text("gfp")};
  e.group_kill = in.flag("group_kill");
  if (Fields series = in.object("series"))
    e.series = KillSeries{series.needed("kills", series.number<std::uint64_t>("kills")),
                          series.needed("since", series.time("since"))};
  if (Fields machine = in.object("machine")) e.machine = machine_of(machine);
  in.list("victims", [&](const Fields& victim) { e.victims.push_back(victim_of(victim)); });
  in.list("also_killed", [&](const Fields& process) { e.also_killed.push_back(process_of(process)); });
  in.list("grew_most", [&](const Fields& grew) {
    e.grew_most.push_back({process_of(grew.object("process")),
                           grew.needed("grew_bytes", grew.bytes("grew_bytes")),
                           grew.needed("over_s", grew.seconds("over_s"))});
  });
  in.list("grew_from", [&](const Fields& grew) { e.grew_from.sites.push_back(grew_from_of(grew)); });
  in.list("holders", [&](const Fields& holder) { e.grew_from.holders.push_back(holder_of(holder)); });
  in.list("ancestors", [&](const Fields& level) {
    e.chain.push_back({cgroup_of(level.object("cgroup")),
                       level.needed("usage_bytes", level.bytes("usage_bytes")), level.bytes("limit_bytes")});
  });
  if (Fields before = in.object("forecast_before")) {
    out.forecast_before = forecast_of(before);
    out.first_forecast = before.time("first_time");
  }
  Fields checks = in.object("checks");
  e.checks = {checks.number<std::uint64_t>("mark_victim"), checks.number<std::uint64_t>("kmsg"),
              checks.number<std::uint64_t>("vmstat")};
  return out;
}

std::optional<PressureLine> pressure_line_of(const Fields& in) {
  if (!in) return std::nullopt;
  PressureLine out;
  out.avg10 = in.needed("avg10", in.number<double>("avg10"));
  out.avg60 = in.needed("avg60", in.number<double>("avg60"));
  out.avg300 = in.needed("avg300", in.number<double>("avg300"));
  auto total = in.needed("total_s", in.number<double>("total_s"));
  if (total >= 0 && total < 1e12) out.total_us = static_cast<std::uint64_t>(std::llround(total * 1e6));
  return out;
}

GpuFact gpu_of(const Fields& in) {
  GpuFact out;
  out.time = time_of(in);
  out.process = process_if_any(in.object("process"));
  GpuEvent& e = out.event;
  e.time = out.time;
  if (out.process) e.task = out.process->id;
  e.op = in.needed("op", in.name_of("op", GpuEvent::Op::xid));
  e.kind = in.needed("kind", in.name_of("kind", GpuMemoryKind::external));
  e.bytes = in.bytes("bytes");
  e.free_bytes = in.bytes("free_bytes");
  e.address = in.address("address");
  e.device = device_of(in);
  e.status = in.number<std::uint32_t>("status");
  e.overhead = in.flag("overhead") == true;
  e.first = in.time("first_time");
  e.managed = in.bytes("managed_bytes");
  e.pinned = in.bytes("pinned_bytes");
  e.bus = in.text_or_empty("bus");
  e.message = in.text_or_empty("message");
  e.code = places_of(in, "python");
  return out;
}

GpuSample gpu_sample_of(const Fields& in) {
  GpuSample out;
  out.time = time_of(in);
  out.process = process_if_any(in.object("process"));
  out.device = device_of(in);
  if (auto held = in.bytes("device_bytes")) out.held = *held;  // null: all of it was there before
  if (auto overhead = in.bytes("overhead_bytes")) out.overhead = *overhead;
  out.managed = in.bytes("managed_bytes");
  out.pinned = in.bytes("pinned_bytes");
  out.limit = in.bytes("limit_bytes");
  out.free = in.bytes("free_bytes");
  out.moved_in = in.bytes("moved_in_bytes");
  out.moved_out = in.bytes("moved_out_bytes");
  out.faults = in.number<std::uint64_t>("faults");
  out.evicted = in.bytes("evicted_bytes");
  out.cpu_faults = in.number<std::uint64_t>("cpu_faults");
  out.since_before = in.needed("since_before", in.flag("since_before"));
  out.ended = in.flag("ended") == true;
  return out;
}

AlertFact alert_of(const Fields& in) {
  AlertFact out;
  out.time = time_of(in);
  out.rule = in.text_or_empty("rule");
  out.cgroup = cgroup_of(in.object("cgroup"));
  out.message = in.text_or_empty("message");
  if (Fields forecast = in.object("forecast")) out.forecast = forecast_of(forecast);
  Fields actions = in.object("action");
  if (!actions) return out;
  actions.members([&](const std::string& name, const Fields& action) {
    ActionRun run;
    for (auto [kind, what] : {std::pair(ActionRun::Kind::exec, "command"),
                              {ActionRun::Kind::touch, "file"},
                              {ActionRun::Kind::signal, "name"}})
      if (to_string(kind) == name) run.kind = kind, run.what = action.needed(what, action.text(what));
    run.result = action.needed("result", action.name_of("result", ActionRun::Result::lost));
    run.exit_code = action.number<int>("exit_code");
    run.signal = action.number<int>("signal");
    run.error = action.text("error");
    run.process = process_if_any(action.object("process"));
    run.took = action.seconds("took_s");
    out.actions.push_back(std::move(run));
  });
  return out;
}

TotalsFact totals_of(const Fields& in) {
  TotalsFact out;
  out.time = time_of(in);
  out.since = in.needed("since", in.time("since"));
  for (auto [name, count] : in.object("kills").counts()) out.kills[name] = count;
  for (auto [name, count] : in.object("episodes").counts()) out.episodes[name] = count;
  out.group_kills = in.needed("group_kills", in.number<std::uint64_t>("group_kills"));
  out.user_kills = in.needed("user_kills", in.number<std::uint64_t>("user_kills"));
  out.alerts = in.needed("alerts", in.number<std::uint64_t>("alerts"));
  out.lost = in.object("lost").counts();
  return out;
}

EndFact end_of(const Fields& in) {
  EndFact out;
  out.time = time_of(in, out.time_s);
  out.records = in.needed("records", in.number<std::uint64_t>("records"));
  out.lost = in.object("lost").counts();
  return out;
}

std::optional<Fact> fact_of(std::string_view type, const Fields& in) {
  if (type == "start") return start_of(in);
  if (type == "sample") return sample_of(in);
  if (type == "limit_changed") return limit_changed_of(in);
  if (type == "process") return process_sample_of(in);
  if (type == "exit") return ExitFact{time_of(in), process_of(in.object("process"))};
  if (type == "forecast") return forecast_of(in);
  if (type == "oom") return oom_of(in);
  if (type == "kill")
    return UserKillFact{time_of(in), process_of(in.object("victim")), process_of(in.object("sender")),
                        in.text("cause")};
  if (type == "reclaim")
    return ReclaimFact{time_of(in), cgroup_of(in.object("cgroup")),
                       in.needed("stalls", in.number<std::uint64_t>("stalls")),
                       in.needed("stall_s", in.seconds("stall_s")),
                       in.needed("reclaimed_bytes", in.bytes("reclaimed_bytes"))};
  if (type == "pressure")
    return PressureFact{time_of(in),
                        cgroup_of(in.object("cgroup")),
                        {pressure_line_of(in.object("some")), pressure_line_of(in.object("full"))}};
  if (type == "gpu") return gpu_of(in);
  if (type == "gpu_sample") return gpu_sample_of(in);
  if (type == "alert") return alert_of(in);
  if (type == "lost")
    return LostFact{time_of(in), in.text_or_empty("reason"),
                    in.needed("count", in.number<std::uint64_t>("count"))};
  if (type == "totals") return totals_of(in);
  if (type == "end") return end_of(in);
  return std::nullopt;
}

}  // namespace

ClockMap clocks_of_read_facts() {
  return {Nanos{}, Nanos{}, Nanos(1)};
}

Result<std::optional<Fact>> read_fact(std::string_view line) {
  if (line.size() > kMaxJsonLine)
    return Error::failed(
        fmt::format("reading a line of {} bytes: longer than {} MiB", line.size(), kMaxJsonLine >> 20));
  bool too_deep = false;
  // What the callback refuses is not built: a value of 100,000 lists in each other would end the program.
  Json json = Json::parse(
      line,
      [&](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > kMaxJsonDepth;
        return depth <= kMaxJsonDepth;
      },
      false);
  if (too_deep) return Error::failed(fmt::format("reading a line: nested deeper than {}", kMaxJsonDepth));
  if (!json.is_object()) return Error::failed("reading a line: it is no JSON object");
  Problem problem;
  Fields fields(&json, problem);
  auto type = fields.text("type");
  if (!type) return Error::failed("reading a line: it has no type");
  problem.type = type->substr(0, 32);
  auto fact = fact_of(*type, fields);
  if (!problem.what.empty()) return Error::failed(problem.what);
  return fact;
}

}  // namespace oomcast
