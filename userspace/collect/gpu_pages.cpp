#include "collect/gpu_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gpu_pages.skel.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "collect/files.h"
#include "collect/libbpf.h"
#include "parse/text.h"
#include "wire/gpu_maps.h"

namespace oomcast {
namespace {

constexpr std::uint64_t kMaxImplausible = 16;
// To find the offset of the back pointer in the driver's structure: each try takes 64 reads, so that a driver
// without it costs a millisecond per interval.
constexpr unsigned kLooks = 256;

class LoadedGpuPages final : public GpuPages {
 public:
  LoadedGpuPages(GpuSource& source, const wire::Units& units) : source_(source), units_(units) {
    int cpus = libbpf_num_possible_cpus();
    values_.resize((cpus > 0 ? static_cast<std::size_t>(cpus) : 1) * wire::kGpuActivityValueBytes);
  }

  Status start(const GpuPageLayout& layout, const std::string& btf_path) {
    LibbpfLog log;
    LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = btf_path.c_str());
    skeleton_.reset(gpu_pages_bpf__open_opts(&open_options));
    if (!skeleton_) return Error::from_errno("opening the program of GPU pages");
    skeleton_->rodata->oc_fault_id = layout.fault_id;
    skeleton_->rodata->oc_move_id = layout.move_id;
    skeleton_->rodata->oc_fault_processor_at = layout.fault_processor;
    skeleton_->rodata->oc_move_to_at = layout.move_to;
    skeleton_->rodata->oc_move_from_at = layout.move_from;
    skeleton_->rodata->oc_move_bytes_at = layout.move_bytes;
    skeleton_->rodata->oc_move_cause_at = layout.move_cause;
    int err = bpf_map__reuse_fd(skeleton_->maps.gpu_va_spaces, source_.va_spaces());
    if (!err) err = gpu_pages_bpf__load(skeleton_.get());
    if (err)
      return Error::forbidden(
          fmt::format("the kernel refused the program: {} ({})", LibbpfLog::verdict(), std::strerror(-err)));
    skeleton_->bss->oc_looks_left = kLooks;
    link_.reset(bpf_program__attach(skeleton_->progs.on_page_event));
    if (!link_)
      return Error::forbidden(
          fmt::format("uvm_perf_event_notify cannot be probed ({})", std::strerror(errno)));
    source_.learn_va_spaces(layout.tag);
    return Ok{};
  }

  std::map<TaskId, GpuActivity> read() override {
    std::map<TaskId, GpuActivity> out;
    if (!skeleton_->bss->oc_seen) return out;
    skeleton_->bss->oc_looks_left = kLooks;
    each_owner([&](std::uint64_t, TaskId task) { out.try_emplace(task); });
    each_row([&](const Key&, const wire::GpuPageEvents& events) {
      if (!events.task) return;
      if (auto known = out.find(*events.task); known != out.end()) known->second.add(events);
    });
    return out;
  }

  void forget(const std::set<TaskId>& tasks) override {
    std::vector<std::uint64_t> spaces;
    each_owner([&](std::uint64_t space, TaskId owner) {
      if (tasks.contains(owner)) spaces.push_back(space);
    });
    for (std::uint64_t space : spaces) bpf_map_delete_elem(source_.va_spaces(), &space);
    std::vector<Key> rows;
    each_row([&](const Key& key, const wire::GpuPageEvents& events) {
      if (events.task && tasks.contains(*events.task)) rows.push_back(key);
    });
    for (const Key& key : rows) bpf_map_delete_elem(activity(), key.data());
  }

  std::uint64_t implausible() const override { return skeleton_->bss->oc_implausible; }
  bool stopped() const override { return implausible() >= kMaxImplausible; }
  std::uint64_t lost() const override {
    return skeleton_->bss->oc_activity_lost + missed_runs(skeleton_->obj);
  }

 private:
  using Key = std::array<std::byte, wire::kGpuActivityKeyBytes>;

  int activity() const { return bpf_map__fd(skeleton_->maps.gpu_activity); }

  void each_owner(auto&& take) {
    std::uint64_t space = 0;
    std::array<std::byte, wire::kGpuOwnerBytes> owner{};
    const void* before = nullptr;
    while (bpf_map_get_next_key(source_.va_spaces(), before, &space) == 0) {
      before = &space;
      if (bpf_map_lookup_elem(source_.va_spaces(), &space, owner.data()) == 0)
        take(space, wire::decode_gpu_owner(owner, units_));
    }
  }

  void each_row(auto&& take) {
    Key key{};
    const void* before = nullptr;
    while (bpf_map_get_next_key(activity(), before, key.data()) == 0) {
      before = key.data();
      if (bpf_map_lookup_elem(activity(), key.data(), values_.data()) != 0) continue;
      if (auto events = wire::decode_gpu_activity(key, values_, units_)) take(key, *events);
    }
  }

  GpuSource& source_;
  wire::Units units_;
  std::unique_ptr<gpu_pages_bpf, Destroys<gpu_pages_bpf__destroy>> skeleton_;
  Link link_;
  std::vector<std::byte> values_;
};

}  // namespace

Result<std::unique_ptr<GpuPages>> GpuPages::open(const Roots& roots, GpuSource& source,
                                                 const GpuSourceOptions& options) {
  if (!options.uvm_major) return Error::forbidden("nvidia_uvm is not loaded");
  if (!options.version) return Error::forbidden("the driver's version is not known");
  auto layout = gpu_page_layout(*options.version);
  if (!layout)
    return Error::forbidden(
        fmt::format("the page events of driver {}.{:02}.{:02} are not known, only those of 515 to 595",
                    options.version->major, options.version->minor, options.version->patch));
  if (!has_kprobes(roots)) return Error::forbidden("this kernel has no usable kprobes");
  auto enabled = read_file_at(AT_FDCWD, roots.at("/sys/kernel/debug/kprobes/enabled").c_str(), 16);
  if (enabled && trim(*enabled) == "0") return Error::forbidden("kprobes are switched off");
  auto pages = std::make_unique<LoadedGpuPages>(source, options.units);
  if (auto ok = pages->start(*layout, options.btf_path); !ok) return ok.error();
  return std::unique_ptr<GpuPages>(std::move(pages));
}

}  // namespace oomcast
