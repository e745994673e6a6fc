#include "collect/bpf_source_allocations.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "collect/files.h"
#include "collect/perf_event.h"
#include "collect/procfs.h"
#include "parse/text.h"

namespace oomcast {
namespace {

constexpr const char* kType = "/sys/bus/event_source/devices/uprobe/type";
constexpr std::uint64_t kAtReturn = 1;  // bit of config, as in format/retprobe next to that file

constexpr Nanos kMaxKept = std::chrono::minutes(1);  // for breakpoints that wait for a lock
constexpr Nanos kPatience = std::chrono::seconds(1);
constexpr Nanos kLongestCall = std::chrono::milliseconds(50);  // of a call that sets a breakpoint
constexpr const char* kSlow = "setting a breakpoint in its allocator took more than 50 ms";

/// A uprobe link for all threads of one process: union bpf_attr's link_create.uprobe_multi since 6.6
/// (89ae89f53d20), missing in headers of older systems.
constexpr std::uint32_t kMultiAtReturn = 1;
struct UprobeMulti {
  std::uint32_t program = 0, target = 0, attach_type = kUprobeMulti, link_flags = 0;
  std::uint64_t path = 0, offsets = 0, reference_counts = 0, cookies = 0;
  std::uint32_t count = 0, flags = 0, pid = 0, _pad = 0;
};

// Used to measure the cost of a traced call, in this process: the kernel emulates the first instruction of
// one, and single-steps that of the other.
extern "C" void oomcast_call_emulated(std::uint64_t size);
extern "C" void oomcast_call_stepped(std::uint64_t size);
asm(R"(
  .pushsection .text
  .globl oomcast_call_emulated, oomcast_call_stepped
  .hidden oomcast_call_emulated, oomcast_call_stepped
  .type oomcast_call_emulated, @function
oomcast_call_emulated:
  push %rbx
  pop %rbx
  ret
  .size oomcast_call_emulated, . - oomcast_call_emulated
  .type oomcast_call_stepped, @function
oomcast_call_stepped:
  test %rdi, %rdi
  ret
  .size oomcast_call_stepped, . - oomcast_call_stepped
  .popsection
)");

// The file offset of this process's own code.
std::optional<std::uint64_t> offset_of(const void* code) {
  struct Search {
    std::uint64_t address;
    std::optional<std::uint64_t> found;
  } search{reinterpret_cast<std::uint64_t>(code), std::nullopt};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* context) {
        auto& s = *static_cast<Search*>(context);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          std::uint64_t begin = info->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && s.address >= begin && s.address - begin < part.p_filesz)
            s.found = s.address - begin + part.p_offset;
        }
        return 1;  // the program itself comes first
      },
      &search);
  return search.found;
}

// To set a breakpoint, and on many kernels (6.1, 6.12: uprobe_write_opcode) to clear one, the kernel
// allocates a page with the mmap_lock held: meanwhile nothing of an OOM victim can be freed, and the kernel
// kills the next process.
std::optional<bool> has_room(const ProcFs& procfs) {
  auto host = procfs.read_meminfo();
  return host ? std::optional(host->has_room()) : std::nullopt;
}

// For memory shortage while the lock is held: a real-time thread may use part of the reserves below the
// watermarks (gfp_to_alloc_flags). Lasts for the life of this thread; no effect if not permitted. Measured on
// 6.1, with full memory and a victim without a CPU, at a lookup in map_files: up to 2.2 s for a page, and 0.3
// ms with this.
void take_from_reserves() {
  const sched_param lowest{.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &lowest);
}

// Waits for it to finish.
template <typename Work>
Status on_its_own_thread(Work&& work) {
  try {
    std::thread(std::forward<Work>(work)).join();
    return Ok{};
  } catch (const std::system_error& error) {
    return Error::failed(fmt::format("no thread can be started: {}", error.what()));
  }
}

void wait_for_room(const ProcFs& procfs, MonoTime until) {
  constexpr Nanos kAgain = std::chrono::milliseconds(50);
  while (mono_now() < until && has_room(procfs) == false) std::this_thread::sleep_for(kAgain);
}

}  // namespace

