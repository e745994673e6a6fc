#include "store/recording.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/escape.h"
#include "base/unique_fd.h"
#include "store/rows.h"
#include "store/schema.h"

namespace oomcast {
<<<<<<< HEAD
=======
namespace {

using namespace std::chrono_literals;

constexpr int kSchema = 1;
constexpr int kApplicationId = 0x6f6f6d63;  // "oomc"
constexpr int kLongestValue = 16 << 20;
constexpr std::size_t kMostKept = 100'000;  // cgroups or processes of a file, so that it cannot fill memory

constexpr const char* kTables = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE cgroups(id INTEGER PRIMARY KEY, inode INTEGER, path TEXT, name TEXT, kind TEXT, container TEXT, pod TEXT,
  unit TEXT, slurm_job TEXT, slurm_step TEXT);
CREATE TABLE processes(id INTEGER PRIMARY KEY, pid INTEGER, start_ticks INTEGER, comm TEXT, cmdline BLOB,
  cmdline_source INTEGER, cmdline_truncated INTEGER, uid INTEGER, ppid INTEGER, ns_pid INTEGER, cgroup INTEGER);
CREATE TABLE samples(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, usage INTEGER, usage_limit INTEGER,
  limit_cgroup INTEGER, anon INTEGER, file INTEGER, shmem INTEGER, kernel INTEGER, swap INTEGER, pinned INTEGER,
  headroom_limit INTEGER, peak INTEGER);
CREATE TABLE process_samples(seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER, rss INTEGER, anon INTEGER,
  file INTEGER, shmem INTEGER, swap INTEGER, private INTEGER, rss_error INTEGER);
CREATE TABLE exits(seq INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER);
CREATE TABLE removals(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER);
CREATE TABLE ticks(seq INTEGER PRIMARY KEY, time_ns INTEGER, killed INTEGER);
CREATE TABLE forecasts(seq INTEGER PRIMARY KEY, time_ns INTEGER, cgroup INTEGER, process INTEGER, verdict TEXT,
  growth REAL, eta_s REAL, eta_low_s REAL, eta_high_s REAL, alert INTEGER, why TEXT);
CREATE TABLE events(seq INTEGER PRIMARY KEY, time_ns INTEGER, type TEXT, json TEXT, text TEXT);
)sql";

std::int64_t ns(MonoTime time) {
  return time.time_since_epoch().count();
}

// A prepared statement: bind in order, step, reset.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    if (sqlite3_prepare_v2(db, sql, -1, &stmt_, nullptr) != SQLITE_OK) stmt_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(stmt_); }
  Statement(const Statement&) = delete;
  explicit operator bool() const { return stmt_ != nullptr; }

  Statement& operator<<(std::int64_t v) { return check(sqlite3_bind_int64(stmt_, ++at_, v)); }
  Statement& operator<<(double v) { return check(sqlite3_bind_double(stmt_, ++at_, v)); }
  Statement& operator<<(Bytes v) { return *this << v.count; }
  Statement& operator<<(Seconds v) { return *this << v.count(); }
  Statement& operator<<(std::string_view v) {
    return check(sqlite3_bind_text(stmt_, ++at_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT));
  }
  Statement& blob(std::string_view v) {
    return check(sqlite3_bind_blob(stmt_, ++at_, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT));
  }
  template <typename T>
  Statement& operator<<(const std::optional<T>& v) {
    if (v) return *this << *v;
    return check(sqlite3_bind_null(stmt_, ++at_));
  }
  Statement& operator<<(const std::optional<std::uint32_t>& v) {
    return v ? *this << static_cast<std::int64_t>(*v) : check(sqlite3_bind_null(stmt_, ++at_));
  }
  bool run() {
    bool ok = ok_ && sqlite3_step(stmt_) == SQLITE_DONE;
    sqlite3_reset(stmt_);
    at_ = 0;
    ok_ = true;
    return ok;
  }

