#include "app/gpu_growth.h"

#include <utility>
#include <vector>

#include "app/gpu.h"
#include "collect/procfs.h"
#include "wire/fault.h"

namespace oomcast {
namespace {

constexpr std::size_t kMaxCallsAtOnce = 4096, kMaxTaken = 1 << 14;

}  // namespace

Status GpuGrowth::open(const GpuTestOptions& test, const Roots& roots) {
  if (!find_gpu_driver(roots).present() && test.files.empty()) return Ok{};
  if (ProcFs(roots).pid_numbers().space)
    return Error::failed("in a pid namespace, where processes have other numbers than the kernel's");
  GpuSourceOptions options = gpu_source_options(test, roots);
  version_ = options.version;
  units_ = options.units;
  options.on_stack = [this](std::span<const std::byte> record) { on_stack(record); };
  auto loaded = GpuSource::load(options);
  if (!loaded) return loaded.error();
  source_ = *std::move(loaded);
  return Ok{};
}

void GpuGrowth::set_python(std::uint32_t pid, std::span<const std::byte> layout) {
  if (source_) source_->set_python(pid, layout);
}

// May be a restart after the reader was lost: then growth counts from here on.
void GpuGrowth::begin() {
  in_window_ = false;  // earlier allocations do not count
  drain();
  taken_.clear();
  in_window_ = true;
}

void GpuGrowth::drain() {
  if (!source_) return;
  source_->drain([this](const wire::GpuCall& call) { on_call(call); }, kMaxCallsAtOnce);
  (void)memory_.take();  // drop events: they are not reported here
}

void GpuGrowth::on_call(const wire::GpuCall& call) {
  auto op = decode_gpu_call(call, version_);
  if (!op) return;
  if (op->version && !version_) {
    version_ = op->version;
    source_->set_driver(std::nullopt, version_);
  }
  memory_.on(call.time, call.task.id, *op);
  bool takes =
      op->what == GpuOp::What::alloc && op->kind == GpuMemoryKind::device && !failed(op->status) && op->bytes;
  if (!takes) {
    without_stack_.erase(call.task.tid);
    return;
  }
  // A thread whose stack record was lost has made another call since.
  unplaced_ +=
      !without_stack_.insert_or_assign(call.task.tid, Taken{call.task.id, op->object, *op->bytes}).second;
  if (without_stack_.size() > kMaxTaken) without_stack_.clear();
}

void GpuGrowth::on_stack(std::span<const std::byte> record) {
  auto stack = wire::decode_gpu_stack(record, units_);
  auto call = stack ? without_stack_.extract(stack->task.tid) : decltype(without_stack_)::node_type();
  if (!call || call.mapped().task != stack->task.id || !in_window_) return;
  const Taken& taken = call.mapped();
  auto& of_process = taken_[taken.task];
  if (of_process.size() >= kMaxTaken && !of_process.contains(taken.object)) {
    ++unplaced_;
    return;
  }
  of_process.insert_or_assign(taken.object, taken.bytes);  // a freed handle may be reused
  reader_.add_gpu(taken.task.tgid, taken.object, taken.bytes, record);
}

void GpuGrowth::end() {
  drain();
  in_window_ = false;
  for (const auto& [task, objects] : taken_) {
    std::vector<GpuObject> gone;
    for (const auto& [object, bytes] : objects)
      if (!memory_.holds(task, object)) gone.push_back(object);
    reader_.gpu_gone(task.tgid, gone);
  }
  taken_.clear();
}

}  // namespace oomcast
