#include "present/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/escape.h"
#include "present/post_mortem_parts.h"
#include "stream/cells.h"
#include "stream/facts_of_each_type.h"

namespace oomcast {
namespace {

constexpr double kKillSecond = 1000;  // s

MonoTime at(double from_kill) {
  return MonoTime(std::chrono::duration_cast<Nanos>(Seconds(kKillSecond + from_kill)));
}

Bytes mib(double n) {
  return {static_cast<std::int64_t>(n * 1048576)};
}

/// A cgroup /train of 512 MiB with a trainer and its loader, as told second by second.
class Scene {
 public:
  explicit Scene(const std::string& name = "train.py") : name_(name) {
    e_.run.version = "0.1.0";
    e_.run.kernel = "6.12.9";
    e_.run.interval = std::chrono::seconds(1);
    e_.run.wall_of_mono_zero = Nanos(1'795'226'645'123'456'789 - 1'000'000'000'000);
    e_.run.tick = Nanos(10'000'000);
    job_ = test::cgroup(10, "/train/" + name);
    above_ = test::cgroup(9, "/train");
    trainer_ = test::process(4301, "python3", {"python3", "-u", name}, job_);
    loader_ = test::process(4312, "python3", {"python3", "-u", "loader.py"}, job_);
    Episode& e = e_.told.episode;
    e.id = "20261121T030405Z-4301";
    e.time = at(0);
    e.scope = OomScope::memcg;
    e.limit_cgroup = job_;
    e.usage = e.limit = mib(512);
    e.trigger = trainer_;
    e.request.order = 0;
    e.request.gfp = "0xcc0(GFP_KERNEL)";
    e.group_kill = false;
    e.chain = {{job_, mib(512), mib(512)}, {above_, mib(700), GiB(4)}, {test::cgroup(1, "/"), GiB(2), {}}};
    e.checks = {1, 1, 1};
    e.memory = MemoryAtKill{mib(500), mib(2), Bytes{}, mib(6), mib(3), Bytes{}};
    e.tasks.rows = {{trainer_, mib(490), mib(480), mib(10), Bytes{}, Bytes{}, mib(1), 0},
                    {loader_, mib(25), mib(20), mib(5), Bytes{}, Bytes{}, mib(1), 0}};
    e.tasks.listed = 2;
    e_.from = at(-600);
  }
  void killed(const ProcessRef& who, Bytes anon, int adj = 0) {
    Victim v;
    v.process = who;
    v.tid = who.id.tgid;
    v.anon = anon;
    v.file = mib(10);
    v.shmem = Bytes{};
    v.oom_score_adj = adj;
    v.killed = true;
    v.freed_after = Seconds(0.06);
    v.marked = v.logged = true;
    e_.told.episode.victims.push_back(v);
  }
  void level(double when, double held) {
    Sample s;
    s.time = at(when);
    s.cgroup = job_;
    s.usage = mib(std::min(held + 4, 512.0));
    s.limit = s.headroom_limit = mib(512);
    s.limit_cgroup = job_;
    s.stat.anon = mib(held - 6);
    s.stat.file = mib(4);
    s.stat.shmem = Bytes{};
    s.stat.kernel = mib(6);
    s.stat.swap = Bytes{};
    s.pinned = mib(held);
    e_.samples.push_back(s);
  }
  void holds(double when, const ProcessRef& who, double anon) {
    e_.processes.push_back({at(when), who, mib(anon + 10), mib(anon), mib(10), Bytes{}, Bytes{}, std::nullopt,
                            std::nullopt, KiB(256)});
  }
  ForecastFact forecast(double when, Verdict verdict, std::optional<double> eta, std::string why) const {
    ForecastFact f;
    f.time = at(when);
    f.cgroup = f.limit_cgroup = job_;
    f.forecast.verdict = verdict;
    f.forecast.limit = mib(512);
    f.forecast.why = std::move(why);
    if (verdict == Verdict::leak)
      f.forecast.growth =
          Growth{{mib(1).as_double()}, {mib(0.9).as_double()}, {mib(1.1).as_double()}, Seconds(300), 300};
    if (eta) {
      f.forecast.eta = Seconds(*eta);
      f.forecast.eta_low = Seconds(*eta * 0.8);
      f.forecast.eta_high = Seconds(*eta * 1.3);
      f.forecast.alert = *eta < 200;
    }
    return f;
  }
  /// +1 MiB/s for 400 s.
  StoredEpisode leak() {
    for (int t = -400; t < 0; ++t) {
      level(t, 512 + t);
      holds(t, trainer_, 480 + t);
      holds(t, loader_, 20);
    }
    for (int t = -300; t < 0; t += 10)
      e_.forecasts.push_back(
          forecast(t, Verdict::leak, -t * 1.05, "its baseline has risen 1.00 MiB/s for the last 300 s"));
    e_.told.first_forecast = at(-300);
    e_.told.forecast_before = e_.forecasts.back();
    e_.reclaim.push_back({at(-1), job_, 12, Seconds(2.5), mib(80)});
    AlertFact alert = test::known_alert(trainer_, job_);
    alert.time = at(-120);
    alert.rule = "eta<2m";
    for (ActionRun& run : alert.actions) run.what = name_;
    e_.alerts.push_back(alert);
    killed(trainer_, mib(480));
    e_.told.episode.grew_most = {{trainer_, mib(60), Seconds(60)}};
    e_.told.episode.grew_from.sites = {
        {trainer_,
         {{"keep_" + name_, "/job/train.py", 41}, {"step", "/job/train.py", 50}},
         mib(11),
         mib(12),
         Seconds(6),
         at(-280),
         at(-30),
         {.sure = mib(11),
          .kept = mib(11.5),
          .kept_error = mib(0.5),
          .touched = mib(3),
          .held_by = "cache['" + name_ + "'] in __main__"}},
        {trainer_,
         {{"at::empty", "/venv/lib/libc10.so", {}}},
         mib(1),
         mib(12),
         Seconds(6),
         at(-280),
         at(-30),
         {.kept = Bytes{}, .kept_error = Bytes{}, .touched = mib(40)}}};
    e_.told.episode.grew_from.holders = {{trainer_, "cache['" + name_ + "'] in __main__", "dict", name_, 1,
                                          300, 60, mib(10), mib(12), Seconds(6), at(-280), at(-30)}};
    return e_;
  }
  /// Flat at 200 MiB, then everything in a third of a second.
  StoredEpisode step() {
    for (int t = -400; t < 0; ++t) level(t, 200);
    e_.forecasts.push_back(forecast(-390, Verdict::stable, {}, "no rise above noise in 10 s"));
    for (double t : {-0.3, -0.2, -0.1}) level(t, 200 + 312 * (0.4 + t));
    killed(trainer_, mib(480));
    e_.told.episode.grew_most = {{trainer_, mib(312), Seconds(60)}};
    return e_;
  }