  // Reading: true while there is a row.
  bool row() { return (state_ = sqlite3_step(stmt_)) == SQLITE_ROW; }
  bool failed() const { return state_ != SQLITE_ROW && state_ != SQLITE_DONE; }
  bool null(int c) const { return sqlite3_column_type(stmt_, c) == SQLITE_NULL; }
  std::int64_t integer(int c) const { return sqlite3_column_int64(stmt_, c); }
  MonoTime time(int c) const { return MonoTime(Nanos(integer(c))); }
  std::optional<Bytes> bytes(int c) const {
    return null(c) ? std::nullopt : std::optional(Bytes{integer(c)});
  }
  std::optional<std::uint32_t> number(int c) const {
    return null(c) ? std::nullopt : std::optional(static_cast<std::uint32_t>(integer(c)));
  }
  double real(int c) const { return sqlite3_column_double(stmt_, c); }
  std::string text(int c) const {
    const void* data = sqlite3_column_blob(stmt_, c);
    auto size = static_cast<std::size_t>(sqlite3_column_bytes(stmt_, c));
    return data ? std::string(static_cast<const char*>(data), size) : std::string();
  }
  void again() {
    sqlite3_reset(stmt_);
    at_ = 0;
  }

 private:
  Statement& check(int code) {
    ok_ = ok_ && code == SQLITE_OK;
    return *this;
  }
  sqlite3_stmt* stmt_ = nullptr;
  int at_ = 0, state_ = SQLITE_DONE;
  bool ok_ = true;
};

struct Closer {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using Handle = std::unique_ptr<sqlite3, Closer>;

}  // namespace

// ---- writing
// ------------------------------------------------------------------------------------------------------

