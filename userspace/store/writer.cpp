#include "store/writer.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <system_error>

#include "base/clock.h"
#include "base/escape.h"
#include "model/cgroup_tree.h"
#include "store/open.h"
#include "store/retention.h"
#include "store/salvage.h"
#include "store/schema.h"
#include "store/sieve.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr Nanos kGather = 500ms;  // items of so long are one transaction
constexpr Nanos kRetry = 5s;
constexpr std::size_t kMaxNotices = 16;

std::int64_t wall_ns() {
  return wall_now().time_since_epoch().count();
}

// What an episode takes in memory, about; of all else nothing. Command lines are shared with other facts, or
// not: they count.
std::size_t bytes_of(const StoreItem& item) {
  auto* boxed = std::get_if<Boxed<EpisodeFact>>(&item);
  if (!boxed) return 0;
  const Episode& e = static_cast<const EpisodeFact&>(*boxed).line.episode;
  auto of = [](const ProcessRef& p) { return sizeof(p) + p.comm.size() + p.cmdline.bytes().size(); };
  std::size_t out = sizeof(EpisodeFact) + e.chain.size() * sizeof(ChainLevel);
  if (e.trigger) out += of(*e.trigger);
  for (const Victim& v : e.victims) {
    out += sizeof(v) + of(v.process) + v.stack.size() * sizeof(v.stack[0]);
    for (const CodePlace& place : v.code) out += sizeof(place) + place.function.size() + place.file.size();
  }
  for (const ProcessRef& p : e.also_killed) out += of(p);
  for (const GrewProcess& g : e.grew_most) out += of(g.process);
  for (const GrewFrom& g : e.grew_from.sites) {
    out += sizeof(g) + of(g.process) + g.evidence.held_by.size() + g.evidence.kept_unknown.size();
    for (const CodePlace& place : g.code) out += sizeof(place) + place.function.size() + place.file.size();
  }
  for (const GrownHolder& h : e.grew_from.holders) {
    out += sizeof(h) + of(h.process) + h.path.size() + h.type.size() + h.added_type.size();
    for (const CodePlace& place : h.adder) out += sizeof(place) + place.function.size() + place.file.size();
  }
  for (const TaskAtKill& task : e.tasks.rows) out += of(task.process);
  return out;
}

// What any user can make without end: a cgroup that holds next to nothing, a SIGKILL.
bool is_cheap(const StoreItem& item) {
  if (std::holds_alternative<UserKillFact>(item)) return true;
  auto* s = std::get_if<Sample>(&item);
  return s && s->usage && CgroupTree::is_idle(*s->usage);
}

bool is_end(const StoreItem& item) {
  return std::holds_alternative<ExitFact>(item) || std::holds_alternative<ForgottenFact>(item);
}

bool is_of_a_curve(const StoreItem& item) {
  return std::holds_alternative<Sample>(item) || std::holds_alternative<ProcessSampleFact>(item) ||
         std::holds_alternative<ReclaimFact>(item) || std::holds_alternative<PressureFact>(item);
}

bool has_episode(const std::vector<StoreItem>& items) {
  return std::any_of(items.begin(), items.end(), is_episode);
}

}  // namespace

// The database with what is known of it. A recording has no limits.
struct StoreWriter::Target {
  std::string path, directory;
  RunInfo info;
  std::optional<StoreLimits> limits;
  DatabaseHandle db;
  std::int64_t run = 0;
  std::optional<Tables> tables;
  std::optional<Retention> retention;
  std::optional<Sieve> sieve;
  std::vector<StoreItem> sifted;
  std::function<void()> on_full;  // an episode lets out what was held back of thousands of cgroups
  ino_t inode = 0;
  std::uint64_t told_lost = 0;
  // While it fails.
  bool failing = false, damaged = false, busy = false;
  SteadyTime retry_at{};
  std::vector<StoreItem> pending;
  std::uint64_t lost_since = 0;