  StoredEpisode e_;
  /// No limit was met: the machine had nothing left.
  StoredEpisode machine(const std::string& slab = "dentry") {
    for (int t = -400; t < 0; ++t) holds(t, trainer_, 480 + t);
    Episode& e = e_.told.episode;
    e.scope = OomScope::global;
    e.limit_cgroup = nullptr;
    e.usage = e.limit = {};
    e.chain.clear();
    e.memory = MemoryAtKill{mib(490), mib(2), mib(1), mib(1400), mib(1390), Bytes{}};
    MachineAtKill& m = e.machine.emplace();
    m.mems_allowed = "0-1";
    m.cpuset = "/";
    m.ram = mib(2000);
    m.free = mib(40);
    m.swap_total = m.swap_free = Bytes{};
    m.zones = {{0, "DMA32", mib(12), mib(8), mib(10), mib(12), mib(510), mib(500)},
               {1, "Normal", mib(28), mib(30), mib(38), mib(46), mib(1600), mib(1500)}};
    m.slabs = {{slab, mib(900), mib(910)}, {"kmalloc-64", mib(300), mib(301)}};
    killed(trainer_, mib(480));
    e_.told.episode.grew_most = {{trainer_, mib(312), Seconds(60)}};
    return e_;
  }

  CgroupPtr job_, above_;
  ProcessRef trainer_, loader_;
  std::string name_;
};

std::string words(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) {
    out += f.text + "\n";
    for (const std::string& line : f.evidence) out += "  " + line + "\n";
  }
  return out;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "CET-1", 1);
    tzset();
  }
  void TearDown() override {
    unsetenv("TZ");
    tzset();
  }
};

// OOMCAST_WRITE_GOLDEN=1 writes them anew.
void is_golden(const std::string& name, const std::string& text) {
  std::string path = std::string(OOMCAST_TESTS) + "/unit/present/golden/" + name;
  if (std::getenv("OOMCAST_WRITE_GOLDEN")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream wanted;
  wanted << file.rdbuf();
  EXPECT_EQ(text, wanted.str()) << path;
}

const std::string kHostile = "\x1b[2J<script>`|*\u202e\xff\n";

TEST_F(Report, is_as_the_golden_files_have_it) {
  PostMortem leak = make_post_mortem(Scene().leak()), step = make_post_mortem(Scene().step());
  is_golden("leak.txt", to_text(leak, {}));
  is_golden("leak.md", to_markdown(leak));
  is_golden("step.txt", to_text(step, {}));
  is_golden("step.md", to_markdown(step));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(step));
  EXPECT_EQ(json["timeline"]["at_s"].size(), json["timeline"]["curves"][0]["total_bytes"].size());
  json["timeline"].erase("at_s");
  json["timeline"].erase("curves");
  is_golden("step.json", json.dump(1) + "\n");
  PostMortem machine = make_post_mortem(Scene().machine());
  is_golden("machine.txt", to_text(machine, {}));
  is_golden("machine.md", to_markdown(machine));
  is_golden("machine.json", nlohmann::ordered_json::parse(to_json(machine))["oom"]["machine"].dump(1) + "\n");
  PostMortem hostile = make_post_mortem(Scene(kHostile).leak());
  is_golden("hostile.txt", to_text(hostile, {}));
  is_golden("hostile.md", to_markdown(hostile));
  nlohmann::ordered_json strange = nlohmann::ordered_json::parse(to_json(hostile));
  strange.erase("timeline");
  is_golden("hostile.json", strange.dump(1) + "\n");
}

std::string finding_of(const PostMortem& report, const std::string& part) {
  for (const Finding& f : report.findings) {
    std::string all = f.text;
    for (const std::string& line : f.evidence) all += "\n" + line;
    if (f.text.find(part) != std::string::npos) return all;
  }
  return "";
}