struct RecordingWriter::Database {
  explicit Database(Handle handle)
      : db(std::move(handle)),
        cgroup(db.get(), "INSERT INTO cgroups VALUES(?,?,?,?,?,?,?,?,?,?)"),
        process(db.get(), "INSERT INTO processes VALUES(?,?,?,?,?,?,?,?,?,?,?)"),
        sample(db.get(), "INSERT INTO samples VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
        process_sample(db.get(), "INSERT INTO process_samples VALUES(?,?,?,?,?,?,?,?,?,?)"),
        exit(db.get(), "INSERT INTO exits VALUES(?,?,?)"),
        removal(db.get(), "INSERT INTO removals VALUES(?,?,?)"),
        tick(db.get(), "INSERT INTO ticks VALUES(?,?,?)"),
        forecast(db.get(), "INSERT INTO forecasts VALUES(?,?,?,?,?,?,?,?,?,?,?)"),
        event(db.get(), "INSERT INTO events VALUES(?,?,?,?,?)") {}

  bool exec(const char* sql) { return sqlite3_exec(db.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK; }

  // The row of a cgroup or a process, made when it is first met or has changed.
  std::optional<std::int64_t> id_of(const CgroupPtr& ref) {
    if (!ref) return std::nullopt;
    auto& known = cgroups[ref->id.inode];
    if (known.id && known.path == ref->path) return known.id;
    known = {next_cgroup++, ref->path};
    const CgroupName& n = ref->name;
    cgroup << known.id << static_cast<std::int64_t>(ref->id.inode) << std::string_view(ref->path)
           << std::string_view(n.name) << to_string(n.kind) << n.container << n.pod << n.unit << n.slurm_job
           << n.slurm_step;
    ok = ok && cgroup.run();
    return known.id;
  }
  std::int64_t id_of(const ProcessRef& p) {
    std::string cmdline;
    for (const std::string& arg : p.cmdline) cmdline += arg + '\0';
    auto group = id_of(p.cgroup);
    ProcessRow row{p.comm, cmdline, p.cmdline_source, p.cmdline_truncated, p.uid, p.ppid, p.ns_pid, group};
    auto& known = processes[p.id];
    if (known.first && known.second == row) return known.first;
    known = {next_process++, row};
    (process << known.first << static_cast<std::int64_t>(p.id.tgid)
             << static_cast<std::int64_t>(p.id.start_ticks) << std::string_view(p.comm))
        .blob(cmdline);
    std::optional<std::int64_t> source;
    if (p.cmdline_source) source = static_cast<std::int64_t>(*p.cmdline_source);
    process << source << static_cast<std::int64_t>(p.cmdline_truncated) << p.uid << p.ppid << p.ns_pid
            << group;
    ok = ok && process.run();
    return known.first;
  }

  void write(const Sample& s) {
    auto group = id_of(s.cgroup), limit_group = id_of(s.limit_cgroup);
    sample << ++seq << ns(s.time) << group << s.usage << s.limit << limit_group << s.stat.anon << s.stat.file
           << s.stat.shmem << s.stat.kernel << s.stat.swap << s.pinned << s.headroom_limit << s.peak;
    ok = ok && sample.run();
  }
  void write(const ProcessSampleFact& s) {
    auto id = id_of(s.process);
    process_sample << ++seq << ns(s.time) << id << s.rss << s.anon << s.file << s.shmem << s.swap
                   << s.private_bytes << s.rss_error;
    ok = ok && process_sample.run();
  }
  void write(const ExitFact& e) {
    auto id = id_of(e.process);
    exit << ++seq << ns(e.time) << id;
    ok = ok && exit.run();
    processes.erase(e.process.id);
  }
  void write(const ForgottenFact& f) {
    auto at = cgroups.find(f.cgroup.inode);
    if (at == cgroups.end()) return;
    removal << ++seq << ns(f.time) << at->second.id;
    ok = ok && removal.run();
    cgroups.erase(at);
  }
  void write(const ForecastFact& f) {
    auto group = id_of(f.cgroup);
    std::optional<std::int64_t> id;
    if (f.process) id = id_of(*f.process);
    const Forecast& c = f.forecast;
    std::optional<double> growth;
    if (c.growth) growth = c.growth->rate.value;
    forecast << ++seq << ns(f.time) << group << id << to_string(c.verdict) << growth << c.eta << c.eta_low
             << c.eta_high << static_cast<std::int64_t>(c.alert) << std::string_view(c.why);
    ok = ok && forecast.run();
  }
  void write(const RecordedTick& t) {
    auto killed = id_of(t.killed);
    tick << ++seq << ns(t.time) << killed;
    ok = ok && tick.run();
  }
  void write(const RecordedEvent& e) {
    event << ++seq << ns(e.time) << std::string_view(e.type) << std::string_view(e.json)
          << std::string_view(e.text);
    ok = ok && event.run();
  }

  struct KnownCgroup {
    std::int64_t id = 0;
    std::string path;
  };
  using ProcessRow =
      std::tuple<std::string, std::string, std::optional<CmdlineSource>, bool, std::optional<std::uint32_t>,
                 std::optional<std::uint32_t>, std::optional<std::uint32_t>, std::optional<std::int64_t>>;
  Handle db;
  Statement cgroup, process, sample, process_sample, exit, removal, tick, forecast, event;
  std::map<std::uint64_t, KnownCgroup> cgroups;
  std::map<TaskId, std::pair<std::int64_t, ProcessRow>> processes;
  std::int64_t next_cgroup = 1, next_process = 1, seq = 0;
  bool ok = true;
};

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::create(const std::string& path,
                                                                 const RunInfo& info, bool overwrite) {
  std::string shown = escape_for_terminal(path);
  if (overwrite)
    for (const char* part : {"", "-wal", "-shm"}) {
      struct stat what {};
      std::string name = path + part;
      if (lstat(name.c_str(), &what) == 0 && S_ISREG(what.st_mode)) unlink(name.c_str());
    }
  // Made here and not by SQLite: never through a link, and for its group to read.
  UniqueFd made(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!made && errno == EEXIST)
    return Error::failed(fmt::format("{} exists: choose another name{}", shown,
                                     overwrite ? "; only a file is replaced" : ", or --force to replace it"));
  if (!made) return Error::from_errno("making " + shown);

  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Handle db(raw);
  auto failed = [&] { return Error::failed(fmt::format("writing {}: {}", shown, sqlite3_errmsg(db.get()))); };
  if (code != SQLITE_OK) return failed();
  auto exec = [&](const std::string& sql) {
    return sqlite3_exec(db.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  if (!exec(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}; PRAGMA journal_mode=WAL;"
                        "PRAGMA synchronous=NORMAL; BEGIN",
                        kApplicationId, kSchema)) ||
      !exec(kTables))
    return failed();
  {
    Statement meta(db.get(), "INSERT INTO meta VALUES(?,?)");
    bool ok = static_cast<bool>(meta);
    auto put = [&](std::string_view key, auto value) { ok = ok && (meta << key << value).run(); };
    put("version", std::string_view(info.version));
    put("kernel", std::string_view(info.kernel));
    put("scope", std::string_view(info.scope));
    put("hierarchy", std::string_view(info.hierarchy == Hierarchy::v1 ? "v1" : "v2"));
    put("interval_ns", std::int64_t{info.interval.count()});
    put("wall_of_mono_zero_ns", std::int64_t{info.wall_of_mono_zero.count()});
    put("wall_of_boot_zero_ns", std::int64_t{info.wall_of_boot_zero.count()});
    put("clock_tick_ns", std::int64_t{info.tick.count()});
    if (info.tree) {
      put("tree_pid", static_cast<std::int64_t>(info.tree->tgid));
      put("tree_start_ticks", static_cast<std::int64_t>(info.tree->start_ticks));
    }
    if (!ok || !exec("COMMIT")) return failed();
  }
  std::unique_ptr<RecordingWriter> out(new RecordingWriter());
  out->path_ = shown;
  out->db_ = std::make_unique<Database>(std::move(db));
  out->thread_ = std::thread([w = out.get()] { w->work(); });
  return out;
}

RecordingWriter::~RecordingWriter() {
  (void)finish();
}

void RecordingWriter::add(RecordedItem item) {
  std::lock_guard lock(mutex_);
  if (failure_ || waiting_.size() >= kMostWaiting) {
    ++lost_;
    return;
  }
  waiting_.push_back(std::move(item));
}

std::optional<std::string> RecordingWriter::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void RecordingWriter::work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the main thread's
  std::uint64_t told_lost = 0;
  for (bool last = false; !last;) {
    std::deque<RecordedItem> items;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, 500ms, [this] { return ending_; });
      items.swap(waiting_);
      last = ending_;
    }
    if (items.empty()) continue;
    bool ok = db_->exec("BEGIN");
    for (const RecordedItem& item : items) std::visit([&](const auto& i) { db_->write(i); }, item);
    if (lost_ > told_lost) {
      told_lost = lost_;
      ok = ok && db_->exec(fmt::format("REPLACE INTO meta VALUES('lost',{})", told_lost).c_str());
    }
    ok = ok && db_->ok && db_->exec("COMMIT");
    if (ok) continue;
    std::lock_guard lock(mutex_);
    failure_ = fmt::format("writing {}: {}; nothing more is recorded", path_, sqlite3_errmsg(db_->db.get()));
    lost_ += items.size() + waiting_.size();
    waiting_.clear();
    db_->exec("ROLLBACK");
    return;
  }
}