  std::optional<Tables::Failure> begin_run() {
    struct stat what {};
    inode = stat(path.c_str(), &what) == 0 ? what.st_ino : 0;
    if (!execute(db.get(), "BEGIN IMMEDIATE") || !add_run(db.get(), info, wall_ns(), run) ||
        !execute(db.get(), "COMMIT")) {
      Tables::Failure failure{sqlite3_extended_errcode(db.get()), why_failed(db.get())};
      execute(db.get(), "ROLLBACK");
      return failure;
    }
    tables.emplace(db.get(), run, info, !limits);
    if (limits) retention.emplace(db.get(), path, *limits, [this] { return tables->list_in_use(); });
    return std::nullopt;
  }
  void close() {
    retention.reset();
    tables.reset();
    db.reset();
  }
  /// Somebody removed the file, or put it aside: what is written to it is nowhere.
  bool is_gone() const {
    struct stat what {};
    return stat(path.c_str(), &what) != 0 || what.st_ino != inode;
  }
  std::optional<std::string> reopen(std::vector<std::string>& notices);
  std::optional<std::string> commit(const std::vector<StoreItem>& items, std::uint64_t lost);
  std::optional<Tables::Failure> try_commit(const std::vector<StoreItem>& items, std::uint64_t lost);
};

// A damaged file is put aside first. What it still gives of episodes is taken over.
std::optional<std::string> StoreWriter::Target::reopen(std::vector<std::string>& notices) {
  // Another oomcast may have put it aside already: what is there now is not damaged.
  damaged = damaged && !(inode && is_gone());
  close();
  busy = false;
  std::optional<std::string> aside, why;
  for (int attempt = 0; !db && attempt < 2; ++attempt) {
    if (std::exchange(damaged, false)) {
      auto moved = put_aside(path);
      if (!moved) return moved.error().message;
      aside = *moved;
    }
    StoreOpening opened = open_store(directory);
    db = std::move(opened.db);
    damaged = opened.broken;
    busy = opened.busy;
    if (!db) {
      why = opened.why;
    } else if (auto failure = begin_run()) {  // the first that is written to it
      why = failure->what;
      damaged = is_damage(failure->code);
      busy = (failure->code & 0xff) == SQLITE_BUSY;
      close();
    }
    if (!db && !damaged) return why;
  }
  if (std::exchange(damaged, false)) return why;
  if (aside) {
    Salvaged saved = take_over(*aside, db.get());
    std::string lost =
        saved.lost ? fmt::format("; up to {} more could not be taken over", saved.lost) : std::string();
    notices.push_back(fmt::format(
        "the store {} was damaged: it is now {}, a new one was begun with {} OOM episode{} of it{}",
        escape_for_terminal(path), escape_for_terminal(*aside), saved.episodes,
        saved.episodes == 1 ? "" : "s", lost));
  }
  return std::nullopt;
}

// Nothing of it is there if it fails. After a failure SQLite may have rolled back already: no further write.
std::optional<std::string> StoreWriter::Target::commit(const std::vector<StoreItem>& items,
                                                       std::uint64_t lost) {
  auto failure = try_commit(items, lost);
  if (failure && retention && failure->code == SQLITE_FULL && retention->make_room(wall_ns()))
    failure = try_commit(items, lost);
  busy = failure && (failure->code & 0xff) == SQLITE_BUSY;
  if (failure) damaged = is_damage(failure->code);
  return failure ? std::optional(failure->what) : std::nullopt;
}

std::optional<Tables::Failure> StoreWriter::Target::try_commit(const std::vector<StoreItem>& items,
                                                               std::uint64_t lost) {
  bool durable = limits && has_episode(items);
  if (durable) execute(db.get(), "PRAGMA synchronous=FULL");
  std::optional<Tables::Failure> failure;
  auto need = [&](bool ok) {
    if (!ok && !failure) failure = {sqlite3_extended_errcode(db.get()), why_failed(db.get())};
    return ok;
  };
  if (need(execute(db.get(), "BEGIN IMMEDIATE"))) {
    for (const StoreItem& item : items) {
      std::visit([&](const auto& i) { tables->write(i); }, item);
      if ((failure = tables->take_failure())) break;
    }
    if (!failure && lost > told_lost)
      need(execute(db.get(), fmt::format("UPDATE runs SET lost={} WHERE id={}", lost, run)));
    if (!failure) need(execute(db.get(), "COMMIT"));
  }
  if (failure) {
    execute(db.get(), "ROLLBACK");
    tables->on_rollback();
  } else {
    told_lost = lost;
    tables->on_commit();
  }
  if (durable) execute(db.get(), "PRAGMA synchronous=NORMAL");
  return failure;
}

