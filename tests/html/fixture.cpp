// Writes post-mortems as HTML into a folder, and beside each what its charts must show, straight from the
// values: NAME.html and NAME.json. See tests/html/run.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/escape.h"
#include "present/blame.h"
#include "present/blame_diff.h"
#include "present/curve_trend.h"
#include "present/report_html.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

using Json = nlohmann::json;

constexpr double kGiB = 1024. * 1024 * 1024;

Bytes gib(double n) {
  return {static_cast<std::int64_t>(n * kGiB) / 4096 * 4096};
}

// The same from run to run.
double noise(std::uint32_t seed) {
  seed = seed * 747796405u + 2891336453u;
  seed = ((seed >> ((seed >> 28) + 4)) ^ seed) * 277803737u;
  return static_cast<double>((seed >> 22) ^ seed) / 4294967295. - 0.5;
}

Curve curve_of(std::string name, bool process) {
  Curve curve;
  curve.name = std::move(name);
  curve.process = process;
  return curve;
}

/// Adds one moment; kinds in the order of `values`.
void add(Curve& curve, const std::vector<std::pair<std::string, std::optional<Bytes>>>& values,
         std::optional<Bytes> total, std::optional<Bytes> pinned, std::optional<Bytes> limit) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (curve.kinds.size() == i) curve.kinds.push_back({values[i].first, {}});
    curve.kinds[i].values.push_back(values[i].second);
  }
  curve.total.push_back(total);
  curve.pinned.push_back(pinned);
  curve.limit.push_back(limit);
}

PostMortemProcess process_of(const ProcessRef& ref, double rss, double grew, double rate) {
  PostMortemProcess p;
  p.process = ref;
  p.rss = gib(rss);
  p.anon = gib(rss * 0.97);
  p.file = gib(rss * 0.02);
  p.shmem = gib(rss * 0.01);
  p.swap = Bytes{};
  p.grew = gib(grew);
  p.growth = BytesPerSec{rate};
  p.oom_score_adj = 0;
  return p;
}

