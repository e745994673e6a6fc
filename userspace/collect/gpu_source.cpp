#include "collect/gpu_source.h"

#include <fmt/format.h>
#include <gpu.skel.h>

#include <cerrno>
#include <cstring>

#include "collect/libbpf.h"
#include "wire/fault.h"
#include "wire/gpu_maps.h"

namespace oomcast {
namespace {

struct Hook {
  std::string_view section, name;
};
// Cheapest first.
constexpr Hook kHooks[] = {{"fexit/", "fexit"}, {"tracepoint/", "tracepoints"}, {"tp_btf/", "sys_exit"}};

class LoadedGpuSource final : public GpuSource {
 public:
  explicit LoadedGpuSource(const GpuSourceOptions& options) : options_(options) {}

  Status start() {
    LibbpfLog log;
    int err = 0;
    for (const Hook& hook : kHooks) {
      hook_ = hook.name;
      if (err = load(hook.section); err) continue;
      if (attach()) break;
      err = errno ? -errno : -ENOENT;
    }
    if (err)
      return Error::forbidden(
          fmt::format("following the NVIDIA driver: {} ({})", LibbpfLog::verdict(), std::strerror(-err)));
    ring_.reset(
        ring_buffer__new(bpf_map__fd(skeleton_->maps.gpu_calls), &LoadedGpuSource::take, this, nullptr));
    if (!ring_) return Error::from_errno("opening the GPU programs' ring buffer");
    return Ok{};
  }

  std::string hook() const override { return std::string(hook_); }
  int fd() const override { return ring_buffer__epoll_fd(ring_.get()); }

  bool drain(const std::function<void(const wire::GpuCall&)>& sink, std::size_t most) override {
    sink_ = &sink;
    left_ = most;
    bool more = ring_buffer__consume(ring_.get()) < 0;
    sink_ = nullptr;
    return more;
  }

  void set_driver(std::optional<std::uint32_t> uvm_major, std::optional<GpuDriverVersion> version) override {
    if (uvm_major) skeleton_->bss->oc_uvm_major = *uvm_major;
    write_layouts(version);
  }

  void learn_va_spaces(int tag) override { skeleton_->data->oc_uvm_tag = tag; }
  int va_spaces() const override { return bpf_map__fd(skeleton_->maps.gpu_va_spaces); }

  void set_python(std::uint32_t tgid, std::span<const std::byte> layout) override {
    if (options_.on_stack && layout.size() == bpf_map__value_size(skeleton_->maps.pythons))
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.pythons), &tgid, layout.data(), BPF_ANY);
  }

  void forget(std::uint32_t tgid) override {
    bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.gpu_processes), &tgid);
  }

  std::uint64_t lost() const override {
    return skeleton_->bss->oc_gpu_lost + skeleton_->bss->oc_gpu_untracked + missed_runs(skeleton_->obj);
  }
  std::uint64_t code_lost() const override { return skeleton_->bss->oc_gpu_code_lost; }
  std::uint64_t undecodable() const override { return undecodable_; }

 private:
  int load(std::string_view sections) {
    LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = options_.btf_path.c_str());
    skeleton_.reset(gpu_bpf__open_opts(&open_options));
    if (!skeleton_) return -errno;
    skeleton_->rodata->oc_gpu_has_test_files = !options_.test_files.empty();
    bool stacks = options_.on_stack != nullptr;
    skeleton_->rodata->oc_gpu_wants_stacks = stacks;
    bpf_map__set_autocreate(skeleton_->maps.gpu_stack_buffer, stacks);
    bool code = !stacks && options_.on_code && options_.pythons >= 0 &&
                bpf_map__reuse_fd(skeleton_->maps.pythons, options_.pythons) == 0;
    skeleton_->rodata->oc_gpu_wants_code = code;
    bpf_map__set_autocreate(skeleton_->maps.gpu_python_stack, code);
    bpf_map__set_autocreate(skeleton_->maps.pythons, stacks || code);
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, skeleton_->obj) {
      std::string_view section = bpf_program__section_name(program);
      bpf_program__set_autoload(program, section.starts_with(sections));
    }
    if (int err = gpu_bpf__load(skeleton_.get())) return err;
    set_driver(options_.uvm_major, options_.version);
    for (const auto& file : options_.test_files) {
      auto key = wire::encode_gpu_test_file(file.device, file.inode);
      auto kind = static_cast<std::uint32_t>(file.kind);
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.gpu_test_files), key.data(), &kind, BPF_ANY);
    }
    return 0;
  }

  bool attach() {
    links_.clear();
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, skeleton_->obj) {
      if (!bpf_program__autoload(program)) continue;
      Link link(oomcast::attach(program, options_.tracepoint_ids));
      if (!link) return false;
      links_.push_back(std::move(link));
    }
    return true;
  }

  void write_layouts(std::optional<GpuDriverVersion> version) {
    for (const GpuUvmLayout& layout : uvm_layouts(version)) {
      std::uint32_t at = wire::gpu_layout_index(layout.command);
      auto value = wire::encode_gpu_layout(layout.head_bytes, layout.tail_at, layout.tail_bytes);
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.gpu_layouts), &at, value.data(), BPF_ANY);
    }
  }

  static int take(void* self, void* data, std::size_t size) {
    auto& source = *static_cast<LoadedGpuSource*>(self);
    std::span record{static_cast<const std::byte*>(data), size};
    if (wire::is_gpu_stack(record)) {
      if (source.options_.on_stack) source.options_.on_stack(record);
    } else if (wire::is_gpu_code(record)) {
      auto code = wire::decode_gpu_code(record, source.options_.units);
      if (!code)
        ++source.undecodable_;
      else if (source.options_.on_code)
        source.options_.on_code(*code);
    } else if (auto call = wire::decode_gpu_call(record, source.options_.units); !call) {
      ++source.undecodable_;
    } else if (source.sink_) {
      (*source.sink_)(*call);
    }
    return source.left_ > 0 && --source.left_ > 0 ? 0 : -EAGAIN;
  }

  GpuSourceOptions options_;
  std::unique_ptr<gpu_bpf, Destroys<gpu_bpf__destroy>> skeleton_;
  std::vector<Link> links_;
  Ring ring_;
  const std::function<void(const wire::GpuCall&)>* sink_ = nullptr;
  std::size_t left_ = 0;  // calls until drain() ends
  std::string_view hook_;
  std::uint64_t undecodable_ = 0;
};

}  // namespace

std::vector<std::string> GpuSource::tracepoints() {
  return {"syscalls/sys_exit_ioctl", "syscalls/sys_exit_mmap", "syscalls/sys_exit_munmap"};
}

Result<std::unique_ptr<GpuSource>> GpuSource::load(const GpuSourceOptions& options) {
  auto source = std::make_unique<LoadedGpuSource>(options);
  if (auto ok = source->start(); !ok) return ok.error();
  return std::unique_ptr<GpuSource>(std::move(source));
}

}  // namespace oomcast