Result<std::unique_ptr<StoreWriter>> StoreWriter::begin(std::unique_ptr<Target> target) {
  std::unique_ptr<StoreWriter> out(new StoreWriter());
  out->target_ = std::move(target);
  if (!out->target_->limits) out->bound_ = out->most_waiting_ = kMaxWaitingRecorded;
  return out;
}

Result<std::unique_ptr<StoreWriter>> StoreWriter::record(const std::string& path, const RunInfo& info,
                                                         bool overwrite) {
  auto db = create_recording(path, overwrite);
  if (!db) return db.error();
  auto target = std::make_unique<Target>();
  target->path = path;
  target->info = info;
  target->db = *std::move(db);
  if (auto failure = target->begin_run())
    return Error::failed(fmt::format("writing {}: {}", escape_for_terminal(path), failure->what));
  return begin(std::move(target));
}

Result<std::unique_ptr<StoreWriter>> StoreWriter::keep(const std::string& directory, const RunInfo& info,
                                                       StoreLimits limits) {
  auto target = std::make_unique<Target>();
  target->directory = directory;
  target->path = directory + "/" + kStoreFile;
  target->info = info;
  target->limits = limits;
  target->sieve.emplace(info.interval, [t = target.get()](StoreItem item) {
    t->sifted.push_back(std::move(item));
    if (t->sifted.size() >= kBatch && t->on_full) t->on_full();
  });
  std::vector<std::string> notices;
  // Where another only has it locked, it is opened with the first that is written.
  if (auto why = target->reopen(notices); why && !target->busy) return Error::failed(*why);
  auto out = begin(std::move(target));
  for (std::string& text : notices) (*out)->notice(std::move(text));
  return out;
}

StoreWriter::~StoreWriter() {
  (void)finish();
}

void StoreWriter::start() {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& why) {
    std::lock_guard lock(mutex_);
    failure_ = fmt::format("starting the thread that writes: {}; nothing more is recorded", why.what());
    notices_.push_back(*failure_);
  }
}

void StoreWriter::add(StoreItem item) {
  bool urgent = is_episode(item);
  std::size_t bytes = bytes_of(item);
  if (!thread_.joinable() && !failure_) start();
  {
    std::lock_guard lock(mutex_);
    std::size_t room = target_->limits && is_cheap(item) ? most_waiting_ / 2 : most_waiting_;
    if (is_end(item)) room *= 2;  // who waits for one keeps something for it
    bool full = urgent ? bytes_of_episodes_ + bytes > kMaxOfEpisodes : waiting_.size() >= room;
    if (failure_ || full) {
      ++lost_;
      return;
    }
    bytes_of_episodes_ += bytes;
    waiting_.push_back(std::move(item));
    episodes_added_ += urgent;
    urgent_ = urgent_ || urgent;
    if (!urgent && waiting_.size() > 1 && waiting_.size() != kBatch) return;
  }
  wake_.notify_one();
}

void StoreWriter::set_room(double part) {
  std::lock_guard lock(mutex_);
  if (!target_ || !target_->limits) return;
  most_waiting_ = static_cast<std::size_t>(part * static_cast<double>(bound_));
  std::size_t over = waiting_.size() - std::min(waiting_.size(), most_waiting_);
  std::size_t gone = std::erase_if(waiting_, [&](const StoreItem& item) {
    bool goes = over > 0 && is_of_a_curve(item);
    if (goes) --over;
    return goes;
  });
  lost_ += gone;
}

void StoreWriter::notice(std::string text) {
  std::lock_guard lock(mutex_);
  if (notices_.size() < kMaxNotices) notices_.push_back(std::move(text));
}

