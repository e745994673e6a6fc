#include "spoil.h"

#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/unique_fd.h"
#include "store/schema.h"
#include "store/schema_1.h"
#include "store/tables.h"

namespace oomcast::fuzz {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "the fuzzer itself: %s\n", what);
  std::abort();
}

DatabaseHandle in_memory() {
  sqlite3* db = nullptr;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) die("no database in memory");
  return DatabaseHandle(db);
}

std::string bytes_of(sqlite3* db) {
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(db, "main", &size, 0);
  if (!bytes) die("a database cannot be written down");
  std::string out(reinterpret_cast<char*>(bytes), static_cast<std::size_t>(size));
  sqlite3_free(bytes);
  return out;
}

Seed seed_of(DatabaseHandle db) {
  Seed out;
  Statement names(db.get(), "SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name");
  while (names.row()) {
    Seed::Table table;
    table.name = names.text(0);
    Statement columns(db.get(), "SELECT name FROM pragma_table_info('" + table.name + "')");
    while (columns.row()) table.columns.push_back(columns.text(0));
    auto rows = ask(db.get(), "SELECT count(*) FROM " + table.name);
    if (!rows) die("a table cannot be counted");
    table.rows = *rows;
    out.tables.push_back(std::move(table));
  }
  out.bytes = bytes_of(db.get());
  return out;
}

MonoTime at_s(double s) {
  return MonoTime(Nanos(static_cast<std::int64_t>(s * 1e9)));
}

CgroupPtr group(const std::string& path, std::uint64_t inode) {
  return std::make_shared<CgroupRef>(CgroupRef{{Hierarchy::v2, inode}, path, name_cgroup(path)});
}

ProcessRef process(std::uint32_t pid, const CgroupPtr& cgroup) {
  ProcessRef p;
  p.id = {pid, pid * 10};
  p.comm = "python3";
  p.cmdline = {"/usr/bin/python3", "train.py", "--batch", "64"};
  p.cmdline_source = CmdlineSource::shown;
  p.uid = 1000;
  p.ppid = 1;
  p.ns_pid = 7;
  p.cgroup = cgroup;
  return p;
}

ForecastFact forecast(double s, const CgroupPtr& cgroup) {
  ForecastFact out;
  out.time = at_s(s);
  out.cgroup = out.limit_cgroup = cgroup;
  Forecast& f = out.forecast;
  f.verdict = Verdict::leak;
  f.growth = Growth{{1e6}, {9e5}, {11e5}, Seconds(30), 42};
  f.limit = MiB(512);
  f.eta = Seconds(1000 - s);
  f.eta_low = Seconds(900 - s);
  f.eta_high = Seconds(1200 - s);
  f.alert = true;
  f.why = "its floor rose";
  f.evidence.floor = MiB(7);
  f.evidence.peaks = 3;
  return out;
}

OomEvent kill(std::uint64_t serial, double s, const CgroupPtr& cgroup, const CgroupPtr& root) {
  OomEvent out;
  Episode& e = out.episode;
  auto pid = static_cast<std::uint32_t>(100 + serial);
  e.serial = serial;
  e.id = "2023-" + std::to_string(serial);
  e.time = at_s(s);
  e.scope = serial == 1 ? OomScope::memcg : OomScope::global;
  e.limit_cgroup = cgroup;
  e.usage = e.limit = MiB(512);
  e.trigger = process(pid, cgroup);
  e.request.order = 0;
  e.request.gfp = "0xcc0(GFP_KERNEL)";
  e.group_kill = false;
  Victim v;
  v.process = process(pid, cgroup);
  v.time = at_s(s);
  v.tid = pid;
  v.anon = v.total_vm = MiB(500);
  v.file = v.shmem = v.swap = v.pgtables = MiB(1);
  v.oom_score_adj = -5;
  v.killed = v.marked = v.logged = true;
  v.freed_after = Seconds(0.25);
  v.stack = {0x7f05c05010ba, 0x958b20};
  v.code = {{"cache", "/job/train.py", 41}, {"step", "/job/train.py", 50}};
  e.victims.push_back(v);
  e.also_killed.push_back(process(pid + 1, cgroup));
  e.grew_most.push_back({process(pid, cgroup), MiB(400), Seconds(60)});
  e.grew_from.sites.push_back(
      {process(pid, cgroup),
       v.code,
       MiB(30),
       MiB(40),
       Seconds(4),
       at_s(s - 20),
       at_s(s - 4),
       {.sure = MiB(29), .kept = MiB(29), .kept_error = MiB(1), .kept_unknown = "why", .touched = MiB(70)},
       200,
       3,
       0.75});
  e.grew_from.holders.push_back({process(pid, cgroup), "cache in __main__", "dict", "Row", 3, 400, 120,
                                 MiB(28), MiB(40), Seconds(4), at_s(s - 20), at_s(s - 4), v.code, 5, 6});
  e.chain = {{cgroup, MiB(512), MiB(512)}, {root, GiB(2), std::nullopt}};
  e.memory = MemoryAtKill{MiB(500), MiB(1), MiB(2), MiB(3), MiB(1), MiB(4)};
  MachineAtKill machine;
  machine.cpuset = "/";
  machine.mems_allowed = "0-1";
  machine.ram = GiB(4);
  machine.free = MiB(40);
  machine.zones.resize(2);
  machine.slabs.resize(2);
  if (serial == 2) e.machine = machine;
  e.tasks.rows.push_back({process(pid, cgroup), MiB(500), MiB(499), MiB(1), MiB(0), MiB(0), MiB(1), 0});
  e.tasks.listed = 9;
  e.checks = {1, 1, 1};
  if (serial == 2) e.series = KillSeries{2, at_s(s - 30)};
  out.forecast_before = forecast(s - 3, cgroup);
  out.first_forecast = at_s(s - 30);
  return out;
}