/// A trainer whose data loader keeps what it read: 13 minutes, one limit, a step, an alert.
PostMortem typical() {
  PostMortem out;
  CgroupPtr slice = test::cgroup(9, "/train"), job = test::cgroup(10, "/train/job-4711");
  ProcessRef loader = test::process(4312, "python3", {"python3", "-u", "loader.py", "--workers=4"}, job);
  ProcessRef trainer = test::process(4301, "python3", {"python3", "-u", "train.py", "--batch=256"}, job);

  Episode& e = out.episode.told.episode;
  e.id = "20261121T030405Z-4312";
  e.time = mono_from_ns(900'000'000'000);
  e.scope = OomScope::memcg;
  e.limit_cgroup = job;
  e.usage = e.limit = GiB(16);
  e.trigger = trainer;
  e.request.order = 0;
  e.request.gfp = "0xcc0(GFP_KERNEL)";
  e.group_kill = false;
  Victim victim;
  victim.process = loader;
  victim.freed_after = Seconds(0.42);
  e.victims.push_back(victim);
  e.chain = {{job, GiB(16), GiB(16)}, {slice, gib(21.4), GiB(48)}, {test::cgroup(1, "/"), gib(38.9), {}}};
  e.checks = {1, 1, 1};
  out.episode.told.first_forecast = mono_from_ns(330'000'000'000);
  out.episode.run.version = "0.1.0";
  out.episode.run.kernel = "6.12.9";
  out.episode.run.wall_of_mono_zero = Nanos(1'795'226'645'123'000'000 - 900'000'000'000);
  out.headline = "python3[4312] loader.py was killed: /train/job-4711 hit its limit of 16.0 GiB.";
  out.findings = {{"A leak: the floor of /train/job-4711 rose for 12 min and never came back.",
                   {"+15.2 MiB/s over 12 min 40 s, between +14.9 and +15.6 MiB/s with 90 % confidence",
                    "91 % of what was held at the kill is anonymous memory"}},
                  {"python3[4312] loader.py grew most, and it was the one that was killed.",
                   {"it grew by 9.71 GiB of the 11.4 GiB that came in the last 12 min 40 s"}},
                  {"The request that could not be met came from python3[4301] train.py.",
                   {"order 0, GFP_KERNEL: an ordinary page"}}};
  out.prevention = {{"Stop before the limit: the deadline stood fast 9 min 30 s ahead.",
                     {"from 570 s before on, each foretold interval held the time of the kill"}},
                    {"Two loader workers instead of four would have lasted twice as long.",
                     {"each of the four grew by 2.4 GiB"}}};
  out.unknown = {"Which line of loader.py allocates: stacks were not recorded.",
                 "Swap: the kernel accounts none to this cgroup."};

  out.memory.emplace();
  out.memory->kinds.anon = gib(14.52);
  out.memory->kinds.file = gib(0.2);
  out.memory->kinds.shmem = gib(0.42);
  out.memory->kinds.kernel = gib(0.13);
  out.memory->kinds.slab = gib(0.02);
  out.memory->unattributed = gib(0.73);
  out.memory->usage = GiB(16);
  out.memory->exact = true;

  Timeline& t = out.timeline;
  Curve owner = curve_of("/train/job-4711", false), parent = curve_of("/train", false);
  Curve load = curve_of("python3[4312] loader.py", true), train = curve_of("python3[4301] train.py", true);
  owner.limit_owner = owner.victim = true;
  load.victim = load.culprit = true;
  for (int s = -780; s <= 6; ++s) {
    auto i = static_cast<std::uint32_t>(s + 780);
    double grown = std::min(1., (780. + s) / 780), after = s > 0 ? 1 : 0;
    double loader_anon = (1.1 + 9.71 * grown) * (1 - after), trainer_anon = 3.1 + (s > -420 ? 0.62 : 0);
    double wave = 0.11 * std::sin(s / 11.) + 0.05 * noise(i);
    double file = std::max(0.05, 0.9 * (1 - grown)) + 0.02 * noise(i + 9000) + 0.15;
    double shmem = 0.42, kernel = 0.11 + 0.02 * grown;
    double anon = loader_anon + trainer_anon + wave;
    double sum = anon + file + shmem + kernel;
    double total = s == 0 ? 16 : std::min(16., sum + 0.04);
    t.at.push_back(s + (s == 0 ? 0 : 0.013));
    std::optional<Bytes> kernel_bytes = gib(kernel);
    if (s > -300 && s < -290) kernel_bytes.reset();  // ten seconds without this figure
    add(owner,
        {{"anon", gib(anon)},
         {"file", gib(file)},
         {"shmem", gib(shmem)},
         {"kernel", kernel_bytes},
         {"swap", Bytes{}},
         {"unattributed", gib(std::max(0., total - sum))}},
        gib(total), gib(anon + shmem + kernel), s < -600 ? GiB(18) : GiB(16));
    add(parent, {{"anon", gib(anon + 4.1)}, {"file", gib(file + 0.8)}, {"shmem", gib(shmem)}},
        gib(total + 5.4), gib(anon + 4.6), GiB(48));
    std::optional<Bytes> none;
    bool gone = s > 0;
    add(load,
        {{"anon", gone ? none : gib(loader_anon)},
         {"file", gone ? none : gib(0.03)},
         {"shmem", gone ? none : gib(0.2)}},
        gone ? none : gib(loader_anon + 0.23), {}, {});
    add(train, {{"anon", gib(trainer_anon + wave)}, {"file", gib(0.08)}, {"shmem", gib(0.22)}},
        gib(trainer_anon + wave + 0.3), {}, {});
  }
  t.curves = {owner, load, train, parent};
  for (Curve& curve : t.curves) curve.trend = describe_trend(curve, t.at);
  t.events = {
      {TimelineEvent::Kind::limit, -600, "limit of /train/job-4711 set to 16.0 GiB, was 18.0 GiB"},
      {TimelineEvent::Kind::verdict, -570, "leak +15.0 MiB/s, OOM in 9.7 min (8.7–11)"},
      {TimelineEvent::Kind::verdict, -420, "step: the level shifted by 635 MiB"},
      {TimelineEvent::Kind::alert, -300, "eta<5m: /train/job-4711 grows +15.2 MiB/s, OOM in 4 min 58 s"},
      {TimelineEvent::Kind::reclaim, -14, "tasks stood still 1.8 s to reclaim 212 MiB"},
      {TimelineEvent::Kind::lost, -9, "12 samples dropped: the buffer was full; kills are not affected"},
      {TimelineEvent::Kind::kill, 0, "python3[4312] loader.py killed: the limit of /train/job-4711"},
      {TimelineEvent::Kind::exit, 0.42, "python3[4312] loader.py ended, its memory was back"}};
  for (int s = -570; s < 0; s += 30) {
    double left = -s, off = left * 0.06 * noise(static_cast<std::uint32_t>(-s));
    t.forecasts.push_back({static_cast<double>(s), off, off - left * 0.09,
                           s < -540 ? std::nullopt : std::optional(off + left * 0.13)});
  }
  out.processes = {process_of(loader, 11.04, 9.71, 1.53e7), process_of(trainer, 4.02, 0.62, 2.1e5),
                   process_of(test::process(4340, "nvidia-smi", {"nvidia-smi", "dmon"}, job), 0.031, 0, 0),
                   process_of(test::process(912, "tensorboard", {"tensorboard", "--logdir", "/runs"}, slice),
                              0.74, 0.02, 900)};
  out.processes[0].victim = out.processes[0].culprit = true;
  out.processes[1].trigger = true;
  out.processes[2].ended_before = true;
  out.processes[2].swap = std::nullopt;
  out.processes[3].oom_score_adj = -500;
  return out;
}

const std::vector<std::string>& hostile_texts() {
  using namespace std::string_literals;
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all = {"<script>window.owned=1</script>"s,
                                    "</script><script>window.owned=1</script>"s,
                                    "<!--<script>"s,
                                    "]]><img src=x onerror=window.owned=1>"s,
                                    "\"'`${window.owned=1}`\\\""s,
                                    "&lt;&amp;\\u003c"s,
                                    "__proto__"s};
    for (const std::string& name : test::hostile_names()) all.push_back(name);
    std::string huge;
    while (huge.size() < 4096) huge += "<b>\xf0\x9f\x98\x80\u202e\x01";
    all.push_back(huge);
    return all;
  }();
  return texts;
}

/// Each text in every place that a stranger could reach, escaped or not.
PostMortem hostile() {
  PostMortem out = typical();
  Timeline& t = out.timeline;
  Curve model = t.curves[1];
  t.curves.resize(1);
  out.processes.clear();
  std::uint32_t pid = 100;
  for (const std::string& name : hostile_texts()) {
    model.name = name;
    if (t.curves.size() < 7) t.curves.push_back(model);
    t.curves.back().kinds[0].name = name;
    t.events.push_back({TimelineEvent::Kind::verdict, -50, name});
    CgroupPtr at = test::cgroup(pid, "/" + name);
    out.processes.push_back(process_of(test::process(++pid, name, {name, name}, at), 1, 1, 1));
    out.findings.push_back({name, {name}});
    out.prevention.push_back({name, {name}});
    out.unknown.push_back(name);
    out.episode.told.episode.chain.push_back({at, GiB(1), GiB(2)});
    out.episode.lost[name] = 1;
  }
  const std::string all = hostile_texts()[1] + hostile_texts()[0];
  MachineAtKill& machine = out.episode.told.episode.machine.emplace();
  machine.cpuset = machine.mems_allowed = machine.nodemask = all;
  machine.zones = {{0, all, MiB(1), {}, {}, {}, {}, {}}};
  machine.slabs = {{all, MiB(1), MiB(2)}};
  out.headline = all;
  out.episode.told.episode.id = all;
  out.episode.told.episode.request.gfp = all;
  out.episode.told.episode.limit_cgroup = test::cgroup(10, "/" + all);
  out.episode.run.version = out.episode.run.kernel = all;
  return out;
}

/// 30 minutes of 50 curves, none of which stands still.
PostMortem large() {
  PostMortem out = typical();
  Timeline& t = out.timeline;
  t = {};
  for (int s = -1800; s <= 0; ++s) t.at.push_back(s);
  for (std::uint32_t c = 0; c < 50; ++c) {
    Curve curve = curve_of(
        c < 15 ? fmt::format("/train/worker-{}", c) : fmt::format("python3[{}] train.py", 5000 + c), c >= 15);
    for (std::uint32_t i = 0; i < t.at.size(); ++i) {
      double grown = 1 + i / 900. + noise(i * 64 + c);
      auto jitter = [&](std::uint32_t k) {
        return gib(grown * 0.1 * (k + 1) * (1.1 + noise(i * 7 + k + c * 31)));
      };
      std::optional<Bytes> none;
      add(curve,
          {{"anon", jitter(9)},
           {"file", jitter(1)},
           {"shmem", jitter(0)},
           {"kernel", c < 15 ? jitter(2) : none},
           {"swap", Bytes{}}},
          jitter(12), c < 15 ? jitter(10) : none, c < 15 ? std::optional(GiB(16)) : none);
    }
    curve.limit_owner = c == 0;
    t.curves.push_back(curve);
  }
  t.events = {{TimelineEvent::Kind::kill, 0, "killed"}};
  return out;
}

/// A kill for want of memory of the machine, read in a log.
PostMortem machine() {
  PostMortem out;
  out.episode.source = EpisodeSource::journal;
  out.episode.told.episode.id = "machine";
  out.episode.told.episode.scope = OomScope::global;
  out.headline = "python3[4301] was OOM-killed: the machine ran out of memory.";
  MachineAtKill& m = out.episode.told.episode.machine.emplace();
  m.mems_allowed = "0-1";
  m.ram = GiB(64);
  m.free = MiB(300);
  m.swap_total = Bytes{};
  m.zones = {{0, "DMA32", MiB(240), MiB(3), MiB(6), MiB(9), {}, MiB(2900)},
             {1, "Normal", MiB(60), MiB(63), MiB(124), MiB(185), {}, std::nullopt}};
  m.slabs = {{"dentry", MiB(880), MiB(900)}};
  return out;
}

/// As of a kill that was read in a log: no samples, hardly a fact.
PostMortem bare() {
  PostMortem out;
  out.episode.source = EpisodeSource::file;
  out.episode.told.episode.id = "bare";
  out.headline = "A process was killed; the log was cut.";
  out.unknown = {"Everything before the kill: nobody recorded."};
  return out;
}

Json truth_of(const PostMortem& report, bool with_texts) {
  auto numbers = [](const Column& column) {
    Json out = Json::array();
    for (const auto& value : column) out.push_back(value ? Json(value->count) : Json(nullptr));
    return out;
  };
  // As a person is to read them.
  auto texts = [&](const Curve& curve, std::size_t i) {
    Json out = Json::object();
    auto text = [&](const Column& column) { return column[i] ? format_size(*column[i]) : "–"; };
    for (const Curve::Kind& kind : curve.kinds) out[to_valid_utf8(kind.name)] = text(kind.values);
    for (auto [name, column] :
         {std::pair("total", &curve.total), {"pinned", &curve.pinned}, {"limit", &curve.limit}})
      out[name] = text(*column);
    return out;
  };
  Json curves = Json::array();
  for (const Curve& curve : report.timeline.curves) {
    Json shown = Json::array();
    if (with_texts)
      for (std::size_t i = 0; i < report.timeline.at.size(); ++i) shown.push_back(texts(curve, i));
    Json kinds = Json::object();
    for (const Curve::Kind& kind : curve.kinds) kinds[to_valid_utf8(kind.name)] = numbers(kind.values);
    curves.push_back({{"name", to_valid_utf8(curve.name)},
                      {"kinds", kinds},
                      {"total", numbers(curve.total)},
                      {"pinned", numbers(curve.pinned)},
                      {"limit", numbers(curve.limit)},
                      {"texts", shown}});
  }
  Json strangers = Json::array();
  for (const std::string& name : hostile_texts()) strangers.push_back(to_valid_utf8(name));
  Json forecasts = Json::array();
  for (const ForetoldDeadline& told : report.timeline.forecasts)
    forecasts.push_back({told.at, told.eta, told.low, told.high ? Json(*told.high) : Json(nullptr)});
  return {{"at", report.timeline.at},
          {"curves", curves},
          {"forecasts", forecasts},
          {"headline", to_valid_utf8(report.headline)},
          {"hostile", strangers}};
}

bool write(const std::filesystem::path& folder, const std::string& name, const PostMortem& report) {
  Result<std::string> html = to_html(report);
  if (!html) {
    fmt::print(stderr, "{}: {}\n", name, html.error().message);
    return false;
  }
  std::ofstream(folder / (name + ".html"), std::ios::binary) << *html;
  std::ofstream(folder / (name + ".json"), std::ios::binary) << truth_of(report, name == "typical").dump();
  return true;
}

// Flame graphs: of one report, and of two. Each hostile name is a function's.
bool write_blame(const std::filesystem::path& folder) {
  BlameReport report;
  report.scope = "--cgroup /train";
  report.window = Seconds(10);
  BlameProcess& p = report.processes.emplace_back();
  p.process.comm = "python3";
  p.process.id = {7, 1};
  Json names = Json::array();
  for (const std::string& name : hostile_texts()) {
    if (name.empty()) continue;
    Frame frame{Frame::Kind::python, name, "/app/train.py", 3};
    p.sites.push_back({{{Frame::Kind::native, "main", "prog", {}}, frame}, MiB(4), MiB(5), 1});
    names.push_back(to_valid_utf8(to_text(frame)));
  }
  p.grown_anon = report.grown = MiB(4 * static_cast<std::int64_t>(p.sites.size()));
  BlameReport after = report;
  after.processes[0].sites[0].grown = MiB(400);
  auto one = to_html(profile_of(report, {}, MonoTime{})), two = to_html(difference(report, after));
  if (!one || !two) return false;
  std::ofstream(folder / "flames.html", std::ios::binary) << *one;
  std::ofstream(folder / "difference.html", std::ios::binary) << *two;
  std::ofstream(folder / "flames.json", std::ios::binary) << Json({{"names", names}}).dump();
  return true;
}

}  // namespace
}  // namespace oomcast

int main(int argc, char** argv) {
  using namespace oomcast;
  if (argc != 2) {
    fmt::print(stderr, "usage: html_fixture FOLDER\n");
    return 2;
  }
  std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  bool ok = write(folder, "typical", typical()) && write(folder, "hostile", hostile()) &&
            write(folder, "large", large()) && write_blame(folder) && write(folder, "machine", machine());
  setenv("TZ", "IST-5:30", 1);
  tzset();
  ok = write(folder, "bare", bare()) && ok;
  return ok ? 0 : 1;
}