TEST_F(Report, of_a_line_that_only_touched_pages_does_not_say_that_it_grew_there) {
  StoredEpisode e = Scene().leak();
  GrewFrom& first = e.told.episode.grew_from.sites[0];
  first.grown = first.of;
  first.evidence = {.kept_unknown = "no breakpoints were set"};
  e.told.episode.grew_from.sites.resize(1);
  e.told.episode.grew_from.holders.clear();
  PostMortem report = make_post_mortem(e);
  std::string found = finding_of(report, "touched new pages first in keep_train.py (train.py:41)");
  EXPECT_TRUE(has(found, "whether that line keeps them is not known")) << found;
  EXPECT_TRUE(has(found, "a temporary's; what stays was not traced: no breakpoints were set")) << found;
  for (const std::string& page : {to_text(report, {}), to_markdown(report), to_json(report)})
    EXPECT_FALSE(has(page, "100 % of")) << page;
}

TEST_F(Report, of_a_container_that_holds_it_says_so_before_who_touched) {
  StoredEpisode e = Scene().leak();
  e.told.episode.grew_from.sites.resize(1);
  e.told.episode.grew_from.sites[0].evidence = {};
  e.told.episode.grew_from.holders[0].adder = {{"note", "/job/train.py", 9}};
  e.told.episode.grew_from.holders[0].adder_seen = e.told.episode.grew_from.holders[0].adds_seen = 5;
  std::string found = finding_of(make_post_mortem(e), "83 % of what it grew by, at least, is held by cache");
  EXPECT_TRUE(has(found, "+60 train.py, added by note (train.py:9).")) << found;
  EXPECT_TRUE(has(found, "\nfirst touched by keep_train.py (train.py:41): 11.0 MiB of the 12.0 MiB"))
      << found;
}

TEST_F(Report, keeps_to_one_screen) {
  for (const StoredEpisode& e : {Scene().leak(), Scene().step(), Scene(kHostile).leak()}) {
    std::istringstream text(to_text(make_post_mortem(e), {}));
    std::size_t lines = 0;
    for (std::string line; std::getline(text, line); ++lines)
      EXPECT_TRUE(display_width(line) <= 80 || has(line, "oomcast ")) << line;
    EXPECT_LE(lines, 60u);
  }
}

TEST_F(Report, lets_no_name_be_more_than_text) {
  Scene scene(kHostile);
  scene.machine(kHostile);
  scene.e_.told.episode.machine->cpuset = kHostile;
  scene.e_.told.episode.machine->zones[0].zone = kHostile;
  scene.e_.told.episode.scope = OomScope::cpuset;
  PostMortem report = make_post_mortem(scene.leak());
  for (const std::string& text : {to_text(report, {}), to_markdown(report)})
    for (const char* bad : {"\x1b", "<script>", "\u202e", "\xff"})
      EXPECT_FALSE(has(text, bad) && (text[0] == '#' || std::string(bad) != "<script>")) << bad;
  EXPECT_EQ(to_json(report).find('\x1b'), std::string::npos);
}

TEST_F(Report, calls_a_leak_a_leak_and_tells_how_well_it_was_foreseen) {
  PostMortem report = make_post_mortem(Scene().leak());
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::leak);
  std::string why = words(report.findings);
  EXPECT_TRUE(has(why, "A leak: ")) << why;
  EXPECT_TRUE(has(why, "first forecast 5 min 00 s before")) << why;
  EXPECT_TRUE(has(why, "right")) << why;
  EXPECT_TRUE(has(why, "alert eta<2m 2 min 00 s before")) << why;
  std::string better = words(report.prevention);
  EXPECT_TRUE(has(better, "--alert 'eta<5m'")) << better;
  EXPECT_TRUE(has(better, "one of 1.00 GiB lasts 8 min 32 s longer")) << better;
}

TEST_F(Report, draws_no_deadline_that_was_withdrawn_before_the_kill) {
  Scene scene;
  StoredEpisode e = scene.step();
  e.forecasts = {scene.forecast(-380, Verdict::leak, 300, "its baseline has risen"),
                 scene.forecast(-340, Verdict::stable, {}, "no rise above noise in 60 s")};
  EXPECT_TRUE(make_post_mortem(e).timeline.forecasts.empty());
  e.forecasts.push_back(scene.forecast(-60, Verdict::leak, 58, "its baseline has risen"));
  e.told.first_forecast = at(-60);
  auto drawn = make_post_mortem(e).timeline.forecasts;
  ASSERT_EQ(drawn.size(), 1u);
  EXPECT_EQ(drawn[0].at, -60);
}

TEST_F(Report, keeps_the_kill_among_hundreds_of_events_and_counts_the_others) {
  Scene scene;
  StoredEpisode e = scene.leak();
  for (int n = 0; n < 300; ++n) {
    UserKillFact kill;
    kill.time = at(1 + n * 0.1);
    kill.victim = scene.loader_;
    kill.sender = scene.trainer_;
    e.kills.push_back(kill);
  }
  Timeline timeline = make_post_mortem(e).timeline;
  auto is = [](TimelineEvent::Kind kind) {
    return [kind](const TimelineEvent& event) { return event.kind == kind; };
  };
  EXPECT_EQ(std::ranges::count_if(timeline.events, is(TimelineEvent::Kind::kill)), 1);
  EXPECT_EQ(std::ranges::count_if(timeline.events, is(TimelineEvent::Kind::alert)), 1);
  EXPECT_EQ(timeline.events.size(), 200u);
  EXPECT_GT(timeline.events_left_out, 100u);
  EXPECT_TRUE(std::ranges::is_sorted(timeline.events, {}, &TimelineEvent::at));
}

