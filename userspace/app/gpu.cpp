#include "app/gpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/clock.h"
#include "blame/python.h"
#include "collect/gpu_users.h"
#include "collect/tracepoint_ids.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxCalls = 4096;  // at once: with all that is told of them some 75 ms
constexpr int kLastLooksShare = 10;      // reads at exit take at most a tenth of the time

void write_trace(std::FILE* to, const wire::GpuCall& call) {
  auto hex = [](const std::vector<std::byte>& bytes) {
    std::string out;
    for (std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
    return out;
  };
  fmt::print(
      to,
      "{{\"time_ns\":{},\"pid\":{},\"call\":{},\"device\":{},\"command\":{},\"result\":{},\"address\":{},"
      "\"length\":{},\"head\":\"{}\",\"tail\":\"{}\",\"params\":\"{}\"}}\n",
      call.time.time_since_epoch().count(), call.task.id.tgid, static_cast<int>(call.call),
      static_cast<int>(call.device), call.command, call.result, call.address, call.length, hex(call.head),
      hex(call.tail), hex(call.params));
}

}  // namespace

GpuSourceOptions gpu_source_options(const GpuTestOptions& test, const Roots& roots) {
  GpuDriver driver = find_gpu_driver(roots);
  GpuSourceOptions out;
  out.btf_path = roots.kernel_types();
  out.uvm_major = driver.uvm_major;
  out.version = test.version ? test.version : driver.version;
  out.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  out.tracepoint_ids = read_tracepoint_ids(roots, GpuSource::tracepoints());
  out.test_files = test.files;
  return out;
}

GpuFollower::GpuFollower(const Options& options, const Roots& roots, MachineModel& model, int pythons)
    : roots_(roots),
      model_(model),
      source_options_(gpu_source_options(options.sources.gpu_test, roots)),
      version_(options.sources.gpu_test.version) {
  source_options_.pythons = pythons;
  if (pythons >= 0) source_options_.on_code = [this](const wire::DyingCode& code) { on_code(code); };
  if (!options.sources.gpu_test.trace.empty())
    trace_.reset(std::fopen(options.sources.gpu_test.trace.c_str(), "we"));
  cards_path_ = options.sources.gpu_test.cards.empty() ? roots.at(kGpuCards) : options.sources.gpu_test.cards;
}

bool GpuFollower::find_driver() {
  GpuDriver driver = find_gpu_driver(roots_);
  if (driver.version) version_ = driver.version;
  // A different driver: try again.
  if (failure_ && driver.uvm_major == source_options_.uvm_major && version_ == source_options_.version)
    return false;
  failure_.reset();
  if (source_) {
    if (driver.uvm_major != source_options_.uvm_major || version_ != source_options_.version)
      source_->set_driver(driver.uvm_major, version_);
  }
  source_options_.uvm_major = driver.uvm_major;
  source_options_.version = version_;
  if (source_) look_for_pages_and_xids();
  if (source_ || (!driver.present() && source_options_.test_files.empty())) return false;
  auto loaded = GpuSource::load(source_options_);
  if (!loaded) {
    failure_ = loaded.error().message;
    ++failures_;
    return false;
  }
  source_ = *std::move(loaded);
  look_for_pages_and_xids();
  return true;
}

// Only while nvidia-uvm is loaded: attached probes delay its unload for a moment at most.
void GpuFollower::look_for_pages_and_xids() {
  if (!source_options_.uvm_major) {
    if (pages_) page_events_lost_ = page_events_lost();
    pages_.reset();
    xids_.reset();
    tried_.reset();
    no_pages_ = "nvidia_uvm is not loaded";
    return;
  }
  std::pair now(*source_options_.uvm_major, source_options_.version);
  if (tried_ == now) return;
  tried_ = now;
  if (pages_) page_events_lost_ = page_events_lost();
  pages_.reset();
  no_pages_.clear();
  auto pages = GpuPages::open(roots_, *source_, source_options_);
  if (pages)
    pages_ = *std::move(pages);
  else
    no_pages_ = pages.error().message;
  if (!xids_)
    if (auto xids = GpuXids::open(source_options_.btf_path)) xids_ = *std::move(xids);
}

void GpuFollower::read_pages() {
  std::map<TaskId, GpuActivity> read;
  if (pages_ && !pages_->stopped()) read = pages_->read();
  // Drain all earlier calls: a process unknown after them has exited.
  drain();
  std::map<TaskId, std::optional<GpuActivity>> known;
  model_.gpu().for_each([&](TaskId task, const GpuHeld&) { known[task]; });
  std::set<TaskId> ended;
  for (const auto& [task, total] : read)
    if (auto at = known.find(task); at != known.end())
      at->second = total;
    else if (!more_calls_)
      ended.insert(task);
  if (!ended.empty()) pages_->forget(ended);
  for (const auto& [task, total] : known) model_.gpu().on_activity(task, total);
}