void write_run(Tables& tables, std::uint64_t kills) {
  CgroupPtr job = group("/job", 7), root = group("/", 1);
  for (int i = 0; i < 30; ++i) {
    double s = 970 + i;
    Sample sample;
    sample.time = at_s(s);
    sample.cgroup = sample.limit_cgroup = job;
    sample.usage = sample.pinned = MiB(400 + 4 * i);
    sample.limit = sample.headroom_limit = MiB(512);
    sample.peak = sample.usage;
    sample.stat.anon = sample.usage;
    tables.write(sample);
    if (i % 3 == 0) {
      ProcessSampleFact p;
      p.time = at_s(s);
      p.process = process(101, job);
      p.rss = p.anon = MiB(400 + 4 * i);
      p.private_bytes = p.anon;
      tables.write(p);
    }
    tables.write(TickFact{at_s(s), nullptr});
  }
  tables.write(forecast(990, job));
  tables.write(ReclaimFact{at_s(995), job, 3, Seconds(.5), MiB(9)});
  PressureFact pressure;
  pressure.time = at_s(996);
  pressure.cgroup = job;
  tables.write(pressure);
  tables.write(UserKillFact{at_s(997), process(88, job), process(1, root), "it was asked to"});
  GpuSample gpu;
  gpu.time = at_s(998);
  gpu.process = process(101, job);
  gpu.device.emplace().bytes.fill(7);
  gpu.held = GiB(3);
  gpu.limit = GiB(80);
  tables.write(gpu);
  GpuFact event;
  event.time = at_s(998);
  event.process = process(101, job);
  event.event.time = event.time;
  event.event.op = GpuEvent::Op::oom;
  event.event.bytes = GiB(2);
  tables.write(event);
  ActionRun action;
  action.what = "/usr/bin/true";
  action.result = ActionRun::Result::ok;
  action.exit_code = 0;
  tables.write(AlertFact{at_s(991), "eta<60s", job, "soon", forecast(990, job), {action}});
  tables.write(LostFact{at_s(992), "ring_full", 4});
  tables.write(RecordedEvent{at_s(993), "kill", R"({"type":"kill"})", "a kill"});
  for (std::uint64_t serial = 1; serial <= kills; ++serial)
    tables.write(EpisodeFact{kill(serial, 999 + 20. * static_cast<double>(serial - 1), job, root)});
  tables.write(ExitFact{at_s(1000), process(101, job)});
  tables.write(ForgottenFact{at_s(1001), job->id});
}