TEST_F(Report, has_the_moment_of_the_kill_however_many_there_are) {
  Scene scene;
  StoredEpisode e = scene.leak();
  for (int t = 0; t < 5000; ++t) scene.holds(-500 + t * 0.1001, scene.loader_, 20);
  e.processes = scene.e_.processes;
  PostMortem report = make_post_mortem(e);
  const Timeline& timeline = report.timeline;
  EXPECT_GT(timeline.moments_left_out, 1000u);
  auto kill = std::ranges::find(timeline.at, 0.);
  ASSERT_NE(kill, timeline.at.end());
  EXPECT_EQ(timeline.curves[0].total[static_cast<std::size_t>(kill - timeline.at.begin())], mib(512));
}

TEST_F(Report, takes_no_word_of_the_life_after_the_kill) {
  Scene scene;
  StoredEpisode e = scene.leak();
  e.forecasts.push_back(scene.forecast(-0.01, Verdict::unknown, {}, "too early"));
  PostMortem report = make_post_mortem(e);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::leak);
  EXPECT_TRUE(has(words(report.prevention), "--alert 'eta<5m'")) << words(report.prevention);
}

TEST_F(Report, has_no_verdict_among_its_events_after_the_kill) {
  Scene scene;
  StoredEpisode e = scene.leak();
  e.forecasts.push_back(scene.forecast(0.8, Verdict::unknown, {}, "too early"));
  std::vector<TimelineEvent> events = make_post_mortem(e).timeline.events;
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, TimelineEvent::Kind::kill) << events.back().text;
}

TEST_F(Report, calls_a_step_a_step_and_when_it_was) {
  PostMortem report = make_post_mortem(Scene().step());
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(200));
  EXPECT_EQ(report.rise->to, mib(512));
  EXPECT_LT(report.rise->took, Seconds(1.1));
  EXPECT_TRUE(has(words(report.findings), "A step: 312 MiB more came at once"));
}

TEST_F(Report, calls_a_step_a_step_however_fast_the_start_was) {
  Scene scene;
  for (double t : {-5.1, -5.05, -5.0}) scene.level(t, 240 + 40 * t + 10);
  for (double t : {-0.2, -0.1}) scene.level(t, 512 + 2000 * t);
  scene.killed(scene.trainer_, mib(480));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
}

TEST_F(Report, says_from_where_a_step_rose_that_took_longer_than_moments) {
  Scene scene;
  for (int t = -400; t < -5; ++t) scene.level(t, 100);
  for (double t = -5; t < 0; t += 0.25) scene.level(t, 100 + 80 * (t + 5));
  scene.e_.forecasts.push_back(scene.forecast(-390, Verdict::stable, {}, "no rise above noise in 10 s"));
  scene.killed(scene.trainer_, mib(480));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(100));
  EXPECT_NEAR(report.rise->took.count(), 4.5, 0.5);
}

TEST_F(Report, calls_a_step_a_step_though_its_beginning_looked_like_a_leak) {
  for (double took : {5, 8}) {
    Scene scene;
    for (int t = -400; t < -took; ++t) scene.level(t, 100);
    for (double t = -took; t < 0; t += 0.25) scene.level(t, 100 + 400 / took * (t + took));
    ForecastFact leak = scene.forecast(-3.2, Verdict::leak, 3.5, "its baseline has risen");
    leak.forecast.growth->rate = {mib(400).as_double() / took};
    leak.forecast.evidence.regime = Seconds(took - 3.2);
    scene.e_.forecasts.push_back(leak);
    scene.killed(scene.trainer_, mib(480));
    PostMortem report = make_post_mortem(scene.e_);
    ASSERT_TRUE(report.rise);
    EXPECT_EQ(report.rise->cause, Verdict::step) << took;
    EXPECT_EQ(report.rise->from, mib(100)) << took;
  }
}

TEST_F(Report, says_from_where_a_step_rose_whose_beginning_was_slow) {
  Scene scene;
  for (int t = -400; t < -8; ++t) scene.level(t, 100);
  for (double t = -8; t < -4; t += 0.25) scene.level(t, 100 + 30 * (t + 8));
  for (double t = -4; t < 0; t += 0.25) scene.level(t, 220 + 70 * (t + 4));
  scene.e_.forecasts.push_back(scene.forecast(-390, Verdict::stable, {}, "no rise above noise in 10 s"));
  scene.killed(scene.trainer_, mib(480));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(100));
}

TEST_F(Report, says_from_where_a_step_rose_that_made_pauses) {
  Scene scene;
  for (int t = -60; t < -14; ++t) scene.level(t, 100);
  // Nothing was seen of its beginning; then it stands still for a moment when the newest part begins.
  scene.level(-3.4, 300);
  scene.level(-3.2, 301);
  scene.level(-2.9, 302);
  for (double t = -2.5; t < 0; t += 0.25) scene.level(t, 310 + 75 * (t + 2.5));
  scene.killed(scene.trainer_, mib(480));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(100));
}

TEST_F(Report, says_from_where_a_step_rose_that_stood_still_half_way) {
  Scene scene;
  for (double t = -46; t < -4.1; t += 0.5) scene.level(t, 120);
  for (double t = -4; t < -1.6; t += 0.3) scene.level(t, 340);
  for (double t = -1.4; t < 0; t += 0.3) scene.level(t, 480);
  scene.killed(scene.trainer_, mib(460));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(120));
}

