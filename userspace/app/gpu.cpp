#include "app/gpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "collect/gpu_users.h"

namespace oomcast {
namespace {

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

GpuFollower::GpuFollower(const Options& options, const Roots& roots, World& world)
    : roots_(roots), world_(world) {
  source_options_.btf_path = roots.at("/sys/kernel/btf/vmlinux");
  source_options_.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  source_options_.test_files = options.gpu_test_files;
  version_ = options.gpu_test_version;
  if (!options.gpu_test_trace.empty()) trace_.reset(std::fopen(options.gpu_test_trace.c_str(), "we"));
  cards_path_ = options.gpu_test_cards.empty() ? roots.at(kGpuCards) : options.gpu_test_cards;
}

bool GpuFollower::look() {
  if (failure_) return false;
  GpuDriver driver = find_gpu_driver(roots_);
  if (driver.version) version_ = driver.version;
  if (source_) {
    if (driver.uvm_major != source_options_.uvm_major || version_ != source_options_.version)
      source_->set_driver(driver.uvm_major, version_);
  }
  source_options_.uvm_major = driver.uvm_major;
  source_options_.version = version_;
  if (source_ || (!driver.present() && source_options_.test_files.empty())) return false;
  auto loaded = GpuSource::load(source_options_);
  if (!loaded) {
    failure_ = loaded.error().message;
    return false;
  }
  source_ = *std::move(loaded);
  return true;
}

void GpuFollower::sample(MonoTime now) {
  if (!source_) return;
  // The counters first: of all that moved them, the calls are known then.
  auto cards = read_gpu_cards(cards_path_);
  drain();
  counters_ = std::any_of(cards.begin(), cards.end(),
                          [](const GpuCard& c) { return c.migrated_pages_out.has_value(); });
  world_.gpu().on_cards(now, cards, Bytes{sysconf(_SC_PAGESIZE)});
  world_.sample_gpu(now);
}

bool GpuFollower::uses_driver(std::uint32_t pid) const {
  GpuFiles files{source_options_.uvm_major, {}};
  for (const auto& file : source_options_.test_files) files.test_files.emplace_back(file.device, file.inode);
  return has_gpu_file(roots_, pid, files);
}

std::vector<OverviewCard> GpuFollower::cards() const {
  std::map<GpuUuid, OverviewCard> cards;
  for (const auto& [key, sample] : world_.gpu_samples()) {
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
  if (!source_) return "";
  return fmt::format("driver calls by {}, faults and evictions {}", source_->hook(),
                     counters_ ? "by the cards' counters" : "not followed");
}

bool GpuFollower::drain() {
  if (!source_) return false;
  bool news = false;
  source_->drain([&](const wire::GpuCall& call) {
    news = true;
    if (trace_) write_trace(trace_.get(), call);
    auto op = decode_gpu_call(call, version_);
    if (!op) return;
    if (op->version && !version_) {
      version_ = op->version;
      source_options_.version = version_;
      source_->set_driver(source_options_.uvm_major, version_);
    }
    world_.on_gpu(call.time, call.task, *op);
  });
  return news;
}

void GpuFollower::on_exit(TaskId task) {
  if (!source_ || !world_.gpu().of(task)) return;
  source_->forget(task.tgid);
}

std::uint64_t GpuFollower::lost() const {
  return source_ ? source_->lost() + source_->undecodable() : 0;
}

}  // namespace oomcast