Seed made(bool ordered) {
  DatabaseHandle db = in_memory();
  if (!execute(db.get(), "PRAGMA application_id=" + std::to_string(kApplicationId) +
                             "; PRAGMA user_version=" + std::to_string(kSchema) + "; BEGIN") ||
      !make_tables(db.get()))
    die("no tables");
  for (int run = 0; run < (ordered ? 1 : 2); ++run) {
    RunInfo info{"0.1.0",
                 "6.1",
                 "whole machine",
                 Hierarchy::v2,
                 1s,
                 Nanos(1'700'000'000s),
                 Nanos(1'699'999'000s),
                 10ms,
                 std::nullopt,
                 0,
                 "boot-" + std::to_string(run)};
    std::int64_t id = 0;
    if (!add_run(db.get(), info, Nanos(1'700'000'970s).count(), id)) die("no run");
    Tables tables(db.get(), id, info, ordered);
    write_run(tables, 2);
    if (tables.failed()) die(tables.take_failure()->what.c_str());
  }
  if (!execute(db.get(), "COMMIT")) die("no commit");
  return seed_of(std::move(db));
}

constexpr std::int64_t kNumbers[] = {0,
                                     1,
                                     -1,
                                     2,
                                     64,
                                     4096,
                                     1 << 20,
                                     std::numeric_limits<std::int32_t>::max(),
                                     std::numeric_limits<std::uint32_t>::max(),
                                     std::int64_t{1} << 52,
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min(),
                                     1'700'000'970'000'000'000};
constexpr double kReals[] = {0.,
                             -1.,
                             1e-300,
                             1e300,
                             1e18,
                             -1e18,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()};
constexpr const char* kTexts[] = {"",         "leak",      "memcg",  "\x1b]0;x\x07", "<script>",
                                  "\xff\xfe", "{\"a\":1}", "[[[[",   "0x",           "v2",
                                  "live",     "grew",      "/a/../b"};

void set_cell(sqlite3* db, const Seed::Table& table, FuzzedDataProvider& data) {
  const std::string& column =
      table.columns[data.ConsumeIntegralInRange<std::size_t>(0, table.columns.size() - 1)];
  Statement change(db, "UPDATE " + table.name + " SET " + column + "=? WHERE rowid IN (SELECT rowid FROM " +
                           table.name + " LIMIT " + (data.ConsumeBool() ? "1" : "-1") + " OFFSET ?)");
  if (!change) return;  // the column is the row's number, or the table has none
  switch (data.ConsumeIntegralInRange(0, 7)) {
    case 0:
      change << std::optional<std::int64_t>();
      break;
    case 1:
      change << data.PickValueInArray(kNumbers);
      break;
    case 2:
      change << data.ConsumeIntegral<std::int64_t>();
      break;
    case 3:
      change << data.PickValueInArray(kReals);
      break;
    case 4:
      change << std::string_view(data.PickValueInArray(kTexts));
      break;
    case 5:
      change << data.ConsumeRandomLengthString(300);
      break;
    case 6:
      change << std::string(data.ConsumeIntegralInRange<std::size_t>(0, 200'000), 'x');
      break;
    default:
      change.blob(data.ConsumeRandomLengthString(300));
  }
  change << data.ConsumeIntegralInRange<std::int64_t>(0, table.rows);
  change.run();
}

}  // namespace

Seed recording() {
  return made(true);
}
Seed store() {
  return made(false);
}
Seed recording_of_schema_1() {
  DatabaseHandle db = in_memory();
  if (!execute(db.get(), kRecordingOfSchema1)) die("no recording of schema 1");
  return seed_of(std::move(db));
}

std::string spoiled(const Seed& seed, const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  DatabaseHandle db = in_memory();
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(seed.bytes.size()));
  if (!copy) die("no memory");
  std::memcpy(copy, seed.bytes.data(), seed.bytes.size());
  auto length = static_cast<sqlite3_int64>(seed.bytes.size());
  if (sqlite3_deserialize(db.get(), "main", copy, length, length,
                          SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE) != SQLITE_OK)
    die("a database cannot be read from memory");
  execute(db.get(), "BEGIN");
  for (int left = data.ConsumeIntegralInRange(0, 12); left > 0; --left) {
    const Seed::Table& table =
        seed.tables[data.ConsumeIntegralInRange<std::size_t>(0, seed.tables.size() - 1)];
    switch (data.ConsumeIntegralInRange(0, 9)) {
      case 0:
        execute(db.get(), "DELETE FROM " + table.name + " WHERE rowid%2=" + (data.ConsumeBool() ? "0" : "1"));
        break;
      case 1:
        execute(db.get(), "DROP TABLE " + table.name);
        break;
      case 2:
        execute(db.get(), "PRAGMA user_version=" + std::to_string(data.ConsumeIntegralInRange(0, 4)));
        break;
      default:
        set_cell(db.get(), table, data);
    }
  }
  execute(db.get(), "COMMIT");
  std::string out = bytes_of(db.get());
  for (int left = data.ConsumeIntegralInRange(0, 4); left > 0; --left) {
    auto at = data.ConsumeIntegralInRange<std::size_t>(0, out.size() - 1);
    std::string with = data.ConsumeRandomLengthString(8);
    out.replace(at, std::min(with.size(), out.size() - at), with);
  }
  return out;
}

File::File() {
  char name[] = "/tmp/oomcast-fuzz-XXXXXX";
  UniqueFd file(mkstemp(name));
  if (!file) die("no temporary file");
  path_ = name;
}

File::~File() {
  unlink(path_.c_str());
}

void File::hold(const std::string& bytes) {
  UniqueFd file(open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file || write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    die("the temporary file cannot be written");
}

}  // namespace oomcast::fuzz

// What the commands print goes nowhere.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  using namespace oomcast;
  UniqueFd nothing(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!nothing || dup2(nothing.get(), STDOUT_FILENO) < 0) fuzz::die("no /dev/null");
  return 0;
}