TEST_F(Report, leaves_an_earlier_rise_out_of_a_step) {
  Scene scene;
  for (int t = -100; t < -20; ++t) scene.level(t, 100);
  for (int t = -20; t <= -1; ++t) scene.level(t, 300);
  scene.level(-0.5, 400);
  scene.killed(scene.trainer_, mib(480));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(300));
}

TEST_F(Report, leaves_the_start_out_of_a_step_however_fast_it_was) {
  Scene scene;
  for (int i = 0; i < 3; ++i) scene.level(-5.06 + 0.001 * i, 2 + 10 * i);
  for (double t : {-0.2, -0.1}) scene.level(t, 512 + 2000 * t);
  scene.killed(scene.trainer_, mib(480));
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::step);
  EXPECT_EQ(report.rise->from, mib(22));
}

TEST_F(Report, says_of_a_start_up_that_was_long_over_that_it_was_nearly_full_all_along) {
  for (int full : {-450, -50}) {
    Scene scene;
    for (int t = -590; t < 0; t += 10)
      scene.level(t, std::min(500.0, 100 + 400.0 * (t + 590) / (full + 590)));
    scene.e_.forecasts.push_back(scene.forecast(-20, Verdict::ramp, {}, "it rose and levelled off"));
    scene.killed(scene.trainer_, mib(480));
    PostMortem report = make_post_mortem(scene.e_);
    ASSERT_TRUE(report.rise);
    bool over = full == -450;
    EXPECT_EQ(report.rise->cause, over ? Verdict::unknown : Verdict::ramp);
    std::string why = words(report.findings);
    EXPECT_EQ(has(why, "was nearly full all along: 471 MiB of 512 MiB for 7 min 40 s"), over) << why;
    EXPECT_EQ(has(why, "A start-up: "), !over) << why;
  }
}

TEST_F(Report, calls_a_spike_a_spike_when_others_came_back_before) {
  Scene scene;
  scene.step();
  scene.e_.forecasts = {scene.forecast(-60, Verdict::spikes, {}, "5 peaks came back")};
  scene.e_.forecasts[0].forecast.evidence.peak_above = mib(120);
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.rise);
  EXPECT_EQ(report.rise->cause, Verdict::spikes);
  EXPECT_TRUE(has(words(report.findings), "where earlier ones took 120 MiB")) << words(report.findings);
}

TEST_F(Report, calls_a_spike_a_spike_by_the_curve_where_the_last_analysis_is_older_than_the_others) {
  for (int peaks : {2, 3}) {
    Scene scene;
    for (int t = -400; t < 0; ++t) scene.level(t, t % 100 < -95 && t >= -100 * peaks ? 320 : 200);
    scene.e_.forecasts = {scene.forecast(-390, Verdict::stable, {}, "no rise above noise in 10 s")};
    for (double t : {-0.3, -0.2, -0.1}) scene.level(t, 200 + 312 * (0.4 + t));
    scene.killed(scene.trainer_, mib(480));
    PostMortem report = make_post_mortem(scene.e_);
    ASSERT_TRUE(report.rise);
    EXPECT_EQ(report.rise->cause, peaks == 3 ? Verdict::spikes : Verdict::step);
    EXPECT_EQ(has(words(report.findings), "where earlier ones took 120 MiB and came back"), peaks == 3);
  }
}

TEST_F(Report, replays_the_curve_where_no_forecast_is_kept) {
  Scene scene;
  StoredEpisode e = scene.leak();
  e.forecasts.clear();
  e.told.forecast_before.reset();
  e.told.first_forecast.reset();
  PostMortem report = make_post_mortem(e);
  ASSERT_TRUE(report.rise && report.rise->before);
  EXPECT_EQ(report.rise->cause, Verdict::leak);
}

TEST_F(Report, names_the_culprit_when_another_dies) {
  Scene scene;
  scene.step();
  scene.e_.told.episode.victims.clear();
  scene.killed(scene.loader_, mib(20), 1000);
  PostMortem report = make_post_mortem(scene.e_);
  ASSERT_TRUE(report.culprit);
  EXPECT_EQ(report.culprit->process.id, scene.trainer_.id);
  std::string why = words(report.findings);
  EXPECT_TRUE(has(why, "which was NOT killed: python3[4312] loader.py died in its place")) << why;
  EXPECT_TRUE(has(why, "oom_score_adj of 1000")) << why;
}

TEST_F(Report, tells_whose_limit_it_was_above_the_victim) {
  Scene scene;
  scene.step();
  scene.e_.told.episode.limit_cgroup = scene.above_;
  std::string why = words(make_post_mortem(scene.e_).findings);
  EXPECT_TRUE(has(why, "The limit is that of /train, above the victim's own cgroup /train/train.py")) << why;
}

