#include "app/growth_looks.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "app/memory_limits.h"
#include "model/headroom.h"
#include "model/scope.h"
#include "present/blame_json.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kMinAge = 2s;  // shorter growth is over before stacks can be read
constexpr Bytes kMinGrown = MiB(16);
constexpr double kMinShare = 0.02;  // of the limit
constexpr double kSurge = 0.1;
constexpr double kMax = 0.7;  // a cgroup with this share of the growth is profiled instead of its ancestors
constexpr Nanos kMinGap = 5s, kMaxGap = 5min;
constexpr int kPerCost = 50;
constexpr std::size_t kMaxLevels = 4096, kMaxPaths = 1 << 20;  // twice that before they are forgotten

constexpr Nanos kPatience = 20s;  // for a profile: then it is stopped
constexpr Nanos kHurry = 300ms;   // to report what it has, during a kill
constexpr Nanos kStopWait = 2s;   // for the exit of a stopped profile
constexpr Nanos kMaxFull = 60s;   // for memory on the machine, before it is stopped
constexpr std::size_t kMaxText = 5 << 20;

}  // namespace

void LookPlan::on_level(const Target& target, Bytes level, Bytes limit, MonoTime now) {
  if ((levels_.size() >= kMaxLevels || paths_ >= kMaxPaths) && !levels_.contains(target)) make_room();
  auto [at, fresh] = levels_.try_emplace(target, Level{level, level, limit, now});
  if (fresh) paths_ += target.cgroup.size();
  Level& known = at->second;
  known.now = level;
  known.limit = limit;
  if (fresh || level <= known.from) {
    known.from = level;
    known.since = now;
  }
  any_grown_ = any_grown_ || known.grown() >= kMinGrown;
}

// Entries without growth can be dropped at no loss.
void LookPlan::make_room() {
  std::erase_if(levels_, [this](const auto& l) {
    bool goes = l.second.grown() < kMinGrown;
    if (goes) paths_ -= l.first.cgroup.size();
    return goes;
  });
  if (levels_.size() < 2 * kMaxLevels && paths_ < 2 * kMaxPaths) return;
  levels_.clear();
  paths_ = 0;
}

bool LookPlan::is_due(const Level& level, MonoTime now) const {
  double share = level.grown().as_double() / std::max(1.0, level.limit.as_double());
  return level.grown() >= kMinGrown && share >= kMinShare && now - level.since >= kMinAge &&
         (now >= next_ || share >= kSurge);
}

bool LookPlan::are_one(const Target& a, const Target& b) {
  if (a.pid || b.pid) return a == b;
  return in_scope(a.cgroup, b.cgroup) || in_scope(b.cgroup, a.cgroup);
}

std::optional<LookPlan::Target> LookPlan::due(MonoTime now) const {
  if (!any_grown_ || now < next_by_cost_) return std::nullopt;
  Bytes most, most_of_others;
  for (const auto& [target, level] : levels_) {
    if (!is_due(level, now)) continue;
    most = std::max(most, level.grown());
    if (!last_ || !are_one(target, *last_)) most_of_others = std::max(most_of_others, level.grown());
  }
  if (most == Bytes{}) return std::nullopt;
  bool others = most_of_others > Bytes{};
  if (others) most = most_of_others;
  const Target* chosen = nullptr;
  for (const auto& [target, level] : levels_)
    if (level.grown().as_double() >= kMax * most.as_double() &&
        !(others && last_ && are_one(target, *last_)) &&
        (!chosen || target.cgroup.size() > chosen->cgroup.size()))
      chosen = &target;
  return *chosen;
}

void LookPlan::looked(const Target& target, MonoTime began, MonoTime now, Nanos cpu) {
  if (!first_) first_ = began;
  next_ = now + std::clamp<Nanos>((now - *first_) / 4, kMinGap, kMaxGap);
  next_by_cost_ = now + kPerCost * cpu;
  last_ = target;
  any_grown_ = false;
  for (auto& [other, level] : levels_) {
    if (are_one(other, target)) {
      level.from = level.now;
      level.since = now;
    }
    any_grown_ = any_grown_ || level.grown() >= kMinGrown;
  }
}

// If the scope is a process tree, ignore cgroups: they contain other processes, too.
void GrowthLooks::on(const Sample& sample) {
  if (!sample.pinned || !sample.cgroup || !model_.scope().tasks.empty() ||
      sample.cgroup->name.kind == CgroupKind::root)
    return;
  auto limit = sample.headroom_limit ? sample.headroom_limit
               : model_.host()       ? model_.host()->total
                                     : std::nullopt;
  if (limit) plan_.on_level({sample.cgroup->path, std::nullopt}, *sample.pinned, *limit, sample.time);
}

void GrowthLooks::on(const ProcessSampleFact& sample) {
  if (model_.scope().tasks.empty()) return;
  auto limit = model_.host() ? model_.host()->total : std::nullopt;
  if (sample.process.cgroup)
    limit = model_.cgroups().tightest_limit(sample.process.cgroup->id.inode, limit).limit;
  if (limit)
    plan_.on_level({"", sample.process.id.tgid}, sample.anon + sample.shmem + sample.swap, *limit,
                   sample.time);
}