std::vector<std::string> StoreWriter::take_notices() {
  std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

void StoreWriter::work() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the main thread's
  write_all();
  close_file();
  std::lock_guard lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

void StoreWriter::write_all() {
  target_->on_full = [this] { (void)write(std::exchange(target_->sifted, {}), false); };
  for (bool last = false; !last;) {
    std::vector<StoreItem> items;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      wake_.wait_for(lock, kGather, [this] { return ending_ || urgent_ || waiting_.size() >= kBatch; });
      // A kill behind a storm waits for the batches before it, milliseconds each.
      auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kBatch));
      items.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
      urgent_ = urgent_ && !waiting_.empty();
      last = ending_ && waiting_.empty();
    }
    Target& t = *target_;
    auto episodes = static_cast<std::uint64_t>(std::count_if(items.begin(), items.end(), is_episode));
    if (t.sieve) {
      for (StoreItem& item : items) t.sieve->pass(std::move(item));
      if (last) t.sieve->flush();
      items = std::exchange(t.sifted, {});
    }
    bool goes_on = write(std::move(items), last);
    episodes_done_ += episodes;
    if (!goes_on) {
      episodes_done_ = kNoMore;
      return;
    }
    if (t.retention && !t.failing && !last)
      if (auto code = t.retention->keep_within(wall_ns(), [this] { return is_awaited(); }))
        t.damaged = is_damage(*code);
  }
}

bool StoreWriter::is_awaited() const {
  std::lock_guard lock(mutex_);
  return urgent_ || ending_;
}

// False: nothing more can be written.
bool StoreWriter::write(std::vector<StoreItem> items, bool last) {
  Target& t = *target_;
  auto now = std::chrono::steady_clock::now();
  // What waits for the next attempt: kills, and everything if another oomcast only has the store locked.
  auto set_aside = [&](bool all) {
    for (StoreItem& item : items)
      if (!last && (is_episode(item) || (all && t.pending.size() < kMaxWaiting))) {
        t.pending.push_back(std::move(item));
      } else {
        bytes_of_episodes_ -= bytes_of(item);
        ++lost_;
        ++t.lost_since;
      }
  };
  if (t.failing && now < t.retry_at && !last) {
    set_aside(false);
    return true;
  }
  std::optional<std::string> why;
  std::vector<std::string> notices;
  if (t.limits && (!t.db || t.damaged || t.is_gone())) why = t.reopen(notices);
  for (std::string& text : notices) notice(std::move(text));
  items.insert(items.begin(), std::make_move_iterator(t.pending.begin()),
               std::make_move_iterator(t.pending.end()));
  t.pending.clear();
  if (!why) {
    if (items.empty() && lost_ == t.told_lost) return true;
    if (std::int64_t clock = clock_) t.tables->set_clock(Nanos(clock));
    why = t.commit(items, lost_);
  }
  if (!why) {
    for (const StoreItem& item : items) bytes_of_episodes_ -= bytes_of(item);
    if (t.failing)
      notice(fmt::format("the store {} is written again; {} lines between are missing in it",
                         escape_for_terminal(t.path), t.lost_since));
    t.failing = false;
    t.lost_since = 0;
    return true;
  }
  std::string said = fmt::format("writing {}: {}", escape_for_terminal(t.path), *why);
  if (t.limits) {
    if (last && has_episode(items))
      notice(fmt::format("{}; the last OOM kills are not in it", said));
    else if (!t.failing && !t.busy)
      notice(fmt::format("{}; tracing goes on, what it sees is not stored until that works again", said));
    t.failing = t.failing || !t.busy;
    t.retry_at = now + (t.damaged ? Nanos{} : kRetry);
    set_aside(t.busy);
    return true;
  }
  std::lock_guard lock(mutex_);
  failure_ = said + "; nothing more is recorded";
  notices_.push_back(*failure_);
  lost_ += items.size() + waiting_.size();
  waiting_.clear();
  return false;
}

// By the thread: it waits for the disk.
void StoreWriter::close_file() {
  Target& t = *target_;
  if (t.db && !failure_) {
    execute(t.db.get(), fmt::format("UPDATE runs SET ended_ns={} WHERE id={}", wall_ns(), t.run));
    t.retention.reset();
    t.tables.reset();
    if (!t.limits) execute(t.db.get(), "PRAGMA journal_mode=MEMORY");
  }
  t.close();
}

bool StoreWriter::ends_within(Nanos patience) {
  std::unique_lock lock(mutex_);
  ending_ = true;
  wake_.notify_all();
  return !thread_.joinable() || ended_.wait_for(lock, patience, [this] { return has_ended_; });
}

Status StoreWriter::finish() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable())
    thread_.join();
  else if (target_)
    close_file();
  target_.reset();
  if (failure_) return Error::failed(*failure_);
  return Ok{};
}

}  // namespace oomcast