Status RecordingWriter::finish() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (db_ && !failure_) db_->exec("PRAGMA journal_mode=DELETE");
  db_.reset();
  if (failure_) return Error::failed(*failure_);
  return Ok{};
}

// ---- reading
// ------------------------------------------------------------------------------------------------------
>>>>>>> 7d9dc9a

struct RecordingReader::Database {
  struct Source {
    Statement rows;
    bool more = false;
  };

  Database(DatabaseHandle handle, const RunInfo& run)
      : db(std::move(handle)),
        rows(db.get(), run),
        hierarchy(run.hierarchy),
        sources{source(columns::sample, "samples"),
                source(columns::process_sample, "process_samples"),
                source(columns::exit, "exits"),
                source("time_ns, killed", "ticks"),
                source("time_ns, type, json, text", "events"),
                source("time_ns, cgroup", "removals"),
                source(columns::forecast, "forecasts WHERE told")} {}

  // seq comes behind what Rows reads.
  Source source(const std::string& wanted, const std::string& from) {
    return {Statement(db.get(), fmt::format("SELECT seq, {} FROM {} ORDER BY seq", wanted, from)), false};
  }

  RecordedItem item(std::size_t which) {
    const Statement& r = sources[which].rows;
    switch (which) {
      case 0:
        return rows.sample(r, 1);
      case 1:
        return rows.process_sample(r, 1);
      case 2: {
        ExitFact e{rows.time(r, 1), rows.process(r, 2)};
        rows.forget_process(r.integer(2));
        return e;
      }
      case 3:
        return TickFact{rows.time(r, 1), rows.cgroup(r, 2)};
      case 4:
        return RecordedEvent{rows.time(r, 1), r.text(2), r.text(3), r.text(4)};
      case 5: {
        CgroupPtr gone = rows.cgroup(r, 2);
        rows.forget_cgroup(r.integer(2));
        return ForgottenFact{rows.time(r, 1), gone ? gone->id : CgroupId{hierarchy, 0}};
      }
      default:
        return rows.forecast(r, 1);
    }
  }