TEST_F(Report, tells_which_zone_had_nothing_left_and_which_slab_took_it) {
  StoredEpisode e = Scene().machine();
  std::string why = words(make_post_mortem(e).findings);
  EXPECT_TRUE(has(why,
                  "Nothing was left to give: zone Normal of node 1 had 28.0 MiB free, and the kernel "
                  "keeps 30.0 MiB"))
      << why;
  EXPECT_TRUE(has(why, "the machine has no swap")) << why;
  EXPECT_TRUE(has(why, "1.37 GiB of the 1.91 GiB in use on the machine")) << why;
  EXPECT_TRUE(has(why, "its largest slabs: dentry 910 MiB, kmalloc-64 301 MiB")) << why;
  e.told.episode.machine->zones[1].free = mib(300);
  e.told.episode.request.order = 4;
  why = words(make_post_mortem(e).findings);
  EXPECT_TRUE(has(why, "Free memory was in pieces: zone Normal of node 1 had 300 MiB free, but not 16 pages"))
      << why;
}

TEST_F(Report, advises_swap_only_where_most_of_the_memory_could_be_swapped) {
  auto advice = [](Bytes anon, Bytes slab) {
    Scene scene;
    StoredEpisode e = scene.machine();
    e.told.episode.memory = MemoryAtKill{anon, mib(2), mib(1), slab + mib(10), slab, Bytes{}};
    return words(make_post_mortem(e).prevention);
  };
  EXPECT_TRUE(has(advice(mib(1500), mib(200)), "Swap would have delayed it"));
  EXPECT_FALSE(has(advice(mib(490), mib(1390)), "Swap would have delayed it"));
}

TEST_F(Report, leaves_open_of_which_hierarchy_the_cgroups_of_a_log_are) {
  StoredEpisode e = Scene().leak();
  auto hierarchy = [&] {
    return nlohmann::json::parse(to_json(make_post_mortem(e)))["oom"]["limit_cgroup"]["hierarchy"];
  };
  auto second = std::make_shared<CgroupRef>(*e.told.episode.limit_cgroup);
  second->id.hierarchy = Hierarchy::v2;
  e.told.episode.limit_cgroup = second;
  EXPECT_EQ(hierarchy(), "v2");
  e.source = EpisodeSource::file;
  e.told.episode.memory->swap.reset();
  EXPECT_TRUE(hierarchy().is_null());
}

TEST_F(Report, prints_no_more_digits_of_a_logs_time_than_are_true) {
  StoredEpisode e = Scene().leak();
  EXPECT_EQ(moment_of(e), "2026-11-21 03:04:05.123 CET (02:04:05.123 UTC)");
  e.source = EpisodeSource::kmsg;
  e.logged.time_error = std::chrono::milliseconds(10);
  EXPECT_EQ(moment_of(e), "2026-11-21 03:04:05.1 CET (02:04:05.1 UTC)");
  e.logged.time_error = std::chrono::seconds(1);
  EXPECT_EQ(moment_of(e), "2026-11-21 03:04:05 CET (02:04:05 UTC)");
}

TEST_F(Report, says_nothing_of_zones_of_a_log_that_has_none) {
  StoredEpisode e = Scene().machine();
  e.told.episode.machine = MachineAtKill{};
  std::string why = words(make_post_mortem(e).findings);
  EXPECT_FALSE(has(why, "What the machine had left")) << why;
}

TEST_F(Report, tells_where_the_memory_was_that_no_process_had) {
  StoredEpisode e = Scene().machine();
  e.told.episode.machine->ram = GiB(64);
  e.told.episode.memory->parts = {{"anon", GiB(4)}, {"slab_unreclaimable", GiB(3)}, {"free", mib(40)}};
  PostMortem report = make_post_mortem(e);
  std::string why = words(report.findings);
  EXPECT_TRUE(has(why,
                  "The processes account for only 4.00 GiB of the 64.0 GiB of RAM; the largest other part is "
                  "in no counter"))
      << why;
  EXPECT_TRUE(has(why, "3.00 GiB (4.7 %) slab_unreclaimable")) << why;
  EXPECT_TRUE(has(to_text(report, {}), "WHERE THE MEMORY WAS, of 64.0 GiB RAM"));
  auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["memory_table"]["rows"][0]["name"], "uncounted");
  EXPECT_EQ(json["memory_table"]["whole_bytes"], GiB(64).count);
}

TEST_F(Report, names_another_part_beside_processes_that_hold_less_than_half) {
  StoredEpisode e = Scene().machine();
  e.told.episode.machine->ram = GiB(100);
  e.told.episode.memory->parts = {{"anon", GiB(45)}, {"free", GiB(30)}, {"file", GiB(25)}};
  std::string why = words(make_post_mortem(e).findings);
  EXPECT_TRUE(has(
      why, "only 45.0 GiB of the 100 GiB of RAM; the largest other part is page cache of files (25.0 GiB)"))
      << why;
}

TEST_F(Report, says_first_what_cures_where_the_line_and_its_holder_are_known) {
  Scene scene;
  StoredEpisode e = scene.leak();
  GrowthEvidence added;
  added.sure = mib(11);
  added.adds = true;
  added.held_by = "history in __main__";
  e.told.episode.grew_from = {};
  e.told.episode.grew_from.sites = {{scene.trainer_,
                                     {{"<module>", "train.py", 4}},
                                     mib(11),
                                     mib(12),
                                     Seconds(6),
                                     at(-280),
                                     at(-30),
                                     added}};
  PostMortem report = make_post_mortem(e);
  ASSERT_GE(report.prevention.size(), 3u);
  EXPECT_EQ(report.prevention[0].kind, "cure");
  EXPECT_TRUE(
      has(report.prevention[0].text, "Stop keeping what <module> (train.py:4) adds to history in __main__"))
      << report.prevention[0].text;
  EXPECT_EQ(report.prevention[1].kind, "save");
  EXPECT_EQ(report.prevention[2].kind, "delay");
  e.told.episode.grew_from.sites[0].evidence = {};
  EXPECT_NE(make_post_mortem(e).prevention[0].kind, "cure") << "that line only touched pages";
}