Status AllocationProbes::attach(const bpf_program* program, std::span<const std::uint64_t> offsets,
                                bool at_return, std::uint32_t tgid, int file, std::vector<Handle>& to) {
  Status done = Ok{};
  Status ran = on_its_own_thread([&] {
    take_from_reserves();
    for (std::uint64_t offset : offsets) {
      auto handle = attach_one(program, offset, at_return, tgid, file);
      if (handle) {
        to.push_back(*std::move(handle));
      } else {
        done = handle.error();
        return;
      }
    }
  });
  return ran ? done : ran;
}

// Between count and call a program can map its allocator's page some more times, at about 1 µs each. This
// thread is real-time if permitted, so that it is not preempted in between. If one call was slow, the next
// ones would be, too.
Result<AllocationProbes::Handle> AllocationProbes::attach_one(const bpf_program* program,
                                                              std::uint64_t offset, bool at_return,
                                                              std::uint32_t tgid, int file) {
  if (slow_) return Error::failed(kSlow);
  if (!has_room(ProcFs(programs_.roots)).value_or(false)) return Error::failed(kNoPages);
  std::string path = fmt::format("/proc/self/fd/{}", file);
  if (std::string why = programs_.mappings->why_not(file, offset, tgid); !why.empty())
    return Error::failed(why);
  MonoTime before = mono_now();
  auto handle = programs_.whole_process ? attach_to_process(program, offset, at_return, tgid, path)
                                        : attach_to_event(program, offset, at_return, tgid, path);
  slow_ = mono_now() - before > kLongestCall;
  return handle;
}

Result<AllocationProbes::Handle> AllocationProbes::attach_to_event(const bpf_program* program,
                                                                   std::uint64_t offset, bool at_return,
                                                                   std::uint32_t tgid,
                                                                   const std::string& path) const {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = type_;
  attr.config = at_return ? kAtReturn : 0;
  attr.uprobe_path = reinterpret_cast<std::uint64_t>(path.c_str());
  attr.probe_offset = offset;
  UniqueFd fd = open_perf_event(attr, static_cast<pid_t>(tgid), -1);
  if (!fd) return Error::from_errno("setting a breakpoint in the allocator");
  Link link(bpf_program__attach_perf_event(program, fd.get()));
  if (!link) return Error::from_errno("attaching to a breakpoint in the allocator");
  fd.release();  // the link closes it
  return Handle(std::move(link));
}

Result<AllocationProbes::Handle> AllocationProbes::attach_to_process(const bpf_program* program,
                                                                     std::uint64_t offset, bool at_return,
                                                                     std::uint32_t tgid,
                                                                     const std::string& path) const {
  UprobeMulti attr;
  attr.program = static_cast<std::uint32_t>(bpf_program__fd(program));
  attr.path = reinterpret_cast<std::uint64_t>(path.c_str());
  attr.offsets = reinterpret_cast<std::uint64_t>(&offset);
  attr.count = 1;
  attr.flags = at_return ? kMultiAtReturn : 0;
  attr.pid = tgid;
  int fd = static_cast<int>(syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr)));
  if (fd < 0) return Error::from_errno("setting a breakpoint in the allocator");
  return Handle(UniqueFd(fd));
}

Status AllocationProbes::measure() {
  auto emulated = measure(&oomcast_call_emulated);
  if (!emulated) return emulated.error();
  auto stepped = measure(&oomcast_call_stepped);
  if (!stepped) return stepped.error();
  budget_.each = {*emulated / 2, std::max(Nanos{}, *stepped - *emulated)};
  return Ok{};
}