  DatabaseHandle db;
  Rows rows;
  Hierarchy hierarchy;
  std::array<Source, 7> sources;
  bool begun = false;
};

RecordingReader::RecordingReader(std::unique_ptr<Database> db) : db_(std::move(db)) {}
RecordingReader::RecordingReader(RecordingReader&&) noexcept = default;
RecordingReader::~RecordingReader() = default;

bool RecordingReader::is_recording(const std::string& path) {
  struct stat what {};  // a pipe is left to who reads it
  if (stat(path.c_str(), &what) != 0 || !S_ISREG(what.st_mode)) return false;
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  char begin[16] = {};
  return file && pread(file.get(), begin, sizeof(begin), 0) == 16 &&
         std::memcmp(begin, "SQLite format 3", 16) == 0;
}

Result<RecordingReader> RecordingReader::open(const std::string& path) {
  std::string shown = escape_for_terminal(path);
  auto wrong = [&](std::string_view what) { return Error::usage(fmt::format("{}: {}", shown, what)); };
  int code = SQLITE_OK;
  DatabaseHandle db = open_to_read(path, false, code);
  if (code != SQLITE_OK) return wrong(sqlite3_errmsg(db.get()));
  execute(db.get(), "BEGIN");  // one moment of a file that is still written
  if (auto ok = prepare_to_read(db.get(), shown); !ok) return ok.error();
  if (ask(db.get(), "SELECT count(*) FROM (SELECT 1 FROM runs LIMIT 2)") != 1)
    return wrong(
        "it has several runs of oomcast, as a store: it is read by oomcast report and oomcast history");
  auto info = read_run(db.get(), 1);
  if (!info) return wrong("what is true of the whole run cannot be read");
  auto database = std::make_unique<Database>(std::move(db), *info);
  for (const auto& source : database->sources)
    if (!source.rows) return wrong(sqlite3_errmsg(database->db.get()));
  RecordingReader out(std::move(database));
  out.info_ = *std::move(info);
  return out;
}

Result<std::optional<RecordedItem>> RecordingReader::next() {
  auto& sources = db_->sources;
  if (!db_->begun)
    for (auto& s : sources) s.more = s.rows.row();
  db_->begun = true;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].rows.failed())
      return Error::failed(fmt::format("reading: {}", sqlite3_errmsg(db_->db.get())));
    if (sources[i].more && (!first || sources[i].rows.integer(0) < sources[*first].rows.integer(0)))
      first = i;
  }
  if (!first) return std::optional<RecordedItem>();
  RecordedItem out = db_->item(*first);
  sources[*first].more = sources[*first].rows.row();
  return std::optional(std::move(out));
}

}  // namespace oomcast