void GpuFollower::sample(MonoTime now) {
  if (!source_) return;
  // Read the counters first: then the calls that changed them are known.
  auto cards = read_gpu_cards(cards_path_);
  read_pages();
  counters_ = std::any_of(cards.begin(), cards.end(),
                          [](const GpuCard& c) { return c.migrated_pages_out.has_value(); });
  model_.gpu().on_cards(now, cards, Bytes{sysconf(_SC_PAGESIZE)});
  model_.sample_gpu(now);
}

bool GpuFollower::uses_driver(std::uint32_t pid) const {
  GpuFiles files{source_options_.uvm_major, {}};
  for (const auto& file : source_options_.test_files) files.test_files.emplace_back(file.device, file.inode);
  return has_gpu_file(roots_, pid, files);
}

std::vector<OverviewCard> GpuFollower::cards() const {
  std::map<GpuUuid, OverviewCard> cards;
  for (const auto& [key, sample] : model_.gpu_samples()) {
    if (!sample.device) continue;
    if (sample.process)
      cards[*sample.device].holders.push_back(sample);
    else
      cards[*sample.device].now = sample;
  }
  std::vector<OverviewCard> out;
  for (auto& [uuid, card] : cards) {
    if (!card.now.device) continue;
    std::stable_sort(card.holders.begin(), card.holders.end(),
                     [](const GpuSample& a, const GpuSample& b) { return a.held > b.held; });
    out.push_back(std::move(card));
  }
  return out;
}

std::string GpuFollower::tier() const {
  if (!source_) return failure_ ? "not followed: " + *failure_ : "";
  std::string out = fmt::format("driver calls by {}, faults and evictions ", source_->hook());
  if (pages_ && !pages_->stopped()) return out + "per process by uvm_perf_event_notify";
  out += counters_ ? "by the cards' counters" : "not followed";
  return out + (pages_ ? ", per process no longer: the driver's events made no sense"
                       : ", not per process: " + no_pages_);
}

void GpuFollower::on_call(const wire::GpuCall& call) {
  if (trace_) write_trace(trace_.get(), call);
  // Earlier requests of the process come first, with or without their code.
  std::erase_if(without_code_, [&](const auto& before) {
    const auto& [tid, alloc] = before;
    if (alloc.task.id != call.task.id) return false;
    model_.on_gpu(alloc.time, alloc.task, alloc.op);
    return true;
  });
  auto op = decode_gpu_call(call, version_);
  if (!op) return;
  if (op->version && !version_) {
    version_ = op->version;
    source_options_.version = version_;
    source_->set_driver(source_options_.uvm_major, version_);
  }
  if (op->what == GpuOp::What::alloc && source_options_.on_code)
    without_code_.insert_or_assign(call.task.tid, WithoutCode{call.time, call.task, *op});
  else
    model_.on_gpu(call.time, call.task, *op);
}

void GpuFollower::on_code(const wire::DyingCode& code) {
  auto call = without_code_.extract(code.task.tid);
  if (call) model_.on_gpu(call.mapped().time, call.mapped().task, call.mapped().op, places_of(code));
}

bool GpuFollower::drain() {
  if (!source_) return false;
  bool news = false;
  auto take = [&](const wire::GpuCall& call) {
    news = true;
    on_call(call);
  };
  more_calls_ = source_->drain(take, kMaxCalls);
  if (!more_calls_)
    for (const auto& [tid, call] : std::exchange(without_code_, {}))
      model_.on_gpu(call.time, call.task, call.op);
  if (xids_)
    xids_->drain([&](const wire::GpuXid& xid) {
      news = true;
      model_.gpu().on_xid(xid, gpu_at_bus(roots_, xid.bus), blamed_by_xid(xid.message));
    });
  return news;
}

void GpuFollower::on_exit(TaskId task) {
  if (!source_) return;
  source_->forget(task.tgid);  // the kernel programs know every process that called the driver
  if (!model_.gpu().of(task)) return;
  MonoTime began = mono_now();
  // When thousands exit at once, the last full read covers them, and forgets dead processes.
  if (!pages_ || began < next_last_look_) return;
  if (!pages_->stopped()) {
    auto read = pages_->read();
    if (auto at = read.find(task); at != read.end()) model_.gpu().on_activity(task, at->second);
  }
  pages_->forget({task});
  MonoTime ended = mono_now();
  next_last_look_ = ended + (kLastLooksShare - 1) * (ended - began);
}

std::uint64_t GpuFollower::lost() const {
  return (source_ ? source_->lost() + source_->undecodable() : 0) + (xids_ ? xids_->lost() : 0);
}

std::uint64_t GpuFollower::page_events_lost() const {
  return page_events_lost_ + (pages_ ? pages_->lost() + pages_->implausible() : 0);
}

}  // namespace oomcast
