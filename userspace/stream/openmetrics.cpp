#include "stream/openmetrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/escape.h"
#include "stream/loss_words.h"

namespace oomcast {
namespace {

constexpr Nanos kKillIsNews = std::chrono::hours(1);
constexpr Nanos kWorkloadKept = std::chrono::hours(1);  // without a kill, once others need the place
constexpr std::size_t kMostSources = 16;
constexpr std::string_view kOtherLoss = "other";

constexpr std::array kScopeNames = {OomScope::memcg, OomScope::global, OomScope::cpuset, OomScope::mempolicy,
                                    OomScope::sysrq};

// Names come from strangers. Of a long one the end tells most.
std::string label_value(std::string_view bytes) {
  constexpr std::string_view kCut = "…";
  std::string text = make_harmless(bytes);
  if (text.size() > Metrics::kLongestValue) {
    std::size_t at = text.size() - (Metrics::kLongestValue - kCut.size());
    while (at < text.size() && (text[at] & 0xc0) == 0x80) ++at;  // not inside a character
    text.replace(0, at, kCut);
  }
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

void add_label(std::string& labels, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  if (!labels.empty()) labels += ',';
  labels += fmt::format("{}=\"{}\"", name, label_value(value));
}

void add_label(std::string& labels, std::string_view name, const std::optional<std::string>& value) {
  if (value) add_label(labels, name, std::string_view(*value));
}

std::string with(std::string labels, std::string_view name, std::string_view value) {
  add_label(labels, name, value);
  return labels;
}

// What a person calls it where neither pod nor job names it. A plain directory's last part says little.
std::string_view name_of(const CgroupRef& ref) {
  const CgroupName& name = ref.name;
  if (name.pod || name.slurm_job) return {};
  return name.kind == CgroupKind::plain ? std::string_view(ref.path) : std::string_view(name.name);
}

std::string identity_of(const CgroupRef& ref) {
  std::string out;
  add_label(out, "kind", to_string(ref.name.kind));
  add_label(out, "name", name_of(ref));
  add_label(out, "pod", ref.name.pod);
  add_label(out, "container", ref.name.container);
  add_label(out, "slurm_job", ref.name.slurm_job);
  add_label(out, "slurm_step", ref.name.slurm_step);
  return out;
}

// What systemd numbers for one time ("session-7.scope", "run-r0123456789abcdef.service") comes back under
// another number.
std::string without_numbers(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789", kHex = "0123456789abcdef";
  constexpr std::size_t kShortestId = 8;
  std::string out;
  while (!name.empty()) {
    std::size_t digits = std::min(name.find_first_not_of(kDigits), name.size());
    std::size_t hex = std::min(name.find_first_not_of(kHex), name.size());
    std::size_t number = hex >= kShortestId ? hex : digits;
    out += number ? '#' : name[0];
    name.remove_prefix(std::max<std::size_t>(number, 1));
  }
  return out;
}

// Without what differs from one run to the next: a count that begins anew with each pod or job says nothing.
std::string workload_of(const CgroupRef& ref) {
  const CgroupName& name = ref.name;
  bool named_once = name.kind == CgroupKind::unit && name.unit &&
                    (!name.unit->ends_with(".service") || name.unit->starts_with("run-"));
  std::string out;
  add_label(out, "kind", to_string(name.kind));
  if (named_once)
    add_label(out, "name", std::string_view(without_numbers(name_of(ref))));
  else
    add_label(out, "name", name_of(ref));
  return out;
}

class Page {
 public:
  explicit Page(Metrics::Dialect dialect) : open_(dialect == Metrics::Dialect::openmetrics) {}

  /// What follows belongs to it. It is printed with its first series.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    // OpenMetrics calls a family of counters by the name without its ending.
    std::string_view of = name;
    if (open_ && type == "counter") of.remove_suffix(std::string_view("_total").size());
    head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", of, help, of, type);
  }
  template <typename Value>
  void series(const std::string& labels, const Value& value) {
    text_ += std::exchange(head_, {});
    text_ += labels.empty() ? fmt::format("{} {}\n", name_, value)
                            : fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }
  void series(const std::string& labels, const std::optional<Bytes>& value) {
    if (value) series(labels, value->count);
  }
  std::string take() {
    if (open_) text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  bool open_;
  std::string_view name_;
  std::string head_, text_;
};

// Unix time. A length of time may be longer than a clock can count.
std::string timestamp(MonoTime time, const ClockMap& clock, Seconds later = {}) {
  double at = Seconds(clock.wall(time).time_since_epoch()).count() + later.count();
  return std::isfinite(at) ? fmt::format("{:.3f}", at) : "+Inf";
}

std::string source_name(std::string_view source) {
  if (source.starts_with("cgroupfs")) return "cgroupfs";
  return std::string(source.substr(0, source.find(':')));
}

}  // namespace

void Metrics::on(const Fact& fact) {
  if (auto* f = std::get_if<StartFact>(&fact)) take(*f);
  if (auto* f = std::get_if<Sample>(&fact)) take(*f);
  if (auto* f = std::get_if<ForecastFact>(&fact)) take(*f);
  if (auto* f = std::get_if<OomEvent>(&fact)) take(*f);
  if (auto* f = std::get_if<LostFact>(&fact)) take(*f);
  if (auto* f = std::get_if<ForgottenFact>(&fact)) cgroups_.erase(f->cgroup.inode);
}

void Metrics::take(const StartFact& start) {
  version_ = start.version;
  kernel_ = start.kernel;
  sources_.clear();
  for (std::string_view source : {"bpf", "cgroupfs", "kmsg"}) sources_[with({}, "source", source)] = false;
  for (const std::string& source : start.sources)
    if (sources_.size() < kMostSources) sources_[with({}, "source", source_name(source))] = true;
}

void Metrics::take(const Sample& sample) {
  Cgroup* known = cgroup(sample.cgroup);
  if (!known) return;
  known->usage = sample.usage;
  known->limit = sample.limit;
  known->pinned = sample.pinned;
  // It can be killed, so its count begins at 0: of one that begins at 1 no increase is seen.
  if (sample.limit && !std::exchange(known->is_workload, true)) see_workload(*sample.cgroup, sample.time);
}

void Metrics::take(const ForecastFact& f) {
  Cgroup* known = f.process || f.device ? nullptr : cgroup(f.cgroup);
  if (!known) return;
  bool has_verdict = f.forecast.verdict != Verdict::unknown;
  known->outlook = Outlook{f.time,
                           f.forecast.alert,
                           has_verdict ? f.forecast.growth : std::nullopt,
                           has_verdict && f.forecast.limit_kind != LimitKind::high,
                           f.forecast.eta,
                           f.forecast.eta_low,
                           f.forecast.eta_high};
}

void Metrics::take(const OomEvent& kill) {
  const Episode& e = kill.episode;
  const auto* scope = e.scope ? std::ranges::find(kScopeNames, *e.scope) : kScopeNames.end();
  kills_[static_cast<std::size_t>(scope - kScopeNames.begin())] += e.victims.size();
  mark_killed(e.limit_cgroup, e.time);
  for (const Victim& victim : e.victims) {
    MonoTime time = victim.time.value_or(e.time);
    last_kill_ = std::max(last_kill_.value_or(time), time);
    mark_killed(victim.process.cgroup, time);
    if (victim.process.cgroup) count_kill(*victim.process.cgroup, time);
  }
}

void Metrics::take(const LostFact& lost) {
  // A reason that is not known may be any text: of a file that is replayed.
  lost_[is_known_loss(lost.reason) ? lost.reason : std::string(kOtherLoss)] += lost.count;
}

Metrics::Cgroup* Metrics::cgroup(const CgroupPtr& ref) {
  if (!ref || !ref->id.inode) return nullptr;
  auto at = cgroups_.find(ref->id.inode);
  if (at == cgroups_.end()) {
    if (cgroups_.size() >= kMostKnown) return nullptr;
    at = cgroups_.emplace(ref->id.inode, Cgroup{}).first;
    at->second.order = ++order_;
  }
  at->second.ref = ref;
  return &at->second;
}

void Metrics::mark_killed(const CgroupPtr& ref, MonoTime time) {
  if (!ref) return;
  if (auto at = cgroups_.find(ref->id.inode); at != cgroups_.end()) at->second.killed = time;
}

void Metrics::see_workload(const CgroupRef& ref, MonoTime time) {
  std::string labels = workload_of(ref);
  auto at = workloads_.find(labels);
  if (at != workloads_.end()) {
    if (!at->second.kills) at->second.seen = time;
    return;
  }
  // Whoever makes cgroups without end pushes out no count of kills, and no other one each second.
  if (workloads_.size() >= kMostWorkloads && !std::erase_if(workloads_, [&](const auto& known) {
        return !known.second.kills && time - known.second.seen > kWorkloadKept;
      }))
    return;
  workloads_.emplace(std::move(labels), Workload{0, time});
}

void Metrics::count_kill(const CgroupRef& ref, MonoTime time) {
  std::string labels = workload_of(ref);
  if (!workloads_.contains(labels) && workloads_.size() >= kMostWorkloads)
    workloads_.erase(std::ranges::min_element(workloads_, {}, [](const auto& known) {
      return std::pair(known.second.kills > 0, known.second.seen);
    }));
  Workload& workload = workloads_[std::move(labels)];
  ++workload.kills;
  workload.seen = time;
}

Metrics::Exported Metrics::exported(MonoTime now) const {
  auto rank = [&](const Cgroup* c) {
    auto held = c->pinned ? c->pinned : c->usage;
    return std::tuple(c->ref->name.kind == CgroupKind::root, c->killed && now - *c->killed < kKillIsNews,
                      c->outlook && c->outlook->alert, held && c->limit && held->count >= c->limit->count / 2,
                      held.value_or(Bytes{-1}), c->order);
  };
  std::vector<const Cgroup*> all;
  for (const auto& [inode, cgroup] : cgroups_) all.push_back(&cgroup);
  std::ranges::sort(all, std::ranges::greater{}, rank);
  Exported out;
  std::size_t room = kMostExported;
  for (const Cgroup* each : all) {
    std::string labels = identity_of(*each->ref);
    auto same = out.find(labels);
    if (same == out.end()) {
      if (each->ref->name.kind != CgroupKind::root && room-- == 0) break;
      out.emplace(std::move(labels), each);
      continue;
    }
    // Nothing reads a series that is there twice. What is below a container has its labels, and so has the
    // one that was there before a restart.
    auto better = [](const Cgroup* c) { return std::pair(-std::ssize(c->ref->path), c->order); };
    if (better(each) > better(same->second)) same->second = each;
  }
  return out;
}

namespace {

void write_cgroups(Page& page, const auto& shown, const ClockMap& clock) {
  page.family("oomcast_cgroup_memory_usage_bytes", "gauge", "Memory that a cgroup uses, page cache and all.");
  for (const auto& [labels, c] : shown) page.series(labels, c->usage);
  page.family(
      "oomcast_cgroup_memory_limit_bytes", "gauge",
      "The tightest limit of a cgroup and its ancestors; absent where none is below the machine's memory.");
  for (const auto& [labels, c] : shown) page.series(labels, c->limit);
  page.family("oomcast_cgroup_memory_pinned_bytes", "gauge",
              "Memory of a cgroup that cannot be reclaimed, with what of it is in swap.");
  for (const auto& [labels, c] : shown) page.series(labels, c->pinned);

  page.family("oomcast_cgroup_memory_growth_bytes_per_second", "gauge",
              "Growth of the memory that cannot be reclaimed, with a 90 % interval.");
  for (const auto& [labels, c] : shown) {
    if (!c->outlook || !c->outlook->growth) continue;
    const Growth& growth = *c->outlook->growth;
    for (auto [bound, rate] : {std::pair("low", growth.low), {"median", growth.rate}, {"high", growth.high}})
      if (std::isfinite(rate.value)) page.series(with(labels, "bound", bound), rate.value);
  }
  page.family(
      "oomcast_cgroup_oom_expected_timestamp_seconds", "gauge",
      "Unix time at which a cgroup is expected to be out of memory, with a 90 % interval; +Inf: not in sight.");
  for (const auto& [labels, c] : shown) {
    if (!c->outlook || !c->outlook->has_end) continue;
    const auto& o = *c->outlook;
    for (auto [bound, eta] : {std::pair("low", o.eta_low), {"median", o.eta}, {"high", o.eta_high}})
      page.series(with(labels, "bound", bound), eta ? timestamp(o.time, clock, *eta) : "+Inf");
  }
  page.family("oomcast_cgroup_forecast_alert", "gauge", "Whether a person should act.");
  for (const auto& [labels, c] : shown)
    if (c->outlook) page.series(labels, c->outlook->alert ? 1 : 0);
}

}  // namespace

std::string Metrics::render(MonoTime now, const ClockMap& clock, Dialect dialect) const {
  Page page(dialect);
  if (!version_.empty()) {
    page.family("oomcast_build_info", "gauge", "Version of oomcast and release of the kernel.");
    std::string labels = with({}, "version", version_);
    page.series(with(labels, "kernel", kernel_), 1);
  }
  page.family("oomcast_source_up", "gauge", "Whether a source is read.");
  for (const auto& [labels, up] : sources_) page.series(labels, up ? 1 : 0);

  page.family("oomcast_oom_kills_total", "counter",
              "Processes killed by the kernel's OOM killer since oomcast started, by what ran out.");
  for (std::size_t i = 0; i < kills_.size(); ++i)
    page.series(with({}, "scope", i < kScopeNames.size() ? to_string(kScopeNames[i]) : "unknown"), kills_[i]);
  page.family("oomcast_workload_oom_kills_total", "counter",
              "Processes killed by the kernel's OOM killer since oomcast started, by what they ran in.");
  for (const auto& [labels, workload] : workloads_) page.series(labels, workload.kills);
  page.family("oomcast_oom_kill_last_timestamp_seconds", "gauge", "Unix time of the last OOM kill.");
  if (last_kill_) page.series({}, timestamp(*last_kill_, clock));

  page.family("oomcast_lost_total", "counter", "What oomcast lost since it started, by reason.");
  for (std::string_view reason : known_losses()) {
    auto at = lost_.find(std::string(reason));
    page.series(with({}, "reason", reason), at == lost_.end() ? 0 : at->second);
  }
  if (auto at = lost_.find(std::string(kOtherLoss)); at != lost_.end())
    page.series(with({}, "reason", kOtherLoss), at->second);

  Exported shown = exported(now);
  page.family("oomcast_cgroups", "gauge", "Memory cgroups that are followed.");
  page.series({}, cgroups_.size());
  page.family("oomcast_cgroups_exported", "gauge",
              "Memory cgroups that have series here; those that matter most come first.");
  page.series({}, shown.size());

  write_cgroups(page, shown, clock);
  return page.take();
}

}  // namespace oomcast
