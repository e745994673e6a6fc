// What a session reads, and when.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>

#include "app/session.h"
#include "app/snapshots.h"
#include "app/tracing.h"
#include "blame/python.h"
#include "model/limit_owner.h"

namespace oomcast {
namespace {

using namespace std::chrono_literals;

constexpr Nanos kLogSettles = 500ms;   // after a line of the kernel log
constexpr Nanos kExactFor = 5s;        // of what is nearly full
constexpr Nanos kClockSet = 20ms;      // more than a reading of it can be off
constexpr Nanos kReaderRests = 200ms;  // after a sign of an OOM
constexpr std::size_t kMaxMet = 256;
constexpr std::size_t kMaxFollowed = 32;  // cgroups whose small processes are sampled, too
constexpr Nanos kGivesWay = 500ms, kLooksAgain = 10ms;

}  // namespace

// ---- what the sources say

// Whether there was anything.
bool Session::drain() {
  MonoTime began = now();
  bool logged = read_log(), news = logged;
  if (gpu_ && gpu_->drain()) news = true;
  bool more = sources_.bpf != nullptr;
  while (more && !heard_.machine_kills && now() - began < kDrain)
    more = sources_.bpf->drain([&](const wire::Record& record) {
      news = true;
      on_record(record);
    });
  heard_.more = more || (gpu_ && gpu_->has_more());
  give_way();
  take_reports();
  times_.heard = began;
  if (now() >= times_.next_search) find_growing();
  bool urgent = now() >= times_.next_urgent_scan && model_.take_urgent_scan();
  if (urgent || (now() >= times_.next_scan && model_.take_unknown_cgroups())) scan_tree();
  if (news) times_.look_until = std::max(times_.look_until, now() + (logged ? kLogSettles : kMoreSoon));
  return news;
}

// A victim has to run for its memory to come back, and a kernel from 6.0 on passes over it when most of its
// pages are about to be free: who wants one then has the next process killed (seen on 6.1, beside a loop that
// was at work on the kill). So nothing is done meanwhile.
void Session::give_way() {
  if (!std::exchange(heard_.machine_kills, false)) return;
  auto still_full = [this] {
    auto host = sources_.procfs.read_meminfo();
    return host && host->is_short();
  };
  if (!still_full()) return;
  if (looks_) looks_->stand_still(true);
  MonoTime began = now(), until = began + kGivesWay;  // an earlier kill may be due to be told before
  do std::this_thread::sleep_for(kLooksAgain);
  while (now() < until && still_full() && model_.episodes().due(now()).empty());
  if (looks_) looks_->stand_still(false);
  times_.next_way = now() + (now() - began);  // for half of the time at most
}

void Session::on_record(const wire::Record& record) {
  ++heard_.count;
  if (auto* exit = std::get_if<wire::Exit>(&record)) {
    gpu_->on_exit(exit->task.id);
    pythons_->forget(exit->task.id);
  }
  if (auto* exec = std::get_if<wire::Exec>(&record)) pythons_->forget(exec->task.id);
  if (auto* code = std::get_if<wire::DyingCode>(&record))
    model_.on_code(code->task.id, code->task.tid, places_of(*code));
  model_.on_record(record);
  if (auto* mark = std::get_if<wire::OomMark>(&record)) on_mark(*mark);
  if (auto* sample = std::get_if<wire::CgroupSample>(&record)) on_cgroup_sample(*sample);
  publish_if_many();
}

// A container that is killed in a loop must not keep the reader from all others.
void Session::on_mark(const wire::OomMark& mark) {
  MonoTime when = now();
  if (auto owner = limit_owner(mark)) {
    std::erase_if(heard_.limits_met, [when](const auto& limit) { return limit.second <= when; });
    if (heard_.limits_met.size() < kMaxMet || heard_.limits_met.contains(*owner))
      heard_.limits_met[*owner] = when + kReaderRests;
    return reader_.keep_away();
  }
  // For half of the time at most: who is bound to one node of memory can have it full again and again.
  bool rests = when >= times_.next_rest;
  reader_.rest(rests ? when + kReaderRests : when);
  if (rests) times_.next_rest = when + 2 * kReaderRests;
  heard_.machine_kills = heard_.machine_kills || when >= times_.next_way;
}

bool Session::is_near_a_kill(const TaskId& id) const {
  const TaskState* task = model_.tasks().find(id);
  return std::ranges::any_of(heard_.limits_met, [&, when = now()](const auto& limit) {
    return when < limit.second &&
           (!task || !task->cgroup || model_.cgroups().is_below(*task->cgroup, limit.first));
  });
}

void Session::on_cgroup_sample(const wire::CgroupSample& sample) {
  std::uint64_t inode = sample.memcg.inode;
  if (!model_.cgroup_in_scope(inode)) return;
  CgroupState* state = model_.cgroups().find(inode);
  // What grows between two sleeps may be on no CPU at any tick: the walk finds it.
  bool moved = sample.moved || (state && cgroups_.moved_far(*state, sample.memcg.usage));
  auto before = state ? state->pinned : std::nullopt;
  cgroups_.on_usage(inode, sample.memcg.usage, sample.time, now());
  if (!sample.moved && before && state->pinned)
    processes_.look_in(inode, state->pinned->value - before->value);
  if (state) state->told_by_kernel = true;
  if (moved) mark_hot(inode, sample.time);
}

// Ticks see what runs. What moved is also looked at from here for a while, and exactly if a person asked for
// it.
void Session::mark_hot(std::uint64_t inode, MonoTime moved) {
  cgroups_.mark_hot(inode, moved);
  if (model_.scope().whole_machine || moved + kExactFor <= times_.exact_until) return;
  times_.exact_until = moved + kExactFor;
  sources_.bpf->set_exact(true);
}

bool Session::read_log() {
  if (!sources_.log) return false;
  KernelLog::Read read = sources_.log->read([&](std::uint32_t tid) {
    if (!sources_.bpf && !model_.tasks().by_pid(tid)) finder_.find(tid);
  });
  losses_.add("kernel_log_overwritten", read.overwritten);
  losses_.add("kernel_log_unreadable", read.unreadable);
  return read.any;
}

// After the kernel programs' records, which the log may be ahead of.
void Session::take_reports(bool all) {
  if (!sources_.log) return;
  MonoTime when = now();
  std::vector<OomDump> reports =
      all ? sources_.log->take_all() : sources_.log->take(when, model_.episodes().due(when + kLook));
  if (!sources_.bpf && !reports.empty()) scan_tree();  // nobody else tells of a new cgroup
  for (const OomDump& dump : reports) model_.on_dump(dump, dump.time.kill ? MonoTime(*dump.time.kill) : when);
  if (auto until = sources_.log->take_read_until()) model_.on_log_read(*until);
}

void Session::take_answers() {
  for (const Reader::Answer& answer : reader_.advance(now())) {
    if (answer.what == Reader::What::arguments) {
      if (answer.dropped) finder_.ask_for_arguments(answer.id);
      if (answer.arguments)
        model_.on_arguments(answer.id, {answer.arguments->args, answer.arguments->truncated}, answer.asked);
    } else if (answer.what == Reader::What::python) {
      if (pythons_) pythons_->on_answer(answer, now());
    } else if (answer.given_up) {
      processes_.gave_up(answer.id);
    } else if (auto sample = processes_.measured(answer.id, answer.private_bytes, answer.cost, now())) {
      publish_process(*std::move(sample));
    }
  }
}

// ---- each interval

void Session::poll_all() {
  MonoTime when = now();
  read_clock();
  times_.next_poll = when + options_.sources.interval;
  if (auto info = sources_.procfs.read_meminfo()) {
    model_.on_host(when, *info);
    if (info->swap_total && info->swap_total->count > 0) {
      auto swappiness = sources_.procfs.read_swappiness();
      model_.on_swappiness(swappiness ? std::optional(*swappiness) : std::nullopt);
    }
  }
  count_kills();
  if (!sources_.bpf) {
    // Nobody tells of new cgroups and processes: look for them.
    scan_tree();
    finder_.find_all(!reader_.wait());  // what was asked in the last scan is answered
  }
  poll_cgroups(when);
  poll_pressure(when);
  poll_processes(when);
  look_for_gpu();
  if (gpu_) gpu_->sample(now());
  if (gpu_ && pythons_)
    model_.gpu().for_each([&](TaskId id, const GpuHeld&) {
      const TaskState* task = model_.tasks().find(id);
      pythons_->on_gpu_user(id, task ? task->uid : std::nullopt, now());
    });
  publisher_.publish(TickFact{now()});
  if (alerts_)
    alerts_->check(now(), alert_inputs(model_, publisher_.forecasts(),
                                       gpu_ ? gpu_->cards() : std::vector<OverviewCard>()));
  set_rss_tracing();
  count_losses();
}

// For a walk the kernel takes 32 KiB: on a full machine that invoked the OOM killer (seen on 6.1). What is
// idle can wait, and its files are as dear.
void Session::poll_cgroups(MonoTime when) {
  bool walked = sources_.bpf && (is_short_of_memory() || sources_.bpf->walk_cgroups());
  if (walked) drain();
  // Where records were lost, the kernel programs take for told what nobody heard.
  bool told = walked && !std::exchange(heard_.samples_lost, false);
  cgroups_.sample_all(when, told, [this] { publish_if_many(); });
  for (std::uint64_t inode : model_.take_forgotten()) {
    CgroupId id{sources_.cgroupfs.mount().hierarchy, inode};
    cgroups_.forget(id);
    publisher_.publish(ForgottenFact{when, id});
  }
}

void Session::poll_pressure(MonoTime when) {
  if (auto pressure = sources_.procfs.read_pressure(); pressure && *pressure)
    model_.on_pressure(when, std::nullopt, **pressure);
  if (!sources_.bpf) return;
  sources_.bpf->for_each_stall([&](std::uint64_t inode, const wire::Stalls& sums) {
    if (!model_.on_stalls(when, inode, sums)) return;
    // Who stalls is under pressure; the others' files are not worth a look.
    auto dir = sources_.cgroupfs.open_dir(model_.cgroups().find(inode)->ref->path);
    if (!dir) return;
    if (auto pressure = dir->read_pressure(); pressure && *pressure)
      model_.on_pressure(when, inode, **pressure);
  });
}

void Session::poll_processes(MonoTime when) {
  for (TaskId id : processes_.gone()) {
    if (gpu_) gpu_->on_exit(id);
    if (pythons_) pythons_->forget(id);
    model_.on_gone(now(), id);
  }
  for (ExitFact& exit : processes_.ended(now())) publisher_.publish(std::move(exit));
  model_.follow(growing_cgroups(model_, publisher_.forecasts(), kMaxFollowed));
  for (ProcessSampleFact& sample : processes_.moved(now())) publish_process(std::move(sample));
  if (is_short_of_memory()) reader_.rest(now() + options_.sources.interval + kReaderRests);
  finder_.ask_again();
  for (const TaskId& id : processes_.to_measure(now())) reader_.ask(Reader::What::private_memory, id, now());
  if (looks_) looks_->plan(when);
}

std::optional<KillCount> Session::count_kills() {
  KillCount count;
  count.began = times_.counted = now();
  auto kills = sources_.procfs.read_vmstat_oom_kill();
  if (!kills || !*kills) return std::nullopt;
  count.ended = now();
  count.kills = **kills;
  model_.on_vmstat(count);
  return count;
}

void Session::look_for_gpu() {
  if (!gpu_ || !gpu_->find_driver()) return;
  loop_.watch(gpu_->fd());
  sources_.names.push_back("gpu:" + gpu_->hook());
  // Who had the driver's files open before its calls were followed holds what nobody counted.
  auto pids = sources_.procfs.list_pids();
  if (!pids) return;
  for (std::uint32_t pid : *pids)
    if (gpu_->uses_driver(pid))
      if (auto id = finder_.find(pid)) model_.gpu().on_known_user(*id);
}

// A machine without a clock of its own is 200 days behind until it has asked another; one that slept, or a
// virtual one that was stopped, is ahead of its monotonic clock.
void Session::read_clock() {
  Nanos mono = wall_ahead_of(CLOCK_MONOTONIC), boot = wall_ahead_of(CLOCK_BOOTTIME);
  if (std::chrono::abs(mono - clock_.wall_of_mono_zero) > kClockSet) {
    clock_.wall_of_mono_zero = mono;
    publisher_.set_clock(mono);
  }
  if (std::chrono::abs(boot - clock_.wall_of_boot_zero) > kClockSet) clock_.wall_of_boot_zero = boot;
}

// How closely to look: every RSS change while a cgroup is about to meet its limit, otherwise each tick is
// enough.
void Session::set_rss_tracing() {
  if (!sources_.bpf) return;
  MonoTime when = now();
  if (auto full = cgroups_.nearly_full(); full && when - *full < kExactFor)
    times_.exact_until = when + kExactFor;
  sources_.bpf->set_exact(when < times_.exact_until);
}

// As good as nothing is left: the next that wants a page may be the one for which somebody is killed.
bool Session::is_short_of_memory() const {
  const auto& host = model_.host();
  return host && host->is_short();
}

void Session::count_losses() {
  losses_.track("not_stored", publisher_.not_stored());
  losses_.track("reader_given_up", reader_.given_up());
  if (losses_.track("reader_refused", reader_.refusal() != nullptr) && !publisher_.holds_notices())
    tell_error(
        fmt::format("the reader {}, so it does not serve: no arguments, private memory and Python lines of "
                    "other processes",
                    reader_.refusal()));
  losses_.track("oom_kill_no_room", model_.episodes().dropped());
  losses_.track("oom_kill_unseen", model_.episodes().unseen(now()));
  losses_.track("samples_spared", model_.spared());
  if (sources_.log) losses_.track("kernel_log_unreadable", sources_.log->unread());
  losses_.track("oom_victim_late", model_.episodes().late_victims());
  publisher_.tell_notices();
  if (!sources_.bpf) return;
  LostCounts counts = sources_.bpf->lost();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (losses_.track(wire::lost_reasons()[i], counts[i]) && wire::lost_reasons()[i] == "samples_ring_full") {
      processes_.ends_were_lost();
      heard_.samples_lost = true;
    }
  losses_.track("program_interrupted_itself", sources_.bpf->missed_runs());
  losses_.track("python_table_full", pythons_->no_room());
  losses_.track("undecodable_record", sources_.bpf->undecodable());
  if (looks_) {
    losses_.track("growth_look_given_up", looks_->given_up());
    losses_.track("growth_look_no_room", looks_->no_room());
    losses_.track("growth_look_not_allowed", looks_->not_allowed());
  }
  losses_.track("gpu_ring_full", gpu_->lost());
  losses_.track("gpu_code_no_room", gpu_->code_lost());
  losses_.track("gpu_page_events", gpu_->page_events_lost());
  losses_.track("gpu_not_followed", gpu_->failures());
  // Only the kernel programs report the usage of a refused cgroup: without them any of these may hold much.
  const CgroupTree& cgroups = model_.cgroups();
  std::uint64_t refused = sources_.bpf ? cgroups.not_followed() : cgroups.refused();
  losses_.track("model_full", model_.tasks().forgotten() + refused + publisher_.forecasts().not_followed() +
                                  model_.gpu().dropped());
}

void Session::check_levels(const Sample& sample) {
  if (!alerts_) return;
  // The root cgroup of a process stands for the host, which is nobody's scope but the whole machine's.
  bool host = !sample.cgroup || sample.cgroup->name.kind == CgroupKind::root;
  if (host && !model_.scope().whole_machine) return;
  alerts_->on_sample(sample, sample.cgroup ? publisher_.forecasts().of(sample.cgroup->id) : nullptr);
}

}  // namespace oomcast