Result<Nanos> AllocationProbes::measure(void (*function)(std::uint64_t)) {
  constexpr int kCalls = 200, kRounds = 10;
  auto offset = offset_of(reinterpret_cast<const void*>(function));
  UniqueFd program(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!offset || !program) return Error::failed("this program's own code is not found in its file");
  auto self = static_cast<std::uint32_t>(getpid());
  std::vector<Handle> both;
  for (bool at_return : {false, true})
    if (auto ok = attach(at_return ? programs_.leave : programs_.enter[0], {&*offset, 1}, at_return, self,
                         program.get(), both);
        !ok)
      return ok.error();
  reset_counts();
  *programs_.tgid = self;
  *programs_.told = 1;  // as of malloc(0), of which there is no record
  std::array<Nanos, kRounds> each{};
  // Some kernels up to 6.9 match only the thread group leader by pid, but any thread may call free().
  Status ran = on_its_own_thread([&] {
    function(0);
    // The median of several rounds: while another program has the CPU, a call takes milliseconds.
    for (Nanos& round : each) {
      MonoTime before = mono_now();
      for (int i = 0; i < kCalls / kRounds; ++i) function(0);
      round = (mono_now() - before) / (kCalls / kRounds);
    }
  });
  *programs_.tgid = 0;
  *programs_.told = 0;
  if (!ran) return ran.error();
  if (rates(std::chrono::seconds(1)).calls_per_s[0] < kCalls)
    return Error::failed("this kernel watches one thread of a process, not the process");
  std::ranges::nth_element(each, each.begin() + kRounds / 2);
  return each[kRounds / 2];
}

Status AllocationProbes::begin(std::uint32_t tgid, const Allocator& allocator, const AllocationBudget& budget,
                               MonoTime now, MonoTime end) {
  budget_ = budget;
  slow_ = false;
  if (!programs_.whole_process) {
    auto text = read_file_at(AT_FDCWD, kType, 64);
    if (!text) return Error::failed("this kernel has no uprobes, or hides them");
    std::string_view digits = trim(*text);
    std::from_chars(digits.data(), digits.data() + digits.size(), type_);
  }
  budget_.stepped = allocator.stepped;
  if (budget_.each.trap == Nanos{})
    if (auto ok = measure(); !ok) return ok;
  if (auto keeper = programs_.locks ? programs_.locks->keeper() : std::nullopt)
    return Error::failed(fmt::format(
        "process {} sleeps with the lock of its memory, and for a breakpoint every fork would wait for it",
        *keeper));
  auto add = [&](const bpf_program* program, std::size_t function, bool at_return) {
    return attach(program, allocator.places(function), at_return, tgid, allocator.file.get(),
                  links_[function]);
  };
  // Frees first: a missed free makes its block look retained.
  Status set = add(programs_.enter_free, wire::kAllocates, false);
  for (std::size_t f = 0; f < wire::kAllocates && set; ++f) {
    if (allocator.places(f).empty()) continue;
    set = add(programs_.enter[f], f, false);
    if (set) set = add(programs_.leave, f, true);
  }
  if (!set) {
    *programs_.told = 0;
    take_away();
    return set;
  }
  file_.reset(fcntl(allocator.file.get(), F_DUPFD_CLOEXEC, 0));
  place_ = allocator.allocates[0];
  watched_.emplace();
  watched_->tgid = tgid;
  watched_->begin = std::max(now, mono_now());
  reset_counts();
  *programs_.calling_malloc = 0;
  *programs_.tgid = tgid;
  counted_from_ = watched_->begin;
  all_watched_ = true;
  count_at_ = watched_->begin + kCountEvery;
  end_ = end;
  return Ok{};
}

void AllocationProbes::reset_counts() {
  const std::vector<wire::AllocatorCalls> none(
      static_cast<std::size_t>(std::max(1, libbpf_num_possible_cpus())));
  for (__u32 f = 0; f < wire::kAllocatorFunctions; ++f) {
    __u32 key = key_of(f);
    bpf_map_update_elem(programs_.calls, &key, none.data(), BPF_ANY);
  }
}