TEST_F(Report, of_a_deadline_that_was_told_as_it_died_does_not_say_that_it_was_foreseen) {
  Scene scene;
  StoredEpisode e = scene.leak();
  e.told.first_forecast = at(-0.117);
  EXPECT_TRUE(has(words(make_post_mortem(e).findings),
                  "It was not foreseen in time: the deadline was first forecast 117 ms"));
}

// Of a program that is killed every four seconds an alert "would have left 22 s".
TEST_F(Report, promises_no_time_that_an_alert_before_an_earlier_kill_would_have_left) {
  Scene scene;
  StoredEpisode e = scene.leak();
  auto words_of = [](const StoredEpisode& of) { return words(make_post_mortem(of).prevention); };
  EXPECT_TRUE(has(words_of(e), "An alert would have left 4 min")) << words_of(e);
  Episode before = e.told.episode;
  before.id = "before";
  before.time = at(-8);
  e.before.at_limit = {before};
  EXPECT_FALSE(has(words_of(e), "min")) << words_of(e);
}

TEST_F(Report, of_a_few_waits_does_not_say_that_it_was_slow) {
  Scene scene;
  StoredEpisode e = scene.leak();
  auto is_slow = [](const StoredEpisode& of) {
    return has(words(make_post_mortem(of).findings), "it was slow");
  };
  EXPECT_TRUE(is_slow(e));
  e.reclaim = {{at(-20), scene.job_, 100, Seconds(0.05), {}}, {at(-1), scene.job_, 100, Seconds(0.05), {}}};
  EXPECT_FALSE(is_slow(e));
}

TEST_F(Report, names_the_limit_by_its_last_part_where_its_path_is_long) {
  Scene scene;
  scene.job_ = test::cgroup(10, "/process_api/cd846501caf3f9f6ad9e33787d1a490a/oomcast-run-9567");
  StoredEpisode e = scene.leak();
  e.told.episode.limit_cgroup = scene.job_;
  PostMortem report = make_post_mortem(e);
  EXPECT_TRUE(has(report.headline, "/process_api/")) << report.headline;
  EXPECT_TRUE(has(words(report.findings), "A leak: oomcast-run-9567 grew")) << words(report.findings);
  EXPECT_FALSE(has(words(report.findings), "/process_api/")) << words(report.findings);
}

TEST_F(Report, of_a_step_does_not_speak_of_a_leak) {
  Scene scene;
  StoredEpisode e = scene.step();
  e.forecasts = {scene.forecast(-60, Verdict::leak, 300, "its baseline has risen")};
  e.told.first_forecast = at(-60);
  std::string why = words(make_post_mortem(e).findings);
  EXPECT_TRUE(has(why, "A step: ")) << why;
  EXPECT_FALSE(has(why, "nothing pointed there")) << why;
}

TEST_F(Report, of_a_log_without_a_time_of_day_has_none) {
  StoredEpisode e = Scene().machine();
  e.source = EpisodeSource::file;
  e.logged.dated = false;
  e.logged.since_boot = std::chrono::seconds(90);
  e.logged.host = "node-b";
  PostMortem report = make_post_mortem(e);
  EXPECT_TRUE(has(to_text(report, {}), "time of day not known: 1 min 30 s after the boot"));
  EXPECT_TRUE(has(report.headline, "OOM-killed on node-b: ")) << report.headline;
  EXPECT_TRUE(has(report.headline, "cannot show that the kernel wrote it")) << report.headline;
  auto json = nlohmann::json::parse(to_json(report));
  EXPECT_TRUE(json["time"].is_null() && json["oom"]["time"].is_null());
  EXPECT_EQ(json["since_boot_s"], 90);
}

TEST_F(Report, names_the_numa_nodes_that_a_request_had_to_be_met_from) {
  StoredEpisode e = Scene().machine();
  e.told.episode.scope = OomScope::cpuset;
  e.told.episode.machine->cpuset = "batch";
  std::string why = words(make_post_mortem(e).findings);
  EXPECT_TRUE(has(why, "had to come from NUMA nodes 0-1: its cpuset (batch) allows no other")) << why;
  e.told.episode.scope = OomScope::mempolicy;
  e.told.episode.machine->nodemask = "1";
  why = words(make_post_mortem(e).findings);
  EXPECT_TRUE(has(why, "had to come from NUMA node 1: its memory policy allows no other")) << why;
}

TEST_F(Report, says_that_the_log_does_not_tell_what_ran_out) {
  StoredEpisode e = Scene().machine();
  e.told.episode.machine.reset();
  e.told.episode.request.order.reset();
  e.told.episode.request.gfp.reset();
  std::string unknown;
  for (const std::string& line : make_post_mortem(e).unknown) unknown += line + "\n";
  EXPECT_TRUE(has(unknown, "What was asked for")) << unknown;
  EXPECT_TRUE(has(unknown, "Which zone or NUMA node ran out")) << unknown;
}