void GrowthLooks::plan(MonoTime now) {
  if (look_ || next_) return;
  next_ = plan_.due(now);
  bool room = !next_ || has_room();
  if (room) {
    waits_for_room_ = waits_for_room_ && !next_;
    return;
  }
  next_.reset();
  no_room_ += !std::exchange(waits_for_room_, true);
}

bool GrowthLooks::has_room() const {
  auto room = model_.host() ? host_headroom(*model_.host()) : std::nullopt;
  return !room || !room->limit || *room->limit - room->pinned >= MemoryLimits::kOfLook;
}

// When the profile exits, the kernel removes its breakpoints, which takes pages.
bool GrowthLooks::has_pages() const {
  return !model_.host() || model_.host()->has_room();
}

void GrowthLooks::ask(CgroupId cgroup) {
  const CgroupState* state = model_.cgroups().find(cgroup.inode);
  if (state && !state->removed) next_ = LookPlan::Target{state->ref->path, std::nullopt};
}

std::optional<int> GrowthLooks::advance(MonoTime now) {
  if (look_) {
    MonoTime due = look_->began + kPatience;
    if (look_->hurried) due = std::min(due, *look_->hurried + kHurry);
    if (!look_->stopped) process_.set_deadline(has_pages() ? due : due + kMaxFull);
    if (process_.expire(now)) {
      look_->stopped = now;
      ++given_up_;
    }
    if (read())
      end(now);
    else if (look_->stopped && now - *look_->stopped >= kStopWait)
      leave(now);
  }
  bool crowded = process_.unreaped() >= HelperProcess::kMaxUnreaped;
  if (look_ || !next_ || crowded || !has_room()) return std::nullopt;
  LookPlan::Target target = *std::exchange(next_, std::nullopt);
  if (!start(target, now)) {
    plan_.looked(target, now, now, 1s);  // do not retry at once
    return std::nullopt;
  }
  return look_->output.get();
}

bool GrowthLooks::is_at(const Episode& episode) const {
  if (!look_) return false;
  if (!episode.limit_cgroup) return true;
  const LookPlan::Target& target = look_->target;
  if (!target.pid) return LookPlan::are_one(target, {episode.limit_cgroup->path, std::nullopt});
  const TaskState* top = model_.tasks().by_pid(*target.pid);
  return !top || std::ranges::any_of(episode.victims, [&](const Victim& v) {
    return model_.tasks().descends_from(v.process.id, top->id);
  });
}

// Reports what it has if that is quick: a process reading a victim's maps may wait for its mmap_lock, and
// pins its memory. The kernel waits a second before it picks another victim.
void GrowthLooks::end_soon(MonoTime now) {
  if (!look_ || look_->hurried) return;
  look_->hurried = now;
  process_.signal(SIGINT);
}

void GrowthLooks::stand_still(bool still) const {
  if (look_) process_.signal(still ? SIGSTOP : SIGCONT);
}

bool GrowthLooks::start(const LookPlan::Target& target, MonoTime now) {
  std::vector<std::string> words{"blame",   "--json", "--brief",
                                 "--quiet", "--for",  std::to_string(LookPlan::kWindow / 1s) + "s"};
  if (target.pid) {
    words.insert(words.end(), {"--pid", std::to_string(*target.pid)});
  } else {
    words.insert(words.end(), {"--cgroup", target.cgroup});
  }
  if (!root_.empty()) words.insert(words.end(), {"--root", root_});
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  UniqueFd read_end(fds[0]), write_end(fds[1]);
  if (fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0) return false;
  if (!process_.start(std::move(words), limits_, write_end.get(), body_)) return false;
  look_ = Look{target, std::move(read_end), {}, now, {}, {}};
  return true;
}

// Returns whether it has exited.
bool GrowthLooks::read() {
  std::string part(65536, '\0');
  for (;;) {
    ssize_t n = ::read(look_->output.get(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) return true;
    if (look_->text.size() < kMaxText) look_->text.append(part.data(), static_cast<std::size_t>(n));
  }
}

void GrowthLooks::end(MonoTime now) {
  // Its output is closed: it is exiting, unless stuck in the kernel.
  auto ended = process_.reap(HelperProcess::kReapWait);
  process_.leave();
  rusage used = ended ? ended->used : rusage{};
  not_allowed_ +=
      ended && WIFEXITED(ended->status) && WEXITSTATUS(ended->status) == Error::forbidden("").exit_code;
  auto time = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  plan_.looked(look_->target, look_->began, now, time(used.ru_utime) + time(used.ru_stime));
  if (look_->text.size() >= kMaxText)
    ++given_up_;
  else if (auto report = parse_blame(look_->text, "a look"))
    found_.add(*report, model_.tasks(), look_->began, now);
  look_.reset();
}

// Killed, but its output is still open: it is stuck in the kernel, on a page that does not arrive or a lock,
// perhaps forever. Other profiles must go on. Its CPU time is unknown.
void GrowthLooks::leave(MonoTime now) {
  process_.leave();
  plan_.looked(look_->target, look_->began, now, 1s);
  look_.reset();
}

}  // namespace oomcast