AllocatorRates AllocationProbes::rates(Nanos seen) const {
  AllocatorRates out;
  out.calling_malloc = *programs_.calling_malloc;
  double s = std::max(Seconds(seen).count(), 1e-6);
  std::vector<wire::AllocatorCalls> per_cpu(
      static_cast<std::size_t>(std::max(1, libbpf_num_possible_cpus())));
  for (__u32 f = 0; f < wire::kAllocatorFunctions; ++f) {
    __u32 key = key_of(f);
    if (bpf_map_lookup_elem(programs_.calls, &key, per_cpu.data()) != 0) continue;
    double calls = 0, bytes = 0;
    for (const wire::AllocatorCalls& c : per_cpu) {
      calls += static_cast<double>(c.calls);
      bytes += static_cast<double>(c.bytes);
    }
    if (f == wire::kAllocates) {
      out.frees_per_s = calls / s;
    } else {
      out.calls_per_s[f] = calls / s;
      out.bytes_per_s[f] = bytes / s;
    }
  }
  return out;
}

// Records and cold caches make a traced call several times as expensive as the measured one.
AllocationProbes::Progress AllocationProbes::progress(MonoTime now) const {
  auto held = ProcFs(programs_.roots).read_statm(watched_->tgid);
  if (!held || !*held) return {now, std::nullopt};
  return {now, (*held)->resident_pages};
}

void AllocationProbes::compare_growth(const Progress& now) {
  constexpr double kMinPages = 4, kPagesInDoubt = 8, kDoubt = 0.3;
  if (!began_.pages || !stopped_.pages || !now.pages || now.at <= stopped_.at || stopped_.at <= began_.at)
    return;
  double before = static_cast<double>(*stopped_.pages) - static_cast<double>(*began_.pages);
  double after = static_cast<double>(*now.pages) - static_cast<double>(*stopped_.pages);
  if (before < kMinPages) return;
  double times =
      after / Seconds(now.at - stopped_.at).count() * Seconds(stopped_.at - began_.at).count() / before;
  double by = std::max(0.0, times - 1);
  watched_->faster = {by, kDoubt * by + std::max(0.0, times) * kPagesInDoubt / before};
}

void AllocationProbes::stop(std::size_t function, MonoTime now) {
  if (links_[function].empty() || !(*programs_.told >> function & 1)) return;
  *programs_.told = *programs_.told & ~(1U << function);
  if (std::exchange(all_watched_, false)) stopped_ = progress(now);
  (function < wire::kAllocates ? watched_->until[function] : watched_->frees_until) = now;
}

// No records yet: the weight of a block is unknown before this.
void AllocationProbes::count(MonoTime now) {
  Nanos seen = now - counted_from_;
  AllocatorRates rates = this->rates(seen);
  double calls = std::accumulate(rates.calls_per_s.begin(), rates.calls_per_s.end(), rates.frees_per_s);
  count_at_ = now + kCountEvery;
  if (seen < kLongestCount && calls * Seconds(seen).count() < kCallsEnough) return;
  watched_->begin = now;
  budget_.counted = seen;
  began_ = progress(now);
  plan(now);
  *programs_.records = 0;
  records_ = {};
  sample(plan_->sample);
  sample_at_ = now + kSampleEvery;
  *programs_.told = (1U << wire::kAllocatorFunctions) - 1;
}

void AllocationProbes::plan(MonoTime now) {
  rates_ = rates(now - counted_from_);
  plan_ = plan_allocations(rates_, budget_, end_ - watched_->begin);
  double allocations = std::accumulate(rates_.calls_per_s.begin(), rates_.calls_per_s.end(), 0.0);
  watched_->calls_per_s = rates_.frees_per_s + allocations;
  watched_->taken = share_taken(rates_, budget_);
  constexpr int kPlansPerDoubling = 8;
  count_at_ = now + std::max<Nanos>(kCountEvery, (now - watched_->begin) / kPlansPerDoubling);
}

void AllocationProbes::sample(Bytes each) {
  *programs_.extra = static_cast<unsigned long long>(plan_->extra.count);
  *programs_.sample = static_cast<unsigned long long>(each.count);
  watched_->sample = each;
}