TEST_F(Report, says_what_it_does_not_know) {
  StoredEpisode imported = Scene().step();
  imported.source = EpisodeSource::kmsg;
  imported.samples.clear();
  imported.forecasts.clear();
  imported.told.episode.grew_most.clear();
  imported.told.episode.tasks.rows.clear();
  imported.lost = {{"samples_ring_full", 7}};
  imported.left_out.cgroups = 192;
  imported.left_out.more = true;
  PostMortem report = make_post_mortem(imported);
  EXPECT_FALSE(report.rise);
  std::string unknown;
  for (const std::string& line : report.unknown) unknown += line + "\n";
  EXPECT_TRUE(has(words(report.findings), "Most was held by python3[4301] train.py, which was killed"));
  for (const char* part : {"all of this is from the kernel log", "table of processes", "Who grew",
                           "7 samples dropped: the buffer was full; kills are not affected",
                           "curves of 192 or more smaller cgroups"})
    EXPECT_TRUE(has(unknown, part)) << unknown;
}

// The last 15 s of a leak, by processes that had run for so long at the kill.
std::string unknown_of_a_short_curve(double ran, bool killed_before = false) {
  StoredEpisode e = Scene().leak();
  std::erase_if(e.samples, [](const Sample& s) { return s.time < at(-15); });
  std::erase_if(e.processes, [](const ProcessSampleFact& s) { return s.time < at(-15); });
  e.run.wall_of_boot_zero = e.run.wall_of_mono_zero;
  auto started = static_cast<std::uint64_t>((kKillSecond - ran) * 100);
  e.told.episode.trigger->id.start_ticks = started;
  for (Victim& v : e.told.episode.victims) v.process.id.start_ticks = started;
  for (GrewProcess& g : e.told.episode.grew_most) g.process.id.start_ticks = started;
  for (TaskAtKill& t : e.told.episode.tasks.rows) t.process.id.start_ticks = started;
  for (ProcessSampleFact& s : e.processes) s.process.id.start_ticks = started;
  if (killed_before) {
    e.before.at_limit.push_back(e.told.episode);
    e.before.at_limit.back().time = at(-16);
  }
  std::string out;
  for (const std::string& line : make_post_mortem(e).unknown) out += line + "\n";
  return out;
}

TEST_F(Report, misses_no_past_of_a_program_that_began_when_its_curve_does) {
  EXPECT_FALSE(has(unknown_of_a_short_curve(16), "What was before")) << unknown_of_a_short_curve(16);
  EXPECT_TRUE(
      has(unknown_of_a_short_curve(615),
          "What was before: the curve begins 15 s before the kill; python3[4301] train.py had run for 10 min "
          "00 s by then."))
      << unknown_of_a_short_curve(615);
  EXPECT_FALSE(has(unknown_of_a_short_curve(615, true), "What was before")) << "it was killed and began anew";
}

TEST_F(Report, says_what_of_the_store_could_not_be_read_and_not_that_nothing_was_kept) {
  StoredEpisode e = Scene().step();
  e.samples.clear();
  e.unread = {"samples: disk I/O error", "exits: disk I/O error"};
  std::string unknown;
  for (const std::string& line : make_post_mortem(e).unknown) unknown += line + "\n";
  EXPECT_TRUE(
      has(unknown, "What of the store could not be read: samples: disk I/O error; exits: disk I/O error."))
      << unknown;
  EXPECT_FALSE(has(unknown, "was kept")) << unknown;
}

TEST_F(Report, takes_the_newest_sample_where_the_log_has_no_statistics_and_says_so) {
  StoredEpisode e = Scene().leak();
  e.told.episode.memory.reset();
  PostMortem report = make_post_mortem(e);
  ASSERT_TRUE(report.memory);
  EXPECT_FALSE(report.memory->exact);
  EXPECT_EQ(report.memory->age, Seconds(1));
  EXPECT_EQ(report.memory->kinds.anon, mib(505));
  EXPECT_TRUE(has(words(report.findings), "by the newest sample, 1.0 s before the kill"));
}

TEST_F(Report, counts_how_many_workers_would_have_fitted) {
  Scene scene;
  scene.step();
  for (std::uint32_t pid = 5000; pid < 5006; ++pid) {
    ProcessRef worker = test::process(pid, "pt_data_worker", {}, scene.job_);
    worker.ppid = 4301;
    scene.e_.told.episode.tasks.rows.push_back({worker, mib(85), mib(80), mib(5), Bytes{}, Bytes{}, {}, 0});
  }
  std::string better = words(make_post_mortem(scene.e_).prevention);
  EXPECT_TRUE(has(better, "5 instead of 6 processes of pt_data_worker would have fitted")) << better;
}

TEST_F(Report, is_made_of_an_episode_of_which_nothing_is_known) {
  PostMortem report = make_post_mortem(StoredEpisode{});
  EXPECT_FALSE(to_text(report, {}).empty());
  EXPECT_FALSE(to_markdown(report).empty());
  EXPECT_TRUE(nlohmann::json::accept(to_json(report)));
}

TEST_F(Report, tells_local_time_and_utc) {
  EXPECT_EQ(format_moment(WallTime(Nanos(1'795'226'645'123'456'789))),
            "2026-11-21 03:04:05.123 CET (02:04:05.123 UTC)");
  EXPECT_EQ(format_moment(WallTime(Nanos(1'795'215'600'000'000'000))),
            "2026-11-21 00:00:00.000 CET (2026-11-20 23:00:00.000 UTC)");
}

}  // namespace
}  // namespace oomcast
