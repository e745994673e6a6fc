#include "app/gpu.h"

#include <unistd.h>

namespace oomcast {

GpuFollower::GpuFollower(const Options& options, const Roots& roots, World& world)
    : roots_(roots), world_(world) {
  source_options_.btf_path = roots.at("/sys/kernel/btf/vmlinux");
  source_options_.units = {sysconf(_SC_PAGESIZE), 1'000'000'000 / sysconf(_SC_CLK_TCK)};
  source_options_.test_files = options.gpu_test_files;
  version_ = options.gpu_test_version;
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
  auto cards = read_gpu_cards(roots_);
  if (cards.size() == 1) world_.gpu().set_only_device(cards.front().uuid);
  return true;
}

bool GpuFollower::drain() {
  if (!source_) return false;
  bool news = false;
  source_->drain([&](const wire::GpuCall& call) {
    news = true;
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