void AllocationProbes::sample_again(MonoTime now) {
  sample_at_ = now + kSampleEvery;
  RecordsSoFar records{now - watched_->begin, *programs_.records};
  double planned = planned_records(*plan_, rates_, watched_->sample, records_.at, records.at);
  constexpr double kEnough = 30;
  if (planned < kEnough) return;
  budget_.told = static_cast<double>(records.count - records_.count) / planned;
  records_ = records;
  Bytes each = plan_sample(*plan_, rates_, budget_, end_ - watched_->begin, records);
  sample(std::clamp(each, scaled(watched_->sample, 0.5), scaled(watched_->sample, 2)));
}

void AllocationProbes::advance(MonoTime now) {
  if (!watched_) return;
  if (!plan_ && now >= count_at_) count(now);
  if (!plan_) return;
  if (all_watched_ && now >= count_at_) plan(now);
  if (now >= sample_at_) sample_again(now);
  auto due = [&](std::size_t f) { return !links_[f].empty() && now >= stops_at(f); };
  std::array<std::size_t, wire::kAllocatorFunctions> all{};
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (std::none_of(all.begin(), all.end(), due)) return;
  if (all_watched_) plan(now);
  for (std::size_t f = 0; f < links_.size(); ++f)
    if (now >= stops_at(f)) stop(f, now);
  take_away();
}

void AllocationProbes::take_away() {
  std::vector<Handle> going;
  for (std::size_t f = 0; f < links_.size(); ++f) {
    if (*programs_.told >> f & 1) continue;
    std::move(links_[f].begin(), links_[f].end(), std::back_inserter(going));
    links_[f].clear();
  }
  if (!going.empty()) close(std::move(going));
}

void AllocationProbes::close(std::vector<Handle> links) {
  auto work = [links = std::move(links), locks = programs_.locks,
               procfs = ProcFs(programs_.roots)]() mutable {
    MonoTime until = mono_now() + kMaxKept;
    wait_for_room(procfs, until);
    if (locks) locks->wait(until - mono_now());
    std::vector<std::jthread> each;
    for (Handle& link : links) {
      auto close_one = [&link] {
        take_from_reserves();
        Handle closed = std::move(link);
      };
      try {
        each.emplace_back(close_one);
      } catch (const std::system_error&) {
        close_one();
      }
    }
  };
  try {
    closing_.push_back(std::async(std::launch::async, std::move(work)));
  } catch (const std::system_error&) {
    // No thread could be started: `work` was destroyed, and closed them, in this thread.
  }
}

// end() stops the functions traced to the end.
MonoTime AllocationProbes::stops_at(std::size_t function) const {
  MonoTime at =
      watched_->begin + (function < wire::kAllocates ? plan_->watched[function] : plan_->frees_watched);
  return at < end_ ? at : MonoTime::max();
}

Nanos AllocationProbes::next(MonoTime now) const {
  Nanos next = std::chrono::hours(1);
  if (!watched_) return next;
  auto at_most = [&](MonoTime at) {
    if (at < now + next) next = std::max<Nanos>(at - now, Nanos{});
  };
  if (!plan_ || all_watched_) at_most(count_at_);
  if (!plan_) return next;
  at_most(sample_at_);
  for (std::size_t f = 0; f < links_.size(); ++f)
    if (!links_[f].empty()) at_most(stops_at(f));
  return next;
}

std::string AllocationProbes::why_not_any_more() const {
  return watched_ && file_ ? programs_.mappings->why_not(file_.get(), place_, watched_->tgid) : std::string();
}

void AllocationProbes::stop_all(MonoTime now) {
  if (!watched_ || watched_->end != MonoTime{}) return;
  if (!all_watched_) compare_growth(progress(now));
  for (std::size_t f = 0; f < links_.size(); ++f) stop(f, now);
  take_away();
  watched_->end = now;
}

std::optional<WatchedAllocations> AllocationProbes::end(MonoTime now) {
  if (!watched_) return std::nullopt;
  stop_all(now);
  MonoTime until = mono_now() + kPatience;
  std::erase_if(closing_, [&](const std::future<void>& each) {
    return each.wait_for(until - mono_now()) == std::future_status::ready;
  });
  auto watched = std::exchange(watched_, std::nullopt);
  return plan_ ? watched : std::nullopt;
}

}  // namespace oomcast
